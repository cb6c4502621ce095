package kernel

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/cpu"
)

// Elements before and after a guarded slice. Odd, so that the slice is not
// aligned: where Go aligns the whole to 64 bytes, a workspace loses 15 floats to
// aligning it again, the most it can.
const guard = 33

// What surrounds bytes, which have no NaN: the largest, so that it shows in sums.
const guardByte = 255

var nan = float32(math.NaN())

// precisions by their names in tests.
var precisions = []string{FP32: "fp32", BF16: "bf16"}

// arena hands out slices with NaN on both sides: whoever reads beyond an input
// gets NaN into its result, and whoever writes beyond an output is found by
// check.
type arena struct {
	floats map[string][]float32
	bytes  map[string][]uint8
}

func newArena() *arena { return &arena{map[string][]float32{}, map[string][]uint8{}} }

// out returns n elements of NaN, so that what is not overwritten shows.
func (a *arena) out(name string, n int) []float32 {
	s := make([]float32, n+2*guard)
	fill(s, nan)
	a.floats[name] = s
	return s[guard : guard+n : guard+n]
}

func fill(s []float32, v float32) {
	s[0] = v
	for filled := 1; filled < len(s); filled *= 2 {
		copy(s[filled:], s[:filled])
	}
}

// copied returns a guarded copy of x.
func (a *arena) copied(name string, x []float32) []float32 {
	s := a.out(name, len(x))
	copy(s, x)
	return s
}

func (a *arena) copiedBytes(name string, x []uint8) []uint8 {
	s := make([]uint8, len(x)+2*guard)
	for i := range s {
		s[i] = guardByte
	}
	a.bytes[name] = s
	copy(s[guard:], x)
	return s[guard : guard+len(x) : guard+len(x)]
}

// random returns n numbers in [-1, 1), a few of them zero.
func (a *arena) random(name string, n int, r *rand.Rand) []float32 {
	return a.copied(name, randomFloats(n, r))
}

func randomFloats(n int, r *rand.Rand) []float32 {
	s := make([]float32, n)
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
	for name, s := range a.floats {
		for i := range guard {
			if !math.IsNaN(float64(s[i])) || !math.IsNaN(float64(s[len(s)-1-i])) {
				t.Errorf("%s: written outside, %d elements from the edge of its guard", name, i)
			}
		}
	}
	for name, s := range a.bytes {
		for i := range guard {
			if s[i] != guardByte || s[len(s)-1-i] != guardByte {
				t.Errorf("%s: written outside, %d elements from the edge of its guard", name, i)
			}
		}
	}
}

// exact is a float64 result with what bounds the errors of computing it in fewer
// bits: the sum of its terms' magnitudes, for any order of summation, and the sum
// of their squares, whose root is the size of many errors that are independent.
type exact struct{ sum, size, squares []float64 }

func newExact(n int) exact { return exact{make([]float64, n), make([]float64, n), make([]float64, n)} }

func (e exact) add(i int, v float64) {
	e.sum[i] += v
	e.size[i] += math.Abs(v)
	e.squares[i] += v * v
}

func (e exact) relu() {
	for i := range e.sum {
		e.sum[i] = max(e.sum[i], 0)
	}
}

// errorOf returns the largest error of got, each relative to its own terms'
// magnitudes.
func (e exact) errorOf(got []float32) float64 {
	worst := 0.0
	for i, g := range got {
		worst = max(worst, relative(math.Abs(float64(g)-e.sum[i]), e.size[i]))
	}
	return worst
}

// errorOfWhole returns the largest error of got relative to the root of the
// largest sum of squares of any element: Winograd's intermediate sums hold the
// terms of neighbours, whose rounding does not shrink with the element itself.
// Relative to plain magnitudes, a missing term among hundreds would pass for the
// rounding of bf16.
func (e exact) errorOfWhole(got []float32) float64 {
	worst := 0.0
	for i, g := range got {
		worst = max(worst, math.Abs(float64(g)-e.sum[i])) // NaN, if there is one
	}
	return relative(worst, math.Sqrt(slices.Max(e.squares)))
}

func relative(err, size float64) float64 {
	if err == 0 {
		return 0
	}
	return err / size
}

// figures collects the largest errors by the name of what was computed; a test
// logs them, and so says where the limits come from.
type figures map[string]float64

// within notes an error, and fails the test where it is above limit or NaN.
func (e figures) within(t *testing.T, what, where string, err, limit float64) {
	t.Helper()
	if !(err <= limit) {
		t.Errorf("%s of %s: error %.3g, must be at most %.3g", what, where, err, limit)
	}
	key := ISA() + " " + what
	e[key] = max(e[key], err)
}

func (e figures) log(t *testing.T) {
	for _, key := range slices.Sorted(maps.Keys(e)) {
		t.Logf("%-28s %.2g", key, e[key])
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

// eachISA runs f as a subtest on every path of this machine, but for the one that is
// made of two others. -short leaves out the Go path where there are others.
func eachISA(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer Use(ISA())
	for _, isa := range ISAs() {
		if isa == cpu.Portable || testing.Short() && isa == cpu.Go && len(ISAs()) > 1 {
			continue
		}
		if err := Use(isa); err != nil {
			t.Fatal(err)
		}
		t.Run(isa, f)
	}
}

// eachPath runs f as a subtest on every path and in both precisions. In fp32 avx512bf16 and
// amx are avx512.
func eachPath(t *testing.T, f func(t *testing.T, p Precision)) {
	t.Helper()
	eachISA(t, func(t *testing.T) {
		for p, name := range precisions {
			if isa := ISA(); Precision(p) == FP32 && (isa == cpu.AVX512BF16 || isa == cpu.AMX) {
				continue
			}
			t.Run(name, func(t *testing.T) { f(t, Precision(p)) })
		}
	})
}

func convName(n int, c Conv) string {
	return fmt.Sprintf("%d of %dx%dx%d by %dx%d/%d to %d", n, c.InC, c.InH, c.InW, c.Kernel, c.Kernel, c.Stride, c.OutC)
}
