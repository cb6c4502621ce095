package appo_test

import (
	"maps"
	"strings"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/appo"
	_ "github.com/paceline-rl/paceline/core/agents/ppo"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// subject is APPO for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{"net_arch_pi": "8", "net_arch_vf": "8", "learning_rate": "0.01", "ent_coef": "0.01", "n_steps": "8", "batch_size": "8", "n_epochs": "2", "pull_period": "3"}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "appo", Settings: settings, Digests: []string{"rollout", "policy"}, Set: "policy",
		Hook:  func(m train.Method, before func()) { m.(interface{ HookGradients(func()) }).HookGradients(before) },
		Large: []string{"n_steps", "16384", "batch_size", "65536", "net_arch_pi", strings.Repeat("500,", 999) + "500", "trunk", "separate"},
	}
}

// The suite of every method, with various settings.
func TestSuite(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"one learner, gradient": {"rule": "gradient"},
		"learners, gradient":    {"learners": "2", "rule": "gradient", "pull_period": "0"},
		"learners, overwrite":   {"learners": "2", "rule": "overwrite"},
		"learners":              {"learners": "2"},
		"one learner, mean":     {"rule": "mean", "pull_period": "0"},
		"learners, mean":        {"learners": "2", "rule": "mean", "pull_period": "0", "n_steps": "9"},
		"learners, V-trace":     {"learners": "2", "vtrace": "true"},
		"learners, two steps":   {"learners": "2", "sync_period": "2"},
	} {
		if traintest.Few() && name != "learners" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := subject(edit)
			s.Alone = edit["learners"] != ""
			traintest.Run(t, s)
		})
	}
}
