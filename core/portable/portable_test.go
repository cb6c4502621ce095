package portable

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLogIsTheLogarithm(t *testing.T) {
	for _, x := range []float64{0x1p-54, 1e-9, 0.01, 0.074, 0.5, 0.7071, 0.70711, 0.9, 1, 1.5, 3} {
		if got, want := Log(x), math.Log(x); math.Abs(got-want) > 4e-16*math.Max(1, math.Abs(want)) {
			t.Errorf("Log(%v) = %v, must be %v", x, got, want)
		}
	}
}

func TestExpIsTheExponential(t *testing.T) {
	if Exp(0) != 1 {
		t.Errorf("Exp(0) = %v", Exp(0))
	}
	for k := -690_000; k < 690_000; k += 37 {
		x := float64(k) / 1000
		if got, want := Exp(x), math.Exp(x); math.Abs(got-want) > 1e-15*want {
			t.Fatalf("Exp(%v) = %v, must be %v", x, got, want)
		}
	}
}

func TestPowIsThePower(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		x, a := math.Exp(r.Float64()*160-80), r.Float64()*4-2
		if got, want := Pow(x, a), math.Pow(x, a); math.Abs(got-want) > 1e-13*want {
			t.Fatalf("Pow(%v, %v) = %v, must be %v", x, a, got, want)
		}
	}
	for _, x := range []float64{0, math.SmallestNonzeroFloat32, 1, 7} {
		for _, a := range []float64{0, 0.25, 0.5, 1, -0.5, -1} {
			if got, want := Pow(x, a), math.Pow(x, a); (x > 0 || a >= 0) && math.Abs(got-want) > 1e-14*want {
				t.Errorf("Pow(%v, %v) = %v, must be %v", x, a, got, want)
			}
		}
	}
}

// These bits are those of every processor.
func TestBits(t *testing.T) {
	for _, c := range []struct {
		got  float64
		want uint64
	}{
		{Log(3), 0x3ff193ea7aad030a},
		{Exp(0.7), 0x40001c2a61268987},
		{Pow(1e-3, 0.6), 0x3f903ab3d12bc2c6},
	} {
		if got := math.Float64bits(c.got); got != c.want {
			t.Errorf("%v: %#x, must be %#x", c.got, got, c.want)
		}
	}
}

func TestCosPiIsTheCosine(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		x := r.Float64() * 3
		if got, want := CosPi(x), math.Cos(float64(math.Pi*x)); math.Abs(got-want) > 1.5e-15 { // pi x is rounded
			t.Fatalf("CosPi(%v) = %v, must be %v", x, got, want)
		}
	}
	for k, want := range []float64{1, 0, -1, 0, 1, 0, -1} {
		if got := CosPi(float64(k) / 2); got != want {
			t.Errorf("CosPi(%v) = %v, must be %v", float64(k)/2, got, want)
		}
	}
}
