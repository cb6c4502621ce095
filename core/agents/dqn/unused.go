package dqn

import (
	"fmt"
	"strings"

	"github.com/paceline-rl/paceline/core/train"
)

// switched lists settings that are used with some values of another setting only.
var switched = []struct {
	names string
	by    string // the other setting
	used  func(*Config) bool
}{
	{"priority_alpha priority_beta priority_beta_final priority_beta_steps priority_update", "prioritized", func(c *Config) bool { return c.Prioritized != Uniform }},
	{"n_atoms v_min v_max least_prob", "distribution", func(c *Config) bool { return c.Distribution == Categorical }},
	{"n_quantiles", "distribution", func(c *Config) bool { return c.Distribution == Quantile }},
	{"kappa", "distribution", func(c *Config) bool { return c.Distribution == Quantile || c.Distribution == Implicit }},
	{"n_tau n_tau_target n_tau_act n_cosines", "distribution", func(c *Config) bool { return c.Distribution == Implicit }},
	{"munchausen_alpha munchausen_tau munchausen_clip", "munchausen", func(c *Config) bool { return c.Munchausen.Munchausen }},
	{"noisy_sigma", "noisy", func(c *Config) bool { return c.Noisy.Noisy }},
	{"shards rule sync_period adam_time max_staleness latency_step latency_forward latency_gradient latency_pull latency_push latency_file", "learners", func(c *Config) bool { return c.Learners > 0 }},
}

// noticeUnused returns a notice for each setting that has another value than its default and is not
// used.
func (c *Config) noticeUnused() (notices []string, err error) {
	values, defaults := Settings.Over(c), Settings.Defaults()
	get := func(name string) (text string) {
		if err == nil {
			text, err = values.Get(name)
		}
		return text
	}
	for _, s := range switched {
		if s.used(c) {
			continue
		}
		for name := range strings.FieldsSeq(s.names) {
			usual, _ := defaults.Get(name)
			if text := get(name); text != usual {
				notices = append(notices, fmt.Sprintf("%s: %s is not used where %s is %s", name, text, s.by, get(s.by)))
			}
		}
	}
	return notices, err
}

// noticeUnusedLayers tells the user of a setting of layers that the network does not have. The
// policy is resolved.
func (c *Config) noticeUnusedLayers(h *train.Host) {
	if c.DuelingRescaled && c.Policy == train.PolicyMLP && len(c.NetArch) < 2 {
		h.Notify("dueling_rescaled: true is not used where net_arch is %v: no layer is below the streams", c.NetArch)
	}
}
