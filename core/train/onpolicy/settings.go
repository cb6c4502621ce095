package onpolicy

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// ActorCritic are the settings that A2C and PPO share: a network with a policy and a value, its
// optimiser, and the terms of both losses.
type ActorCritic struct {
	CNN          string
	NetArchPi    []int
	NetArchVf    []int
	Trunk        string
	ActivationFn string
	OrthoInit    bool
	LogStdInit   float64
	Squashed     bool
	Scaled       bool

	NormalizeObs    bool
	NormalizeReward bool

	LearningRate       float64
	LearningRateFinal  float64 // NaN: constant
	LearningRateCurve  train.Curve
	NSteps             int // t_max of A3C, T of PPO
	MidBatchReset      bool
	Gamma              float64
	GAELambda          float64
	EntCoef            float64
	VfCoef             float64
	MaxGradNorm        float64
	NormalizeAdvantage bool

	UseRMSProp       bool // false: Adam
	RMSPropAlpha     float64
	RMSPropEps       float64
	RMSPropEpsInside bool
	RMSPropFirst     int
	AdamEps          float64
}

// ResetsLate implements train.LateResets.
func (c *ActorCritic) ResetsLate() bool { return !c.MidBatchReset }

// OnlyCPU implements train.CPUSettings: a GPU has kernels that are two or three strides wide.
func (c *ActorCritic) OnlyCPU(policy string) (given, must string) {
	if policy == train.PolicyCNN && slices.Contains([]string{"ga3c_1", "ga3c_2", "ga3c_3"}, c.CNN) {
		return "cnn: " + c.CNN, "another"
	}
	return "", ""
}

// Trunks of the two heads.
const (
	TrunkAuto     = "auto"
	TrunkShared   = "shared"
	TrunkSeparate = "separate"
)

// Columns of a rollout, recorded by policy.Sampler.
const (
	ColumnLogProb = 0
	ColumnValue   = 1
)

// Heads of the network, as numbers in its Spec. The head of the policy is "pi", or "mu" for a box.
// With branches and a box "mu" is a third head.
const (
	HeadPi = 0
	HeadV  = 1
)

// PolicyHeads returns the heads of a network whose policy has such actions, on the first trunk, and
// whose value is on the last of some trunks.
func PolicyHeads(a env.ActionSpec, trunks int) []nn.Head {
	pi := nn.Head{Name: "pi", Out: a.Logits(), Branches: a.Branches}
	mu := nn.Head{Name: "mu", Out: a.Floats()}
	v := nn.Head{Name: "v", Out: 1, Trunk: trunks - 1}
	switch {
	case mu.Out == 0:
		return []nn.Head{pi, v}
	case pi.Out == 0:
		return []nn.Head{mu, v}
	default:
		return []nn.Head{pi, v, mu}
	}
}

