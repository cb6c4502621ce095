package ga3c_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/agents/ga3c"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// machine is a simulated machine: one device that a prediction or an update has for a time that
// hardly depends on its batch, and eight cores for the environments.
var machine = []string{
	"net_arch_pi", "2", "net_arch_vf", "2", "seed", "1", "n_steps", "5", "training_queue", "20", "learning_rate", "0",
	"latency_step", "0.004:0.3", "latency_predict", "0.001:0.2", "latency_predict_row", "0.00002", "latency_update", "0.001:0.2", "latency_update_row", "0.00002",
	"latency_device", "1", "latency_cores", "8",
}

// tps returns the updates a second of fixed numbers.
func tps(t *testing.T, predictors, trainers, agents int) float64 {
	tr := walks(t, append(machine, "predictors", fmt.Sprint(predictors), "trainers", fmt.Sprint(trainers), "num_envs", fmt.Sprint(agents))...)
	traintest.Check(t, tr.Run(4000, 0))
	return traintest.Metric(t, tr, "ga3c/tps")
}

// From one of each, the ladder comes close to the best numbers of a grid.
func TestLadderFindsTheBest(t *testing.T) {
	best := 0.0
	for _, predictors := range []int{1, 2} {
		for _, trainers := range []int{1, 2} {
			for _, agents := range []int{8, 16, 32} {
				best = max(best, tps(t, predictors, trainers, agents))
			}
		}
	}
	first := tps(t, 1, 1, 1)
	for seed := range traintest.Times(5, 1) {
		tr := walks(t, append(machine, "seed", fmt.Sprint(seed), "predictors", "4", "trainers", "4", "num_envs", "64", "tuner", "ladder", "tuner_period", "0.8")...)
		for traintest.Metric(t, tr, "ga3c/tuner_periods") < 40 || tr.Stats().Steps == 0 {
			traintest.Check(t, tr.Run(2000, 0))
		}
		trace := filepath.Join(t.TempDir(), "trace")
		traintest.Check(t, tr.SaveTrace(trace))
		text := traintest.Must(os.ReadFile(trace))(t)
		rows := traintest.Must(csv.NewReader(strings.NewReader(string(text))).ReadAll())(t)
		if got := traintest.Metric(t, tr, "ga3c/tuner_periods"); len(rows) != 1+int(got) || strings.Join(rows[0], ",") != "period,time,predictors,trainers,agents,old,new,statistic,kept" {
			t.Errorf("seed %d: %d rows in the trace of %v periods: %v", seed, len(rows), got, rows[0])
		}
		kept := []int{1, 1, 1}
		for _, row := range rows[1:] {
			if row[8] == "true" {
				for k := range kept {
					_, err := fmt.Sscan(row[2+k], &kept[k])
					traintest.Check(t, err)
				}
			}
		}
		if found := tps(t, kept[0], kept[1], kept[2]); found < 0.93*best {
			t.Errorf("seed %d: %v has %.0f updates a second, the best of the grid %.0f, one of each %.0f", seed, kept, found, best, first)
		}
	}
	if first > 0.5*best {
		t.Errorf("one of each has %v of %v: the test shows nothing", first, best)
	}
}

