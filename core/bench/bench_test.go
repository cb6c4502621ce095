package bench

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/cpu"
)

// needsKernels skips a benchmark of the kernels in C if they are not built: in Go it takes 15
// seconds.
func needsKernels(t *testing.T) {
	if cpu.Chosen() == cpu.Go {
		t.Skip("left out, because the C kernels are not built")
	}
}

func TestBenchUpdate(t *testing.T) {
	needsKernels(t)
	text, err := Bench("update", `{"batch": 2, "act": [1, 3], "precisions": ["bf16"], "threads": [1, 2], "trials": 2}`)
	if err != nil {
		t.Fatal(err)
	}
	var r UpdateReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 8 {
		t.Fatalf("%d results, want 4 kinds of work with 2 thread counts", len(r.Results))
	}
	for _, c := range r.Results {
		if len(c.Ms) != 2 || len(c.Peak) != 2 || c.Ms[0] <= 0 || c.Peak[1] <= 0 || (c.Done <= 0 || c.Flop < c.Done) != (c.Work == "sample") {
			t.Errorf("%+v", c)
		}
	}
	// The Nature CNN needs 18.7 MFLOP per state, and 2.18 GFLOP for an update with 32 rows.
	if f := r.Results[2].Flop; f < 18.6e6 || f > 18.8e6 {
		t.Errorf("%v floating-point operations for one state", f)
	}
	if f := r.Results[0].Flop; f < 2*68.0e6 || f > 2*68.3e6 {
		t.Errorf("%v floating-point operations for an update of two", f)
	}
	if r.Device != "cpu" || r.Row != 0 {
		t.Errorf("device %s, row %d, want row 0 on the CPU", r.Device, r.Row)
	}
	for want, options := range map[string]string{
		`options: precisions "fp8", must be fp32 or bf16`:  `{"precisions": ["fp8"]}`,
		`options: precisions "tf32", must be fp32 or bf16`: `{"precisions": ["tf32"]}`,
		`device: "gpu", must be "cpu", "cuda" or`:          `{"device": "gpu"}`,
		"device: cuda:255: ":                               `{"device": "cuda:255"}`,
		"options: batch 0, trials 20, must be at least 1":  `{"batch": 0}`,
		"options: act 0, must be 1 to 65536":               `{"act": [0]}`,
		"threads: 0, must be 1 to 1024":                    `{"threads": [0]}`,
	} {
		if _, err := Bench("update", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

// Updates in a row have their own result, and GPUs have their own defaults.
func TestBenchUpdatesInARow(t *testing.T) {
	needsKernels(t)
	text, err := Bench("update", `{"batch": 2, "act": [1], "precisions": ["fp32"], "threads": [1], "trials": 2, "row": 3}`)
	if err != nil {
		t.Fatal(err)
	}
	var r UpdateReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	var works []string
	for _, c := range r.Results {
		works = append(works, c.Work)
	}
	if row := r.Results[2]; !slices.Equal(works, []string{"update", "sample", "row", "act"}) || r.Row != 3 || len(row.Ms) != 2 || row.Ms[0] <= 0 || row.Flop != r.Results[0].Flop {
		t.Errorf("%+v", r)
	}
	o := UpdateOptions{Row: -1}
	if o.setDefaults(true); !slices.Equal(o.Precisions, []string{"fp32", "tf32", "bf16"}) || !slices.Equal(o.Threads, []int{1}) || o.Row != 1000 {
		t.Errorf("a GPU's default options are %+v", o)
	}
}

func TestBenchSteps(t *testing.T) {
	needsKernels(t)
	text, err := Bench("modes", `{"num_envs": [4], "step_ms": [0, 1], "steps": 40, "trials": 1, "num_threads": 2, "settings": {"learning_starts": "40", "batch_size": "4", "buffer_size": "100", "policy": "MlpPolicy", "net_arch": "16"}}`)
	if err != nil {
		t.Fatal(err)
	}
	var r StepsReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 16 || len(r.Parts) != 4*5 {
		t.Fatalf("%d results and %d parts, want 4 modes for 2 kinds of 2 costs", len(r.Results), len(r.Parts))
	}
	for i, c := range r.Results {
		if len(c.PerSecond) != 1 || c.PerSecond[0] <= 0 || len(c.Limits) != 1 || c.Limits[0] <= 0 || c.Share <= 0 ||
			c.Mode != modes[i%4].name || c.Kind != kinds[i/8] || c.StepMS != float64(i/4%2) || i%4 == 0 && (c.VsStandard != 1 || c.LimitVsStandard != 1) {
			t.Errorf("%+v", c)
		}
		// Steps of 1 ms: all four environments wait at the same time, or two threads compute.
		if limit := map[string]float64{"wait": 4000, "busy": 2000}[c.Kind]; c.StepMS == 1 && c.PerSecond[0] > limit {
			t.Errorf("%+v: more than %v steps per second", c, limit)
		}
	}
	for want, options := range map[string]string{
		"options: step_ms -1, must be 0 to 1000":                         `{"step_ms": [-1]}`,
		"options: env CartPole-v1, must show images if step_ms is given": `{"step_ms": [1], "env": "CartPole-v1"}`,
		`setting "colour"`: `{"step_ms": [1], "settings": {"colour": "red"}}`,
	} {
		if _, err := Bench("modes", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

// limit returns the rates that were computed by hand for made-up parts.
func TestLimits(t *testing.T) {
	p := Parts{Update: 6, UpdateOne: 10, JointNew: 1, JointOne: 2, AloneNew: 0.5, Alone: 0.25, Cost: 20, Kind: "wait", cores: 2, envs: 8, stepsPerUpdate: 4, gradientSteps: 1}
	for _, c := range []struct {
		kind string
		cost float64
		ms   [4]float64 // for 8 steps: standard, concurrent, synchronized, both
	}{
		// 2 x (6 + 2 x 0.5 + 20); 0.25 + 20; 2 x 6 + 1 + 20; 2 + 20.
		{"wait", 20, [4]float64{54, 20.25, 33, 22}},
		// Training is the bottleneck. While acting takes 2 ms of one core, the other core does 2/10
		// of an update; the remaining 1.8 updates take 6 ms each.
		{"wait", 5, [4]float64{24, 2 + 1.8*6, 18, 2 + 1.8*6}},
		// Each of the two cores does 4 steps. 8 steps take T ms with two updates: samplers use 42
		// ms of the cores' 2 T ms, and training uses the rest, on one core at a time: T = (42 + 20)
		// / 2.
		{"busy", 5, [4]float64{2 * (6 + 1 + 10), 31, 12 + 1 + 20, 31}},
	} {
		p.Kind, p.Cost = c.kind, c.cost
		for i, m := range modes {
			if got := 8000 / p.limit(m); got < c.ms[i]*0.9999 || got > c.ms[i]*1.0001 {
				t.Errorf("%s %v, %s: %v ms for 8 steps, want %v", c.kind, c.cost, m.name, got, c.ms[i])
			}
		}
	}
	p.cores, p.Update, p.Kind, p.Cost = 1, 10, "wait", 5
	if got, want := 8000/p.limit(modes[3]), 2+2*10.0; got < want*0.9999 || got > want*1.0001 {
		t.Errorf("one core, both: %v ms for 8 steps, want %v", got, want)
	}
}

func TestBenchForward(t *testing.T) {
	needsKernels(t)
	text, err := Bench("forward", `{"rows": [1, 3], "trials": 2}`)
	if err != nil {
		t.Fatal(err)
	}
	var r ForwardReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 4 {
		t.Fatalf("%d results, want 2 networks with 2 numbers of rows", len(r.Results))
	}
	for _, c := range r.Results {
		if len(c.Kernels) != 2 || len(c.Whole) != 2 || c.Kernels[0] <= 0 || c.Whole[1] <= 0 {
			t.Errorf("%+v", c)
		}
	}
	for want, options := range map[string]string{
		"options: rows 0, must be 1 to 65536":      `{"rows": [0]}`,
		"options: trials 0, must be at least 1":    `{"trials": 0}`,
		"options: {\"threads\": 1}: json: unknown": `{"threads": 1}`,
	} {
		if _, err := Bench("forward", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

// The timed kernels compute the network's outputs.
func TestForwardKernelsComputeTheNetwork(t *testing.T) {
	for _, name := range []string{"mlp", "cnn"} {
		r := ForwardResult{Network: name, Rows: 3}
		if err := r.prepare(); err != nil {
			t.Fatal(err)
		}
		if err := r.kernels(); err != nil {
			t.Fatal(err)
		}
		if err := r.whole(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.outputs[0], r.outputs[1]) {
			t.Errorf("%s: the kernels give %v, the network %v", name, r.outputs[0], r.outputs[1])
		}
	}
}

func TestBenchAlternate(t *testing.T) {
	needsKernels(t)
	text, err := Bench("alternate", `{"env": "Catch-v0", "num_envs": 4, "rounds": 3, "trials": 2, "wait_ms": 2}`)
	if err != nil {
		t.Fatal(err)
	}
	var r AlternateReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	for _, rates := range [][]float64{r.Act, r.Step, r.TwoGroups, r.OneGroup, r.TwoGroupsBothCores, r.WaitOneGroup, r.WaitTwoGroups} {
		if len(rates) != 2 || rates[0] <= 0 || rates[1] <= 0 {
			t.Errorf("%v, want two rates", rates)
		}
	}
	for _, rate := range append(r.WaitOneGroup, r.WaitTwoGroups...) {
		if rate > 4/2e-3 { // four steps in 2 ms
			t.Errorf("%v steps/s of environments that wait 2 ms", rate)
		}
	}
	if want := (r.TwoGroups[0]/min(r.Act[0], r.Step[0]) + r.TwoGroups[1]/min(r.Act[1], r.Step[1])) / 2; r.AlternatingOfSlower != want {
		t.Errorf("%v of the slower, want %v", r.AlternatingOfSlower, want)
	}
	for _, bad := range []string{`{"num_envs": 3}`, `{"env": "CartPole-v1"}`, `{"wait_ms": -1}`, `{"rounds": 0}`, `{"precision": "fp64"}`, `{"env": "Ctach"}`} {
		if _, err := Bench("alternate", bad); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}
