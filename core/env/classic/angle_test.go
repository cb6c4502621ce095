package classic

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// On amd64 the bits are equal to package math's. On other processors the last bit may differ.
func TestSineAndCosineEqualPackageMath(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	angles := []float64{0, math.Copysign(0, -1), math.Pi, -math.Pi, math.Pi / 2, math.Pi / 4, 1e-300, 5e-324,
		reducible - 1, reducible, -1e300, math.Inf(1), math.NaN()}
	for i := range 64 {
		eighth := float64(i-32) * math.Pi / 4
		angles = append(angles, eighth, math.Nextafter(eighth, 100), math.Nextafter(eighth, -100))
	}
	for range 300_000 {
		angles = append(angles, r.NormFloat64(), 100*r.NormFloat64(), math.Float64frombits(r.Uint64()))
	}
	for _, x := range angles {
		for name, y := range map[string][2]float64{"sine": {sine(x), math.Sin(x)}, "cosine": {cosine(x), math.Cos(x)}} {
			same := math.Float64bits(y[0]) == math.Float64bits(y[1]) || y[0] != y[0] && y[1] != y[1]
			if runtime.GOARCH != "amd64" {
				same = same || math.Abs(y[0]-y[1]) < 0x1p-52
			}
			if !same {
				t.Fatalf("%s of %v: %v, package math says %v", name, x, y[0], y[1])
			}
		}
	}
}
