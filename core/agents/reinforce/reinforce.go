package reinforce

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// Reinforce is train.Method by REINFORCE.
type Reinforce struct {
	onpolicy.Run
	cfg *Config
}

func init() {
	train.Register(&train.Definition{
		Name:      "reinforce",
		Doc:       "Monte-Carlo policy gradient",
		Settings:  Settings,
		Shape:     []string{"env", "env_options", "net_arch", "num_envs"},
		AnyAction: true,
		Memory: func(s *train.Setup) ([]limits.Part, error) {
			run := s.Config.(*Config).run(s)
			return run.Memory(s)
		},
		New: func(s *train.Setup) (train.Method, error) {
			r := &Reinforce{cfg: s.Config.(*Config)}
			return r, r.Init(s, r.cfg.run(s), r)
		},
	})
}

// run is the run that the settings ask for. Rollouts and the loss need a head "v", which is neither
// used nor trained.
func (c *Config) run(s *train.Setup) onpolicy.Config {
	net := nn.Spec{
		Obs: s.Spec.Obs, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: c.NetArch, Activation: "tanh"}}, Init: "orthogonal",
		Heads:     onpolicy.PolicyHeads(s.Spec.Action, 1),
		Precision: nn.Precision(c.Precision), ISA: c.ISA, RawImages: c.RawImages(s.Spec.Obs),
	}
	for k := range net.Heads {
		net.Heads[k].Gain = 0.01
	}
	net.Heads[onpolicy.HeadV].Gain = 0
	return onpolicy.Config{
		Net: net, NetSetting: fmt.Sprint("net_arch: ", c.NetArch),
		Policy:  policy.Spec{Head: onpolicy.HeadPi, Kind: policy.KindOf(s.Spec.Action)},
		Chooser: policy.NewSampler(s.Spec.Action, &net, policy.Bounds{}), Value: onpolicy.ValueHead,
		Horizon: c.NSteps, Batch: c.NSteps * c.NumEnvs, Minibatches: 1,
		Loss: nn.ActorCritic{}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 0.5,
		Rate: func(end int64) train.Schedule { return train.Line(c.LearningRate, c.LearningRate, end) },
	}
}
