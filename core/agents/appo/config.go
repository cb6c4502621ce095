package appo

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
	onpolicy.Clipping
	onpolicy.VTraceSettings
	async.Settings
}

// Defaults are PPO's, with parameters pulled every 64 rounds (section 5.3) and the rule of appendix
// A.
var (
	defaults = onpolicy.ActorCritic{LearningRate: 3e-4, NSteps: 2048, GAELambda: 0.95, NormalizeAdvantage: true}
	learners = async.Settings{Learners: 1, Shards: 4, Rule: "multi_step_adam", SyncPeriod: 1, PullPeriod: 64}
)

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("appo", slices.Concat(
	train.CommonSettings(func(c *Config) *train.Common { return &c.Common }),
	onpolicy.Settings(defaults, func(c *Config) *onpolicy.ActorCritic { return &c.ActorCritic }),
	onpolicy.ClippingSettings(0.2, func(c *Config) *onpolicy.Clipping { return &c.Clipping }),
	onpolicy.VTraceSettingsOf(onpolicy.VTraceOfRollouts, func(c *Config) *onpolicy.VTraceSettings { return &c.VTraceSettings }),
	async.SettingsOf(learners, func(c *Config) *async.Settings { return &c.Settings }),
), presets)

// Resolve checks every setting and how they go together.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if err := c.async().Check(&c.Common); err != nil {
		return nil, err
	}
	if notices, err = c.Clipping.Resolve(c.NSteps, c.NumEnvs/c.Learners, "num_envs / learners", c.NormalizeAdvantage && !c.async().Shares()); err != nil {
		return nil, err
	}
	unused, err := Settings.Over(c).Unused(slices.Concat(c.ActorCritic.Switched(), c.Clipping.Switched(), c.VTraceSettings.Switched(), c.Settings.Switched("use_rms_prop", !c.UseRMSProp))...)
	return append(notices, unused...), err
}

// async is the run of learners that the settings ask for.
func (c *Config) async() *async.Config {
	return &async.Config{Settings: c.Settings, Worker: "ppo", Values: Settings.Over(c).Map(), Optimizer: c.Optimizer(), MaxGradNorm: c.MaxGradNorm}
}
