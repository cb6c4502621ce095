package dqn

import (
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func TestUnusedSettingsAreNoticed(t *testing.T) {
	changed := map[string]string{
		"priority_alpha": "0.9", "priority_beta": "0.9", "priority_beta_final": "0.9", "priority_beta_steps": "9", "priority_update": "window",
		"n_atoms": "11", "v_min": "-1", "v_max": "1", "least_prob": "0.1", "n_quantiles": "9", "kappa": "2", "n_tau": "9", "n_tau_target": "9", "n_tau_act": "9", "n_cosines": "9",
		"munchausen_alpha": "0.8", "munchausen_tau": "0.1", "munchausen_clip": "-2", "noisy_sigma": "0.1",
		"exploration_fraction": "0.5",
		"shards":               "7", "rule": "mean", "sync_period": "2", "adam_time": "local", "max_staleness": "1",
		"latency_step": "0.1", "latency_forward": "0.1", "latency_gradient": "0.1", "latency_pull": "0.1", "latency_push": "0.1", "latency_file": "durations.json",
	}
	on := map[string]func(*Config){
		"prioritized":  func(c *Config) { c.Prioritized = "cule" },
		"distribution": nil, // each below
		"munchausen":   func(c *Config) { c.Munchausen.Munchausen = true },
		"noisy":        func(c *Config) { c.Noisy.Noisy = true },
		"learners":     func(c *Config) { c.Learners, c.Rule = 1, param.RuleMultiStepAdam },

		"exploration_steps": func(c *Config) { c.ExplorationSteps = 0 },
	}
	distribution := func(name string) string {
		switch {
		case strings.HasPrefix(name, "n_tau") || name == "n_cosines":
			return Implicit
		case name == "n_quantiles" || name == "kappa":
			return Quantile
		}
		return Categorical
	}
	said := func(name string, edit func(*Config)) (notices []string) {
		c := cartpole(edit)
		check(t, Settings.Over(&c).Set(name, changed[name]))
		for _, notice := range must(c.Resolve())(t) {
			if strings.HasPrefix(notice, name+": ") {
				notices = append(notices, notice)
			}
		}
		return notices
	}
	var names []string
	c := cartpole(func(*Config) {})
	for _, s := range c.switched() {
		off := map[string]string{"prioritized": "none", "distribution": "none", "learners": "0", "exploration_steps": "1000"}[s.By]
		if off == "" {
			off = "false"
		}
		for name := range strings.FieldsSeq(s.Names) {
			names = append(names, name)
			want := []string{name + ": " + changed[name] + " is not used where " + s.By + " is " + off}
			if got := said(name, func(*Config) {}); !slices.Equal(got, want) {
				t.Errorf("%s: %q, must be %q", name, got, want)
			}
			edit := on[s.By]
			if edit == nil {
				edit = func(c *Config) { c.Distribution = distribution(name) }
			}
			if got := said(name, edit); got != nil {
				t.Errorf("%s is used, and there is a notice: %q", name, got)
			}
		}
	}
	want := []string{"latency_step: 0.1 is not used where schedule is race"}
	if got := said("latency_step", func(c *Config) { c.Learners, c.Rule, c.Schedule = 1, param.RuleMultiStepAdam, "race" }); !slices.Equal(got, want) {
		t.Errorf("%q, must be %q", got, want)
	}
	want = []string{"adam_time: local is not used where optimizer is rmsprop"}
	if got := said("adam_time", func(c *Config) { c.Learners, c.Rule, c.Optimizer = 1, param.RuleGradient, "rmsprop" }); !slices.Equal(got, want) {
		t.Errorf("%q, must be %q", got, want)
	}
	if len(names) != len(changed) {
		t.Errorf("%d settings with a switch, must be %d", len(names), len(changed))
	}
}

// With fewer than two widths no gradient flows from the streams into a layer.
func TestUnusedRescalingIsNoticed(t *testing.T) {
	for _, c := range []struct {
		arch     []int
		learners int
		want     string
	}{
		{nil, 0, "dueling_rescaled: true is not used where net_arch is []: no layer is below the streams"},
		{[]int{16}, 0, "dueling_rescaled: true is not used where net_arch is [16]: no layer is below the streams"},
		{[]int{16}, 2, "dueling_rescaled: true is not used where net_arch is [16]: no layer is below the streams"},
		{[]int{16, 12}, 0, ""},
	} {
		d := traintest.NewTrainer(t, trainConfig(cartpole(func(to *Config) {
			to.NetArch, to.Learners, to.Dueling, to.DuelingRescaled = c.arch, c.learners, true, true
		})), nil)
		if c.learners > 0 {
			check(t, d.Run(200, 0))
		}
		if said := must(d.Notice())(t); said != c.want {
			t.Errorf("net_arch %v, %d learners: %q, must be %q", c.arch, c.learners, said, c.want)
		}
		if said := must(d.Notice())(t); said != "" {
			t.Errorf("said again: %q", said)
		}
	}
}

// A run that is loaded without the formula it was saved with gets no notice about numbers that the
// formula has filled in.
func TestExponentsOfAFormulaAreDropped(t *testing.T) {
	for _, formula := range replay.FormulaNames {
		c := cartpole(func(c *Config) { c.Prioritized = formula })
		must(c.Resolve())(t)
		c.Prioritized = Uniform
		if notices := must(c.Resolve())(t); slices.ContainsFunc(notices, func(s string) bool { return strings.Contains(s, "priority_") }) {
			t.Errorf("%s: %q", formula, notices)
		}
		if c.Alpha == c.Alpha || c.BetaSteps != 0 {
			t.Errorf("%s: priority_alpha %v, priority_beta_steps %d", formula, c.Alpha, c.BetaSteps)
		}
	}
}
