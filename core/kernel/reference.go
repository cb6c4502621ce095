package kernel

import "math"

// The plain Go path. Each function is the definition of what the C paths
// compute, written for the reader; loops are ordered so that the innermost one
// walks memory in order, which keeps builds without cgo usable. Products are
// rounded by an explicit float32 before they are added: on some processors Go
// would fuse the two, and the optimisers must give the same bits everywhere.

var reference = table{
	name:          "go",
	convForward:   refConvForward,
	convForwardU8: refConvForwardU8,
	convGradW:     refConvGradW,
	convGradWU8:   refConvGradWU8,
	convGradX:     refConvGradX,
	reluGrad:      refReLUGrad,
	denseForward:  refDenseForward,
	denseGradW:    refDenseGradW,
	denseGradX:    refDenseGradX,
	rmsProp:       refRMSProp,
	adam:          refAdam,
	adaGrad:       refAdaGrad,
	sumSquares:    refSumSquares,
	scale:         refScale,
}

func refConvForward(y, x, w, b []float32, n int, c Conv, _ []float32) {
	convForwardOf(y, x, 1, w, b, n, c)
}

func refConvForwardU8(y []float32, x []uint8, scale float32, w, b []float32, n int, c Conv, _ []float32) {
	convForwardOf(y, x, scale, w, b, n, c)
}

func convForwardOf[T uint8 | float32](y []float32, x []T, scale float32, w, b []float32, n int, c Conv) {
	outH, outW := c.OutH(), c.OutW()
	for i := range n {
		for o := range c.OutC {
			out := y[(i*c.OutC+o)*outH*outW:][:outH*outW]
			for p := range out {
				out[p] = b[o]
			}
			c.taps(o, func(wi, ch, ky, kx int) {
				wt := w[wi]
				for oy := range outH {
					src := x[((i*c.InC+ch)*c.InH+oy*c.Stride+ky)*c.InW+kx:]
					dst := out[oy*outW:][:outW]
					for ox := range dst {
						dst[ox] += float32(wt * float32(float32(src[ox*c.Stride])*scale))
					}
				}
			})
			for p, v := range out {
				if v < 0 {
					out[p] = 0
				}
			}
		}
	}
}

// taps calls f for each weight of output channel o: its index in w, and the
// channel, row and column of the patch that it multiplies.
func (c Conv) taps(o int, f func(wi, ch, ky, kx int)) {
	wi := o * c.patch()
	for ch := range c.InC {
		for ky := range c.Kernel {
			for kx := range c.Kernel {
				f(wi, ch, ky, kx)
				wi++
			}
		}
	}
}

func refConvGradW(dw, db, x, dz []float32, n int, c Conv, _ []float32) {
	convGradWOf(dw, db, x, 1, dz, n, c)
}

func refConvGradWU8(dw, db []float32, x []uint8, scale float32, dz []float32, n int, c Conv, _ []float32) {
	convGradWOf(dw, db, x, scale, dz, n, c)
}

func convGradWOf[T uint8 | float32](dw, db []float32, x []T, scale float32, dz []float32, n int, c Conv) {
	outH, outW := c.OutH(), c.OutW()
	clear(dw[:c.WeightLen()])
	clear(db[:c.OutC])
	for i := range n {
		for o := range c.OutC {
			g := dz[(i*c.OutC+o)*outH*outW:][:outH*outW]
			var sum float32
			for _, v := range g {
				sum += v
			}
			db[o] += sum
			c.taps(o, func(wi, ch, ky, kx int) {
				var sum float32
				for oy := range outH {
					src := x[((i*c.InC+ch)*c.InH+oy*c.Stride+ky)*c.InW+kx:]
					for ox, v := range g[oy*outW:][:outW] {
						sum += float32(v * float32(float32(src[ox*c.Stride])*scale))
					}
				}
				dw[wi] += sum
			})
		}
	}
}

