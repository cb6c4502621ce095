package bench

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
)

// runBench runs a benchmark into a report.
func runBench(t *testing.T, name, options string, report any) {
	t.Helper()
	text, err := Bench(name, options)
	if err == nil {
		err = json.Unmarshal([]byte(text), report)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestBenchAsync(t *testing.T) {
	var r AsyncReport
	runBench(t, "async", `{"learners": [2], "envs": [1, 2], "seconds": 0.02, "turns": 3, "num_threads": 2}`, &r)
	if len(r.Results) != 2 || r.Threads != 2 {
		t.Fatalf("%+v", r)
	}
	for k, c := range r.Results {
		if c.Learners != 2 || c.Envs != k+1 || c.Overhead <= 0 || c.Overhead > 1 || len(c.Rates) != 4 {
			t.Errorf("%+v", c)
		}
		for _, name := range asyncSchedules {
			if rates := c.Rates[name]; len(rates) != 3 || slices.Min(rates) <= 0 || c.Medians[name] != median(rates) {
				t.Errorf("%s: %+v", name, c)
			}
		}
		race, unrecorded := c.Rates["race"], c.Rates["unrecorded"]
		if want := median([]float64{race[0] / unrecorded[0], race[1] / unrecorded[1], race[2] / unrecorded[2]}); c.Recording != want {
			t.Errorf("recording %v, want %v", c.Recording, want)
		}
	}
	for options, want := range map[string]string{
		`{"turns": 0}`:                        "options: seconds 1, turns 0, must be above 0",
		`{"learners": [3], "envs": [0]}`:      "learners 3, 0 environments each: ",
		`{"settings": {"colour": "red"}}`:     `setting "colour"`,
		`{"learners": [101], "seconds": 0.1}`: "learners: 101, must be 1 to 100",
	} {
		if _, err := Bench("async", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

// A report of durations is a file that the schedule virtual reads.
func TestBenchLatency(t *testing.T) {
	for method, names := range map[string][]string{
		"a3c":  {"forward", "gradient", "pull", "push", "step"},
		"ga3c": {"predict", "predict_row", "step", "update", "update_row"},
	} {
		var r LatencyReport
		runBench(t, "latency", `{"method": "`+method+`", "num_envs": 4, "steps": 400}`, &r)
		if got := slices.Sorted(maps.Keys(r.Durations)); !slices.Equal(got, names) {
			t.Fatalf("%s: %v", method, got)
		}
		for name, list := range r.Durations {
			if one := strings.HasSuffix(name, "_row"); len(list) < 1 || one != (len(list) == 1) || slices.Min(list) < 1e-9 || slices.Max(list) > 10 {
				t.Errorf("%s: %s: %v", method, name, list)
			}
		}
		text, err := json.Marshal(r.Durations)
		path := filepath.Join(t.TempDir(), "latency.json")
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		tr, err := newTrainer(method, map[string]string{"env": "CartPole-v1", "num_envs": "16", "latency_file": path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Run(100, 0); err != nil {
			t.Error(err)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		var model LatencyReport
		runBench(t, "latency", `{"method": "`+method+`", "machine": "System III"}`, &model)
		cfg, err := train.NewConfig(method)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range model.Model {
			if err := cfg.Set(name, value); err != nil {
				t.Error(err)
			}
		}
		if len(model.Model) < 5 || len(model.Durations) > 0 {
			t.Errorf("%+v", model)
		}
	}
	for options, want := range map[string]string{
		`{"method": "dqn"}`:       `options: method "dqn", must be a3c or ga3c`,
		`{"num_envs": 0}`:         "options: num_envs 0, steps 20000, must be at least 1",
		`{"machine": "System V"}`: `options: machine "System V", must be`,
	} {
		if _, err := Bench("latency", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

func TestSlopeOf(t *testing.T) {
	x, y := []float64{1, 1, 1, 3, 3, 3}, []float64{2, 2.5, 90, 6, 6.5, 7} // medians 2.5 and 6.5
	if got := slopeOf(x, y); math.Abs(got-2) > 1e-12 {
		t.Errorf("%v, want 2", got)
	}
	if got := slopeOf([]float64{2, 2}, []float64{1, 3}); got != 0 {
		t.Errorf("%v of one x, want 0", got)
	}
	if got := slopeOf([]float64{1, 2}, []float64{3, 1}); got != 0 {
		t.Errorf("%v of a line that falls, want 0", got)
	}
}
