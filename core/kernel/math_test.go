package kernel

import (
	"math"
	"os"
	"testing"
)

// smallest is the smallest normal number.
const smallest = 0x1p-126

// mathFunctions are the elementwise functions with their float64 definitions, whose errors are far
// below a unit in the last place of float32.
var mathFunctions = []struct {
	name  string
	f     func(y, x []float32)
	exact func(x float64) float64
}{
	{"exp", Exp, math.Exp},
	{"log", Log, math.Log},
	{"tanh", Tanh, math.Tanh},
}

// ulps returns the distance of got from want, in units in the last place of float32 near want.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	switch {
	case want != want || got != got:
		if (want != want) == (got != got) {
			return 0
		}
		return math.Inf(1)
	case math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0):
		if w == got {
			return 0
		}
		return math.Inf(1)
	}
	_, exponent := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(exponent, -125)-24)
}

// Results are within 2 units in the last place of float64's, with denormal inputs and results
// counted as zero, and all paths give the same bits. The test tries one of every 1024 float32, with
// varying last bits, and all floats around the edges; with PACELINE_EVERY_FLOAT set (make
// test-math), every float32.
func TestMathFunctions(t *testing.T) {
	const block = 1 << 16
	step := uint64(1024)
	if testing.Short() {
		step = 16384
	}
	if os.Getenv("PACELINE_EVERY_FLOAT") != "" {
		step = 1
	}
	paths := ISAs()
	defer Use(ISA())
	x, y, other := make([]float32, 0, block), make([]float32, block), make([]float32, block)
	for _, fn := range mathFunctions {
		worst, worstAt, failures := 0.0, float32(0), 0
		check := func() {
			Use(paths[0])
			fn.f(y, x)
			for i, v := range x {
				if failures > 5 {
					return
				}
				in := float64(v)
				if math.Abs(in) < smallest {
					in = math.Copysign(0, in)
				}
				want, got := fn.exact(in), y[i]
				if math.Abs(want) < smallest && got == 0 {
					if math.Signbit(want) != math.Signbit(float64(got)) {
						t.Errorf("%s(%v) = %v, want the sign of %v", fn.name, v, got, want)
						failures++
					}
					continue
				}
				err := ulps(got, want)
				if err > worst {
					worst, worstAt = err, v
				}
				if !(err <= 2) {
					t.Errorf("%s(%v) = %v, want %v: off by %.3g ulp", fn.name, v, got, want, err)
					failures++
				}
			}
			for _, isa := range paths[1:] {
				Use(isa)
				fn.f(other, x)
				for i := range x {
					if math.Float32bits(other[i]) != math.Float32bits(y[i]) && failures < 5 {
						t.Errorf("%s(%v): %v on %s, %v on %s", fn.name, x[i], other[i], isa, y[i], paths[0])
						failures++
					}
				}
			}
			x = x[:0]
		}
		add := func(bits uint32) {
			x = append(x, math.Float32frombits(bits))
			if len(x) == block {
				check()
			}
		}
		for i := uint64(0); i < 1<<32; i += step {
			add(uint32(i + i/step*0x9E3779B1>>7%step))
		}
		for _, edge := range []float32{0, smallest, 1, -1, math.Sqrt2, 1 / math.Sqrt2, tanhNear, -tanhNear, expLeast, expMost, 9, 88, -87, -104,
			float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), math.MaxFloat32, math.Ln2 / 2} {
			for d := range uint32(2001) {
				add(math.Float32bits(edge) + d - 1000)
			}
		}
		check()
		t.Logf("%s: at most %.3f units in the last place, at %v", fn.name, worst, worstAt)
	}
}

// Special values give their defined results on every path; NaN stays NaN.
func TestMathSpecialValues(t *testing.T) {
	inf := float32(math.Inf(1))
	minusZero, tiny := float32(math.Copysign(0, -1)), math.Float32frombits(1)
	eachISA(t, func(t *testing.T) {
		for _, c := range []struct {
			f       func(y, x []float32)
			x, want float32
		}{
			{Exp, 0, 1}, {Exp, minusZero, 1}, {Exp, tiny, 1}, {Exp, -inf, 0}, {Exp, inf, inf}, {Exp, 1000, inf}, {Exp, -1000, 0},
			{Exp, math.MaxFloat32, inf}, {Exp, -math.MaxFloat32, 0}, {Exp, nan, nan}, {Exp, -nan, nan},
			{Log, 1, 0}, {Log, 0, -inf}, {Log, minusZero, -inf}, {Log, tiny, -inf}, {Log, -tiny, -inf}, {Log, inf, inf},
			{Log, -1, nan}, {Log, -inf, nan}, {Log, nan, nan}, {Log, -smallest, nan},
			{Tanh, 0, 0}, {Tanh, minusZero, minusZero}, {Tanh, tiny, 0}, {Tanh, -tiny, minusZero}, {Tanh, inf, 1}, {Tanh, -inf, -1},
			{Tanh, 20, 1}, {Tanh, -20, -1}, {Tanh, nan, nan},
		} {
			// The result depends neither on the place in a vector nor on the other numbers.
			x := []float32{nan, 5, c.x, -5, inf}
			for i := range 40 {
				x := append(make([]float32, i), x...)
				c.f(x, x)
				got := x[i+2]
				if c.want != c.want && got == got || c.want == c.want && math.Float32bits(got) != math.Float32bits(c.want) {
					t.Errorf("f(%v) = %v, want %v", c.x, got, c.want)
				}
			}
		}
	})
}

func TestTanhBackwardMatchesFloat64(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, n := range lengths {
			a := newArena()
			y, dy, dx := a.out("y", n), a.out("dy", n), a.out("dx", n)
			for i := range y {
				y[i], dy[i] = float32(math.Sin(float64(i))), float32(math.Cos(float64(2*i)))
			}
			TanhBackward(dx, y, dy)
			a.check(t)
			for i, got := range dx {
				if want := float64(dy[i]) * (1 - float64(y[i])*float64(y[i])); math.Abs(float64(got)-want) > 1e-7 {
					t.Errorf("%d of %d: %v, want %v", i, n, got, want)
				}
			}
			TanhBackward(dy, y, dy)
			sameBits(t, "in place", dy, dx)
		}
	})
}

func TestAddAddsInPlace(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, n := range lengths {
			a := newArena()
			x, y := a.out("x", n), a.out("y", n)
			for i := range x {
				x[i], y[i] = float32(i), float32(n)
			}
			Add(x, y)
			a.check(t)
			for i, v := range x {
				if v != float32(i+n) {
					t.Errorf("%d of %d: %v, want %v", i, n, v, i+n)
				}
			}
		}
	})
}
