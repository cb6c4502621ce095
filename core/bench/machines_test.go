package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/a3c"
	_ "github.com/paceline-rl/paceline/core/agents/ga3c"
	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/train"
)

// With the numbers of section 5.1 the models have the rates of Table 2, and on System I no numbers
// of a grid around them have more than 2 % more updates a second.
func TestMachinesHaveTheRatesOfTable2(t *testing.T) {
	best := numbers{bestPredictors, bestTrainers, bestAgents}
	for _, m := range machines {
		f, err := m.simulate(1, best, 20)
		if err != nil {
			t.Fatal(err)
		}
		if ratio := f.PPS / m.GA3C; math.Abs(ratio-1) > 0.03 {
			t.Errorf("%s: %.0f predictions a second, the paper has %.0f", m.Name, f.PPS, m.GA3C)
		}
		if m.Name != "System I" || testing.Short() {
			continue
		}
		for _, n := range []numbers{{1, 1, 128}, {1, 2, 128}, {2, 1, 128}, {4, 4, 128}, {2, 4, 128}, {4, 2, 128}, {2, 2, 64}, {2, 2, 32}} {
			other, err := m.simulate(1, n, 20)
			if err != nil {
				t.Fatal(err)
			}
			if other.TPS > 1.02*f.TPS {
				t.Errorf("%v has %.0f updates a second, %v %.0f", n, other.TPS, best, f.TPS)
			}
		}
	}
}

// No update ends in the first steps of a machine whose update takes as long as all of them; its
// rate is found nevertheless.
func TestSlowUpdates(t *testing.T) {
	m := machine{Name: "slow", measured: map[string]string{
		"latency_step": "0.001", "latency_predict": "0.0001", "latency_predict_row": "1e-06", "latency_update": "0.1", "latency_update_row": "1e-06",
	}}
	f, err := m.simulate(1, numbers{1, 1, 1}, 20)
	if err != nil || f.TPS < 5 || f.TPS > 10 {
		t.Errorf("%v updates a second, want 5 to 10; error %v", f.TPS, err)
	}
}

// With the medians of its durations a model of A3C has the rate of Table 2.
func TestMachinesHaveTheRatesOfA3C(t *testing.T) {
	for _, m := range machines {
		settings := m.a3c()
		cfg, err := train.NewConfig("a3c")
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range settings {
			if err := cfg.Set(name, value); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
		seconds := func(name string) float64 {
			median, _, _ := strings.Cut(settings["latency_"+name], ":")
			s, err := strconv.ParseFloat(median, 64)
			if err != nil || s <= 0 {
				t.Fatalf("%s: %s: %v", m.Name, name, settings)
			}
			return s
		}
		cycle := 5*(seconds("step")+seconds("forward")) + seconds("gradient") + seconds("pull") + seconds("push")
		if pps := float64(m.Cores) * 5 / cycle; math.Abs(pps/m.A3C-1) > 0.001 {
			t.Errorf("%s: %.1f predictions a second, the paper has %.0f", m.Name, pps, m.A3C)
		}
	}
}

// From one of each the ladder comes within 5 % of the best of a grid.
func TestBenchTuner(t *testing.T) {
	names, seeds := machineNames(), 2
	if testing.Short() || cpu.Chosen() == cpu.Go {
		names, seeds = names[:1], 1
	}
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Bench("tuner", fmt.Sprintf(`{"machines": %s, "forms": ["ladder"], "seeds": %d, "periods": 36, "period_s": 16, "grid": [[2, 4], [2, 4, 8], [128]]}`, list, seeds))
	if err != nil {
		t.Fatal(err)
	}
	var r TunerReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Machines) != len(names) {
		t.Fatalf("%d machines, want %d", len(r.Machines), len(names))
	}
	for _, m := range r.Machines {
		best := m.Grid[0].TPS
		if len(m.Grid) != 6 || !slices.IsSortedFunc(m.Grid, func(a, b TunerPoint) int { return int(b.TPS - a.TPS) }) || m.Start.TPS > 0.2*best {
			t.Errorf("%s: one of each has %v updates a second, the grid %v", m.Machine.Name, m.Start.TPS, m.Grid)
		}
		if len(m.Forms) != 1 || m.Forms[0].Within != seeds || len(m.Forms[0].Runs) != seeds {
			t.Errorf("%s: %+v", m.Machine.Name, m.Forms)
		}
		for _, run := range m.Forms[0].Runs {
			if run.Share != run.Found.TPS/best || run.Within < 1 || len(run.Trace) != 37 || run.Trace[0] != (numbers{1, 1, 1}) || run.Trace[36] != run.Found.numbers {
				t.Errorf("%s: %+v", m.Machine.Name, run)
			}
		}
	}
	// Of the machine at hand: cores that predictions, updates and steps share, as many agents as
	// wanted.
	text, err = Bench("tuner", `{"machines": ["here"], "forms": ["ladder"], "seeds": 1, "periods": 2, "period_s": 1, "seconds": 1, "grid": [[1], [1], [2, 4]], "here": {"method": "ga3c", "env": "CartPole-v1", "num_envs": 4, "steps": 200, "settings": {"policy": "MlpPolicy", "net_arch_pi": "4", "net_arch_vf": "4"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	var here TunerReport
	if err := json.Unmarshal([]byte(text), &here); err != nil {
		t.Fatal(err)
	}
	if m := here.Machines[0]; m.Machine.Name != "here" || m.Model["latency_device"] != "-1" || m.Model["latency_cores"] != strconv.Itoa(m.Machine.Cores) || m.Grid[0].TPS <= 0 {
		t.Errorf("%+v", m)
	}
	for options, want := range map[string]string{
		`{"machines": ["System IV"]}`:                `options: machine "System IV", must be System I, System II, System III or, for the tuner, here`,
		`{"seeds": 0}`:                               "options: seeds 0, periods 60, period_s 20, seconds 20, must be above 0",
		`{"grid": [[1], [], [1]]}`:                   "options: grid [[1] [] [1]], must have three lists of numbers above 0",
		`{"start": [1, 1, 256]}`:                     "options: start [1 1 256], must be 1 to the largest of the grid",
		`{"forms": ["best"], "grid": [[1],[1],[1]]}`: `tuner best`,
	} {
		if _, err := Bench("tuner", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

func TestKeptNumbers(t *testing.T) {
	const text = "period,time,predictors,trainers,agents,old,new,statistic,kept\n1,1,2,1,1,1,2,3,true\n2,2,2,1,2,1,0,1,false\n3,3,2,1,4,1,2,3,true\n"
	got, err := keptNumbers(text, numbers{1, 1, 1}, 3)
	if want := []numbers{{1, 1, 1}, {2, 1, 1}, {2, 1, 1}, {2, 1, 4}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if _, err := keptNumbers(text, numbers{1, 1, 1}, 4); err == nil || err.Error() != "trace: 3 periods, must be at least 4" {
		t.Error(err)
	}
}
