package a3c_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// subject is A3C for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{"net_arch_pi": "8", "net_arch_vf": "8", "learning_rate": "0.01", "ent_coef": "0.01"}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "a3c", Settings: settings, Digests: []string{"rollout", "policy"}, Set: "policy",
		Hook:  func(m train.Method, before func()) { m.(interface{ HookGradients(func()) }).HookGradients(before) },
		Large: []string{"n_steps", "16384", "net_arch_pi", strings.Repeat("500,", 999) + "500", "trunk", "separate"},
	}
}

// The suite of every method, with various settings.
func TestSuite(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"one learner":          {},
		"learners":             {"learners": "2"},
		"one learner, mean":    {"rule": "mean", "normalize_advantage": "true"},
		"learners, mean":       {"learners": "2", "rule": "mean", "normalize_advantage": "true"},
		"learners, normalised": {"learners": "2", "normalize_obs": "true", "normalize_reward": "true"},
		"learners, V-trace":    {"learners": "2", "vtrace": "true", "n_steps": "8", "vtrace_steps": "2"},
		"learners, overwrite":  {"learners": "2", "rule": "overwrite", "shards": "1", "learning_rate_final": "0"},
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
