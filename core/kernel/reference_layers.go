package kernel

import (
	"math"
	"sync/atomic"
)

// The layers of the plain Go path: direct sums. The innermost loops walk a row of an image or of
// the weights, which keeps builds without cgo usable.

// rounding says how a factor is rounded before it is multiplied.
type rounding struct{ bf16 bool }

func refLayers(bf16 bool) layers {
	p := rounding{bf16}
	return layers{
		convPack:      refConvPack,
		convPackBack:  refConvPackBack,
		convForward:   p.convForward,
		convBackward:  p.convBackward,
		densePack:     p.densePack,
		denseForward:  p.denseForward,
		denseBackward: p.denseBackward,
		peak:          refPeak,
		direct:        true,
	}
}

func (p rounding) round(x float32) float32 {
	if p.bf16 {
		return roundBF16(x)
	}
	return x
}

// roundBF16 rounds to 8 significant bits, to nearest, ties to even. NaN stays NaN.
func roundBF16(x float32) float32 {
	if x != x {
		return x
	}
	b := math.Float32bits(x)
	return math.Float32frombits((b + 0x7FFF + b>>16&1) &^ 0xFFFF)
}

// strides are the distances in an image between rows, columns and channels.
type strides struct{ h, w, c int }

func stridesOf(planar bool, c, h, w int) strides {
	if planar {
		return strides{w, 1, h * w}
	}
	return strides{w * c, c, 1}
}

func (c *Conv) inStrides() strides  { return stridesOf(c.PlanarIn, c.InC, c.InH, c.InW) }
func (c *Conv) outStrides() strides { return stridesOf(c.PlanarOut, c.OutC, c.OutH(), c.OutW()) }

