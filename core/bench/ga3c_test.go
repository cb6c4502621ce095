package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/a2c"
)

func TestBenchGA3C(t *testing.T) {
	text, err := Bench("ga3c", `{"machines": ["System II"], "seconds": 5, "env": "Catch-v0", "steps": 1000, "trials": 2, "settings": {"policy": "MlpPolicy", "net_arch_pi": "4", "net_arch_vf": "4", "trainers": "1", "num_envs": "8", "training_queue": "40"}}`)
	if err != nil {
		t.Fatal(err)
	}
	var r GA3CReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Machines) != 1 || r.Machines[0].Machine.A3C != 116 || r.Machines[0].Model["latency_cores"] != "8" || len(r.Races) != 4 {
		t.Fatalf("%+v", r)
	}
	check := func(name string, f *Flow, n numbers) {
		sum := 0.0
		for _, share := range f.Lags {
			sum += share
		}
		if f.numbers != n || math.Abs(sum-1) > 1e-9 || len(f.Lags) != 8 || f.Lag > f.LagMost || f.TrainingBatch < 1 || f.PredictionBatch > float64(n.Agents) || f.PredictionBatch > f.PredictionQueue {
			t.Errorf("%s: %+v", name, f)
		}
		if f.CycleMS != 1e3*float64(n.Agents)/f.PPS || f.MostUpdateMS != 1e3*float64(n.Trainers)/f.TPS {
			t.Errorf("%s: a cycle of %v ms and updates of %v ms", name, f.CycleMS, f.MostUpdateMS)
		}
	}
	check("System II", &r.Machines[0].Flow, numbers{2, 2, 128})
	if f := r.Machines[0].Flow; math.Abs(f.TPS*f.TrainingBatch/f.PPS-1) > 0.1 {
		t.Errorf("%+v: predictions and rows of updates differ", f)
	}
	for k, joined := range []int{1, 20, 40, 0} {
		c, name := r.Races[k], "ga3c"
		if joined == 0 {
			name = "a2c"
		}
		if c.Name != name || c.Joined != joined || len(c.PerSecond) != 2 || c.PerSecond[0] <= 0 || c.Median != (c.PerSecond[0]+c.PerSecond[1])/2 || (c.Flow == nil) != (name == "a2c") || (c.VsA2C == 1) != (name == "a2c") {
			t.Errorf("%+v", c)
		}
		if c.Flow != nil {
			check(name, c.Flow, numbers{2, 1, 8})
			if most := float64(joined + 5); c.Flow.TrainingBatch > most || c.Flow.TrainingBatch < most/2 {
				t.Errorf("joined to %d: batches of %v", joined, c.Flow.TrainingBatch)
			}
		}
	}
	for options, want := range map[string]string{
		`{"machines": [], "env": "Catch-v0", "steps": 1}`: "options: steps 1 (of a simulated machine those of its seconds), must be more: no update ended, so ga3c/lag_0_to_0 has no value",
		`{"seconds": 0}`: "options: seconds 0, steps 10000, trials 3, must be above 0",
		`{"machines": [], "env": "Catch-v0", "settings": {"trainers": "many"}}`: `options: trainers "many", must be a number`,
		`{"machines": [], "settings": {"min_training_batch": "30"}}`:            `options: min_training_batch "30", must not be among the settings`,
	} {
		if _, err := Bench("ga3c", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}
