package ga3c_test

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/ga3c"
	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// subject is GA3C for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{"net_arch_pi": "8", "net_arch_vf": "8", "learning_rate": "0.01", "ent_coef": "0.01", "rms_prop_eps": "0.01"}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "ga3c", Settings: settings, Digests: []string{"segments", "policy"}, Set: "policy", Alone: true,
		Hook:  func(m train.Method, before func()) { m.(interface{ HookGradients(func()) }).HookGradients(before) },
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

// pushed makes a host of walks.
func pushed(t *testing.T, mode vec.Autoreset, edits map[string]string, change func(w *traintest.Walk)) *traintest.Host {
	t.Helper()
	c := traintest.Must(train.NewConfig("ga3c"))(t)
	for name, value := range subject(edits).Settings {
		traintest.Check(t, c.Set(name, value))
	}
	h := traintest.NewHost(t, c, mode, func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(7)(i)
		change(e.(*traintest.Walk))
		return e, err
	})
	h.Begin(t, 100_000)
	return h
}

// Where the host steps, Act returns the error of a prediction that fails, and no action. With other
// parameters the rounds go on.
func TestPredictionsThatFail(t *testing.T) {
	for _, schedule := range []string{"virtual", "race"} { // without an update, whose loss would not be finite either
		inf := float32(math.Inf(1))
		h := pushed(t, vec.SameStep, map[string]string{"num_envs": "5", "prediction_batch_max": "2", "min_training_batch": "100", "schedule": schedule}, func(w *traintest.Walk) {
			w.Action = env.ActionSpec{Low: []float32{-inf}, High: []float32{inf}}
		})
		h.Round(t)
		good := make([]float32, h.Trainer.ParameterSets()[0].Size)
		traintest.Must(h.Trainer.GetParameters("policy", good))(t)
		for range 3 {
			traintest.Check(t, h.Trainer.SetParameters("policy", slices.Repeat([]float32{3e38}, len(good))))
			for range 2 {
				var e *env.Error
				if err := h.Act(); !errors.As(err, &e) || !errors.Is(err, fault.ErrNotFinite) {
					t.Fatalf("%s: %v", schedule, err)
				}
			}
			traintest.Check(t, h.Trainer.SetParameters("policy", good))
			for range 20 {
				h.Round(t)
			}
		}
	}
}

// After a loss that is not finite, no segment that was in progress makes another one.
func TestOneRepairIsEnough(t *testing.T) {
	for _, schedule := range []string{"virtual", "race"} {
		var walks []*traintest.Walk
		edits := map[string]string{"num_envs": "4", "n_steps": "20", "schedule": schedule}
		h := pushed(t, vec.SameStep, edits, func(w *traintest.Walk) { walks = append(walks, w) })
		c := h.Trainer.Config()
		own := traintest.NewTrainer(t, c, func(i int) (env.Env, error) {
			e, err := traintest.MakeWalk(7)(i)
			walks = append(walks, e.(*traintest.Walk))
			return e, err
		})
		traintest.Check(t, own.Begin(100_000, 0))
		for tr, run := range map[*train.Trainer]func() error{
			own: func() error { return own.Run(500, 0) },
			h.Trainer: func() error {
				for range 125 {
					if err := h.Act(); err != nil {
						return err
					}
					traintest.Check(t, h.Vec.Step(h.Actions, h.Rows))
					traintest.Check(t, h.Observe())
				}
				return nil
			},
		} {
			traintest.Check(t, run())
			good := make([]float32, tr.ParameterSets()[0].Size)
			traintest.Must(tr.GetParameters("policy", good))(t)
			for _, w := range walks {
				w.Scale = 1e38
			}
			err := run()
			for k := 0; k < 10 && err == nil; k++ { // a race may take many steps before an update
				err = run()
			}
			if !errors.Is(err, fault.ErrNotFinite) {
				t.Fatalf("%s: %v", schedule, err)
			}
			for _, w := range walks {
				w.Scale = 0
			}
			traintest.Check(t, tr.SetParameters("policy", good))
			if err := run(); err != nil {
				t.Errorf("%s: %v", schedule, err)
			}
		}
	}
}

// Where the host steps, trainers wait for min_training_batch steps, too, unless an agent waits for
// them.
func TestHostsAgentsWaitForTheTrainingBatch(t *testing.T) {
	for _, mode := range []vec.Autoreset{vec.SameStep, vec.NextStep} {
		for wait, least := range map[string]float64{"false": 40, "true": 1} {
			h := pushed(t, mode, map[string]string{"num_envs": "8", "min_training_batch": "40", "wait_for_update": wait}, func(*traintest.Walk) {})
			for range 100 {
				h.Round(t)
			}
			if rows := traintest.Metric(t, h.Trainer, "ga3c/training_batch"); !(rows >= least) {
				t.Errorf("wait_for_update %s: %v steps an update, must be at least %v", wait, rows, least)
			}
		}
	}
}

func TestGroupsAreUnused(t *testing.T) {
	tr := walks(t, "num_envs", "4", "groups", "2")
	if said := traintest.Must(tr.Notice())(t); said != "groups: 2, where each agent steps by itself, changes nothing" {
		t.Errorf("%q", said)
	}
}
