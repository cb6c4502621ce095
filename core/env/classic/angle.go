package classic

import "math"

// sine, cosine and sineAndCosine return the same bits on every processor. Package math does not:
// on some processors the compiler adds a product without rounding it first. On amd64 the results
// are equal to package math's. The method is package math's too, from the Cephes library: subtract
// a whole number of eighths of a turn, then evaluate a polynomial of the square of the rest. pi/4
// is the sum of three numbers; the first two have so few bits that their products are exact.
func sine(x float64) float64 {
	sin, _ := sineAndCosine(x)
	return sin
}

func cosine(x float64) float64 {
	_, cos := sineAndCosine(x)
	return cos
}

func sineAndCosine(x float64) (sin, cos float64) {
	if !(math.Abs(x) < reducible) {
		return math.Sin(x), math.Cos(x)
	}
	eighths, z := reduce(math.Abs(x))
	sin, cos = nearZero(z), nearOne(z)
	if eighths%4 == 2 {
		sin, cos = cos, sin
	}
	if (eighths >= 4) != math.Signbit(x) {
		sin = -sin
	}
	if eighths == 2 || eighths == 4 {
		cos = -cos
	}
	return sin, cos
}

// reducible is the limit of angles below which reduce is exact. Only a restored state that this
// package did not save can reach it.
const reducible = 1 << 29

// reduce subtracts from x, which is at least 0, the nearest even number of eighths of a turn. It
// returns that number modulo 8, and the rest of x, at most pi/4 in absolute value.
func reduce(x float64) (eighths int, rest float64) {
	const (
		high   = 7.85398125648498535156e-1
		middle = 3.77489470793079817668e-8
		low    = 2.69515142907905952645e-15
	)
	n := uint64(x * (4 / math.Pi))
	n += n % 2
	k := float64(n)
	return int(n % 8), ((x - float64(k*high)) - float64(k*middle)) - float64(k*low)
}

// nearZero returns the sine of an angle of at most pi/4.
func nearZero(z float64) float64 {
	zz := z * z
	p := float64(1.58962301576546568060e-10*zz) - 2.50507477628578072866e-8
	p = float64(p*zz) + 2.75573136213857245213e-6
	p = float64(p*zz) - 1.98412698295895385996e-4
	p = float64(p*zz) + 8.33333333332211858878e-3
	p = float64(p*zz) - 1.66666666666666307295e-1
	return z + float64(z*zz*p)
}

// nearOne returns the cosine of an angle of at most pi/4.
func nearOne(z float64) float64 {
	zz := z * z
	p := float64(-1.13585365213876817300e-11*zz) + 2.08757008419747316778e-9
	p = float64(p*zz) - 2.75573141792967388112e-7
	p = float64(p*zz) + 2.48015872888517045348e-5
	p = float64(p*zz) - 1.38888888888730564116e-3
	p = float64(p*zz) + 4.16666666666665929218e-2
	return 1 - float64(0.5*zz) + float64(zz*zz*p)
}
