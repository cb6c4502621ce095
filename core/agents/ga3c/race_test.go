package ga3c_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// walks makes a trainer of walks, of which one step in eight takes longer.
func walks(t testing.TB, edits ...string) *train.Trainer {
	t.Helper()
	cfg := traintest.Must(train.NewConfig("ga3c"))(t)
	for i := 0; i < len(edits); i += 2 {
		traintest.Check(t, cfg.Set(edits[i], edits[i+1]))
	}
	mk := traintest.MakeWalk(cfg.Common().Seed)
	return traintest.NewTrainer(t, cfg, func(i int) (env.Env, error) {
		e, err := mk(i)
		if err == nil {
			n := i
			e.(*traintest.Walk).BeforeStep = func() error {
				if n = (7*n + 3) % 8; n == 0 {
					time.Sleep(time.Microsecond)
				}
				return nil
			}
		}
		return e, err
	})
}

// A race that was recorded is repeated bit for bit, in other slices and on any number of threads,
// also if the race was stopped, saved and continued anywhere.
func TestRaceRepeats(t *testing.T) {
	results := map[string]bool{}
	for seed := range traintest.Times(40, 8) {
		r := rand.New(rand.NewPCG(6, uint64(seed)))
		edits := append(randomSettings(r), "seed", "5", "num_envs", fmt.Sprint(2+r.IntN(5)))
		if seed%4 == 3 { // to compare races with one another
			edits = append(edits, "predictors", "2", "trainers", "2", "num_envs", "6", "n_steps", "3", "min_training_batch", "1", "num_threads", "3", "regulariser", "paper")
		}
		path := filepath.Join(t.TempDir(), "race")
		race := append(edits, "schedule", "race")
		tr := walks(t, race...)
		const steps = 400
		traintest.Check(t, tr.Begin(steps, 0))
		for seed%2 == 0 && tr.Stats().Steps < steps {
			traintest.Check(t, tr.Run(min(1+r.Int64N(100), steps-tr.Stats().Steps), time.Duration(r.IntN(2000))*time.Microsecond))
			if r.IntN(2) == 0 {
				traintest.Check(t, tr.Save(path, true))
				next := walks(t, race...)
				traintest.Check(t, next.Load(path))
				tr = next
			}
		}
		if tr.Stats().Steps < steps {
			traintest.Check(t, tr.Run(0, 0))
		}
		want, _, _ := strings.Cut(digests(t, tr), " NaN")
		traintest.Check(t, tr.Save(path, true))
		order := path + ".order"
		traintest.Check(t, tr.SaveOrder(order))
		for k, from := range []string{path, order} {
			again := walks(t, append(edits, "schedule", "recorded", "order", from, "num_threads", fmt.Sprint(1+2*k))...)
			traintest.Check(t, again.Begin(steps, 0))
			for at := again.Stats().Steps; at < tr.Stats().Steps; at = again.Stats().Steps {
				n := tr.Stats().Steps - at
				if k == 1 {
					n = min(n, 1+r.Int64N(150))
				}
				traintest.Check(t, again.Run(n, 0))
				if k == 1 && r.IntN(3) == 0 {
					traintest.Check(t, again.Save(path, true))
					next := walks(t, append(edits, "schedule", "recorded", "order", path)...) // the checkpoint has the order
					traintest.Check(t, next.Load(path))
					again = next
				}
			}
			if got, _, _ := strings.Cut(digests(t, again), " NaN"); got != want {
				t.Fatalf("seed %d, %v: %s, the race %s", seed, edits, got, want)
			}
			if k == 1 {
				traintest.Check(t, again.SaveOrder(path))
				a, b := traintest.Must(os.ReadFile(path))(t), traintest.Must(os.ReadFile(order))(t)
				if !bytes.Equal(a, b) {
					t.Error("the order that is repeated is another one")
				}
			}
			err := again.Run(1_000_000, 0)
			if err == nil || !strings.Contains(err.Error(), "order: ends at step ") {
				t.Errorf("after the end of the order: %v", err)
			}
		}
		if seed%4 == 3 {
			results[want] = true
		}
	}
	if len(results) < 2 {
		t.Error("all races are equal: the test shows nothing")
	}
}

// The repetition of a race that was interrupted ends where the race ended: nothing begins after it.
func TestRecordOfAnInterruptedRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order")
	for seed := range 10 {
		edits := []string{"num_envs", "5", "seed", fmt.Sprint(seed), "net_arch_pi", "4", "net_arch_vf", "4"}
		race := walks(t, append(edits, "schedule", "race")...)
		traintest.Check(t, race.Begin(1_000_000, 0))
		for range 1 + seed%3 { // an interruption in the middle is passed over
			traintest.Check(t, race.Run(1_000_000, 3*time.Millisecond))
		}
		traintest.Check(t, race.SaveOrder(path))
		again := walks(t, append(edits, "schedule", "recorded", "order", path)...)
		traintest.Check(t, again.Begin(1_000_000, 0))
		for range 2 {
			if err := again.Run(1_000_000, 0); err == nil || !strings.Contains(err.Error(), "order: ends at step ") {
				t.Fatalf("after the end of the order: %v", err)
			}
		}
		got, want := again.Stats(), race.Stats()
		if got.Steps != want.Steps || got.Episodes != want.Episodes || got.Updates != want.Updates || digests(t, again) != digests(t, race) {
			t.Errorf("seed %d: %d steps, %d episodes, the race %d and %d", seed, got.Steps, got.Episodes, want.Steps, want.Episodes)
		}
	}
}

