package a2c

import (
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// Config holds every setting of a run. Settings describes each field, under the
// name that C and Python use for it.
type Config struct {
	train.Common
	onpolicy.ActorCritic
}

// defaults are Stable-Baselines3's.
var defaults = onpolicy.ActorCritic{LearningRate: 7e-4, NSteps: 5, GAELambda: 1, UseRMSProp: true}

// Settings is the table of all settings, in the order in which they are worth
// reading.
var Settings = settings.New[Config]("a2c", append(
	train.CommonSettings(func(c *Config) *train.Common { return &c.Common }),
	onpolicy.Settings(defaults, func(c *Config) *onpolicy.ActorCritic { return &c.ActorCritic })...), presets)

// resolve checks every setting and how they go together.
func (c *Config) resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	return nil, onpolicy.CheckRows(c.NSteps, c.NumEnvs)
}

// run is the run that the settings ask for.
func (c *Config) run(s *train.Setup) (onpolicy.Config, error) {
	return c.ActorCritic.Run(&c.Common, s)
}
