package dqn

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// metricOf returns a metric of a trainer.
func metricOf(t *testing.T, tr *train.Trainer, name string) int {
	t.Helper()
	for i := 0; ; i++ {
		m, ok := tr.Metric(i)
		if !ok {
			t.Fatalf("no metric %s", name)
		}
		if m.Name == name {
			return int(m.Value)
		}
	}
}

// After a load without experience one notice has the random steps of all learners.
func TestLearnersSpeakOnceOfRandomSteps(t *testing.T) {
	const want = 60
	for _, k := range []string{"1", "3"} {
		cfg := meanConfig(t, "num_envs", "6", "learners", k, "rule", "gradient", "learning_starts", "60")
		from := traintest.NewTrainer(t, cfg, counters(func(*counter) {}))
		check(t, from.Begin(900, 0))
		check(t, from.Run(600, 0))
		path := filepath.Join(t.TempDir(), "run.paceline")
		check(t, from.Save(path, false))
		to := traintest.NewTrainer(t, cfg, counters(func(*counter) {}))
		check(t, to.Load(path))
		var said []string
		before, updates := to.Stats(), int64(-1)
		for range 60 {
			check(t, to.Run(6, 0))
			for text := must(to.Notice())(t); text != ""; text = must(to.Notice())(t) {
				said = append(said, text)
			}
			if now := to.Stats(); updates < 0 && now.Updates > before.Updates {
				updates = now.Steps - before.Steps
			}
		}
		if len(said) != 1 || !strings.Contains(said[0], fmt.Sprintf(": %d steps with random actions ", want)) {
			t.Errorf("learners %s: %q, want one of %d steps", k, said, want)
		}
		if updates < want || updates > want+60 {
			t.Errorf("learners %s: the first update after %d steps, want about %d", k, updates, want)
		}
	}
}

// The transitions of all learners are read as those of one memory, by environment. Reading changes
// no bit.
func TestTransitionsOfLearnersAreRead(t *testing.T) {
	cfg := meanConfig(t, "num_envs", "6", "learners", "3", "rule", "gradient", "learning_starts", "60")
	read, quiet := traintest.NewTrainer(t, cfg, counters(func(*counter) {})), traintest.NewTrainer(t, cfg, counters(func(*counter) {}))
	check(t, quiet.Begin(900, 0))
	check(t, read.Begin(900, 0))
	for range 3 {
		check(t, read.Run(300, 0))
		check(t, quiet.Run(300, 0))
		check(t, read.Settle(0))
		n := metricOf(t, read, "replay_size")
		x := rowsOf(*read.Spec(), n)
		check(t, read.ReadTransitions(numbers(n), x))
		row, size := 0, read.Spec().Obs.Bytes()
		for _, d := range read.Method().(*Learners).learners {
			b := d.Memory.Minibatch(1)
			for i := range d.Memory.Len() {
				d.Memory.Gather([]int{i}, 1, 1, b, nil)
				if string(x.Obs[row*size:(row+1)*size]) != string(b.Obs) || string(x.NextObs[row*size:(row+1)*size]) != string(b.NextObs) ||
					x.Actions[row] != b.Actions[0] || x.Rewards[row] != b.Rewards[0] || x.Terminated[row] != b.Terminated[0] {
					t.Fatalf("transition %d differs", row)
				}
				row++
			}
		}
		if row != n || n < 200 {
			t.Errorf("%d transitions, the learners have %d", n, row)
		}
		// In any order, and some twice.
		picks := []int64{int64(n - 1), 0, 5, int64(n - 1), int64(n / 2)}
		some := rowsOf(*read.Spec(), len(picks))
		check(t, read.ReadTransitions(picks, some))
		for i, k := range picks {
			if !reflect.DeepEqual(some.Row(i, len(picks)), x.Row(int(k), n)) {
				t.Errorf("transition %d, read alone, is another one", k)
			}
		}
		if err := read.ReadTransitions([]int64{int64(n)}, rowsOf(*read.Spec(), 1)); err == nil {
			t.Errorf("transition %d of %d was read", n, n)
		}
	}
	if got, want := digest(t, read), digest(t, quiet); got != want {
		t.Errorf("%s, without a read %s", got, want)
	}
}

// Transitions that are added go to the environments' learners, and can be read at once. One learner
// is bit-identical to DQN.
func TestTransitionsAreAddedToLearners(t *testing.T) {
	cfg := meanConfig(t, "num_envs", "6", "learners", "3", "rule", "gradient", "learning_starts", "60")
	tr := traintest.NewTrainer(t, cfg, counters(func(*counter) {}))
	const n = 16
	x, order := made(*tr.Spec(), n, 1), []int64(nil) // rows by environment
	for e := range 6 {
		for i := e; i < n; i += 6 {
			order = append(order, int64(i))
		}
	}
	check(t, tr.AddTransitions(x))
	got := rowsOf(*tr.Spec(), n)
	check(t, tr.ReadTransitions(numbers(n), got))
	for i, row := range order {
		if !reflect.DeepEqual(got.Row(i, n), x.Row(int(row), n)) {
			t.Errorf("transition %d is not row %d", i, row)
		}
	}
	if size := metricOf(t, tr, "replay_size"); size != n {
		t.Errorf("%d transitions", size)
	}
	run := func(edits ...string) string {
		cfg := meanConfig(t, append([]string{"num_envs", "6", "rule", "gradient"}, edits...)...)
		tr := traintest.NewTrainer(t, cfg, counters(func(*counter) {}))
		check(t, tr.Begin(1200, 0))
		for k := range 4 {
			check(t, tr.AddTransitions(made(*tr.Spec(), 7+k, uint64(k))))
			check(t, tr.Run(300, 0))
		}
		return digest(t, tr)
	}
	for _, edits := range [][]string{{"concurrent", "true"}, {"concurrent", "false"}} {
		if one, dqn := run(slices.Concat(edits, []string{"learners", "1"})...), run(slices.Concat(edits, []string{"learners", "0"})...); one != dqn {
			t.Errorf("%v: %s, DQN %s", edits, one, dqn)
		}
		more := slices.Concat(edits, []string{"learners", "3", "num_threads"})
		if one, three := run(append(more, "1")...), run(append(more, "3")...); one != three {
			t.Errorf("%v: %s on one thread, %s on three", edits, one, three)
		}
	}
}
