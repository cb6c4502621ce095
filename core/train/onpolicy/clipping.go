package onpolicy

import (
	"errors"
	"math"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// Clipping are the settings of the methods with PPO's clipped objective: minibatches, clip ranges,
// and when an update ends early.
type Clipping struct {
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

// Schedules of a run with Clipping.
const (
	ClipRange   = "clip_range"
	ClipRangeVf = "clip_range_vf"
)

// Values of target_kl_check: where target_kl is checked.
const (
	AtMinibatch = "minibatch"
	AtEpoch     = "epoch"
)

// ClippingSettings describes Clipping for a method whose struct is C. clip is the default of
// clip_range.
func ClippingSettings[C any](clip float64, part func(*C) *Clipping) []settings.Setting {
	type cl = Clipping
	return settings.Within(part, []settings.Setting{
		settings.Int("batch_size", 64, 1, nn.MaxRows, "steps of a minibatch; if it does not divide the n_steps * num_envs steps of a rollout, an epoch's last minibatch is smaller", func(c *cl) *int { return &c.BatchSize }),
		settings.Int("n_epochs", 10, 1, 1000, "passes over a rollout", func(c *cl) *int { return &c.NEpochs }),
		settings.Float(ClipRange, clip, 0, 1e6, "largest distance from 1 at which the ratio of an action's probabilities, now and when it was chosen, counts", func(c *cl) *float64 { return &c.ClipRange }),
		train.CurveOf(ClipRange, 1e6, "clip_range all along", func(c *cl) *train.Curve { return &c.ClipRangeCurve }),
		settings.OptionalFloat(ClipRangeVf, 0, 1e6, "empty: none. Else largest distance from the recorded value at which the value counts in its squared error", func(c *cl) *float64 { return &c.ClipRangeVf }),
		train.CurveOf(ClipRangeVf, 1e6, "clip_range_vf all along", func(c *cl) *train.Curve { return &c.ClipRangeVfCurve }),
		settings.Bool("clip_range_vf_largest", false, "the larger of the squared errors of the value and of the value clamped by clip_range_vf (OpenAI Baselines, CleanRL); false: the latter (Stable-Baselines3)", func(c *cl) *bool { return &c.ClipRangeVfLargest }),
		settings.OptionalFloat("target_kl", 0, 1e6, "empty: none. Else an update ends early if the estimated Kullback-Leibler divergence of the policy exceeds this", func(c *cl) *float64 { return &c.TargetKL }),
		settings.Text("target_kl_check", AtMinibatch, "where target_kl is checked: minibatch (before each step, against 1.5 target_kl: Stable-Baselines3) or epoch (after each epoch, for its last minibatch: CleanRL)", []string{AtMinibatch, AtEpoch}, func(c *cl) *string { return &c.TargetKLCheck }),
	})
}

// Resolve checks the settings for rollouts of a number of rows, and fits batch_size to them. name
// is what the number of environments is called. It refuses minibatches of one row whose advantages
// are normalised by themselves (alone); a last minibatch of one row keeps its advantage.
func (c *Clipping) Resolve(nSteps, envs int, name string, alone bool) (notices []string, err error) {
	if err := CheckRows(nSteps, envs, name); err != nil {
		return nil, err
	}
	if err := CheckAdvantages(nSteps, envs, name, alone); err != nil {
		return nil, err
	}
	if c.BatchSize == 1 && alone {
		return nil, errors.New("batch_size: 1, must be more with normalize_advantage: one advantage has no deviation")
	}
	return FitBatch(&c.BatchSize, nSteps*envs, name), nil
}

// Switched lists the settings that are used with some values of another setting only, except
// target_kl_check, which a preset sets for any target_kl.
func (c *Clipping) Switched() []settings.Switched {
	return []settings.Switched{{Names: "clip_range_vf_largest", By: ClipRangeVf, Used: c.clipsValues()}}
}

// clipsValues reports whether there is a clip_range_vf, constant or not.
func (c *Clipping) clipsValues() bool { return !math.IsNaN(c.ClipRangeVf) || c.ClipRangeVfCurve != nil }

// Schedules are those of a run.
func (c *Clipping) Schedules() []Schedule {
	list := []Schedule{{Name: ClipRange, Most: 1e6, Learns: true, Of: func(end int64) train.Schedule {
		return c.ClipRangeCurve.Rate(c.ClipRange, c.ClipRange, end)
	}}}
	if c.clipsValues() {
		list = append(list, Schedule{Name: ClipRangeVf, Most: 1e6, Learns: true, Of: func(end int64) train.Schedule {
			return c.ClipRangeVfCurve.Rate(c.ClipRangeVf, c.ClipRangeVf, end)
		}})
	}
	return list
}
