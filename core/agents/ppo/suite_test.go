package ppo

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// subject is PPO for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{"net_arch_pi": "8", "net_arch_vf": "8", "learning_rate": "0.01", "ent_coef": "0.01", "n_steps": "7", "batch_size": "6", "n_epochs": "3"}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "ppo", Settings: settings, Digests: []string{"rollout", "policy"}, Set: "policy",
		Hook: func(m train.Method, before func()) {
			p := m.(*PPO)
			p.Stepper = &traintest.HookedStepper{Stepper: p.Stepper, Before: before}
		},
		// 65,536 rows through a thousand layers
		Large: []string{"n_steps", "16384", "batch_size", "65536", "net_arch_pi", strings.Repeat("500,", 999) + "500", "trunk", "separate"},
	}
}

// short are the variants that run with -short.
var short = []string{"target_kl, rmsprop", "branches and a box"}

// The suite of every method, with various settings.
func TestSuite(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"defaults":                 {},
		"one minibatch":            {"batch_size": "28", "n_epochs": "1", "normalize_advantage": "false"},
		"values clipped, schedule": {"clip_range_vf": "0.1", "clip_range_vf_largest": "true", "clip_range_schedule": "0:0.3,1:0", "learning_rate_final": "0"},
		"V-trace":                  {"vtrace": "true", "mid_batch_reset": "false"},
		"normalised":               {"normalize_obs": "true", "normalize_reward": "true"},
		"target_kl, rmsprop":       {"target_kl": "0.01", "target_kl_check": "epoch", "use_rms_prop": "true", "trunk": "shared"},
	} {
		t.Run(name, func(t *testing.T) {
			traintest.Short(t, name, short...)
			traintest.Run(t, subject(edit))
		})
	}
	t.Run("action masks", func(t *testing.T) {
		traintest.Short(t, "action masks", short...)
		s := subject(nil)
		s.Masked = true
		traintest.Run(t, s)
	})
	for name, action := range traintest.Actions() {
		t.Run(name, func(t *testing.T) {
			traintest.Short(t, name, short...)
			s := subject(nil)
			s.Action, s.Masked = action, action.Logits() > 0
			traintest.Run(t, s)
		})
	}
}

func TestGoldenCheckpoints(t *testing.T) { traintest.Golden(t, subject(nil)) }

func TestFuzzLoad(t *testing.T) {
	traintest.FuzzLoad(t, subject(nil))
	traintest.FuzzLoad(t, subject(map[string]string{"normalize_obs": "true", "normalize_reward": "true"}))
}

func TestKilledWhileSaving(t *testing.T) { traintest.Kills(t, subject(nil), "TestKilledWhileSaving") }

// A trainer inside an epoch loads a file that was saved inside the epoch of the same number. The
// file has another seed and a hole in its rollout. The trainer goes on with the loaded order.
func TestALoadReplacesAnEpochOfTheSameNumber(t *testing.T) {
	start := func(seed int, fails bool) *train.Trainer {
		c := *Settings.Defaults().Struct().(*Config)
		c.NetArchPi, c.NetArchVf, c.NSteps, c.BatchSize, c.NEpochs, c.NumEnvs, c.Seed = []int{8}, []int{8}, 7, 6, 3, 3, seed
		steps := 0
		tr := must(train.New(configOf(t, c), func(i int) (env.Env, error) {
			e, err := traintest.MakeWalk(seed)(i)
			e.(*traintest.Walk).BeforeStep = func() error {
				if steps++; fails && steps == 5 {
					return traintest.ErrSimulator
				}
				return nil
			}
			return e, err
		}))(t)
		t.Cleanup(func() { check(t, tr.Close()) })
		check(t, tr.Begin(200, 0))
		p := tr.Method().(*PPO)
		hooked := &traintest.HookedStepper{Stepper: p.Stepper, Before: tr.Stop}
		p.Stepper = hooked // Stop is called in the first minibatch
		if err := tr.Run(0, 0); fails != errors.Is(err, traintest.ErrSimulator) {
			t.Fatal(err)
		} else if fails {
			check(t, tr.Run(0, 0))
		}
		hooked.Before = func() {}
		if s := tr.Stats(); s.Updates != 1 {
			t.Fatalf("%+v: not in the middle of an update", s)
		}
		return tr
	}
	for _, c := range []struct {
		seed  int
		fails bool
	}{{1, true}, {2, false}} {
		one, other := start(1, false), start(c.seed, c.fails)
		path := filepath.Join(t.TempDir(), "a")
		check(t, one.Save(path, true))
		check(t, other.Load(path))
		for _, tr := range []*train.Trainer{one, other} {
			check(t, tr.Settle(0)) // after Stop no update is done
			check(t, tr.Run(1, 0))
		}
		if must(one.Hash("policy"))(t) != must(other.Hash("policy"))(t) {
			t.Errorf("%+v: the loaded run goes on with other weights", c)
		}
	}
}

// If an epoch's last minibatches have no step, target_kl is compared with the divergence of an
// earlier minibatch, which a checkpoint holds.
func TestALoadKeepsTheDivergenceOfEarlierMinibatches(t *testing.T) {
	for _, limit := range []float64{1e-5, 1e6} {
		start := func(seed int) (*train.Trainer, *traintest.HookedStepper) {
			c := *Settings.Defaults().Struct().(*Config)
			c.NetArchPi, c.NetArchVf, c.NSteps, c.BatchSize, c.NEpochs, c.NumEnvs, c.Seed = []int{8}, []int{8}, 40, 60, 4, 3, seed
			c.LearningRate, c.MidBatchReset, c.TargetKL, c.TargetKLCheck = 0.01, false, limit, onpolicy.AtEpoch
			tr := must(train.New(configOf(t, c), traintest.MakeWalk(seed)))(t)
			t.Cleanup(func() { check(t, tr.Close()) })
			check(t, tr.Begin(400, 0))
			p := tr.Method().(*PPO)
			hooked := &traintest.HookedStepper{Stepper: p.Stepper, Before: func() {}}
			p.Stepper = hooked
			return tr, hooked
		}
		one, hooked := start(1)
		steps := 0
		hooked.Before = func() {
			if steps++; steps == 2 { // the first minibatch of the second epoch, whose second minibatch is empty
				one.Stop()
			}
		}
		check(t, one.Run(0, 0))
		path := filepath.Join(t.TempDir(), "a")
		check(t, one.Save(path, true))
		fresh, _ := start(2)
		trained, _ := start(3)
		check(t, trained.Run(0, 0))
		trained.Method().(*PPO).latest.divergence = 1e9 // of another update
		want := int64(4)                                // n_epochs
		if limit < 1 {
			want = 2
		}
		for _, tr := range []*train.Trainer{fresh, trained, one} {
			if tr != one {
				check(t, tr.Load(path))
			}
			if s := tr.Stats(); s.Updates != 2 {
				t.Fatalf("%+v: not in the second epoch", s)
			}
			check(t, tr.Run(1, 0))
			if s := tr.Stats(); s.Updates != want {
				t.Errorf("target_kl %g: %d updates, must be %d", limit, s.Updates, want)
			}
		}
		for _, tr := range []*train.Trainer{fresh, trained} {
			if must(one.Hash("policy"))(t) != must(tr.Hash("policy"))(t) {
				t.Errorf("target_kl %g: the loaded run goes on with other weights", limit)
			}
		}
	}
}
