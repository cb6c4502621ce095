package rng

import (
	"math"
	"testing"
)

// The probability below quantile(p) is p. A relative error e of the quantile x changes it by about
// x^2 e.
func TestQuantileIsTheInverseOfTheDistribution(t *testing.T) {
	for k := 1; k < 200_000; k++ {
		p := float64(k) / 200_000
		for _, p := range []float64{p, math.Pow(p, 12)} {
			// The lower half, where 1-2p loses no digits that matter.
			if p > 0.5 {
				continue
			}
			got := quantile(p)
			if back := 0.5 * math.Erfc(-got/math.Sqrt2); math.Abs(back-p) > 1e-15*(1+got*got)*p {
				t.Fatalf("quantile(%v) = %v, below which the probability is %v", p, got, back)
			}
			if q := 1 - p; 1-q == p && quantile(q) != -got {
				t.Fatalf("quantile(%v) = %v, must be %v", q, quantile(q), -got)
			}
		}
	}
	if x := quantile(0x1p-54); !(x < -8 && x > -9) {
		t.Fatalf("the quantile of the smallest draw is %v", x)
	}
}

// The median and the deviation of the logarithm of 100,000 draws.
func TestLognormalDraws(t *testing.T) {
	const n, sigma = 100_000, 0.5
	s := New(7, "latency", 0)
	below, square := 0, 0.0
	for range n {
		x := s.Lognormal(sigma)
		if x < 1 {
			below++
		}
		square += math.Log(x) * math.Log(x) / n
	}
	if share := float64(below) / n; math.Abs(share-0.5) > 0.01 || math.Abs(math.Sqrt(square)-sigma) > 0.01 {
		t.Errorf("%v of the draws are below the median, the deviation is %v", share, math.Sqrt(square))
	}
}

// The moments of a million draws, and the Kolmogorov distance from the distribution.
func TestNormalDraws(t *testing.T) {
	const n = 1_000_000
	s := New(7, "explore", 0)
	var moments [4]float64
	counts := make([]int, 64)
	for range n {
		x := s.Normal()
		y := 1.0
		for k := range moments {
			y *= x
			moments[k] += y / n
		}
		counts[int(64*0.5*math.Erfc(-x/math.Sqrt2))]++
	}
	// Five standard errors: the variances of x^k are 1, 2, 15, 96.
	for k, want := range []float64{0, 1, 0, 3} {
		if within := 5 * math.Sqrt([]float64{1, 2, 15, 96}[k]/n); math.Abs(moments[k]-want) > within {
			t.Errorf("moment %d: %v, must be %v within %v", k+1, moments[k], want, within)
		}
	}
	var chi float64
	for _, c := range counts {
		d := float64(c) - n/64.0
		chi += d * d / (n / 64.0)
	}
	if chi > 128 { // 63 degrees of freedom: beyond it once in 100,000
		t.Errorf("chi-squared of 64 equal intervals: %v", chi)
	}
}
