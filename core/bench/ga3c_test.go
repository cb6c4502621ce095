package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/a2c"
)

func TestBenchGA3C(t *testing.T) {
	text, err := Bench("ga3c", `{"machines": ["System II"], "seconds": 5, "env": "Catch-v0", "steps": 160, "trials": 2, "settings": {"policy": "MlpPolicy", "net_arch_pi": "4", "net_arch_vf": "4", "trainers": "1", "num_envs": "8", "training_queue": "20"}}`)
	if err != nil {
		t.Fatal(err)
	}
	var r GA3CReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Machines) != 1 || r.Machines[0].Machine.A3C != 116 || r.Machines[0].Model["latency_cores"] != "8" || len(r.Races) != 3 {
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
	for k, name := range []string{"paper", "joined", "a2c"} {
		c := r.Races[k]
		if c.Name != name || len(c.PerSecond) != 2 || c.PerSecond[0] <= 0 || c.Median != (c.PerSecond[0]+c.PerSecond[1])/2 || (c.Flow == nil) != (name == "a2c") || (c.VsA2C == 1) != (name == "a2c") {
			t.Errorf("%+v", c)
		}
		if c.Flow != nil {
			check(name, c.Flow, numbers{2, 1, 8})
			if joined := c.Flow.TrainingBatch > 15; joined != (name == "joined") {
				t.Errorf("%s: batches of %v", name, c.Flow.TrainingBatch)
			}
		}
	}
	for options, want := range map[string]string{
		`{"seconds": 0}`: "options: seconds 0, steps 10000, trials 3, must be above 0",
		`{"machines": [], "env": "Catch-v0", "settings": {"trainers": "many"}}`: `options: trainers "many", must be a number`,
	} {
		if _, err := Bench("ga3c", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}
