package kernel

import "math"

// The plain Go path. Each function is the definition of its C counterparts, written for the reader.
// The innermost loops walk memory in order, which keeps builds without cgo usable. An explicit
// float32 rounds every product before it is added: Go fuses the two on some processors, and the
// optimisers must give the same bits on all.

var reference = table{
	name:       "go",
	layers:     [2]layers{refLayers(false), refLayers(true)},
	rmsProp:    refRMSProp,
	adam:       refAdam,
	rAdam:      refRAdam,
	adaGrad:    refAdaGrad,
	sumSquares: refSumSquares,
	average:    refAverage,

	normForward: refNormForward, normBackward: refNormBackward,
	add: refAdd, exp: elementwise(exp32), log: elementwise(log32), tanh: elementwise(tanh32), tanhBackward: refTanhBackward,
	tdTargets: refTDTargets, tdLoss: refTDLoss, logSoftmax: refLogSoftmax, gaussianLogProbs: refGaussianLogProbs, actorCritic: refActorCritic,
	categoricalMeans: refCategoricalMeans, project: refProject, categoricalLoss: refCategoricalLoss, quantileLoss: refQuantileLoss,
	modulate: refModulate, modulateBackward: refModulateBackward,
}

func refRMSProp(_ *Team, theta, grad []float32, factor float32, avg, sq []float32, lr float32, decay float64, eps float32, centered, epsInside bool) {
	keep, rest := float32(decay), float32(1-decay)
	for i := range theta {
		g := float32(factor * grad[i])
		sq[i] = float32(keep*sq[i]) + float32(float32(rest*g)*g)
		v := sq[i]
		if centered {
			avg[i] = float32(keep*avg[i]) + float32(rest*g)
			v -= float32(avg[i] * avg[i])
			if v < 0 { // rounding; a variance is at least 0
				v = 0
			}
		}
		if epsInside {
			v = sqrt32(v + eps)
		} else {
			v = sqrt32(v) + eps
		}
		theta[i] -= float32(float32(lr*g) / v)
	}
}

func refAdam(_ *Team, theta, grad []float32, factor float32, m, v []float32, lr float32, beta1, beta2 float64, eps float32, step int64) {
	keep1, rest1 := float32(beta1), float32(1-beta1)
	keep2, rest2 := float32(beta2), float32(1-beta2)
	size := float32(float64(lr) / (1 - Power(beta1, step)))
	root := float32(math.Sqrt(1 - Power(beta2, step)))
	for i := range theta {
		g := float32(factor * grad[i])
		m[i] = float32(keep1*m[i]) + float32(rest1*g)
		v[i] = float32(keep2*v[i]) + float32(float32(rest2*g)*g)
		theta[i] -= float32(float32(size*m[i]) / (float32(sqrt32(v[i])/root) + eps))
	}
}

func refRAdam(_ *Team, theta, grad []float32, factor float32, m, v []float32, size float32, beta1, beta2 float64, eps float32, rectified bool) {
	keep1, rest1 := float32(beta1), float32(1-beta1)
	keep2, rest2 := float32(beta2), float32(1-beta2)
	for i := range theta {
		g := float32(factor * grad[i])
		m[i] = float32(keep1*m[i]) + float32(rest1*g)
		v[i] = float32(keep2*v[i]) + float32(float32(rest2*g)*g)
		step := float32(size * m[i])
		if rectified {
			step /= sqrt32(v[i]) + eps
		}
		theta[i] -= step
	}
}

// Power returns x^n by repeated squaring, for the same bits with every C library and on every
// processor.
func Power(x float64, n int64) float64 {
	p := 1.0
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			p = float64(p * x)
		}
		x = float64(x * x)
	}
	return p
}

func refAdaGrad(_ *Team, theta, grad []float32, factor float32, sq []float32, lr, eps float32) {
	for i := range theta {
		g := float32(factor * grad[i])
		sq[i] += float32(g * g)
		theta[i] -= float32(float32(lr*g) / (sqrt32(sq[i]) + eps))
	}
}

func refSumSquares(_ *Team, x []float32) float64 {
	var sums partSums
	units, parts := (len(x)+15)/16, sums.of(x)
	for i := range parts {
		parts[i] = sumOfSquares(x[units*i/len(parts)*16 : min(len(x), units*(i+1)/len(parts)*16)])
	}
	return sums.total()
}

func sumOfSquares(x []float32) float64 {
	var s [16]float64
	for i, v := range x {
		s[i%16] += float64(v) * float64(v) // the product is exact: fused or not, same bits
	}
	for half := 8; half > 0; half /= 2 {
		for i := range half {
			s[i] += s[i+half]
		}
	}
	return s[0]
}

func refAverage(_ *Team, x, y []float32, weight float64) {
	keep, rest := float32(1-weight), float32(weight)
	for i := range x {
		x[i] = float32(keep*x[i]) + float32(rest*y[i])
	}
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
