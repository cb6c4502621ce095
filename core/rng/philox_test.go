package rng

import (
	"math"
	"slices"
	"testing"
)

// The vectors are those of the authors' library Random123, kat_vectors.
func TestPhiloxKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		key           uint64
		counter, want [4]uint32
	}{
		{0, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{math.MaxUint64, [4]uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0_a4093822, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Philox(c.key, c.counter); got != c.want {
			t.Errorf("key %#x: %#x, want %#x", c.key, got, c.want)
		}
	}
}

// A shorter list is the beginning of a longer one, other rows and kinds are other numbers, and
// 100,000 numbers are uniform.
func TestFractions(t *testing.T) {
	const n = 100_000
	x, short, row, kind := make([]float32, n), make([]float32, 7), make([]float32, 7), make([]float32, 7)
	Fractions(x, 5, 1, 2)
	Fractions(short, 5, 1, 2)
	Fractions(row, 5, 1, 3)
	Fractions(kind, 5, 2, 2)
	if !slices.Equal(short, x[:7]) || slices.Equal(row, short) || slices.Equal(kind, short) || slices.Equal(row, kind) {
		t.Errorf("%v, %v, %v of %v", short, row, kind, x[:7])
	}
	slices.Sort(x)
	for i, v := range x {
		if v < 0 || v >= 1 || math.Abs(float64(v)-float64(i)/n) > 0.006 { // Kolmogorov: beyond it once in 700
			t.Fatalf("number %d of %d is %v", i, n, v)
		}
	}
}
