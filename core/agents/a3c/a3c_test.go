package a3c_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/a2c"
	_ "github.com/paceline-rl/paceline/core/agents/a3c"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// trainer makes a trainer with settings, given as names and values.
func trainer(t *testing.T, method string, edits ...string) *train.Trainer {
	t.Helper()
	cfg := traintest.Must(train.NewConfig(method))(t)
	for i := 0; i < len(edits); i += 2 {
		traintest.Check(t, cfg.Set(edits[i], edits[i+1]))
	}
	tr := traintest.Must(train.New(cfg, nil))(t)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// run trains in slices, and returns digests of the parameters and the rollouts, and counts. If path
// is not empty, it saves a checkpoint.
func run(t *testing.T, method, path string, steps []int64, edits ...string) string {
	t.Helper()
	tr := trainer(t, method, edits...)
	defer tr.Close()
	total := int64(0)
	for _, n := range steps {
		total += n
	}
	if err := tr.Begin(total, 0); err != nil {
		t.Fatal(err)
	}
	for _, n := range steps {
		if err := tr.Run(n, 0); err != nil {
			t.Fatal(err)
		}
	}
	policy, err := tr.Hash("policy")
	if err != nil {
		t.Fatal(err)
	}
	rollout, err := tr.Hash("rollout")
	if err != nil {
		t.Fatal(err)
	}
	if path != "" {
		if err := tr.Save(path, true); err != nil {
			t.Fatal(err)
		}
	}
	s := tr.Stats()
	return fmt.Sprint(policy[:16], rollout[:8], " ", s.Steps, s.Updates, s.Episodes, s.MeanReturn)
}

// One learner is bit-identical to A2C.
func TestOneLearnerIsA2C(t *testing.T) {
	for _, edits := range [][]string{
		{},
		{"learning_rate_final", "0", "n_steps", "7"},
		{"normalize_obs", "true", "normalize_reward", "true"},
		{"use_rms_prop", "false", "gae_lambda", "0.9", "normalize_advantage", "true"},
	} {
		edits = append([]string{"env", "CartPole-v1", "num_envs", "4", "seed", "3"}, edits...)
		want := run(t, "a2c", "", []int64{2000}, edits...)
		for _, rule := range []string{"gradient", "overwrite", "mean"} {
			for _, schedule := range []string{"virtual", "race"} {
				got := run(t, "a3c", "", []int64{2000}, append(edits, "rule", rule, "schedule", schedule)...)
				if got != want {
					t.Errorf("%s, %s, %v: %s, want A2C's %s", rule, schedule, edits, got, want)
				}
			}
		}
	}
}

// One learner also ends where A2C does, with a rollout, where rounds may have fewer steps than
// environments, and where a window that slides was discarded.
func TestOneLearnerEndsAsA2C(t *testing.T) {
	for _, edits := range [][]string{
		{"num_envs", "3", "n_steps", "5", "mid_batch_reset", "false"},
		{"num_envs", "1", "n_steps", "8", "vtrace", "true", "vtrace_steps", "4"},
	} {
		for _, total := range []int64{4, 301, 310, 325} {
			results := make([]string, 2)
			for i, method := range []string{"a2c", "a3c"} {
				tr := trainer(t, method, append(edits, "env", "CartPole-v1", "seed", "1")...)
				results[i] = endRun(t, tr, 22, 7, 0) + endRun(t, tr, total, 7, 0) + endRun(t, tr, total, 7, train.ResetTimesteps)
			}
			if results[0] != results[1] {
				t.Errorf("%s, %d steps: %s, want A2C's %s", edits, total, results[1], results[0])
			}
		}
	}
}

// A window that slides has no old rounds after a discard, also in a checkpoint: the run ends when
// it is full.
func TestSlidingWindowsEndAfterADiscard(t *testing.T) {
	for _, method := range []string{"a2c", "a3c"} {
		edits := []string{"env", "CartPole-v1", "num_envs", "1", "n_steps", "8", "vtrace", "true", "vtrace_steps", "4"}
		tr := trainer(t, method, edits...)
		endRun(t, tr, 20, 7, 0)
		traintest.Check(t, tr.Begin(4, train.ResetTimesteps))
		traintest.Check(t, tr.Run(4, 0))
		path := filepath.Join(t.TempDir(), "checkpoint")
		traintest.Check(t, tr.Save(path, true))
		loaded := trainer(t, method, edits...)
		traintest.Check(t, loaded.Load(path))
		for _, tr := range []*train.Trainer{tr, loaded} {
			if !unfinished(t, tr) {
				t.Errorf("%s: the rollout of 8 steps ends at step %d", method, tr.Stats().Steps)
			}
		}
		endRun(t, tr, 4, 7, train.ResetTimesteps)
		if steps := tr.Stats().Steps; steps != 8 {
			t.Errorf("%s: ends at step %d, want 8", method, steps)
		}
	}
}

// endRun begins a run and takes it, in slices, to the end of the rollouts that are in progress at
// its end.
func endRun(t *testing.T, tr *train.Trainer, total, slice int64, flags train.Flags) string {
	t.Helper()
	traintest.Check(t, tr.Begin(total, flags))
	end := tr.Stats().Steps + total
	for steps := tr.Stats().Steps; steps < end; steps = tr.Stats().Steps {
		traintest.Check(t, tr.Run(min(slice, end-steps), 0))
	}
	for calls := 0; unfinished(t, tr); calls++ {
		before := tr.Stats()
		traintest.Check(t, tr.RunRollouts(1, slice, 0))
		traintest.Check(t, tr.Settle(0))
		if after := tr.Stats(); after.Steps == before.Steps && after.Updates == before.Updates && unfinished(t, tr) {
			t.Fatalf("%d steps, in slices of %d: call %d at the end did nothing", total, slice, calls)
		}
	}
	s := tr.Stats()
	return fmt.Sprint(s.Steps, s.Updates, " ", traintest.Must(tr.Hash("policy"))(t)[:12], traintest.Must(tr.Hash("rollout"))(t)[:8], " ")
}

// unfinished reports whether a rollout is in progress.
func unfinished(t *testing.T, tr *train.Trainer) bool {
	t.Helper()
	if r, ok := tr.Method().(train.Rolling); ok {
		return r.InRollout()
	}
	m, _ := tr.Metric(traintest.Must(tr.MetricIndex("async/unfinished"))(t))
	return m.Value > 0
}

// Learners end with a rollout each, in any slices, with any number of threads, and when a race is
// repeated.
func TestLearnersEndWithTheirRollouts(t *testing.T) {
	runs := func(slice int64, path string, edits ...string) (results string) {
		tr := trainer(t, "a3c", append([]string{"env", "CartPole-v1", "num_envs", "6", "learners", "3", "seed", "3", "learning_rate_final", "0"}, edits...)...)
		for _, total := range []int64{201, 77, 31} {
			results += endRun(t, tr, total, slice, 0)
		}
		if path != "" {
			traintest.Check(t, tr.SaveOrder(path))
		}
		return results
	}
	for _, rule := range [][]string{{"rule", "gradient", "n_steps", "8"}, {"rule", "overwrite", "n_steps", "8", "pull_period", "3"}, {"rule", "mean"}} {
		for _, resets := range []string{"true", "false"} {
			edits := append(rule[:len(rule):len(rule)], "mid_batch_reset", resets)
			want := runs(1000, "", append(edits, "num_threads", "1")...)
			for _, slice := range []int64{1, 13, 1000} {
				for _, threads := range []string{"1", "2"} {
					if got := runs(slice, "", append(edits, "num_threads", threads)...); got != want {
						t.Errorf("%s, %s threads, slices of %d: %s, want %s", edits, threads, slice, got, want)
					}
				}
			}
			path := filepath.Join(t.TempDir(), "race.order")
			want = runs(1000, path, append(edits, "schedule", "race")...)
			if got := runs(1000, "", append(edits, "schedule", "recorded", "order", path)...); got != want {
				t.Errorf("%s: %s, the race %s", edits, got, want)
			}
		}
	}
}

// Also a run that Run has begun ends with the rollouts of its learners, and so does one that was
// loaded.
func TestRunsThatWereLoadedEndWithTheRollouts(t *testing.T) {
	edits := []string{"env", "CartPole-v1", "num_envs", "8", "learners", "4", "n_steps", "16"}
	tr := trainer(t, "a3c", edits...)
	traintest.Check(t, tr.Run(150, 0))
	path := filepath.Join(t.TempDir(), "checkpoint")
	traintest.Check(t, tr.Save(path, true))
	loaded := trainer(t, "a3c", edits...)
	traintest.Check(t, loaded.Load(path))
	for _, tr := range []*train.Trainer{tr, loaded} {
		if !unfinished(t, tr) {
			t.Fatal("no rollout is in progress at the end")
		}
		traintest.Check(t, tr.RunRollouts(1, 1000, 0))
		if steps := tr.Stats().Steps; unfinished(t, tr) || steps > 150+4*32 {
			t.Errorf("ends at step %d, unfinished %v", steps, unfinished(t, tr))
		}
		traintest.Check(t, tr.RunRollouts(1, 1000, 0)) // a further run
		if steps := tr.Stats().Steps; steps < 1000 {
			t.Errorf("ends at step %d, must be above 1000", steps)
		}
	}
}

// The virtual schedule has one result for any number of threads and any slices.
func TestVirtualRepeats(t *testing.T) {
	for _, rule := range []string{"gradient", "overwrite", "mean"} {
		edits := []string{"env", "CartPole-v1", "num_envs", "8", "learners", "4", "seed", "3", "rule", rule}
		want := run(t, "a3c", "", []int64{4000}, append(edits, "num_threads", "1")...)
		for _, steps := range [][]int64{{2, 4, 2, 1992, 2000}, {4000}, {1000, 3000}}[:traintest.Times(3, 1)] {
			for _, threads := range []string{"2", "1", "4"}[:traintest.Times(3, 1)] {
				if got := run(t, "a3c", "", steps, append(edits, "num_threads", threads)...); got != want {
					t.Errorf("%s, %s threads, slices %v: %s, want %s", rule, threads, steps, got, want)
				}
			}
		}
	}
}

// A race that was recorded can be repeated, bit for bit.
func TestRaceRepeats(t *testing.T) {
	for _, rule := range []string{"gradient", "overwrite", "mean"} {
		for round := range traintest.Times(3, 1) {
			edits := []string{"env", "CartPole-v1", "num_envs", "8", "learners", "4", "seed", "3", "rule", rule, "learning_rate_final", "0"}
			path := filepath.Join(t.TempDir(), "race")
			slices := [][]int64{{2000}, {600, 1400}}[round%2]
			want := run(t, "a3c", path, slices, append(edits, "schedule", "race")...)
			for _, threads := range []string{"1", "2"} {
				got := run(t, "a3c", "", slices, append(edits, "schedule", "recorded", "order", path, "num_threads", threads)...)
				if got != want {
					t.Errorf("%s, %s threads, slices %v: %s, the race %s", rule, threads, slices, got, want)
				}
			}
		}
	}
}

// A race of several calls of equal length, each of which counts from 0, is repeated call by call.
func TestRaceOfSeveralCallsRepeats(t *testing.T) {
	for _, rule := range []string{"gradient", "overwrite", "mean", "multi_step_adam"} {
		edits := []string{"env", "CartPole-v1", "num_envs", "4", "learners", "2", "seed", "3", "rule", rule, "use_rms_prop", "false"}
		path := filepath.Join(t.TempDir(), "race.order")
		calls := func(tr *train.Trainer) (digests []string) {
			for range 3 {
				traintest.Check(t, tr.Begin(200, train.ResetTimesteps))
				traintest.Check(t, tr.Run(0, 0))
				digests = append(digests, traintest.Must(tr.Hash("policy"))(t)[:16]+fmt.Sprint(tr.Stats().Steps, tr.Stats().Updates))
			}
			return digests
		}
		race := trainer(t, "a3c", append(edits, "schedule", "race")...)
		want := calls(race)
		traintest.Check(t, race.SaveOrder(path))
		if got := calls(trainer(t, "a3c", append(edits, "schedule", "recorded", "order", path)...)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, the race %v", rule, got, want)
		}
	}
}

// A race that continues from a checkpoint without experience is repeated from the same file. An
// order that begins at another step is not repeated from there, and the parameters can be read.
func TestOrdersBeginWhereTheRunDoes(t *testing.T) {
	edits := []string{"env", "CartPole-v1", "num_envs", "6", "learners", "3", "seed", "5"}
	dir := t.TempDir()
	weights, first, second := filepath.Join(dir, "weights"), filepath.Join(dir, "first.order"), filepath.Join(dir, "second.order")
	race := trainer(t, "a3c", append(edits, "schedule", "race")...)
	traintest.Check(t, race.Run(600, 0))
	traintest.Check(t, race.Save(weights, false))
	traintest.Check(t, race.SaveOrder(first))
	continued := func(more ...string) (*train.Trainer, error) {
		tr := trainer(t, "a3c", append(edits, more...)...)
		traintest.Check(t, tr.Load(weights))
		if steps := tr.Stats().Steps; steps < 600 {
			t.Fatalf("%d steps", steps)
		}
		if got, want := traintest.Must(tr.Hash("policy"))(t), traintest.Must(race.Hash("policy"))(t); got != want {
			t.Errorf("%v: loaded as %s, saved as %s", more, got, want)
		}
		return tr, tr.Run(900, 0)
	}
	tr, err := continued("schedule", "race")
	traintest.Check(t, err)
	want := traintest.Must(tr.Hash("policy"))(t)
	traintest.Check(t, tr.SaveOrder(second))
	tr, err = continued("schedule", "recorded", "order", second)
	traintest.Check(t, err)
	if got := traintest.Must(tr.Hash("policy"))(t); got != want {
		t.Errorf("repeated: %s, the race %s", got, want)
	}
	if _, err := continued("schedule", "recorded", "order", first); err == nil || !strings.HasPrefix(err.Error(), "order: begins at step 0, the run is at step 6") {
		t.Error(err)
	}
}

// The order of a race, in a file of its own, repeats the race. The file of the repetition has the
// same bytes.
func TestOrderFileRepeatsTheRace(t *testing.T) {
	edits := []string{"env", "CartPole-v1", "num_envs", "6", "learners", "3", "seed", "5"}
	digest := func(tr *train.Trainer) string {
		traintest.Check(t, tr.Run(1500, 0))
		return traintest.Must(tr.Hash("policy"))(t) + traintest.Must(tr.Hash("rollout"))(t)
	}
	path, again := filepath.Join(t.TempDir(), "race.order"), filepath.Join(t.TempDir(), "again.order")
	race := trainer(t, "a3c", append(edits, "schedule", "race")...)
	want := digest(race)
	traintest.Check(t, race.SaveOrder(path))
	repeated := trainer(t, "a3c", append(edits, "schedule", "recorded", "order", path)...)
	if got := digest(repeated); got != want {
		t.Errorf("repeated: %s, the race %s", got, want)
	}
	traintest.Check(t, repeated.SaveOrder(again))
	if first, second := traintest.Must(os.ReadFile(path))(t), traintest.Must(os.ReadFile(again))(t); !bytes.Equal(first, second) {
		t.Errorf("%d bytes, written again %d others", len(first), len(second))
	}
	for _, c := range []struct {
		tr   *train.Trainer
		want string
	}{
		{trainer(t, "a3c", edits...), "order: not recorded with schedule virtual, must be schedule race or recorded"},
		{trainer(t, "a2c", "env", "CartPole-v1"), "order: a2c has one learner and no order, must be a method with the setting schedule"},
	} {
		if err := c.tr.SaveOrder(again); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if err := race.SaveOrder(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a directory, must be a file") {
		t.Error(err)
	}
}

// The order of a race is repeated with other threads, and not with other settings or other
// environments.
func TestOrdersOfOtherSettings(t *testing.T) {
	edits := []string{"env", "CartPole-v1", "num_envs", "4", "learners", "2", "seed", "5"}
	path := filepath.Join(t.TempDir(), "race.order")
	race := trainer(t, "a3c", append(edits, "schedule", "race")...)
	traintest.Check(t, race.Run(100, 0))
	traintest.Check(t, race.SaveOrder(path))
	edits = append(edits, "schedule", "recorded", "order", path)
	repeated := func(edit ...string) (*train.Config, error) {
		cfg := traintest.Must(train.NewConfig("a3c"))(t)
		for list, i := append(edits[:len(edits):len(edits)], edit...), 0; i < len(list); i += 2 {
			traintest.Check(t, cfg.Set(list[i], list[i+1]))
		}
		tr, err := train.New(cfg, nil)
		if err == nil {
			err = tr.Close()
		}
		return cfg, err
	}
	for _, edit := range [][]string{{}, {"num_threads", "1", "groups", "2", "host_data", "x", "latency_pull", "1", "device", "cpu", "autoreset", "next_step"}} {
		if _, err := repeated(edit...); err != nil {
			t.Errorf("%v: %v", edit, err)
		}
	}
	for _, c := range [][]string{
		{"learners", "2", "4"}, {"num_envs", "4", "6"}, {"seed", "5", "6"}, {"n_steps", "5", "4"}, {"learning_rate", "0.0007", "0.001"}, {"gamma", "0.99", "0.9"},
		{"rule", "gradient", "overwrite"}, {"shards", "4", "3"}, {"env", "CartPole-v1", "Acrobot-v1"}, {"net_arch_pi", "64,64", "8"},
	} {
		want := fmt.Sprintf("order: %s: the record has %q, this run has %q", c[0], c[1], c[2])
		if _, err := repeated(c[0], c[2]); err == nil || err.Error() != want {
			t.Errorf("%v, must be %q", err, want)
		}
	}
	cfg, err := repeated()
	traintest.Check(t, err)
	spec := *race.Spec()
	if _, err := train.NewPushed(cfg, spec); err == nil || err.Error() != `order: environments_stepped_by: the record has "the library", this run has "the caller"` {
		t.Errorf("environments that the caller steps: %v", err)
	}
}

// An error of a row of the host has the number of the run's steps, not of the learner's.
func TestRefusedRowsNameTheStepOfTheRun(t *testing.T) {
	for _, learners := range []string{"1", "2", "4"} {
		cfg := traintest.Must(train.NewConfig("a3c"))(t)
		for name, value := range map[string]string{"learners": learners, "num_envs": "4", "net_arch_pi": "4", "net_arch_vf": "4"} {
			traintest.Check(t, cfg.Set(name, value))
		}
		h := traintest.NewHost(t, cfg, vec.SameStep, traintest.MakeWalk(3))
		h.Begin(t, 1000)
		for range 10 {
			h.Round(t)
		}
		traintest.Check(t, h.Act())
		traintest.Check(t, h.Vec.Step(h.Actions, h.Rows))
		h.Rows.Rewards[3] = float32(math.NaN())
		const want = "environment 3: step 40: reward: NaN"
		for range 2 { // the same rows again
			if err := h.Observe(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s learners: %v, want %q", learners, err, want)
			}
		}
	}
}
