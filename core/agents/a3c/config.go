package a3c

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// Config holds every setting of a run. Settings describes each field, under its name in C and
// Python.
type Config struct {
	train.Common
	onpolicy.ActorCritic
	onpolicy.VTraceByGroups
	async.Settings
}

// defaults are those of A2C.
var defaults = onpolicy.ActorCritic{LearningRate: 7e-4, NSteps: 5, GAELambda: 1, UseRMSProp: true}

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("a3c", slices.Concat(
	train.CommonSettings(func(c *Config) *train.Common { return &c.Common }),
	onpolicy.Settings(defaults, func(c *Config) *onpolicy.ActorCritic { return &c.ActorCritic }),
	onpolicy.VTraceByGroupsSettings(func(c *Config) *onpolicy.VTraceByGroups { return &c.VTraceByGroups }),
	async.SettingsOf(async.Settings{Learners: 1, Shards: 4, Rule: "gradient", SyncPeriod: 1}, func(c *Config) *async.Settings { return &c.Settings }),
), presets)

// Resolve checks every setting and how they go together.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if err := c.async().Check(&c.Common); err != nil {
		return nil, err
	}
	envs := c.NumEnvs / c.Learners
	const name = "num_envs / learners"
	if err := onpolicy.CheckRows(c.NSteps, envs, name); err != nil {
		return nil, err
	}
	if err := onpolicy.CheckAdvantages(c.NSteps, envs, name, c.NormalizeAdvantage && !c.async().Shares()); err != nil {
		return nil, err
	}
	if err := c.VTraceByGroups.Check(c.NSteps, envs, name); err != nil {
		return nil, err
	}
	return Settings.Over(c).Unused(slices.Concat(c.ActorCritic.Switched(), c.VTraceByGroups.Switched(), c.Settings.Switched("use_rms_prop", !c.UseRMSProp))...)
}

// async is the run of learners that the settings ask for.
func (c *Config) async() *async.Config {
	return &async.Config{Settings: c.Settings, Worker: "a2c", Values: Settings.Over(c).Map(), Optimizer: c.Optimizer(), MaxGradNorm: c.MaxGradNorm}
}
