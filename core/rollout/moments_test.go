package rollout

import (
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

func TestNormalize(t *testing.T) {
	a := []float32{1, 100, 2, 3, 100, 6}
	w := []float32{1, 0, 1, 1, 0, 1}
	MomentsOf(a, w).Normalize(a, w)
	// mean 3, deviations -2 -1 0 3, their squares 14: std = sqrt(14/3).
	std := math.Sqrt(14./3) + 1e-8
	for k, want := range []float64{-2 / std, 100, -1 / std, 0, 100, 3 / std} {
		if math.Abs(float64(a[k])-want) > 1e-7*math.Abs(want) {
			t.Errorf("row %d: %g, want %g", k, a[k], want)
		}
	}
	one := []float32{5, 7}
	if MomentsOf(one, []float32{0, 1}).Normalize(one, []float32{0, 1}); one[0] != 5 || one[1] != 7 {
		t.Errorf("a single row became %v", one)
	}
	same := []float32{5, 5}
	if MomentsOf(same, []float32{1, 1}).Normalize(same, []float32{1, 1}); same[0] != 0 || same[1] != 0 {
		t.Errorf("equal rows became %v", same)
	}
}

// The moments of parts, added, are those of the whole, in any cut; a part without rows changes
// nothing.
func TestMomentsOfParts(t *testing.T) {
	r := rng.New(3, "test", 0)
	for range 200 {
		values, weights := make([]float32, r.Intn(40)), make([]float32, 40)
		for i := range values {
			values[i] = float32(r.Uniform(-3, 7))
			weights[i] = float32(r.Intn(2))
		}
		weights = weights[:len(values)]
		var sum Moments
		for at := 0; at < len(values); {
			n := min(1+r.Intn(9), len(values)-at)
			before := sum
			part := MomentsOf(values[at:at+n], weights[at:at+n])
			if sum = sum.Plus(part); part.N == 0 && sum != before || before.N == 0 && sum != part {
				t.Fatalf("%+v and %+v: %+v", before, part, sum)
			}
			at += n
		}
		want := MomentsOf(values, weights)
		if sum.N != want.N || math.Abs(sum.Mean-want.Mean) > 1e-12 || math.Abs(sum.Squares-want.Squares) > 1e-10 {
			t.Fatalf("%+v, must be %+v", sum, want)
		}
	}
	if (Moments{N: 1, Mean: math.NaN()}).Finite() || (Moments{N: 1, Squares: math.Inf(1)}).Finite() || !(Moments{N: 1}).Finite() {
		t.Error("Finite")
	}
}
