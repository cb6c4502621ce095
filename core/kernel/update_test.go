package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

var lengths = []int{0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 100, 1003}

// updates are the functions that update flat arrays in place.
var updates = map[string]func(theta, grad, s1, s2 []float32){
	"rmsprop centred, eps inside":  func(th, g, a, s []float32) { RMSProp(nil, th, g, 1, a, s, 0.01, 0.95, 0.01, true, true) },
	"rmsprop centred, eps outside": func(th, g, a, s []float32) { RMSProp(nil, th, g, 1, a, s, 0.01, 0.95, 1e-5, true, false) },
	"rmsprop, eps outside":         func(th, g, _, s []float32) { RMSProp(nil, th, g, 1, nil, s, 0.01, 0.9, 1e-5, false, false) },
	"rmsprop, eps inside":          func(th, g, _, s []float32) { RMSProp(nil, th, g, 1, nil, s, 0.01, 0.9, 1e-5, false, true) },
	"adam":                         func(th, g, m, v []float32) { Adam(nil, th, g, 1, m, v, 0.01, 0.9, 0.999, 1e-5, 7) },
	"radam, rectified":             func(th, g, m, v []float32) { RAdam(nil, th, g, 1, m, v, 0.01, 0.9, 0.999, 1e-5, 7) },
	"radam, before":                func(th, g, m, v []float32) { RAdam(nil, th, g, 1, m, v, 0.01, 0.9, 0.999, 1e-5, 5) },
	"adagrad":                      func(th, g, _, s []float32) { AdaGrad(nil, th, g, 1, s, 0.01, 1e-10) },
	"average":                      func(th, g, _, _ []float32) { Average(nil, th, g, 0.3) },
}

// Every path gives the same bits as the Go path.
func TestUpdatesAgreeToTheBit(t *testing.T) {
	for name, update := range updates {
		for _, n := range lengths {
			want := updateArrays(n)
			run := func(arrays map[string][]float32) {
				update(arrays["theta"], arrays["grad"], arrays["s1"], arrays["s2"])
			}
			before := ISA()
			Use("go")
			run(want.slices(n))
			Use(before)
			eachISA(t, func(t *testing.T) {
				got := updateArrays(n)
				run(got.slices(n))
				got.check(t)
				for array, s := range got.slices(n) {
					sameBits(t, name+" "+array, s, want.slices(n)[array])
				}
			})
		}
	}
}

// A factor gives the same bits as a gradient that is multiplied by it beforehand.
func TestFactorEqualsScaledGradient(t *testing.T) {
	const factor = float32(0.3)
	for name, update := range map[string]func(th, g []float32, factor float32, a, s []float32){
		"rmsprop": func(th, g []float32, factor float32, a, s []float32) {
			RMSProp(nil, th, g, factor, a, s, 0.01, 0.95, 0.01, true, true)
		},
		"adam": func(th, g []float32, factor float32, m, v []float32) {
			Adam(nil, th, g, factor, m, v, 0.01, 0.9, 0.999, 1e-5, 7)
		},
		"radam, rectified": func(th, g []float32, factor float32, m, v []float32) {
			RAdam(nil, th, g, factor, m, v, 0.01, 0.9, 0.999, 1e-5, 7)
		},
		"radam, before": func(th, g []float32, factor float32, m, v []float32) {
			RAdam(nil, th, g, factor, m, v, 0.01, 0.9, 0.999, 1e-5, 5)
		},
		"adagrad": func(th, g []float32, factor float32, _, s []float32) { AdaGrad(nil, th, g, factor, s, 0.01, 1e-10) },
	} {
		for _, n := range lengths {
			eachISA(t, func(t *testing.T) {
				a, b := updateArrays(n), updateArrays(n)
				got, want := a.slices(n), b.slices(n)
				for i := range want["grad"] {
					want["grad"][i] *= factor
				}
				update(got["theta"], got["grad"], factor, got["s1"], got["s2"])
				update(want["theta"], want["grad"], 1, want["s1"], want["s2"])
				for _, array := range []string{"theta", "s1", "s2"} {
					sameBits(t, name+" "+array, got[array], want[array])
				}
				sameBits(t, name+" grad", got["grad"], updateArrays(n).slices(n)["grad"])
			})
		}
	}
}

func updateArrays(n int) *arena {
	r := rand.New(rand.NewPCG(11, uint64(n)))
	a := newArena()
	a.random("theta", n, r)
	a.random("grad", n, r)
	for _, name := range []string{"s1", "s2"} {
		for i, v := range a.random(name, n, r) {
			a.floats[name][guard+i] = 0.1 * v * v
		}
	}
	return a
}

func (a *arena) slices(n int) map[string][]float32 {
	m := map[string][]float32{}
	for name, s := range a.floats {
		m[name] = s[guard : guard+n : guard+n]
	}
	return m
}