func refConvGradX(dx, w, dz []float32, n int, c Conv, _ []float32) {
	outH, outW := c.OutH(), c.OutW()
	clear(dx[:n*c.InLen()])
	for i := range n {
		for o := range c.OutC {
			g := dz[(i*c.OutC+o)*outH*outW:][:outH*outW]
			c.taps(o, func(wi, ch, ky, kx int) {
				wt := w[wi]
				for oy := range outH {
					dst := dx[((i*c.InC+ch)*c.InH+oy*c.Stride+ky)*c.InW+kx:]
					for ox, v := range g[oy*outW:][:outW] {
						dst[ox*c.Stride] += float32(wt * v)
					}
				}
			})
		}
	}
}

func refReLUGrad(dz, y, dy []float32) {
	for i := range dz {
		if y[i] > 0 {
			dz[i] = dy[i]
		} else {
			dz[i] = 0
		}
	}
}

func refDenseForward(y, x, w, b []float32, n, in, out int, relu bool) {
	for i := range n {
		row := x[i*in:][:in]
		for o := range out {
			// Four interleaved sums: one alone waits for each addition.
			var s [4]float32
			wt := w[o*in:][:in]
			k := 0
			for ; k+4 <= in; k += 4 {
				s[0] += float32(row[k] * wt[k])
				s[1] += float32(row[k+1] * wt[k+1])
				s[2] += float32(row[k+2] * wt[k+2])
				s[3] += float32(row[k+3] * wt[k+3])
			}
			for ; k < in; k++ {
				s[0] += float32(row[k] * wt[k])
			}
			v := ((s[0] + s[1]) + (s[2] + s[3])) + b[o]
			if relu && v < 0 {
				v = 0
			}
			y[i*out+o] = v
		}
	}
}

func refDenseGradW(dw, db, x, dz []float32, n, in, out int, _ []float32) {
	clear(dw[:out*in])
	clear(db[:out])
	for i := range n {
		row := x[i*in:][:in]
		for o, g := range dz[i*out:][:out] {
			db[o] += g
			for k, v := range row {
				dw[o*in+k] += float32(g * v)
			}
		}
	}
}

func refDenseGradX(dx, w, dz []float32, n, in, out int, _ []float32) {
	clear(dx[:n*in])
	for i := range n {
		row := dx[i*in:][:in]
		for o, g := range dz[i*out:][:out] {
			for k, v := range w[o*in:][:in] {
				row[k] += float32(g * v)
			}
		}
	}
}

func refRMSProp(theta, grad, avg, sq []float32, lr, decay, eps float32, centered, epsInside bool) {
	rest := 1 - decay
	for i := range theta {
		g := grad[i]
		sq[i] = float32(decay*sq[i]) + float32(float32(rest*g)*g)
		v := sq[i]
		if centered {
			avg[i] = float32(decay*avg[i]) + float32(rest*g)
			v -= float32(avg[i] * avg[i])
			if v < 0 { // a variance, but for rounding
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

func refAdam(theta, grad, m, v []float32, lr, beta1, beta2, eps float32, step int64) {
	rest1, rest2 := 1-beta1, 1-beta2
	size := float32(float64(lr) / (1 - power(float64(beta1), step)))
	root := float32(math.Sqrt(1 - power(float64(beta2), step)))
	for i := range theta {
		g := grad[i]
		m[i] = float32(beta1*m[i]) + float32(rest1*g)
		v[i] = float32(beta2*v[i]) + float32(float32(rest2*g)*g)
		theta[i] -= float32(float32(size*m[i]) / (float32(sqrt32(v[i])/root) + eps))
	}
}

// power multiplies in an order of its own, for the same bits with every library.
func power(x float64, n int64) float64 {
	p := 1.0
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			p = float64(p * x)
		}
		x = float64(x * x)
	}
	return p
}

func refAdaGrad(theta, grad, sq []float32, lr, eps float32) {
	for i := range theta {
		g := grad[i]
		sq[i] += float32(g * g)
		theta[i] -= float32(float32(lr*g) / (sqrt32(sq[i]) + eps))
	}
}

func refSumSquares(x []float32) float64 {
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

func refScale(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
