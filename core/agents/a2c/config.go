package a2c

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// Config holds every setting of a run. Settings describes each field, under its name in C and
// Python.
type Config struct {
	train.Common
	onpolicy.ActorCritic
	onpolicy.VTraceByGroups
	train.Outside
}

// defaults are Stable-Baselines3's.
var defaults = onpolicy.ActorCritic{LearningRate: 7e-4, NSteps: 5, GAELambda: 1, UseRMSProp: true}

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("a2c", slices.Concat(
	train.CommonSettings(func(c *Config) *train.Common { return &c.Common }),
	onpolicy.Settings(defaults, func(c *Config) *onpolicy.ActorCritic { return &c.ActorCritic }),
	onpolicy.VTraceByGroupsSettings(func(c *Config) *onpolicy.VTraceByGroups { return &c.VTraceByGroups }),
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
	if err := onpolicy.CheckRows(c.NSteps, c.NumEnvs, "num_envs"); err != nil {
		return nil, err
	}
	if err := onpolicy.CheckAdvantages(c.NSteps, c.NumEnvs, "num_envs", c.NormalizeAdvantage && !c.SharesMoments()); err != nil {
		return nil, err
	}
	if err := c.VTraceByGroups.Check(c.NSteps, c.NumEnvs, "num_envs"); err != nil {
		return nil, err
	}
	return Settings.Over(c).Unused(slices.Concat(c.ActorCritic.Switched(), c.VTraceByGroups.Switched())...)
}

// run is the run that the settings ask for.
func (c *Config) run(s *train.Setup) (onpolicy.Config, error) {
	run, err := c.ActorCritic.Run(&c.Common, s)
	if c.VTrace {
		run.Batch, run.Slide = c.NSteps*c.NumEnvs/c.VTraceGroups, c.VTraceSteps
	}
	return run, err
}