// Three steps on one element, from theta = 1, match numbers computed in float64 from the formulas
// in the comments of the functions. Step 1 of the first case by hand: sq = 0.0125, avg = 0.025,
// theta = 1 - 0.05/sqrt(0.0125-0.000625+0.01).
func TestOptimizersMatchTheirFormulas(t *testing.T) {
	grads := []float32{0.5, -0.25, 1}
	for _, c := range []struct {
		name string
		call func(theta, grad, s1, s2 []float32, step int64)
		want [3]float64 // theta after each step
	}{
		{"centred rmsprop, eps inside",
			func(th, g, a, s []float32, _ int64) { RMSProp(nil, th, g, 1, a, s, 0.1, 0.95, 0.01, true, true) },
			[3]float64{0.661938, 0.820454, 0.444011}},
		{"centred rmsprop, eps outside",
			func(th, g, a, s []float32, _ int64) { RMSProp(nil, th, g, 1, a, s, 0.1, 0.95, 0.01, true, false) },
			[3]float64{0.579735, 0.769191, 0.378724}},
		{"rmsprop, eps outside",
			func(th, g, _, s []float32, _ int64) { RMSProp(nil, th, g, 1, nil, s, 0.1, 0.95, 0.01, false, false) },
			[3]float64{0.589502, 0.778218, 0.398677}},
		{"adam",
			func(th, g, m, v []float32, step int64) { Adam(nil, th, g, 1, m, v, 0.1, 0.9, 0.999, 1e-8, step) },
			[3]float64{0.9, 0.873366, 0.807555}},
		{"adagrad",
			func(th, g, _, s []float32, _ int64) { AdaGrad(nil, th, g, 1, s, 0.1, 1e-10) },
			[3]float64{0.9, 0.944721, 0.857434}},
	} {
		eachISA(t, func(t *testing.T) {
			theta, s1, s2 := []float32{1}, []float32{0}, []float32{0}
			for i, g := range grads {
				c.call(theta, []float32{g}, s1, s2, int64(i+1))
				if math.Abs(float64(theta[0])-c.want[i]) > 2e-6 {
					t.Errorf("%s: theta %v after step %d, want %v", c.name, theta[0], i+1, c.want[i])
				}
			}
		})
	}
}

func TestAverageMatchesItsFormula(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, c := range [][4]float32{{1, 3, 0.25, 1.5}, {-2, 2, 0.5, 0}, {8, -8, 1, -8}} {
			x := []float32{c[0]}
			if Average(nil, x, []float32{c[1]}, float64(c[2])); x[0] != c[3] {
				t.Errorf("%v towards %v by %v: %v, want %v", c[0], c[1], c[2], x[0], c[3])
			}
		}
	})
}

// The step stays finite when rounding makes the variance of a constant gradient negative.
func TestRMSPropOfConstantGradientIsFinite(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, inside := range []bool{false, true} {
			theta, avg, sq := []float32{0}, []float32{0}, []float32{0}
			for range 2000 {
				RMSProp(nil, theta, []float32{1e4}, 1, avg, sq, 1e-6, 0.95, 1e-5, true, inside)
			}
			if v := float64(theta[0]); math.IsNaN(v) || math.IsInf(v, 0) || v >= 0 {
				t.Errorf("theta %v, eps inside: %v", v, inside)
			}
		}
	})
}

// The sum is finite exactly if all numbers are. Callers check lists with it.
func TestSumSquaresIsFiniteIfAllNumbersAre(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, n := range []int{1, 7, 16, 33, 1 << 12} {
			x := make([]float32, n)
			for i := range x {
				x[i] = math.MaxFloat32 * float32(1-2*(i%2))
			}
			if got := SumSquares(nil, x); !(got <= math.MaxFloat64) {
				t.Errorf("%d of the largest numbers: %v", n, got)
			}
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				x[n-1] = float32(bad)
				if got := SumSquares(nil, x); got <= math.MaxFloat64 {
					t.Errorf("%d numbers, one of them %v: %v", n, bad, got)
				}
			}
		}
	})
}

func TestSumSquaresMatchesFloat64(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		isa := ISA()
		for _, n := range append(lengths, 1<<16, 1<<16+1, 200_001, 64<<16+1) {
			if n > 1<<20 && testing.Short() {
				continue
			}
			Use(isa)
			x := newArena().random("x", n, rand.New(rand.NewPCG(12, uint64(n))))
			want := 0.0
			for _, v := range x {
				want += float64(v) * float64(v)
			}
			got := SumSquares(nil, x)
			if math.Abs(got-want) > 1e-11*want {
				t.Errorf("%d elements: %v, want %v", n, got, want)
			}
			Use("go")
			if plain := SumSquares(nil, x); got != plain {
				t.Errorf("%d elements: %v differs from the Go path's %v", n, got, plain)
			}
		}
	})
}
