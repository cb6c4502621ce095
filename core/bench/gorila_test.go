package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/bench/cluster"
)

// gorilaCosts are all costs but that of a gradient. With one of 28 ms, a learner makes an update in
// 36 ms.
const gorilaCosts = `"parameters": 2000, "step": 0.002, "sigma": 0, "pause": 0, "apply": 1e-6, "message": 0, "inline": 0, "push": {"call": 0.001}, "get": {"call": 0.001},
	"visit": {"call": 0.002, "object": 0.001}, "keep": {"call": 0.001}, "wait": {}, "ray": {}`

func TestBenchGorila(t *testing.T) {
	var r GorilaReport
	runBench(t, "gorila", `{"bundles": 50, "shards": 2, "scale": [1, 8], "keep": 0, "costs": {"gradient": 0.028, `+gorilaCosts+`}}`, &r)
	// A visit takes 3 ms and a µs for each of 1,000 parameters.
	if math.Abs(r.One-1/0.036) > 1e-6 || math.Abs(r.Result.Updates/250-1) > 0.01 || r.Result.Limit != cluster.Shards || r.Result.Steps != 4*r.Result.Updates {
		t.Errorf("one %v, %+v", r.One, r.Result)
	}
	if s := r.Saturation; s.Resource != cluster.Shards || math.Abs(s.Updates-250) > 1e-6 || math.Abs(s.Bundles-9) > 1e-6 {
		t.Errorf("%+v", s)
	}
	if p := r.Points; len(p) != 2 || p[0].Shards != 1 || p[1].Shards < 1 || p[1].Enough.Updates < cluster.Share*p[1].Best.Updates {
		t.Errorf("%+v", r.Points)
	}
	for name, source := range r.Sources {
		if source != "file" {
			t.Errorf("%s is from %s", name, source)
		}
	}
	var shared GorilaReport
	runBench(t, "gorila", `{"bundles": 8, "shards": 2, "cores": 2, "keep": 0, "costs": {"gradient": 0.028, `+gorilaCosts+`}}`, &shared)
	if want := 2 / (0.04 + 2*0.004); math.Abs(shared.Result.Updates/want-1) > 0.01 || shared.Result.Limit != cluster.Cores || len(shared.Points) != 0 {
		t.Errorf("%+v, want %v updates a second", shared.Result, want)
	}
	// The gradient is measured, and so are costs that a file could have replaced.
	var here GorilaReport
	runBench(t, "gorila", `{"bundles": 2, "shards": 1, "scale": [], "env": "CartPole-v1", "costs": {`+gorilaCosts+`}}`, &here)
	if k := here.Costs; k.Parameters != 2000 || k.Step != 0.002 || !(k.Gradient > 0 && k.Gradient < 10) || here.Sources["gradient"] != "here" || here.Sources["step"] != "file" {
		t.Errorf("%+v %+v", k, here.Sources)
	}
	for options, want := range map[string]string{
		`{"bundles": 0}`:             "options: bundles: 0, must be 1 to 10000",
		`{"scale": [10, 20000]}`:     "options: bundles: 20000, must be 1 to 10000",
		`{"shards": 0}`:              "options: shards: 0, must be 1 to 1024",
		`{"gbits": 0}`:               "options: gbits 0, must be above 0 and at most 1000000",
		`{"latency_ms": -1}`:         "options: latency_ms -1, must be 0 to 1000000",
		`{"updates": 0}`:             "options: updates 0, must be 1 to 1000000",
		`{"cores": 2, "scale": [1]}`: "options: scale [1], must be empty with cores 2",
		`{"bundles": 10000, "shards": 1024, "scale": []}`: "10000 bundles, 1024 shards and 1000 updates are 112640000 visits, must be at most 20000000",
		`{"costs": [1]}`: "options: costs: ",
		`{"costs": {"gradient": 1, "speed": 1, ` + gorilaCosts + `}}`:                                `unknown field "speed"`,
		`{"costs": {"gradient": -1, ` + gorilaCosts + `}}`:                                           "options: costs.gradient: -1, must be 0 to 3600",
		`{"shards": 5, "scale": [], "costs": {"gradient": 1, ` + gorilaCosts + `, "parameters": 4}}`: "options: shards 5, must be at most 4, the number of parameters",
		`{"env": "Nothing-v0", "scale": []}`:                                                         "Nothing-v0",
	} {
		if _, err := Bench("gorila", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}
