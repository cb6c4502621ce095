package ga3c_test

import (
	"maps"
	"strings"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/ga3c"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// subject is GA3C for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{"net_arch_pi": "8", "net_arch_vf": "8", "learning_rate": "0.01", "ent_coef": "0.01", "rms_prop_eps": "0.01"}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "ga3c", Settings: settings, Digests: []string{"segments", "policy"}, Set: "policy", Alone: true,
		Hook:  func(m train.Method, before func()) { m.(interface{ BeforeUpdates(func()) }).BeforeUpdates(before) },
		Large: []string{"n_steps", "16384", "net_arch_pi", strings.Repeat("500,", 999) + "500", "trunk", "separate"},
	}
}

// The suite of every method, with various settings.
func TestSuite(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"defaults":                 {},
		"one of each":              {"predictors": "1", "trainers": "1", "loss_reduction": "mean"},
		"joined segments, waiting": {"min_training_batch": "12", "training_queue": "12", "wait_for_update": "true", "regulariser": "authors", "normalize_advantage": "true"},
		"tuner":                    {"tuner": "ladder", "tuner_period": "0.08", "tuner_pairs": "2", "tuner_start": "2,1,3", "latency_device": "2", "latency_cores": "3"},
		"V-trace":                  {"vtrace": "true", "vtrace_rho": "0.9", "min_training_batch": "3"},
		"small queues":             {"prediction_queue": "2", "prediction_batch_max": "1", "training_queue": "1", "trainers": "1", "latency_update": "0.02"},
	} {
		if traintest.Few() && name != "defaults" {
			continue
		}
		t.Run(name, func(t *testing.T) { traintest.Run(t, subject(edit)) })
	}
}

func TestSuiteWithMasks(t *testing.T) {
	traintest.Short(t, "masks") // TestSuiteOfActions has masks
	s := subject(map[string]string{"min_training_batch": "3"})
	s.Masked = true
	traintest.Run(t, s)
}

// The suite with actions of several branches or a box.
func TestSuiteOfActions(t *testing.T) {
	for name, action := range traintest.Actions() {
		t.Run(name, func(t *testing.T) {
			s := subject(nil)
			s.Action, s.Masked = action, action.Logits() > 0
			traintest.Run(t, s)
		})
	}
}

func TestFuzzLoad(t *testing.T) {
	traintest.FuzzLoad(t, subject(nil))
	traintest.FuzzLoad(t, subject(map[string]string{"tuner": "ladder", "tuner_period": "0.08", "tuner_pairs": "2", "tuner_start": "2,1,3", "latency_device": "2"}))
}

func TestKilledWhileSaving(t *testing.T) { traintest.Kills(t, subject(nil), "TestKilledWhileSaving") }
