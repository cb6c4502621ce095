package a3c_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// cut runs to the end of the run, or with ending also of its rollouts, in calls that a limit cuts.
// The limit grows, because on a slow machine a call may do nothing in a millisecond.
func cut(t *testing.T, tr *train.Trainer, end int64, ending bool, after func()) {
	t.Helper()
	limit := time.Millisecond
	for tr.Stats().Steps < end || ending && unfinished(t, tr) {
		rollouts, steps := int64(0), end-tr.Stats().Steps
		if steps <= 0 {
			rollouts, steps = 1, 1<<20
		}
		traintest.Check(t, tr.RunRollouts(rollouts, steps, limit))
		after()
		limit += limit / 16
	}
}

// state is what a read sees: it settles.
func state(t *testing.T, tr *train.Trainer) string {
	t.Helper()
	hash := traintest.Must(tr.Hash("policy"))(t)
	s := tr.Stats()
	return fmt.Sprint(s.Steps, s.Updates, " ", hash[:12])
}

// A settle that returns without an error has left nothing for the next one.
func TestSettleWithALimitIsWhole(t *testing.T) {
	for _, rule := range []string{"gradient", "mean"} {
		tr := trainer(t, "appo", "env", "CartPole-v1", "num_envs", "4", "learners", "2", "seed", "1", "rule", rule,
			"pull_period", "0", "n_steps", "64", "batch_size", "16", "net_arch_pi", "256,256", "net_arch_vf", "256")
		traintest.Check(t, tr.Begin(256, 0))
		cut(t, tr, 256, false, func() {})
		for limit := time.Millisecond; ; limit += limit / 16 {
			err := tr.Settle(limit)
			if err == nil {
				break
			}
			if !errors.Is(err, fault.ErrTimedOut) {
				t.Fatal(err)
			}
		}
		before := tr.Stats()
		traintest.Check(t, tr.Settle(0))
		if after := tr.Stats(); after.Updates != before.Updates || after.Steps != before.Steps {
			t.Errorf("%s: a further settle goes from %d steps and %d updates to %d and %d",
				rule, before.Steps, before.Updates, after.Steps, after.Updates)
		}
	}
}

// Reads after calls that a limit has cut change nothing that comes later, and a second read sees
// what the first one saw.
func TestReadsAfterALimit(t *testing.T) {
	for _, rule := range []string{"gradient", "overwrite", "mean"} {
		results := map[bool]string{}
		for _, reads := range []bool{false, true} {
			tr := trainer(t, "a3c", "env", "CartPole-v1", "num_envs", "12", "learners", "6", "seed", "16", "n_steps", "8",
				"rule", rule, "net_arch_pi", "256,256", "net_arch_vf", "256")
			traintest.Check(t, tr.Begin(100, 0))
			cut(t, tr, 100, true, func() {
				if !reads {
					return
				}
				if first, second := state(t, tr), state(t, tr); first != second {
					t.Errorf("%s: a second read sees %s, the first one %s", rule, second, first)
				}
			})
			results[reads] = state(t, tr)
		}
		if results[true] != results[false] {
			t.Errorf("%s: with reads %s, without %s", rule, results[true], results[false])
		}
	}
}

// A load ends what a limit has cut.
func TestLoadAfterALimit(t *testing.T) {
	made := func() *train.Trainer {
		return trainer(t, "a3c", "env", "CartPole-v1", "num_envs", "12", "learners", "6", "seed", "16", "n_steps", "8",
			"net_arch_pi", "256,256", "net_arch_vf", "256")
	}
	tr, path := made(), filepath.Join(t.TempDir(), "checkpoint")
	traintest.Check(t, tr.Begin(100, 0))
	traintest.Check(t, tr.Run(96, 0))
	traintest.Check(t, tr.Save(path, true))
	results := make([]string, 2)
	for i, limited := range []bool{false, true} {
		tr := made()
		if limited {
			traintest.Check(t, tr.Begin(100, 0))
			cut(t, tr, 100, false, func() {})
			traintest.Check(t, tr.RunRollouts(1, 1<<20, time.Millisecond))
		}
		traintest.Check(t, tr.Load(path))
		traintest.Check(t, tr.Settle(0))
		traintest.Check(t, tr.Begin(300, 0))
		traintest.Check(t, tr.Run(300, 0))
		results[i] = state(t, tr)
	}
	if results[0] != results[1] {
		t.Errorf("after a run that was cut: %s, want %s", results[1], results[0])
	}
}