// Settings describes ActorCritic for a method whose struct is C, with defaults d.
func Settings[C any](d ActorCritic, part func(*C) *ActorCritic) []settings.Setting {
	type ac = ActorCritic
	return settings.Within(part, []settings.Setting{
		settings.Text("cnn", "nature", "CnnPolicy's layers: nature (Mnih et al. 2015), small (Mnih et al. 2016: 16 of 8x8 stride 4, 32 of 4x4 stride 2, 256), cule (Dalton et al. 2020: nature with 32 in the place of the last 64), minatar (Young & Tian 2019, for images from 5x5 on: 16 of 3x3, 128), or ga3c_1 to ga3c_4 (Babaeizadeh et al. 2017: 32 of 8x8 with stride 1 to 4, 32 of 4x4 stride 2, 64 of 4x4 stride 2, 256; a GPU computes ga3c_4 alone of them)", []string{"nature", "small", "cule", "minatar", "ga3c_1", "ga3c_2", "ga3c_3", "ga3c_4"}, func(c *ac) *string { return &c.CNN }),
		settings.Ints("net_arch_pi", "64,64", 1, 65536, "widths", "widths of MlpPolicy's hidden layers before the policy head; none: the head reads the observation", func(c *ac) *[]int { return &c.NetArchPi }),
		settings.Ints("net_arch_vf", "64,64", 1, 65536, "widths", "widths of MlpPolicy's hidden layers before the value head; none: the head reads the observation", func(c *ac) *[]int { return &c.NetArchVf }),
		settings.Text("trunk", TrunkAuto, "trunks of the two heads: shared (one trunk), separate (one trunk each), or auto: shared for CnnPolicy, separate for MlpPolicy", []string{TrunkAuto, TrunkShared, TrunkSeparate}, func(c *ac) *string { return &c.Trunk }),
		train.Activation("tanh", func(c *ac) *string { return &c.ActivationFn }),
		settings.Bool("ortho_init", true, "orthogonal initial weights (gain sqrt 2, policy head 0.01, value head 1) and biases 0; else uniform by the number of inputs", func(c *ac) *bool { return &c.OrthoInit }),
		settings.Float("log_std_init", 0, -20, 20, "initial logarithm of the standard deviation of every component of a box action", func(c *ac) *float64 { return &c.LogStdInit }),
		settings.Bool("squashed", false, "the hyperbolic tangent of a Gaussian's sample is the box action; false: the sample, clipped to the bounds when it is stepped", func(c *ac) *bool { return &c.Squashed }),
		settings.Bool("scaled", false, "box actions of -1 to 1 are stretched to the bounds, which must be finite", func(c *ac) *bool { return &c.Scaled }),
		settings.Bool("normalize_obs", false, "shift and scale float32 observations to mean 0 and standard deviation 1 by running statistics of all observations so far, and clip them to -10 to 10 (Stable-Baselines3's VecNormalize); the policy keeps the statistics", func(c *ac) *bool { return &c.NormalizeObs }),
		settings.Bool("normalize_reward", false, "divide rewards by the running standard deviation of discounted returns and clip them to -10 to 10 (VecNormalize); episode returns stay as they are", func(c *ac) *bool { return &c.NormalizeReward }),
		settings.Float("learning_rate", d.LearningRate, 0, 1e3, "step size of the optimiser", func(c *ac) *float64 { return &c.LearningRate }),
		settings.OptionalFloat("learning_rate_final", 0, 1e3, "empty: constant. Else learning_rate goes to this value on a straight line from step 0 to the end of the run", func(c *ac) *float64 { return &c.LearningRateFinal }),
		train.CurveOf("learning_rate", 1e3, "by learning_rate and learning_rate_final", func(c *ac) *train.Curve { return &c.LearningRateCurve }),
		settings.Int("n_steps", d.NSteps, 1, nn.MaxRows, "rounds before an update, which learns from n_steps * num_envs steps", func(c *ac) *int { return &c.NSteps }),
		MidBatchReset(func(c *ac) *bool { return &c.MidBatchReset }),
		settings.Float("gamma", 0.99, 0, 1, "discount factor", func(c *ac) *float64 { return &c.Gamma }),
		settings.Float("gae_lambda", d.GAELambda, 0, 1, "lambda of generalised advantage estimation; 1: n-step returns", func(c *ac) *float64 { return &c.GAELambda }),
		settings.Float("ent_coef", 0, 0, 1e3, "weight of the entropy bonus in the loss", func(c *ac) *float64 { return &c.EntCoef }),
		settings.Float("vf_coef", 0.5, 0, 1e3, "weight of the value's squared error (without a factor 1/2) in the loss", func(c *ac) *float64 { return &c.VfCoef }),
		settings.Float("max_grad_norm", 0.5, 0, math.MaxFloat64, "gradients of a larger Euclidean norm are scaled down to it; 0: never", func(c *ac) *float64 { return &c.MaxGradNorm }),
		settings.Bool("normalize_advantage", d.NormalizeAdvantage, "shift and scale the advantages of a minibatch to mean 0 and standard deviation 1", func(c *ac) *bool { return &c.NormalizeAdvantage }),
		settings.Bool("use_rms_prop", d.UseRMSProp, "RMSProp; false: Adam", func(c *ac) *bool { return &c.UseRMSProp }),
		settings.Float("rms_prop_alpha", 0.99, 0.001, 0.999999, "RMSProp's decay of the average of squared gradients", func(c *ac) *float64 { return &c.RMSPropAlpha }),
		settings.Float("rms_prop_eps", 1e-5, 1e-20, 1e3, "RMSProp's small constant", func(c *ac) *float64 { return &c.RMSPropEps }),
		settings.Bool("rms_prop_eps_inside", false, "whether rms_prop_eps is inside the root (TensorFlow, Lasagne) or is added to it (PyTorch)", func(c *ac) *bool { return &c.RMSPropEpsInside }),
		settings.Int("rms_prop_first", 0, 0, 1, "RMSProp's average of squared gradients before the first update: 0 (PyTorch) or 1 (TensorFlow)", func(c *ac) *int { return &c.RMSPropFirst }),
		settings.Float("adam_eps", 1e-5, 1e-20, 1e3, "Adam's small constant", func(c *ac) *float64 { return &c.AdamEps }),
	})
}

// Switched lists the settings that are used with some values of another setting only.
func (c *ActorCritic) Switched() []settings.Switched {
	return []settings.Switched{
		{Names: "rms_prop_alpha rms_prop_eps rms_prop_eps_inside rms_prop_first", By: "use_rms_prop", Used: c.UseRMSProp},
		{Names: "adam_eps", By: "use_rms_prop", Used: !c.UseRMSProp},
	}
}

// MidBatchReset is the setting mid_batch_reset of Stooke & Abbeel 2018, section 4.1.
func MidBatchReset[C any](field func(*C) *bool) settings.Setting {
	return settings.Bool("mid_batch_reset", true, "whether an environment is reset at once after an episode's end; false: it waits until the rollout is full and is reset during the update, so that slow resets delay no step", field)
}

// Shape names the settings in which a checkpoint and the trainer that loads it must agree.
var Shape = []string{"env", "env_options", "policy", "normalize_images", "cnn", "net_arch_pi", "net_arch_vf", "trunk", "activation_fn", "squashed", "scaled", "normalize_obs", "normalize_reward", "num_envs", "mid_batch_reset", "use_rms_prop", "action_masks"}

