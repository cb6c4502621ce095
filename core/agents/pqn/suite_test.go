package pqn

import (
	"maps"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// subject is PQN for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{"net_arch": "8", "learning_rate": "0.01", "n_steps": "7", "batch_size": "6", "n_epochs": "3", "exploration_fraction": "0.5"}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "pqn", Settings: settings, Digests: []string{"rollout", "policy"}, Set: "policy",
		Hook: func(m train.Method, before func()) {
			p := m.(*PQN)
			p.Stepper = &traintest.HookedStepper{Stepper: p.Stepper, Before: before}
		},
		// 65,536 rows through a thousand layers
		Large: []string{"n_steps", "16384", "batch_size", "65536", "net_arch", strings.Repeat("500,", 999) + "500"},
	}
}

// The suite of every method, with various settings.
func TestSuite(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"as it is":              {},
		"one minibatch":         {"batch_size": "28", "n_epochs": "1", "layer_norm": "all", "init": "orthogonal"},
		"one step, no norm":     {"q_lambda": "0", "layer_norm": "none", "learning_rate_final": "0", "init": "uniform"},
		"all steps, no epsilon": {"q_lambda": "1", "exploration_initial_eps": "0", "exploration_final_eps": "0", "activation_fn": "tanh"},
	} {
		t.Run(name, func(t *testing.T) {
			traintest.Short(t, name, "as it is", "one step, no norm")
			traintest.Run(t, subject(edit))
		})
	}
}

func TestGoldenCheckpoints(t *testing.T) { traintest.Golden(t, subject(nil)) }

func TestFuzzLoad(t *testing.T) { traintest.FuzzLoad(t, subject(nil)) }

func TestKilledWhileSaving(t *testing.T) { traintest.Kills(t, subject(nil), "TestKilledWhileSaving") }