// taps calls f for each weight of output channel o, with its index in w and its channel, row and
// column in the patch.
func (c *Conv) taps(o int, f func(wi, ch, ky, kx int)) {
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

func refConvPack(_ *Team, packed, w []float32, scale float32, c *Conv, _ []float32) {
	for i := range c.WeightLen() {
		packed[i] = w[i] * scale
	}
}

func refConvPackBack(_ *Team, packed, w []float32, c *Conv, _ []float32) {
	copy(packed, w[:c.WeightLen()])
}

func (p rounding) convForward(_ *Team, y, x []float32, x8 []uint8, packed, b []float32, n int, c *Conv, _ []float32) {
	if x8 != nil {
		convForwardOf(p, y, x8, packed, b, n, c)
	} else {
		convForwardOf(p, y, x, packed, b, n, c)
	}
}

func convForwardOf[T uint8 | float32](p rounding, y []float32, x []T, w, b []float32, n int, c *Conv) {
	outH, outW, in, out := c.OutH(), c.OutW(), c.inStrides(), c.outStrides()
	for i := range n {
		x, y := x[i*c.InLen():], y[i*c.OutLen():][:c.OutLen()]
		for o := range c.OutC {
			for oy := range outH {
				for ox := range outW {
					y[oy*out.h+ox*out.w+o*out.c] = b[o]
				}
			}
			c.taps(o, func(wi, ch, ky, kx int) {
				wt := p.round(w[wi])
				for oy := range outH {
					src := x[(oy*c.Stride+ky)*in.h+kx*in.w+ch*in.c:]
					dst := y[oy*out.h+o*out.c:]
					for ox := range outW {
						dst[ox*out.w] += float32(wt * p.round(float32(src[ox*c.Stride*in.w])))
					}
				}
			})
		}
		for j, v := range y {
			if v < 0 && !c.Linear {
				y[j] = 0
			}
		}
	}
}

func (p rounding) convBackward(_ *Team, dw, db, dx, x []float32, x8 []uint8, scale float32, packed, y, dy []float32, n int, c *Conv, _ []float32) {
	if x8 != nil {
		convBackwardOf(p, dw, db, nil, x8, scale, nil, y, dy, n, c)
	} else {
		convBackwardOf(p, dw, db, dx, x, scale, packed, y, dy, n, c)
	}
}

func convBackwardOf[T uint8 | float32](p rounding, dw, db, dx []float32, x []T, scale float32, w, y, dy []float32, n int, c *Conv) {
	outH, outW, in, out := c.OutH(), c.OutW(), c.inStrides(), c.outStrides()
	clear(dw[:c.WeightLen()])
	clear(db[:c.OutC])
	if dx != nil {
		clear(dx[:n*c.InLen()])
	}
	if c.Linear {
		y = nil
	}
	for i := range n {
		x, y, dy := x[i*c.InLen():], y[min(len(y), i*c.OutLen()):], dy[i*c.OutLen():]
		for o := range c.OutC {
			for oy := range outH {
				for ox := range outW {
					if at := oy*out.h + ox*out.w + o*out.c; c.Linear || y[at] > 0 {
						db[o] += dy[at]
					}
				}
			}
			c.taps(o, func(wi, ch, ky, kx int) {
				var sum, wt float32
				if dx != nil {
					wt = p.round(w[wi])
				}
				for oy := range outH {
					at := (oy*c.Stride+ky)*in.h + kx*in.w + ch*in.c
					src, from := x[at:], oy*out.h+o*out.c
					for ox := range outW {
						if c.Linear || y[from+ox*out.w] > 0 {
							g := p.round(dy[from+ox*out.w])
							sum += float32(g * p.round(float32(src[ox*c.Stride*in.w])))
							if dx != nil {
								dx[i*c.InLen()+at+ox*c.Stride*in.w] += float32(wt * g)
							}
						}
					}
				}
				dw[wi] += float32(sum * scale)
			})
		}
	}
}

func (p rounding) densePack(_ *Team, packed, w []float32, d Dense) {
	for i, v := range w[:d.Out*d.In] {
		packed[i] = p.round(v)
	}
}

// denseForward needs no case for packed weights: rounding them again changes nothing.
func (p rounding) denseForward(_ *Team, y, x, w []float32, _ bool, b []float32, n int, d Dense, _ []float32) {
	for i := range n {
		row := x[i*d.In:][:d.In]
		for o := range d.Out {
			// Four interleaved sums, because a single sum waits for each addition.
			var s [4]float32
			wt := w[o*d.In:][:d.In]
			k := 0
			for ; k+4 <= d.In; k += 4 {
				s[0] += float32(p.round(row[k]) * p.round(wt[k]))
				s[1] += float32(p.round(row[k+1]) * p.round(wt[k+1]))
				s[2] += float32(p.round(row[k+2]) * p.round(wt[k+2]))
				s[3] += float32(p.round(row[k+3]) * p.round(wt[k+3]))
			}
			for ; k < d.In; k++ {
				s[0] += float32(p.round(row[k]) * p.round(wt[k]))
			}
			v := ((s[0] + s[1]) + (s[2] + s[3])) + b[o]
			if d.ReLU && v < 0 {
				v = 0
			}
			y[i*d.Out+o] = v
		}
	}
}

func (p rounding) denseBackward(_ *Team, dw, db, dx, x, w, y, dy []float32, n int, d Dense, _ []float32) {
	clear(db[:d.Out])
	clear(dw[:d.Out*d.In])
	if dx != nil {
		clear(dx[:n*d.In])
	}
	for i := range n {
		for o, g := range dy[i*d.Out:][:d.Out] {
			if d.ReLU && !(y[i*d.Out+o] > 0) {
				continue
			}
			db[o] += g
			g = p.round(g)
			for k := range d.In {
				dw[o*d.In+k] += float32(g * p.round(x[i*d.In+k]))
			}
			if dx != nil {
				for k := range d.In {
					dx[i*d.In+k] += float32(g * p.round(w[o*d.In+k]))
				}
			}
		}
	}
}

// refPeak does the multiply-adds of denseForward.
func refPeak(rounds int) (flop float64) {
	var s [4]float32
	x := float32(1e-30)
	for range rounds {
		s[0] += float32(x * x)
		s[1] += float32(x * x)
		s[2] += float32(x * x)
		s[3] += float32(x * x)
		x = -x
	}
	sink.Store(math.Float32bits(s[0] + s[1] + s[2] + s[3]))
	return 8 * float64(rounds)
}

// sink receives unused results, so that the compiler computes them.
var sink atomic.Uint32
