package dqn

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
)

// DQN is train.Method by Algorithm 1.
type DQN struct {
	offpolicy.Run
	cfg     Config // resolved
	uniform policy.Uniform
	explore *policy.EpsilonGreedy
}

func init() {
	train.Register(&train.Definition{
		Name:       "dqn",
		Doc:        "Deep Q-learning with Concurrent Training and Synchronized Execution",
		Settings:   Settings,
		Shape:      append([]string{"env", "env_options", "policy", "normalize_images", "cnn", "net_arch", "activation_fn", "num_envs", "optimizer", "actor", "clock", "action_masks"}, slices.Concat(shapeOfHead, shapeOfMunchausen, shapeOfNoisy, async.Shape, train.OutsideShape)...),
		Experience: slices.Concat([]string{"env", "env_options", "num_envs", "action_masks"}, shapeOfMunchausen, async.Shape),
		Placement:  []string{"replay_device"},
		Masks:      true,
		Memory:     memoryOf,
		New:        newMethod,
	})
}

// memoryOf lists what newMethod will allocate.
func memoryOf(s *train.Setup) ([]limits.Part, error) {
	if c := s.Config.(*Config); c.Learners > 0 {
		return c.async().Memory(s)
	}
	run, err := s.Config.(*Config).run(s)
	if err != nil {
		return nil, err
	}
	return run.Memory(s)
}

func newMethod(s *train.Setup) (train.Method, error) {
	cfg := s.Config.(*Config)
	if cfg.Learners > 0 {
		return newLearners(s, cfg)
	}
	run, err := cfg.run(s)
	if err != nil {
		return nil, err
	}
	cfg.noticeUnusedLayers(s.Monitor)
	d := &DQN{cfg: *cfg, uniform: policy.Uniform{Actions: s.Spec.Action.N}}
	d.explore = &policy.EpsilonGreedy{Actions: s.Spec.Action.N, Epsilon: d.Exploration}
	if err := d.Init(s, run); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// run is the run that resolved settings stand for.
func (c *Config) run(s *train.Setup) (offpolicy.Config, error) {
	if err := cmp.Or(c.checkTrunk(), c.checkWidth(s.Spec.Action.N)); err != nil {
		return offpolicy.Config{}, err
	}
	net := c.network(s.Spec)
	if _, err := net.Layout(); err != nil {
		return offpolicy.Config{}, c.Misfit(err)
	}
	run := offpolicy.Config{
		Net: net, NetSetting: fmt.Sprintf("policy: %s, net_arch: %v", c.Policy, c.NetArch),
		Concurrent: c.concurrent(), Synchronized: c.Synchronized, Actor: c.Actor, Periods: c.periods(),
		BufferSize: c.BufferSize, ReplayDevice: c.ReplayDevice, LearningStarts: c.LearningStarts, BatchSize: c.BatchSize,
		Gamma: c.Gamma, Target: nn.MaxQ{Double: c.DoubleQ}, Optimizer: c.optimizer(), MaxGradNorm: c.MaxGradNorm, Outliers: c.Outliers, Epsilon: c.epsilon, Rate: c.rate,
	}
	c.setDrawing(&run, nn.TD{Kind: c.Loss, Reduction: c.LossReduction})
	c.setDistribution(&run)
	c.setMunchausenTarget(&run)
	return run, nil
}

// OnlyCPU implements train.CPUSettings.
func (c *Config) OnlyCPU(policy string) (given, must string) {
	switch {
	case policy == train.PolicyCNN && (c.CNN == Dopamine || c.CNN == DER):
		return "cnn: " + c.CNN, "another"
	case c.Distribution != NoDistribution:
		return "distribution: " + c.Distribution, "none"
	case c.Dueling:
		return "dueling: true", "false"
	case c.Munchausen.Munchausen:
		return "munchausen: true", "false"
	case c.Noisy.Noisy:
		return "noisy: true", "false"
	case c.Outliers > 0:
		return fmt.Sprintf("outliers: %g", c.Outliers), "0"
	case c.Learners > 0:
		return fmt.Sprintf("learners: %d", c.Learners), "0"
	}
	return "", ""
}

// network is the network that resolved settings stand for.
func (c *Config) network(spec env.Spec) nn.Spec {
	trunk, init := c.trunk()
	trunk.Noisy = c.sigma()
	return nn.Spec{Obs: spec.Obs, Trunks: []nn.Trunk{trunk}, Heads: []nn.Head{c.head(spec.Action.N)}, Init: init, Precision: nn.Precision(c.Precision), ISA: c.ISA, RawImages: c.RawImages(spec.Obs)}
}

// optimizer is the optimiser that the settings stand for.
func (c *Config) optimizer() nn.OptimizerConfig {
	o := nn.OptimizerConfig{Name: c.Optimizer}
	if c.Optimizer == "rmsprop_lasagne" { // as in the DQN of Stooke & Abbeel 2018
		o = nn.OptimizerConfig{Name: "rmsprop", Decay: 0.95, Eps: 1e-6, EpsInside: true}
	}
	if !math.IsNaN(c.OptimizerEps) {
		o.Eps = c.OptimizerEps
	}
	return o
}

func (c *Config) periods() offpolicy.Periods {
	return offpolicy.Periods{TrainFreq: c.TrainFreq, GradientSteps: c.GradientSteps, TargetInterval: c.targetInterval(), Window: int64(c.Window), ByUpdates: c.byUpdates()}
}

// byUpdates reports whether theta-minus, epsilon and the learning rate follow updates.
func (c *Config) byUpdates() bool { return c.Clock == clockUpdates }

// targetSteps is the number of steps in which C comes once.
func (c *Config) targetSteps() int {
	if !c.byUpdates() {
		return c.TargetUpdateInterval
	}
	return int(offpolicy.Periods{TrainFreq: c.TrainFreq, GradientSteps: c.GradientSteps}.StepsOf(int64(c.TargetUpdateInterval)))
}

// targetInterval is C as it acts. In concurrent training theta-minus is updated only at the
// boundaries of windows, and several copies at one boundary are one.
func (c *Config) targetInterval() int64 {
	if c.concurrent() && c.Tau == 1 && !c.byUpdates() {
		return int64(max(c.TargetUpdateInterval, c.Window))
	}
	return int64(c.TargetUpdateInterval)
}

// epsilon is the schedule of a run that ends at step `end`, or with clock updates at update `end`.
func (c *Config) epsilon(end int64) train.Schedule {
	steps := int64(c.ExplorationSteps)
	if steps == 0 {
		steps = int64(math.Round(c.ExplorationFraction * float64(end)))
	}
	return train.Line(c.ExplorationInitial, c.ExplorationFinal, steps)
}

// rate is the schedule of the learning rate of a run that ends at step `end`, or with clock updates
// at update `end`.
func (c *Config) rate(end int64) train.Schedule {
	return c.LearningRateCurve.Rate(c.LearningRate, c.LearningRateFinal, end)
}
