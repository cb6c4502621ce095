package pqn

import (
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// Config holds every setting of a run. Settings describes each field, under its name in C and
// Python.
type Config struct {
	train.Common
	CNN          string
	NetArch      []int
	ActivationFn string
	LayerNorm    string
	LayerNormEps float64 // 0: the default of layer_norm
	Init         string

	LearningRate        float64
	LearningRateFinal   float64 // NaN: constant
	LearningRateCurve   train.Curve
	NSteps              int // T
	MidBatchReset       bool
	BatchSize           int
	NEpochs             int
	Gamma               float64
	QLambda             float64
	LossCoef            float64
	MaxGradNorm         float64
	RAdamEps            float64
	ExplorationInitial  float64
	ExplorationFinal    float64
	ExplorationFraction float64
}

// norms maps values of layer_norm to those of nn.Trunk.Norm.
var norms = map[string]string{"none": "", "channels": "layer_channels", "all": "layer_all"}

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("pqn", append(train.CommonSettings(func(c *Config) *train.Common { return &c.Common }), []settings.Setting{
	settings.Text("cnn", "nature", "CnnPolicy's layers: nature (Mnih et al. 2015), small (Mnih et al. 2016: 16 of 8x8 stride 4, 32 of 4x4 stride 2, 256) or minatar (Young & Tian 2019, for images from 5x5 on: 16 of 3x3, 128)", []string{"nature", "small", "minatar"}, func(c *Config) *string { return &c.CNN }),
	settings.Ints("net_arch", "128,128", 1, 65536, "widths", "widths of MlpPolicy's hidden layers; none: a linear network", func(c *Config) *[]int { return &c.NetArch }),
	train.Activation("relu", func(c *Config) *string { return &c.ActivationFn }),
	settings.Text("layer_norm", "channels", "normalisation between every layer and its activation: channels (over the channels of each position: flax, the authors), all (over all outputs of an example: PyTorch, CleanRL), or none; dense layers have one position", []string{"channels", "all", "none"}, func(c *Config) *string { return &c.LayerNorm }),
	settings.Float("layer_norm_eps", 0, 0, 1, "constant that layer_norm adds to the variance; 0: 1e-6 for channels, 1e-5 for all", func(c *Config) *float64 { return &c.LayerNormEps }),
	settings.Text("init", "he_normal", "initial weights: he_normal (truncated Gaussians, biases 0: flax, the authors), orthogonal (gain sqrt 2, biases 0: CleanRL) or uniform (by the number of inputs)", []string{"he_normal", "orthogonal", "uniform"}, func(c *Config) *string { return &c.Init }),
	settings.Float("learning_rate", 2.5e-4, 0, 1e3, "step size of RAdam", func(c *Config) *float64 { return &c.LearningRate }),
	settings.OptionalFloat("learning_rate_final", 0, 1e3, "empty: constant. Else learning_rate goes to this value on a straight line from step 0 to the end of the run", func(c *Config) *float64 { return &c.LearningRateFinal }),
	train.CurveOf("learning_rate", 1e3, "by learning_rate and learning_rate_final", func(c *Config) *train.Curve { return &c.LearningRateCurve }),
	settings.Int("n_steps", 32, 1, nn.MaxRows, "rounds before an update, which learns from n_steps * num_envs steps", func(c *Config) *int { return &c.NSteps }),
	onpolicy.MidBatchReset(func(c *Config) *bool { return &c.MidBatchReset }),
	settings.Int("batch_size", 128, 1, nn.MaxRows, "steps of a minibatch; if it does not divide the n_steps * num_envs steps of a rollout, an epoch's last minibatch is smaller", func(c *Config) *int { return &c.BatchSize }),
	settings.Int("n_epochs", 2, 1, 1000, "passes over a rollout", func(c *Config) *int { return &c.NEpochs }),
	settings.Float("gamma", 0.99, 0, 1, "discount factor", func(c *Config) *float64 { return &c.Gamma }),
	settings.Float("q_lambda", 0.65, 0, 1, "lambda of the returns: 0 for one step, 1 for all steps of a rollout", func(c *Config) *float64 { return &c.QLambda }),
	settings.Float("loss_coef", 0.5, 1e-6, 1e3, "factor of the mean squared error: 0.5 (the authors) or 1 (CleanRL)", func(c *Config) *float64 { return &c.LossCoef }),
	settings.Float("max_grad_norm", 10, 0, math.MaxFloat64, "gradients of a larger Euclidean norm are scaled down to it; 0: never", func(c *Config) *float64 { return &c.MaxGradNorm }),
	settings.Float("radam_eps", 1e-8, 1e-20, 1e3, "RAdam's small constant", func(c *Config) *float64 { return &c.RAdamEps }),
	settings.Float("exploration_initial_eps", 1, 0, 1, "epsilon at the first step", func(c *Config) *float64 { return &c.ExplorationInitial }),
	settings.Float("exploration_final_eps", 0.001, 0, 1, "epsilon after it has fallen", func(c *Config) *float64 { return &c.ExplorationFinal }),
	settings.Float("exploration_fraction", 0.1, 0, 1, "share of the steps up to the end of the run over which epsilon falls", func(c *Config) *float64 { return &c.ExplorationFraction }),
}...), presets)

// Resolve checks every setting and how they go together.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if err := onpolicy.CheckRows(c.NSteps, c.NumEnvs, "num_envs"); err != nil {
		return nil, err
	}
	notices = onpolicy.FitBatch(&c.BatchSize, c.NSteps*c.NumEnvs, "num_envs")
	unused, err := Settings.Over(c).Unused(settings.Switched{Names: "layer_norm_eps", By: "layer_norm", Used: c.LayerNorm != "none"})
	return append(notices, unused...), err
}

// ResetsLate implements train.LateResets.
func (c *Config) ResetsLate() bool { return !c.MidBatchReset }

// network returns the network. The setting policy is resolved.
func (c *Config) network(spec env.Spec) (nn.Spec, error) {
	trunk := nn.Trunk{Arch: "mlp", Hidden: c.NetArch, Activation: c.ActivationFn, Norm: norms[c.LayerNorm]}
	if c.Policy == train.PolicyCNN {
		trunk = nn.Trunk{Arch: c.CNN + "_cnn", Norm: norms[c.LayerNorm]}
	}
	if c.LayerNorm != "none" {
		trunk.NormEps = c.LayerNormEps
	}
	net := nn.Spec{
		Obs: spec.Obs, Trunks: []nn.Trunk{trunk}, Heads: []nn.Head{{Name: "q", Out: spec.Action.N}},
		Init: c.Init, Precision: nn.Precision(c.Precision), ISA: c.ISA, RawImages: c.RawImages(spec.Obs),
	}
	if c.Init == "he_normal" {
		net.Heads[head].Gain = 1 // flax's default for dense layers is lecun_normal
	}
	if _, err := net.Layout(); err != nil {
		return nn.Spec{}, c.Misfit(err)
	}
	return net, nil
}
