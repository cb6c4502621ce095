package rng

import (
	"math"

	"github.com/paceline-rl/paceline/core/portable"
)

// Normal returns a number with the standard normal distribution, by one draw: the quantile of a
// uniform number of 53 random bits in (0, 1). It has the same bits on every processor.
func (s *Stream) Normal() float64 {
	return quantile(float64(s.Float64()) + 0x1p-54)
}

// Lognormal returns a number whose logarithm is normal with mean 0 and standard deviation sigma, 0
// to 10, by one draw. It has the same bits on every processor.
func (s *Stream) Lognormal(sigma float64) float64 { return portable.Exp(float64(sigma * s.Normal())) }

// quantile returns the x below which a standard normal variable is with probability p, 0 < p < 1.
// It is algorithm AS 241 (Wichura 1988, Applied Statistics 37, PPND16), whose relative error is
// about 1e-16. Every product is rounded, because some processors add it unrounded.
func quantile(p float64) float64 {
	q := p - 0.5
	if math.Abs(q) <= 0.425 {
		r := 0.180625 - float64(q*q)
		return float64(q*polynomial(r, &centre[0])) / polynomial(r, &centre[1])
	}
	// Below, r is the distance from the nearer of 0 and 1.
	r, coefficients, from := min(p, 1-p), &tail, 1.6
	if r = math.Sqrt(-portable.Log(r)); r > 5 {
		coefficients, from = &farTail, 5
	}
	return math.Copysign(polynomial(r-from, &coefficients[0])/polynomial(r-from, &coefficients[1]), q)
}

func polynomial(x float64, c *[8]float64) float64 {
	y := c[7]
	for k := 6; k >= 0; k-- {
		y = float64(y*x) + c[k]
	}
	return y
}

// Numerators and denominators, the coefficient of x^0 first.
var (
	centre = [2][8]float64{
		{3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
			4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3},
		{1, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
			2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3},
	}
	tail = [2][8]float64{
		{1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
			1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
		{1, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
			1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9},
	}
	farTail = [2][8]float64{
		{6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
			2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
		{1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
			7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15},
	}
)