// A race that continues a repeated order in its middle has the events that were repeated, and no
// later ones.
func TestRaceContinuesARecord(t *testing.T) {
	edits := []string{"num_envs", "3", "seed", "2", "net_arch_pi", "4", "net_arch_vf", "4"}
	path := filepath.Join(t.TempDir(), "run")
	tr := walks(t, append(edits, "schedule", "race")...)
	traintest.Check(t, tr.Begin(300, 0))
	traintest.Check(t, tr.Run(200, 0))
	traintest.Check(t, tr.SaveOrder(path))
	tr = walks(t, append(edits, "schedule", "recorded", "order", path)...)
	traintest.Check(t, tr.Begin(300, 0))
	traintest.Check(t, tr.Run(100, 0))
	traintest.Check(t, tr.Save(path, true))
	tr = walks(t, append(edits, "schedule", "race")...)
	traintest.Check(t, tr.Load(path))
	traintest.Check(t, tr.Run(100, 0))
	steps, want := tr.Stats().Steps, digests(t, tr)
	traintest.Check(t, tr.SaveOrder(path))
	tr = walks(t, append(edits, "schedule", "recorded", "order", path)...)
	traintest.Check(t, tr.Begin(300, 0))
	traintest.Check(t, tr.Run(steps, 0))
	want, _, _ = strings.Cut(want, " NaN")
	if got, _, _ := strings.Cut(digests(t, tr), " NaN"); got != want {
		t.Errorf("%s, the race %s", got, want)
	}
}

