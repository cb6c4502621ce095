package a2c

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// Config holds every setting of a run. Settings describes each field, under the
// name that C and Python use for it.
type Config struct {
	train.Common
	CNN          string
	NetArchPi    []int
	NetArchVf    []int
	Trunk        string
	ActivationFn string
	OrthoInit    bool

	LearningRate       float64
	LearningRateFinal  float64 // NaN: constant
	LearningRateCurve  train.Curve
	NSteps             int // t_max
	Gamma              float64
	GAELambda          float64
	EntCoef            float64 // beta
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

// Trunks: whether the two heads share one.
const (
	trunkAuto     = "auto"
	trunkShared   = "shared"
	trunkSeparate = "separate"
)

// Settings is the table of all settings, in the order in which they are worth
// reading.
var Settings = settings.New[Config]("a2c", append(train.CommonSettings(func(c *Config) *train.Common { return &c.Common }), []settings.Setting{
	settings.Text("cnn", "nature", "CnnPolicy's layers: nature (Mnih et al. 2015), or small (Mnih et al. 2016: 16 of 8x8 stride 4, 32 of 4x4 stride 2, 256)", []string{"nature", "small"}, func(c *Config) *string { return &c.CNN }),
	settings.Ints("net_arch_pi", "64,64", 1, 65536, "widths", "widths of MlpPolicy's hidden layers before the policy's head", func(c *Config) *[]int { return &c.NetArchPi }),
	settings.Ints("net_arch_vf", "64,64", 1, 65536, "widths", "widths of MlpPolicy's hidden layers before the value's head", func(c *Config) *[]int { return &c.NetArchVf }),
	settings.Text("trunk", trunkAuto, "layers below the two heads: shared (one trunk), separate (one for each), or auto: shared for CnnPolicy, separate for MlpPolicy", []string{trunkAuto, trunkShared, trunkSeparate}, func(c *Config) *string { return &c.Trunk }),
	train.Activation("tanh", func(c *Config) *string { return &c.ActivationFn }),
	settings.Bool("ortho_init", true, "orthogonal initial weights (gain sqrt 2, policy head 0.01, value head 1) and biases 0; else uniform by the number of inputs", func(c *Config) *bool { return &c.OrthoInit }),
	settings.Float("learning_rate", 7e-4, 0, 1e3, "step size of the optimiser", func(c *Config) *float64 { return &c.LearningRate }),
	settings.OptionalFloat("learning_rate_final", 0, 1e3, "empty: constant. Else learning_rate falls (or rises) to this on a straight line over the run", func(c *Config) *float64 { return &c.LearningRateFinal }),
	train.RateCurve(func(c *Config) *train.Curve { return &c.LearningRateCurve }),
	settings.Int("n_steps", 5, 1, nn.MaxRows, "rounds before an update, whose minibatch is n_steps * num_envs steps", func(c *Config) *int { return &c.NSteps }),
	settings.Float("gamma", 0.99, 0, 1, "discount factor", func(c *Config) *float64 { return &c.Gamma }),
	settings.Float("gae_lambda", 1, 0, 1, "lambda of generalised advantage estimation; 1: n-step returns", func(c *Config) *float64 { return &c.GAELambda }),
	settings.Float("ent_coef", 0, 0, 1e3, "weight of the entropy bonus in the loss", func(c *Config) *float64 { return &c.EntCoef }),
	settings.Float("vf_coef", 0.5, 0, 1e3, "weight of the value's squared error (without 1/2) in the loss", func(c *Config) *float64 { return &c.VfCoef }),
	settings.Float("max_grad_norm", 0.5, 0, math.MaxFloat64, "gradients of a larger Euclidean norm are scaled down to it; 0: never", func(c *Config) *float64 { return &c.MaxGradNorm }),
	settings.Bool("normalize_advantage", false, "shift and scale the advantages of an update to mean 0 and deviation 1", func(c *Config) *bool { return &c.NormalizeAdvantage }),
	settings.Bool("use_rms_prop", true, "RMSProp; false: Adam", func(c *Config) *bool { return &c.UseRMSProp }),
	settings.Float("rms_prop_alpha", 0.99, 0.001, 0.999999, "RMSProp's decay of the average of squared gradients", func(c *Config) *float64 { return &c.RMSPropAlpha }),
	settings.Float("rms_prop_eps", 1e-5, 1e-20, 1e3, "RMSProp's small constant", func(c *Config) *float64 { return &c.RMSPropEps }),
	settings.Bool("rms_prop_eps_inside", false, "whether that constant stands inside the root (TensorFlow, Lasagne) or is added to it (PyTorch)", func(c *Config) *bool { return &c.RMSPropEpsInside }),
	settings.Int("rms_prop_first", 0, 0, 1, "RMSProp's average before the first update: 0 (PyTorch) or 1 (TensorFlow)", func(c *Config) *int { return &c.RMSPropFirst }),
	settings.Float("adam_eps", 1e-5, 1e-20, 1e3, "Adam's small constant", func(c *Config) *float64 { return &c.AdamEps }),
}...), presets)

// resolve checks every setting and how they go together.
func (c *Config) resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if most := nn.MaxRows / c.NumEnvs; c.NSteps > most {
		return nil, fmt.Errorf("n_steps: %d, must be at most %d with num_envs %d: n_steps * num_envs rows are one minibatch of up to %d", c.NSteps, most, c.NumEnvs, nn.MaxRows)
	}
	return nil, nil
}

