package ppo

import (
	"slices"

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
	onpolicy.Clipping
	onpolicy.VTraceSettings
	train.Outside
}

// defaults are Stable-Baselines3's.
var defaults = onpolicy.ActorCritic{LearningRate: 3e-4, NSteps: 2048, GAELambda: 0.95, NormalizeAdvantage: true}

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("ppo", slices.Concat(
	train.CommonSettings(func(c *Config) *train.Common { return &c.Common }),
	onpolicy.Settings(defaults, func(c *Config) *onpolicy.ActorCritic { return &c.ActorCritic }),
	onpolicy.ClippingSettings(0.2, func(c *Config) *onpolicy.Clipping { return &c.Clipping }),
	onpolicy.VTraceSettingsOf(onpolicy.VTraceOfRollouts, func(c *Config) *onpolicy.VTraceSettings { return &c.VTraceSettings }),
	train.OutsideSettings(func(c *Config) *train.Outside { return &c.Outside }),
), presets)

// Resolve checks every setting and how they go together.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if err := c.ActorCritic.CheckSharing(&c.Outside); err != nil {
		return nil, err
	}
	if notices, err = c.Clipping.Resolve(c.NSteps, c.NumEnvs, "num_envs", c.NormalizeAdvantage && !c.SharesMoments()); err != nil {
		return nil, err
	}
	unused, err := Settings.Over(c).Unused(slices.Concat(c.ActorCritic.Switched(), c.Clipping.Switched(), c.VTraceSettings.Switched())...)
	return append(notices, unused...), err
}

// run is the run that the settings ask for.
func (c *Config) run(s *train.Setup) (onpolicy.Config, error) {
	run, err := c.ActorCritic.Run(&c.Common, s)
	run.Loss = nn.PPO{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef, Largest: c.ClipRangeVfLargest}
	run.Batch, run.Minibatches = c.BatchSize, c.NEpochs*onpolicy.PerEpoch(c.NSteps*c.NumEnvs, c.BatchSize)
	run.Schedules = c.Schedules()
	return run, err
}
