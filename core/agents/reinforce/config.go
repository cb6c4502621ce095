package reinforce

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// Config holds every setting of a run. Settings describes each field.
type Config struct {
	train.Common
	NetArch      []int
	LearningRate float64
	Gamma        float64
	NSteps       int
}

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("reinforce", append(train.CommonSettings(func(c *Config) *train.Common { return &c.Common }), []settings.Setting{
	settings.Ints("net_arch", "64", 1, 65536, "widths", "widths of the hidden layers", func(c *Config) *[]int { return &c.NetArch }),
	settings.Float("learning_rate", 0.01, 0, 1e3, "step size of Adam", func(c *Config) *float64 { return &c.LearningRate }),
	settings.Float("gamma", 0.99, 0, 1, "discount factor", func(c *Config) *float64 { return &c.Gamma }),
	settings.Int("n_steps", 64, 1, 1024, "rounds of a batch, several times an episode's length", func(c *Config) *int { return &c.NSteps }),
}...), nil)

// Resolve checks every setting and how they go together.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if most := nn.MaxRows / c.NumEnvs; c.NSteps > most {
		return nil, fmt.Errorf("n_steps: %d, must be 1 to %d with num_envs %d", c.NSteps, most, c.NumEnvs)
	}
	return nil, nil
}