// fit replaces what the observation decides about, and returns the network.
func (c *Config) fit(spec env.Spec) (nn.Spec, error) {
	c.FitPolicy(spec.Obs)
	if c.Trunk == trunkAuto {
		c.Trunk = trunkSeparate
		if c.Policy == train.PolicyCNN {
			c.Trunk = trunkShared
		}
	}
	var trunks []nn.Trunk
	switch {
	case c.Policy == train.PolicyCNN:
		cnn := nn.Trunk{Arch: c.CNN + "_cnn"}
		trunks = []nn.Trunk{cnn, cnn}
	default:
		trunks = []nn.Trunk{
			{Arch: "mlp", Hidden: c.NetArchPi, Activation: c.ActivationFn},
			{Arch: "mlp", Hidden: c.NetArchVf, Activation: c.ActivationFn},
		}
	}
	if c.Trunk == trunkShared {
		if c.Policy == train.PolicyMLP && !slices.Equal(c.NetArchPi, c.NetArchVf) {
			return nn.Spec{}, fmt.Errorf("net_arch_vf: %v, must be net_arch_pi (%v) where trunk is shared", c.NetArchVf, c.NetArchPi)
		}
		trunks = trunks[:1]
	}
	net := nn.Spec{
		Obs: spec.Obs, Trunks: trunks, Precision: nn.Precision(c.Precision), ISA: c.ISA, RawImages: !c.NormalizeImages, Init: "uniform",
		Heads: []nn.Head{{Name: "pi", Out: spec.Action.N}, {Name: "v", Out: 1, Trunk: len(trunks) - 1}},
	}
	if c.OrthoInit {
		net.Init = "orthogonal"
		net.Heads[0].Gain, net.Heads[1].Gain = 0.01, 1
	}
	if _, err := net.Layout(); err != nil {
		return nn.Spec{}, fmt.Errorf("policy: %s does not fit the environment (MlpPolicy takes any): %w", c.Policy, err)
	}
	return net, nil
}

// Heads of the network, by their numbers in its Spec.
const (
	headPi = 0
	headV  = 1
)

// optimizer is what the settings ask for.
func (c *Config) optimizer() nn.OptimizerConfig {
	if !c.UseRMSProp {
		return nn.OptimizerConfig{Name: "adam", Eps: c.AdamEps}
	}
	return nn.OptimizerConfig{Name: "rmsprop", Decay: c.RMSPropAlpha, Eps: c.RMSPropEps, EpsInside: c.RMSPropEpsInside, FirstAverage: float64(c.RMSPropFirst)}
}

// rate is the learning rate over a run of total steps.
func (c *Config) rate(total int64) train.Schedule {
	return c.LearningRateCurve.Rate(c.LearningRate, c.LearningRateFinal, total)
}
