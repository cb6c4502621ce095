// Package portable has functions of real numbers that return the same bits on every processor, for
// numbers that the result of a run depends on. Those of package math are written for each
// processor. Every product is rounded, because some processors add it unrounded.
package portable

import "math"

// Log returns the natural logarithm of x > 0 by its series in (m-1)/(m+1), where x = m 2^e.
// math.Log is written for each processor.
func Log(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := (m - 1) / (m + 1)
	ss, sum := float64(s*s), 0.0
	for k := 23; k > 0; k -= 2 { // |s| < 0.172: the next term is below 1e-19
		sum = float64(sum*ss) + 2/float64(k)
	}
	return float64(sum*s) + float64(float64(e)*math.Ln2)
}

// Exp returns e^x for |x| < 700 by its series at r, where x = k ln 2 + r. math.Exp is written for
// each processor. The even and the odd terms are two chains, which a processor adds up in parallel.
func Exp(x float64) float64 {
	const high, low = 6.93147180369123816490e-01, 1.90821492927058770002e-10 // ln 2, high with 32 bits
	k := math.Floor(float64(x*math.Log2E) + 0.5)
	r := x - float64(k*high) - float64(k*low)
	rr := float64(r * r)
	even, odd := 0.0, 0.0
	for n := len(factorials) - 2; n >= 0; n -= 2 { // |r| < 0.347: the next term is below 1e-19
		even = float64(even*rr) + factorials[n]
		odd = float64(odd*rr) + factorials[n+1]
	}
	return math.Ldexp(even+float64(odd*r), int(k))
}

// factorials are 1/n!.
var factorials = func() (list [16]float64) {
	f := 1.0
	for n := range list {
		list[n] = 1 / f
		f *= float64(n + 1)
	}
	return list
}()

// Pow returns x^a for x >= 0, where |a log x| < 700, to within about 1e-15 |a log x| of its value.
// 0^a is 0, or 1 if a is 0. Powers of 1/2, 1 and their negatives are rounded once or twice.
func Pow(x, a float64) float64 {
	switch {
	case a == 0:
		return 1
	case x == 0:
		return 0
	case a == 1:
		return x
	case a == -1:
		return 1 / x
	case a == 0.5:
		return math.Sqrt(x)
	case a == -0.5:
		return 1 / math.Sqrt(x)
	}
	return Exp(float64(a * Log(x)))
}

// CosPi returns cos(pi x) for 0 <= x < 2^20, to within about 2e-16. Multiples of 1/2 are exact.
func CosPi(x float64) float64 {
	k := math.Floor(float64(2*x) + 0.5)
	y := float64(math.Pi * (x - float64(k/2))) // |y| <= pi/4
	yy := float64(y * y)
	cos, sin := 0.0, 0.0
	for n := len(factorials) - 1; n >= 0; n-- { // the next term is below 1e-17
		switch sign := 1 - float64(n&2); n & 1 {
		case 0:
			cos = float64(cos*yy) + float64(sign*factorials[n])
		default:
			sin = float64(sin*yy) + float64(sign*factorials[n])
		}
	}
	switch int64(k) & 3 {
	case 0:
		return cos
	case 1:
		return -float64(sin * y)
	case 2:
		return -cos
	}
	return float64(sin * y)
}
