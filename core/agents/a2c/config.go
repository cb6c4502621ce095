package a2c

import (
	"fmt"

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
	VTrace       bool
	VTraceGroups int
	VTraceSteps  int
	VTraceRho    float64
	VTraceC      float64
}

// defaults are Stable-Baselines3's.
var defaults = onpolicy.ActorCritic{LearningRate: 7e-4, NSteps: 5, GAELambda: 1, UseRMSProp: true}

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("a2c", append(
	train.CommonSettings(func(c *Config) *train.Common { return &c.Common }),
	append(onpolicy.Settings(defaults, func(c *Config) *onpolicy.ActorCritic { return &c.ActorCritic }),
		settings.Bool("vtrace", false, "learn from a window of the latest n_steps rounds, one group of environments at a time, with V-trace (Espeholt et al. 2018), as in Dalton et al. 2020", func(c *Config) *bool { return &c.VTrace }),
		settings.Int("vtrace_groups", 1, 1, 65536, "groups of environments; must divide num_envs", func(c *Config) *int { return &c.VTraceGroups }),
		settings.Int("vtrace_steps", 1, 1, nn.MaxRows, "rounds between two updates, each of one group; vtrace_groups * vtrace_steps must divide n_steps, and the quotient is the number of updates that learn from a step", func(c *Config) *int { return &c.VTraceSteps }),
		settings.Float("vtrace_rho", 1, 0, 1e6, "limit of the ratios of probabilities in temporal differences", func(c *Config) *float64 { return &c.VTraceRho }),
		settings.Float("vtrace_c", 1, 0, 1e6, "limit of the ratios of probabilities in the trace", func(c *Config) *float64 { return &c.VTraceC }),
	)...), presets)

// Resolve checks every setting and how they go together.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if err := onpolicy.CheckRows(c.NSteps, c.NumEnvs); err != nil || !c.VTrace {
		return nil, err
	}
	if c.NumEnvs%c.VTraceGroups != 0 {
		return nil, fmt.Errorf("vtrace_groups: %d, must divide num_envs (%d)", c.VTraceGroups, c.NumEnvs)
	}
	if c.VTraceSteps > c.NSteps || c.NSteps%(c.VTraceGroups*c.VTraceSteps) != 0 {
		return nil, fmt.Errorf("vtrace_groups: %d, must times vtrace_steps (%d) divide n_steps (%d)", c.VTraceGroups, c.VTraceSteps, c.NSteps)
	}
	return nil, nil
}

// run is the run that the settings ask for.
func (c *Config) run(s *train.Setup) (onpolicy.Config, error) {
	run, err := c.ActorCritic.Run(&c.Common, s)
	if c.VTrace {
		run.Batch, run.Slide = c.NSteps*c.NumEnvs/c.VTraceGroups, c.VTraceSteps
	}
	return run, err
}
