package ppo

import (
	"errors"
	"math"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// Config holds every setting of a run. Settings describes each field, under its name in C and
// Python.
type Config struct {
	train.Common
	onpolicy.ActorCritic
	BatchSize          int // M
	NEpochs            int // K
	ClipRange          float64
	ClipRangeCurve     train.Curve
	ClipRangeVf        float64 // NaN: none
	ClipRangeVfCurve   train.Curve
	ClipRangeVfLargest bool
	TargetKL           float64 // NaN: none
	TargetKLCheck      string
}

// Values of target_kl_check: where target_kl is checked.
const (
	minibatch = "minibatch"
	epoch     = "epoch"
)

// defaults are Stable-Baselines3's.
var defaults = onpolicy.ActorCritic{LearningRate: 3e-4, NSteps: 2048, GAELambda: 0.95, NormalizeAdvantage: true}

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("ppo", append(append(
	train.CommonSettings(func(c *Config) *train.Common { return &c.Common }),
	onpolicy.Settings(defaults, func(c *Config) *onpolicy.ActorCritic { return &c.ActorCritic })...),
	settings.Int("batch_size", 64, 1, nn.MaxRows, "steps of a minibatch; if it does not divide the n_steps * num_envs steps of a rollout, an epoch's last minibatch is smaller", func(c *Config) *int { return &c.BatchSize }),
	settings.Int("n_epochs", 10, 1, 1000, "passes over a rollout", func(c *Config) *int { return &c.NEpochs }),
	settings.Float(clipRange, 0.2, 0, 1e6, "largest distance from 1 at which the ratio of an action's probabilities, now and when it was chosen, counts", func(c *Config) *float64 { return &c.ClipRange }),
	train.CurveOf(clipRange, 1e6, "clip_range all along", func(c *Config) *train.Curve { return &c.ClipRangeCurve }),
	settings.OptionalFloat(clipRangeVf, 0, 1e6, "empty: none. Else largest distance from the recorded value at which the value counts in its squared error", func(c *Config) *float64 { return &c.ClipRangeVf }),
	train.CurveOf(clipRangeVf, 1e6, "clip_range_vf all along", func(c *Config) *train.Curve { return &c.ClipRangeVfCurve }),
	settings.Bool("clip_range_vf_largest", false, "the larger of the squared errors of the value and of the value clamped by clip_range_vf (OpenAI Baselines, CleanRL); false: the latter (Stable-Baselines3)", func(c *Config) *bool { return &c.ClipRangeVfLargest }),
	settings.OptionalFloat("target_kl", 0, 1e6, "empty: none. Else an update ends early if the estimated Kullback-Leibler divergence of the policy exceeds this", func(c *Config) *float64 { return &c.TargetKL }),
	settings.Text("target_kl_check", minibatch, "where target_kl is checked: minibatch (before each step, against 1.5 target_kl: Stable-Baselines3) or epoch (after each epoch, for its last minibatch: CleanRL)", []string{minibatch, epoch}, func(c *Config) *string { return &c.TargetKLCheck }),
), presets)

// Resolve checks every setting and how they go together.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if err := onpolicy.CheckRows(c.NSteps, c.NumEnvs); err != nil {
		return nil, err
	}
	rows := c.NSteps * c.NumEnvs
	if rows == 1 && c.NormalizeAdvantage {
		return nil, errors.New("n_steps: 1, must be more with num_envs 1 and normalize_advantage: one advantage has no deviation")
	}
	return onpolicy.FitBatch(&c.BatchSize, rows), nil
}

// run is the run that the settings ask for.
func (c *Config) run(s *train.Setup) (onpolicy.Config, error) {
	run, err := c.ActorCritic.Run(&c.Common, s)
	run.Loss = nn.PPO{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef, Largest: c.ClipRangeVfLargest}
	run.Batch, run.Minibatches = c.BatchSize, c.NEpochs*onpolicy.PerEpoch(c.NSteps*c.NumEnvs, c.BatchSize)
	run.Schedules = []onpolicy.Schedule{{Name: clipRange, Most: 1e6, Learns: true, Of: func(end int64) train.Schedule {
		return c.ClipRangeCurve.Rate(c.ClipRange, c.ClipRange, end)
	}}}
	if !math.IsNaN(c.ClipRangeVf) || c.ClipRangeVfCurve != nil {
		run.Schedules = append(run.Schedules, onpolicy.Schedule{Name: clipRangeVf, Most: 1e6, Learns: true, Of: func(end int64) train.Schedule {
			return c.ClipRangeVfCurve.Rate(c.ClipRangeVf, c.ClipRangeVf, end)
		}})
	}
	return run, err
}
