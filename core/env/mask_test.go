package env

import (
	"math/rand/v2"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

// A chi-squared test shows that all allowed actions are drawn equally often. No other action is
// drawn.
func TestRandomActionIsUniformOverTheAllowed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	stream := rng.New(3, "explore", 0)
	for range 60 {
		n := 2 + r.IntN(20)
		mask, counts := make([]byte, n), make([]int, n)
		for a := range mask {
			mask[a] = byte(r.IntN(2) * r.IntN(256))
		}
		mask[r.IntN(n)] = 1
		allowed := 0
		for _, m := range mask {
			if m != 0 {
				allowed++
			}
		}
		const draws = 20_000
		for range draws {
			counts[RandomAction(n, mask, stream)]++
		}
		expected, chi2 := draws/float64(allowed), 0.0
		for a, k := range counts {
			if mask[a] == 0 {
				if k > 0 {
					t.Fatalf("mask %v: action %d was drawn", mask, a)
				}
				continue
			}
			chi2 += (float64(k) - expected) * (float64(k) - expected) / expected
		}
		// Mean and variance are those of chi-squared with allowed - 1 degrees of freedom.
		if f := float64(allowed - 1); chi2 > f+6*max(1, 1.5*f) {
			t.Errorf("mask %v: chi-squared %v with %v degrees of freedom", mask, chi2, f)
		}
	}
}

// Without a mask, and with a mask that allows all actions, the draws are equal to Intn's.
func TestRandomActionDrawsAsIntn(t *testing.T) {
	a, b, c := rng.New(1, "explore", 0), rng.New(1, "explore", 0), rng.New(1, "explore", 0)
	for n := 1; n < 200; n++ {
		mask := make([]byte, n)
		for k := range mask {
			mask[k] = 1
		}
		want := int32(a.Intn(n))
		if x, y := RandomAction(n, nil, b), RandomAction(n, mask, c); x != want || y != want {
			t.Fatalf("%d actions: %d and %d, want %d", n, x, y, want)
		}
	}
}

func TestCheckMaskRefusesEmptyMasks(t *testing.T) {
	for _, mask := range [][]byte{nil, {1}, {0, 0, 2}} {
		if err := CheckMask(mask); err != nil {
			t.Errorf("%v: %v", mask, err)
		}
	}
	if err := CheckMask(make([]byte, 3)); err == nil || err.Error() != "action mask: allows none of 3 actions, must allow one" {
		t.Errorf("%v", err)
	}
}
