package a2c

import (
	"maps"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// subject is A2C for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{"net_arch_pi": "8", "net_arch_vf": "8", "learning_rate": "0.01", "ent_coef": "0.01"}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "a2c", Settings: settings, Digests: []string{"rollout", "policy"}, Set: "policy",
		Hook: func(m train.Method, before func()) {
			a := m.(*A2C)
			a.Stepper = &traintest.HookedStepper{Stepper: a.Stepper, Before: before}
		},
		// 65,536 rows through a thousand layers
		Large: []string{"n_steps", "16384", "net_arch_pi", strings.Repeat("500,", 999) + "500", "trunk", "separate"},
	}
}

// short are the variants that run with -short.
var short = []string{"V-trace, resets during the update", "branches and a box, V-trace true"}

// The suite of every method, with various settings.
func TestSuite(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"resets during the update":          {"mid_batch_reset": "false"},
		"defaults":                          {},
		"lambda, normalize":                 {"gae_lambda": "0.95", "normalize_advantage": "true", "n_steps": "7"},
		"adam, one trunk":                   {"use_rms_prop": "false", "trunk": "shared", "activation_fn": "relu", "ortho_init": "false"},
		"every round":                       {"n_steps": "1", "learning_rate_final": "0", "rms_prop_eps_inside": "true", "rms_prop_first": "1"},
		"V-trace":                           {"vtrace": "true", "n_steps": "8", "vtrace_groups": "2", "vtrace_steps": "2"},
		"V-trace, resets during the update": {"vtrace": "true", "n_steps": "8", "vtrace_groups": "2", "vtrace_steps": "2", "mid_batch_reset": "false"},
		"normalised":                        {"normalize_obs": "true", "normalize_reward": "true"},
		"observations normalised, resets during the update": {"normalize_obs": "true", "mid_batch_reset": "false"},
		"V-trace, rewards normalised":                       {"normalize_reward": "true", "vtrace": "true", "n_steps": "4"},
	} {
		t.Run(name, func(t *testing.T) {
			traintest.Short(t, name, short...)
			traintest.Run(t, subject(edit))
		})
	}
	for name, edit := range map[string]map[string]string{"action masks": {}, "action masks, V-trace": {"vtrace": "true", "n_steps": "4"}} {
		t.Run(name, func(t *testing.T) {
			traintest.Short(t, name, short...)
			s := subject(edit)
			s.Masked = true
			traintest.Run(t, s)
		})
	}
	for name, action := range traintest.Actions() {
		for _, vtrace := range []string{"false", "true"} {
			name := name + ", V-trace " + vtrace
			t.Run(name, func(t *testing.T) {
				traintest.Short(t, name, short...)
				s := subject(map[string]string{"vtrace": vtrace, "n_steps": "4"})
				s.Action, s.Masked = action, action.Logits() > 0
				traintest.Run(t, s)
			})
		}
	}
}

func TestGoldenCheckpoints(t *testing.T) { traintest.Golden(t, subject(nil)) }

func TestFuzzLoad(t *testing.T) {
	traintest.FuzzLoad(t, subject(nil))
	traintest.FuzzLoad(t, subject(map[string]string{"normalize_obs": "true", "normalize_reward": "true"}))
}

func TestKilledWhileSaving(t *testing.T) { traintest.Kills(t, subject(nil), "TestKilledWhileSaving") }
