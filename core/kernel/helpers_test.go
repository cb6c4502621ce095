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

// guard is the number of elements before and after a guarded slice. It is odd, so that the slice is
// not aligned: if Go aligns the allocation to 64 bytes, aligning a workspace costs 15 floats, which
// is the most it can cost.
const guard = 33

// guardByte surrounds byte slices. It is the largest byte, so that it shows in sums.
const guardByte = 255

var nan = float32(math.NaN())

// precisions are the names of the precisions.
var precisions = []string{FP32: "fp32", BF16: "bf16"}

// arena makes slices with NaN on both sides. A read beyond an input makes the result NaN; check
// finds writes beyond an output.
type arena struct {
	floats map[string][]float32
	bytes  map[string][]uint8
}

func newArena() *arena { return &arena{map[string][]float32{}, map[string][]uint8{}} }

// out returns n elements of NaN, so that elements that are not overwritten show.
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

// exact is a float64 result with bounds for the error of a result with fewer bits. size, the sum of
// the terms' magnitudes, bounds it for any order of summation. The root of squares, the sum of the
// squared terms, is the size of many independent errors.
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

// errorOf returns the largest error of got, each relative to the magnitudes of its own terms.
func (e exact) errorOf(got []float32) float64 {
	worst := 0.0
	for i, g := range got {
		worst = max(worst, relative(math.Abs(float64(g)-e.sum[i]), e.size[i]))
	}
	return worst
}

// errorOfWhole returns the largest error of got relative to the root of the largest sum of squares
// of any element. Winograd's intermediate sums hold the terms of neighbouring elements, and the
// rounding of those does not shrink with the element. Relative to magnitudes, one missing term of
// hundreds would look like the rounding of bf16.
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

// worstErrors collects the largest error of each result by name. Tests log them; the limits come
// from these logs.
type worstErrors map[string]float64

// within records an error and fails the test if the error is above limit or NaN.
func (e worstErrors) within(t *testing.T, result, where string, err, limit float64) {
	t.Helper()
	if !(err <= limit) {
		t.Errorf("%s of %s: error %.3g, must be at most %.3g", result, where, err, limit)
	}
	key := ISA() + " " + result
	e[key] = max(e[key], err)
}

func (e worstErrors) log(t *testing.T) {
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

// eachISA runs f as a subtest on every path of this machine but portable, which is made of two
// others. -short skips the Go and the generic path unless the process has chosen it.
func eachISA(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer Use(ISA())
	for _, isa := range ISAs() {
		if isa == cpu.Portable || testing.Short() && isa != cpu.Chosen() && (isa == cpu.Go || isa == cpu.Generic) {
			continue
		}
		if err := Use(isa); err != nil {
			t.Fatal(err)
		}
		t.Run(isa, f)
	}
}

// eachPath runs f as a subtest on every path in both precisions. It skips avx512bf16 and amx in
// fp32, where they are avx512.
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
