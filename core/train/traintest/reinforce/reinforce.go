// Package reinforce is REINFORCE (Williams 1992): the smallest method, an example for whoever
// writes one. No program of the library imports it.
//
// A batch is n_steps rounds. Every step whose episode has ended in them has its whole discounted
// return G; the others have weight 0 and are never learnt from. The gradient is that of mean(-log pi(a|s) (G - b)), where b
// is the mean of G. A truncated episode counts as a whole one.
package reinforce

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// Config holds every setting of a run.
type Config struct {
	train.Common
	NetArch             []int
	LearningRate, Gamma float64
	NSteps              int
}

var table = settings.New[Config]("reinforce", append(train.CommonSettings(func(c *Config) *train.Common { return &c.Common }), []settings.Setting{
	settings.Ints("net_arch", "64", 1, 65536, "widths", "widths of the hidden layers", func(c *Config) *[]int { return &c.NetArch }),
	settings.Float("learning_rate", 0.01, 0, 1e3, "step size of Adam", func(c *Config) *float64 { return &c.LearningRate }),
	settings.Float("gamma", 0.99, 0, 1, "discount factor", func(c *Config) *float64 { return &c.Gamma }),
	settings.Int("n_steps", 64, 1, 1024, "rounds of a batch, several times an episode's length", func(c *Config) *int { return &c.NSteps }),
}...), nil)

func init() {
	train.Register(&train.Definition{
		Name: "reinforce", Doc: "Monte-Carlo policy gradient", Settings: table,
		Common: func(c any) *train.Common { return &c.(*Config).Common },
		Check:  func(c any) ([]string, error) { return nil, c.(*Config).check() },
		Shape:  []string{"env", "env_options", "net_arch", "num_envs"},
		Memory: func(s *train.Setup) ([]limits.Part, error) {
			run := s.Config.(*Config).run(s)
			return run.Memory(s)
		},
		New: newReinforce,
	})
}

// check checks every setting and how they go together.
func (c *Config) check() error {
	if err := table.Over(c).Check(); err != nil {
		return err
	}
	if most := nn.MaxRows / c.NumEnvs; c.NSteps > most {
		return fmt.Errorf("n_steps: %d, must be 1 to %d with num_envs %d", c.NSteps, most, c.NumEnvs)
	}
	return nil
}

// Reinforce is train.Method by REINFORCE.
type Reinforce struct {
	onpolicy.Run
	cfg *Config
}

// run is the run that the settings ask for. Rollout and loss ask for a head "v"; it is neither
// used nor trained.
func (c *Config) run(s *train.Setup) onpolicy.Config {
	return onpolicy.Config{
		Net: nn.Spec{
			Obs: s.Spec.Obs, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: c.NetArch, Activation: "tanh"}}, Init: "orthogonal",
			Heads: []nn.Head{{Name: "pi", Out: s.Spec.Action.N, Gain: 0.01}, {Name: "v", Out: 1}}, Precision: nn.Precision(c.Precision), ISA: c.ISA, RawImages: !c.NormalizeImages,
		},
		NetSetting: fmt.Sprint("net_arch: ", c.NetArch), Policy: policy.Spec{Head: onpolicy.HeadPi, Kind: policy.Categorical},
		Chooser: &policy.Softmax{Pi: onpolicy.HeadPi, V: onpolicy.HeadV}, Value: onpolicy.ValueHead, Horizon: c.NSteps, Batch: c.NSteps * c.NumEnvs, Minibatches: 1, Loss: nn.ActorCritic{}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 0.5,
		Rate: func(end int64) train.Schedule { return train.Line(c.LearningRate, c.LearningRate, end) },
	}
}

func newReinforce(s *train.Setup) (train.Method, error) {
	r := &Reinforce{cfg: s.Config.(*Config)}
	run := r.cfg.run(s)
	return r, r.Init(s, run, r)
}

// Filled takes the steps whose episode goes on out of the loss: their return is not known.
func (r *Reinforce) Filled() {
	b, envs := r.Rollout.Batch(), r.cfg.NumEnvs
	for i := range envs {
		for k := len(b.Ends) - envs + i; k >= 0 && b.Ends[k] == 0; k -= envs {
			b.Weights[k] = 0
		}
	}
}

// Update is one step along the gradient.
func (r *Reinforce) Update(int) (done bool, err error) {
	zeros := func(_ []byte, rows int) ([]float32, error) { return make([]float32, rows), nil }
	if err := r.Rollout.Finish(r.cfg.Gamma, 1, zeros); err != nil { // Returns are G, whatever "v" said
		return false, err
	}
	b, sum := r.Rollout.Batch(), 0.0
	for k, w := range b.Weights {
		sum += float64(w) * float64(b.Returns[k])
	}
	for k, g := range b.Returns {
		b.Advantages[k] = g - float32(sum/float64(r.Rollout.Steps()))
	}
	columns := [][]float32{b.Advantages, b.Returns, b.Weights}
	return true, r.Step(nn.Batch{Obs: b.Obs, Actions: b.Actions, Columns: columns})
}
