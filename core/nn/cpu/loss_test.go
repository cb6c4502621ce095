package cpu

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// tdTargetsAt uses the value of the given action, as a plain loop does.
func TestTDTargetsAtUsesTheGivenAction(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 50 {
		n, width := 1+r.IntN(9), 1+r.IntN(20)
		next, targets := make([]float32, n*width), make([]float32, n)
		rewards, discounts, actions := make([]float32, n), make([]float32, n), make([]int32, n)
		for k := range next {
			next[k] = float32(r.NormFloat64())
		}
		for i := range n {
			rewards[i], discounts[i], actions[i] = float32(r.NormFloat64()), r.Float32(), int32(r.IntN(width))
		}
		if err := tdTargetsAt(targets, next, actions, rewards, discounts); err != nil {
			t.Fatal(err)
		}
		for i, got := range targets {
			product := float32(discounts[i] * next[i*width+int(actions[i])])
			if want := rewards[i] + product; got != want {
				t.Fatalf("row %d: %v, want %v", i, got, want)
			}
		}
		actions[0] = int32(width)
		if err := tdTargetsAt(targets, next, actions, rewards, discounts); err == nil || !strings.Contains(err.Error(), "must be 0 to") {
			t.Errorf("%v", err)
		}
		if err := tdTargetsAt(targets, next, actions[1:], rewards, discounts); err == nil || !strings.Contains(err.Error(), "must be a row each") {
			t.Errorf("%v", err)
		}
	}
}

// tdTargets uses the largest value of a row, or its first NaN.
func TestTDTargetsUsesTheLargestValue(t *testing.T) {
	nan := float32(math.NaN())
	targets := make([]float32, 3)
	if err := tdTargets(targets, []float32{1, 5, -2, -3, nan, 7}, []float32{0.5, 1, 2}, []float32{0.5, 0.9, 1}); err != nil {
		t.Fatal(err)
	}
	if by := float32(0.9); targets[0] != 3 || targets[1] != 1+float32(by*-2) || targets[2] == targets[2] {
		t.Errorf("targets %v", targets)
	}
	for _, c := range [][4]int{{2, 6, 3, 3}, {3, 7, 3, 3}, {3, 0, 3, 3}, {3, 6, 3, 2}, {0, 0, 0, 0}} {
		x := func(n int) []float32 { return make([]float32, n) }
		if err := tdTargets(x(c[0]), x(c[1]), x(c[2]), x(c[3])); err == nil || !strings.Contains(err.Error(), "must be a row each") {
			t.Errorf("%v: error %v", c, err)
		}
	}
}