// A race that continues a run whose order is not known has no order.
func TestRaceWithoutAnOrder(t *testing.T) {
	edits := []string{"num_envs", "3", "seed", "2", "net_arch_pi", "4", "net_arch_vf", "4"}
	path := filepath.Join(t.TempDir(), "run")
	for _, c := range []struct {
		schedule   string
		experience bool
	}{{"race", false}, {"virtual", true}} {
		tr := walks(t, append(edits, "schedule", c.schedule)...)
		traintest.Check(t, tr.Run(100, 0))
		traintest.Check(t, tr.Save(path, c.experience))
		tr = walks(t, append(edits, "schedule", "race")...)
		traintest.Check(t, tr.Load(path))
		traintest.Check(t, tr.Run(100, 0))
		want := "order: not recorded in a race that continues a checkpoint without an order, must continue a race that was saved with its experience"
		if err := tr.SaveOrder(path); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// A run that continues a checkpoint without its experience does not repeat the order, which begins
// at step 0. With the experience it does, and a new run does.
func TestOrderBeginsElsewhere(t *testing.T) {
	edits := []string{"num_envs", "3", "seed", "2", "net_arch_pi", "4", "net_arch_vf", "4"}
	path := filepath.Join(t.TempDir(), "run")
	race := walks(t, append(edits, "schedule", "race")...)
	traintest.Check(t, race.Run(200, 0))
	traintest.Check(t, race.SaveOrder(path+".order"))
	traintest.Check(t, race.Save(path, false))
	load := func() *train.Trainer {
		tr := walks(t, append(edits, "schedule", "recorded", "order", path+".order")...)
		traintest.Check(t, tr.Load(path))
		return tr
	}
	tr := load()
	before := digests(t, tr)
	want := fmt.Sprintf("order: begins at step 0, the run is at step %d: must be a checkpoint with the experience of the run, or another schedule", race.Stats().Steps)
	for _, n := range []int64{50, 500} {
		if err := tr.Run(n, 0); err == nil || err.Error() != want {
			t.Errorf("%d steps: %v, want %q", n, err, want)
		}
	}
	if after := digests(t, tr); after != before {
		t.Errorf("a refused run has changed %s to %s", before, after)
	}
	tr = load()
	traintest.Check(t, tr.Begin(200, train.ResetTimesteps|train.ResetEnvs))
	traintest.Check(t, tr.Run(200, 0))
	traintest.Check(t, tr.Save(path, true))
	traintest.Check(t, load().Run(0, 0))
}

// Files that are no order of this run are refused.
func TestOrdersAreRefused(t *testing.T) {
	edits := []string{"num_envs", "3", "seed", "2", "net_arch_pi", "4", "net_arch_vf", "4"}
	dir := t.TempDir()
	path, other := filepath.Join(dir, "order"), filepath.Join(dir, "other")
	tr := walks(t, append(edits, "schedule", "race")...)
	traintest.Check(t, tr.Run(200, 0))
	traintest.Check(t, tr.SaveOrder(path))
	text := traintest.Must(os.ReadFile(path))(t)
	make := func(text []byte, more ...string) error {
		traintest.Check(t, os.WriteFile(other, text, 0o600))
		cfg := traintest.Must(train.NewConfig("ga3c"))(t)
		for list, i := append(append(edits, "schedule", "recorded", "order", other), more...), 0; i < len(list); i += 2 {
			traintest.Check(t, cfg.Set(list[i], list[i+1]))
		}
		tr, err := train.New(cfg, traintest.MakeWalk(2))
		if err == nil {
			err = errors.Join(tr.Run(200, 0), tr.Close())
		}
		return err
	}
	traintest.Check(t, make(text))
	traintest.Check(t, make(text, "num_threads", "1", "groups", "2", "stats_window_size", "7", "latency_step", "1", "tuner_test", "2"))
	for n := 0; n < len(text); n += 1 + n/40 {
		if err := make(text[:n]); err == nil || !strings.Contains(err.Error(), "order: ") {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	damaged := bytes.Replace(text, []byte("learning_rate"), []byte("learning_rata"), 1)
	if err := make(damaged); err == nil || !strings.Contains(err.Error(), "damaged: ") {
		t.Errorf("a changed byte: %v", err)
	}
	old := bytes.Replace(text, []byte("order 3"), []byte("order 2"), 1)
	if err := make(old); err == nil || !strings.HasSuffix(err.Error(), "version 2, must be 3; the race must be recorded again") {
		t.Errorf("another version: %v", err)
	}
	for _, c := range [][]string{ // a setting, its values in the record and in the run
		{"num_envs", "3", "4"},
		{"predictors", "2", "1"},
		{"trainers", "2", "5"},
		{"seed", "2", "3"},
		{"learning_rate", "0.0003", "0.0004"},
		{"n_steps", "5", "6"},
		{"prediction_batch_max", "128", "2"},
		{"min_training_batch", "1", "2"},
		{"net_arch_pi", "4", "5"},
		{"regulariser", "paper", "authors"},
		{"tuner", "none", "paper"},
		{"env_options", "", `{"a":1}`},
		{"precision", "fp32", "bf16"},
	} {
		want := fmt.Sprintf("%s: the record has %q, this run has %q", c[0], c[1], c[2])
		if err := make(text, c[0], c[2]); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, must end with %q", err, want)
		}
	}
	if err := walks(t, edits...).SaveOrder(path); err == nil || !strings.Contains(err.Error(), "must be schedule race or recorded") {
		t.Errorf("a virtual order: %v", err)
	}
}

// The guarantees of every method that do not need one result hold in a race.
func TestRaceFails(t *testing.T) {
	for _, where := range []string{"step", "reset"} {
		r := rand.New(rand.NewPCG(8, 8))
		var all []*traintest.Walk
		cfg := traintest.Must(train.NewConfig("ga3c"))(t)
		for name, value := range map[string]string{"num_envs": "4", "seed": "7", "schedule": "race", "num_threads": "1", "net_arch_pi": "4", "net_arch_vf": "4"} {
			traintest.Check(t, cfg.Set(name, value))
		}
		on := false
		tr := traintest.NewTrainer(t, cfg, func(i int) (env.Env, error) {
			e, err := traintest.MakeWalk(7)(i)
			w := e.(*traintest.Walk)
			fail := func() error {
				if on && r.IntN(10) == 0 {
					return traintest.ErrSimulator
				}
				return nil
			}
			if where == "step" {
				w.BeforeStep = fail
			} else {
				w.BeforeReset = fail
			}
			all = append(all, w)
			return e, err
		})
		traintest.Check(t, tr.Begin(500, 0))
		traintest.Check(t, tr.Run(1, 0))
		on = true
		failures := 0
		for tr.Stats().Steps < 500 {
			var e *env.Error
			if err := tr.Run(0, 0); errors.As(err, &e) {
				failures++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		taken := int64(0)
		for _, w := range all {
			taken += w.Taken.Load()
		}
		if st := tr.Stats(); failures < 3 || st.Steps != taken {
			t.Errorf("%s: %d failures; %d steps counted, the environments took %d", where, failures, st.Steps, taken)
		}
	}
}

// A race may continue another one with other settings. Its record says so, and is repeated by no
// run.
func TestRacesWithOtherSettings(t *testing.T) {
	edits := []string{"num_envs", "3", "seed", "2", "net_arch_pi", "4", "net_arch_vf", "4"}
	path := filepath.Join(t.TempDir(), "race")
	tr := walks(t, append(edits, "schedule", "race")...)
	traintest.Check(t, tr.Run(100, 0))
	traintest.Check(t, tr.Save(path, true))
	next := walks(t, append(edits, "schedule", "race", "learning_rate", "0.01")...)
	traintest.Check(t, next.Load(path))
	traintest.Check(t, next.Run(100, 0))
	traintest.Check(t, next.Save(path, true))
	cfg := next.Config()
	traintest.Check(t, cfg.Set("schedule", "recorded"))
	traintest.Check(t, cfg.Set("order", path))
	_, err := train.New(cfg, traintest.MakeWalk(2))
	if want := `learning_rate: the record has "0.0003, then 0.01", this run has "0.01"`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, must end with %q", err, want)
	}
}
