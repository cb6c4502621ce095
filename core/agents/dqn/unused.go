package dqn

import (
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
)

// switched lists settings that are used with some values of another setting only.
func (c *Config) switched() []settings.Switched {
	learners := c.Learners > 0
	list := []settings.Switched{
		{Names: "priority_alpha priority_beta priority_beta_final priority_beta_steps priority_update", By: "prioritized", Used: c.Prioritized != Uniform},
		{Names: "n_atoms v_min v_max least_prob", By: "distribution", Used: c.Distribution == Categorical},
		{Names: "n_quantiles", By: "distribution", Used: c.Distribution == Quantile},
		{Names: "kappa", By: "distribution", Used: c.Distribution == Quantile || c.Distribution == Implicit},
		{Names: "n_tau n_tau_target n_tau_act n_cosines", By: "distribution", Used: c.Distribution == Implicit},
		{Names: "munchausen_alpha munchausen_tau munchausen_clip", By: "munchausen", Used: c.Munchausen.Munchausen},
		{Names: "exploration_fraction", By: "exploration_steps", Used: c.ExplorationSteps == 0},
		{Names: "noisy_sigma", By: "noisy", Used: c.Noisy.Noisy},
		{Names: "shards rule sync_period adam_time max_staleness " + async.LatencyNames, By: "learners", Used: learners},
	}
	if learners {
		list = append(list, c.Settings.Switched("optimizer", c.Optimizer == "adam")...)
	}
	return list
}

// noticeUnused returns a notice for each setting that has another value than its default and is not
// used.
func (c *Config) noticeUnused() (notices []string, err error) {
	return Settings.Over(c).Unused(c.switched()...)
}

// noticeUnusedLayers tells the user of a setting of layers that the network does not have. The
// policy is resolved.
func (c *Config) noticeUnusedLayers(h *train.Monitor) {
	if c.DuelingRescaled && c.Policy == train.PolicyMLP && len(c.NetArch) < 2 {
		h.Notify("dueling_rescaled: true is not used where net_arch is %v: no layer is below the streams", c.NetArch)
	}
}