// Network resolves the setting trunk and returns the network. The setting policy is resolved.
func (c *ActorCritic) Network(common *train.Common, spec env.Spec) (nn.Spec, error) {
	if c.Trunk == TrunkAuto {
		c.Trunk = TrunkSeparate
		if common.Policy == train.PolicyCNN {
			c.Trunk = TrunkShared
		}
	}
	var trunks []nn.Trunk
	switch {
	case common.Policy == train.PolicyCNN:
		cnn := nn.Trunk{Arch: c.CNN + "_cnn"}
		trunks = []nn.Trunk{cnn, cnn}
	default:
		trunks = []nn.Trunk{
			{Arch: "mlp", Hidden: c.NetArchPi, Activation: c.ActivationFn},
			{Arch: "mlp", Hidden: c.NetArchVf, Activation: c.ActivationFn},
		}
	}
	if c.Trunk == TrunkShared {
		if common.Policy == train.PolicyMLP && !slices.Equal(c.NetArchPi, c.NetArchVf) {
			return nn.Spec{}, fmt.Errorf("net_arch_vf: %v, must be net_arch_pi (%v) where trunk is shared", c.NetArchVf, c.NetArchPi)
		}
		trunks = trunks[:1]
	}
	net := nn.Spec{
		Obs: spec.Obs, Trunks: trunks, Precision: nn.Precision(common.Precision), ISA: common.ISA, RawImages: common.RawImages(spec.Obs), Init: "uniform",
		Heads: PolicyHeads(spec.Action, len(trunks)), LogStdInit: c.LogStdInit,
	}
	if c.OrthoInit {
		net.Init = "orthogonal"
		for k := range net.Heads {
			net.Heads[k].Gain = 0.01
		}
		net.Heads[HeadV].Gain = 1
	}
	if _, err := net.Layout(); err != nil {
		return nn.Spec{}, common.Misfit(err)
	}
	return net, nil
}

// Run is the run that the settings ask for, of updates of one minibatch.
func (c *ActorCritic) Run(common *train.Common, s *train.Setup) (Config, error) {
	net, err := c.Network(common, s.Spec)
	bounds := policy.Bounds{Squash: c.Squashed, Scaled: c.Scaled}
	if err == nil {
		err = bounds.Check(s.Spec.Action)
	}
	if err == nil {
		err = c.checkNormalize(common, s.Spec.Obs)
	}
	return Config{
		Net: net, NetSetting: "policy: " + common.Policy,
		Policy:  policy.Spec{Head: HeadPi, Kind: policy.KindOf(s.Spec.Action), Bounds: bounds},
		Chooser: policy.NewSampler(s.Spec.Action, &net, bounds), Value: ValueHead,
		Normalize: Normalize{c.NormalizeObs, c.NormalizeReward, c.Gamma},
		Horizon:   c.NSteps, Batch: c.NSteps * common.NumEnvs, Minibatches: 1,
		Loss: nn.ActorCritic{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef}, Optimizer: c.Optimizer(), MaxGradNorm: c.MaxGradNorm,
		Rate: func(end int64) train.Schedule {
			return c.LearningRateCurve.Rate(c.LearningRate, c.LearningRateFinal, end)
		},
	}, err
}

// checkNormalize refuses settings with which statistics cannot be kept.
func (c *ActorCritic) checkNormalize(common *train.Common, obs env.ObsSpec) error {
	switch {
	case c.NormalizeObs && obs.DType != env.Float32:
		return fmt.Errorf("normalize_obs: true, must be false where observations are %v; it normalises float32 observations, and images are divided by 255 (normalize_images)", obs.DType)
	case common.Groups > 1 && (c.NormalizeObs || c.NormalizeReward):
		return fmt.Errorf("groups: %d, must be 1 with normalize_obs or normalize_reward, whose statistics need the steps of all environments before the next actions", common.Groups)
	}
	return nil
}

// CheckSharing refuses settings that do not go together with updates from outside.
func (c *ActorCritic) CheckSharing(o *train.Outside) error {
	if o.FromOutside() && o.OutsideLearners > 1 && (c.NormalizeObs || c.NormalizeReward) {
		return fmt.Errorf("outside_learners: %d, must be 1 with normalize_obs or normalize_reward: each learner would have statistics of its own", o.OutsideLearners)
	}
	return o.CheckOutside()
}

// ValueHead returns the outputs of head "v".
func ValueHead(out nn.Outputs) []float32 { return out.Values[HeadV] }

// Optimizer is the optimiser that the settings ask for.
func (c *ActorCritic) Optimizer() nn.OptimizerConfig {
	if !c.UseRMSProp {
		return nn.OptimizerConfig{Name: "adam", Eps: c.AdamEps}
	}
	return nn.OptimizerConfig{Name: "rmsprop", Decay: c.RMSPropAlpha, Eps: c.RMSPropEps, EpsInside: c.RMSPropEpsInside, FirstAverage: float64(c.RMSPropFirst)}
}
