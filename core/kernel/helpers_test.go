package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

const guard = 33 // elements before and after a guarded slice; odd, so that it is not aligned

var nan = float32(math.NaN())

// arena hands out slices with NaN on both sides: whoever reads beyond an input
// gets NaN into its result, and whoever writes beyond an output is found by
// check.
type arena struct{ all map[string][]float32 }

func newArena() *arena { return &arena{map[string][]float32{}} }

// out returns n elements of NaN, so that what is not overwritten shows.
func (a *arena) out(name string, n int) []float32 {
	s := make([]float32, n+2*guard)
	for i := range s {
		s[i] = nan
	}
	a.all[name] = s
	return s[guard : guard+n : guard+n]
}

// random returns n numbers in [-1, 1), a few of them zero.
func (a *arena) random(name string, n int, r *rand.Rand) []float32 {
	s := a.out(name, n)
	for i := range s {
		s[i] = 2*r.Float32() - 1
		if r.IntN(16) == 0 {
			s[i] = 0
		}
	}
	return s
}

func (a *arena) check(t *testing.T) {
	t.Helper()
	for name, s := range a.all {
		for i := range guard {
			if !math.IsNaN(float64(s[i])) || !math.IsNaN(float64(s[len(s)-1-i])) {
				t.Errorf("%s: written outside, %d elements from its edge", name, i)
			}
		}
	}
}

// exact is a float64 result with the sum of its terms' magnitudes, which bounds
// the error of any order of summation.
type exact struct{ sum, size []float64 }

func newExact(n int) exact { return exact{make([]float64, n), make([]float64, n)} }

func (e exact) add(i int, v float64) {
	e.sum[i] += v
	e.size[i] += math.Abs(v)
}

func (e exact) relu() {
	for i := range e.sum {
		e.sum[i] = max(e.sum[i], 0)
	}
}

func (e exact) compare(t *testing.T, name string, got []float32) {
	t.Helper()
	if len(got) != len(e.sum) {
		t.Fatalf("%s: %d elements, want %d", name, len(got), len(e.sum))
	}
	for i, g := range got {
		if !(math.Abs(float64(g)-e.sum[i]) <= 2e-6*e.size[i]+1e-30) {
			t.Errorf("%s[%d] = %v, want %v (terms add up to %v)", name, i, g, e.sum[i], e.size[i])
			return
		}
	}
}

func sameBits(t *testing.T, name string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", name, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%s[%d] = %v, want the bits of %v", name, i, got[i], want[i])
			return
		}
	}
}

// eachISA runs f as a subtest on every path of this machine.
func eachISA(t *testing.T, f func(t *testing.T)) {
	before := ISA()
	defer Use(before)
	for _, isa := range ISAs() {
		if err := Use(isa); err != nil {
			t.Fatal(err)
		}
		t.Run(isa, f)
	}
}

func (c Conv) String() string {
	return fmt.Sprintf("%dx%dx%d-%dx%d/%d-%d", c.InC, c.InH, c.InW, c.Kernel, c.Kernel, c.Stride, c.OutC)
}