// With each form a run has one result for any number of threads and slices, and a race is repeated.
func TestTunersRepeat(t *testing.T) {
	for _, form := range []string{"paper", "authors", "ladder"} {
		edits := append(machine, "predictors", "3", "trainers", "3", "num_envs", "12", "tuner", form, "tuner_period", "0.05", "tuner_test", "0", "learning_rate", "0.01")
		tr := walks(t, append(edits, "num_threads", "1")...)
		want := run(t, tr, 3000)
		if n := traintest.Metric(t, tr, "ga3c/tuner_periods"); n < 10 {
			t.Errorf("%s: %v periods: the test shows nothing", form, n)
		}
		again := walks(t, append(edits, "num_threads", "3")...)
		if got := run(t, again, 1, 700, 2, 2297); got != want {
			t.Errorf("%s: %s in slices, want %s", form, got, want)
		}
		path := filepath.Join(t.TempDir(), "race")
		traintest.Check(t, again.Save(path, true))
		loaded := walks(t, edits...)
		traintest.Check(t, loaded.Load(path))
		for _, other := range []*train.Trainer{again, loaded} {
			if trace := tr.Method().(*ga3c.GA3C).Trace(); !bytes.Equal(trace, other.Method().(*ga3c.GA3C).Trace()) || bytes.Count(trace, []byte("\n")) < 10 {
				t.Errorf("%s: other traces: %s", form, trace)
			}
		}
		edits = append(edits, "tuner_period", "0.001")
		race := walks(t, append(edits, "schedule", "race")...)
		want = run(t, race, 500, 1500)
		traintest.Check(t, race.Save(path, true))
		if n := traintest.Metric(t, race, "ga3c/tuner_periods"); n < 5 {
			t.Errorf("%s: %v periods of the race: the test shows nothing", form, n)
		}
		if got := run(t, walks(t, append(edits, "schedule", "recorded", "order", path)...), 2000); got != want {
			t.Errorf("%s: %s, the race %s", form, got, want)
		}
	}
}

// The trace is a part of a checkpoint, which a run that is continued adds to. Only SaveTrace writes
// a file.
func TestTraceIsSavedAndContinued(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	out := t.TempDir()
	edits := append(machine, "predictors", "3", "trainers", "3", "num_envs", "12", "tuner", "authors", "tuner_period", "0.05")
	read := func(tr *train.Trainer) string {
		path := filepath.Join(out, "trace.csv")
		traintest.Check(t, tr.SaveTrace(path))
		return string(traintest.Must(os.ReadFile(path))(t))
	}
	tr := walks(t, edits...)
	traintest.Check(t, tr.Begin(3000, 0))
	traintest.Check(t, tr.Run(1500, 0))
	path, half := filepath.Join(out, "run"), read(tr)
	traintest.Check(t, tr.Save(path, true))
	traintest.Check(t, tr.Run(0, 0))
	want := read(tr)
	if strings.Count(half, "\n") < 5 || !strings.HasPrefix(want, half) || len(want) <= len(half) {
		t.Errorf("a trace of %d bytes, then of %d: the test shows nothing", len(half), len(want))
	}
	loaded := walks(t, edits...)
	traintest.Check(t, loaded.Load(path))
	if got := read(loaded); got != half {
		t.Errorf("the loaded trace is\n%s, want\n%s", got, half)
	}
	traintest.Check(t, loaded.Run(0, 0))
	if got := read(loaded); got != want {
		t.Errorf("the continued trace is\n%s, want\n%s", got, want)
	}
	if list := traintest.Must(os.ReadDir(folder))(t); len(list) > 0 {
		t.Errorf("the run wrote files: %v", list)
	}
	if err := loaded.Config().Set("tuner_trace", "x"); err == nil {
		t.Error("a setting names a file to write")
	}
}

func TestTracesThatThereAreNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv")
	err := walks(t).SaveTrace(path)
	if want := "trace: nothing is adjusted with tuner none and schedule virtual, must be "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was written")
	}
}

// While the numbers of agents, predictors and trainers change, every step comes into exactly one
// segment, and every segment is learned from once.
func TestNoStepIsLost(t *testing.T) {
	for _, form := range []string{"none", "authors", "ladder"} {
		tr := walks(t, append(machine, "predictors", "3", "trainers", "3", "num_envs", "12", "tuner", form, "tuner_period", "0.03", "tuner_test", "0", "training_queue", "3")...)
		least, most := 12.0, 0.0
		traintest.Check(t, tr.Begin(3000, 0))
		for tr.Stats().Steps < 3000 {
			traintest.Check(t, tr.Run(40, 0))
			agents := traintest.Metric(t, tr, "ga3c/agents")
			least, most = min(least, agents), max(most, agents)
		}
		if rows, steps := tr.Method().(*ga3c.GA3C).DrainRows(), tr.Stats().Steps; rows != steps {
			t.Errorf("%s: %d rows of %d steps", form, rows, steps)
		}
		if form != "none" && most-least < 3 {
			t.Errorf("%s: %v to %v agents: the test shows nothing", form, least, most)
		}
	}
}
