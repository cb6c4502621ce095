package bench

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestBenchUpdate(t *testing.T) {
	text, err := Bench("update", `{"batch": 2, "act": [1, 3], "precisions": ["bf16"], "threads": [1, 2], "trials": 2}`)
	if err != nil {
		t.Fatal(err)
	}
	var r UpdateReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 8 {
		t.Fatalf("%d results, want 2 thread counts of 4 works", len(r.Results))
	}
	for _, c := range r.Results {
		if len(c.Ms) != 2 || len(c.Peak) != 2 || c.Ms[0] <= 0 || c.Peak[1] <= 0 || (c.Done <= 0 || c.Flop < c.Done) != (c.Work == "sample") {
			t.Errorf("%+v", c)
		}
	}
	// 18.7 MFLOP a state, and for an update of 32 2.18 GFLOP: design figures of the Nature CNN.
	if f := r.Results[2].Flop; f < 18.6e6 || f > 18.8e6 {
		t.Errorf("%v floating-point operations for one state", f)
	}
	if f := r.Results[0].Flop; f < 2*68.0e6 || f > 2*68.3e6 {
		t.Errorf("%v floating-point operations for an update of two", f)
	}
	for want, options := range map[string]string{
		`options: precisions "fp8", must be fp32 or bf16`: `{"precisions": ["fp8"]}`,
		"options: batch 0, trials 20, must be at least 1": `{"batch": 0}`,
		"options: act 0, must be 1 to 65536":              `{"act": [0]}`,
		"threads: 0, must be 1 to 1024":                   `{"threads": [0]}`,
	} {
		if _, err := Bench("update", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

func TestBenchForward(t *testing.T) {
	text, err := Bench("forward", `{"rows": [1, 3], "trials": 2}`)
	if err != nil {
		t.Fatal(err)
	}
	var r ForwardReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 4 {
		t.Fatalf("%d results, want two networks on two numbers of rows", len(r.Results))
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

// What is timed as kernels must be what the network does.
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
