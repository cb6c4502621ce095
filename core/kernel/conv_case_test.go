package kernel

import "math/rand/v2"

// image is the shape of a batch of images.
type image struct{ n, channels, pixels int }

func (c *Conv) input(n int) image  { return image{n, c.InC, c.InH * c.InW} }
func (c *Conv) output(n int) image { return image{n, c.OutC, c.OutH() * c.OutW()} }

// arrange copies planar images to the other layout, or to the same if planar is set.
func arrange[T any](p image, s []T, planar bool) []T {
	to := make([]T, len(s))
	p.pair(planar, func(there, here int) { to[here] = s[there] })
	return to
}

// flatten is the inverse of arrange.
func flatten[T any](p image, s []T, planar bool) []T {
	to := make([]T, len(s))
	p.pair(planar, func(there, here int) { to[there] = s[here] })
	return to
}

// pair calls f for every element, with its index in planar images and in the requested layout.
func (p image) pair(planar bool, f func(there, here int)) {
	for i := range p.n {
		for ch := range p.channels {
			for px := range p.pixels {
				there := (i*p.channels+ch)*p.pixels + px
				here := there
				if !planar {
					here = (i*p.pixels+px)*p.channels + ch
				}
				f(there, here)
			}
		}
	}
}

// convData is the input of one convolution, in planar images.
type convData struct {
	n           int
	c           Conv
	x, w, b, dy []float32
	x8          []uint8
	// The output for the backward pass. It is not the result of the forward pass, so that errors of
	// one pass do not reach the other.
	y []float32
}

const byteScale = float32(1) / 255

func newConvData(n int, c Conv, r *rand.Rand) *convData {
	d := &convData{n: n, c: c,
		x: randomFloats(n*c.InLen(), r), w: randomFloats(c.WeightLen(), r), b: randomFloats(c.OutC, r),
		y: randomFloats(n*c.OutLen(), r), dy: randomFloats(n*c.OutLen(), r),
		x8: make([]uint8, n*c.InLen()),
	}
	for i := range d.x8 {
		d.x8[i] = uint8(r.Uint32())
	}
	return d
}

// slice returns the data of images i to i+m-1.
func (d *convData) slice(i, m int) *convData {
	s := *d
	in, out := d.c.InLen(), d.c.OutLen()
	s.n, s.x, s.x8 = m, d.x[i*in:][:m*in], d.x8[i*in:][:m*in]
	s.y, s.dy = d.y[i*out:][:m*out], d.dy[i*out:][:m*out]
	return &s
}

// products returns the number of multiplications of one forward pass by direct convolution.
func products(n int, c Conv) int { return n * c.OutH() * c.OutW() * c.WeightLen() }

// convExact is every result by direct sums in float64, planar. y8 and dw8 are results of bytes.
type convExact struct{ y, y8, dw, dw8, db, dx exact }

func (d *convData) exact() convExact {
	c := &d.c
	outH, outW := c.OutH(), c.OutW()
	e := convExact{newExact(len(d.y)), newExact(len(d.y)), newExact(len(d.w)), newExact(len(d.w)),
		newExact(c.OutC), newExact(len(d.x))}
	yi := 0
	for i := range d.n {
		for o := range c.OutC {
			for oy := range outH {
				for ox := range outW {
					e.y.add(yi, float64(d.b[o]))
					e.y8.add(yi, float64(d.b[o]))
					g := 0.0
					if c.Linear || d.y[yi] > 0 {
						g = float64(d.dy[yi])
						e.db.add(o, g)
					}
					for ch := range c.InC {
						for ky := range c.Kernel {
							xi := ((i*c.InC+ch)*c.InH+oy*c.Stride+ky)*c.InW + ox*c.Stride
							wi := ((o*c.InC+ch)*c.Kernel + ky) * c.Kernel
							for range c.Kernel {
								w, x, x8 := float64(d.w[wi]), float64(d.x[xi]), float64(d.x8[xi])/255
								e.y.add(yi, x*w)
								e.y8.add(yi, x8*w)
								if g != 0 {
									e.dw.add(wi, x*g)
									e.dw8.add(wi, x8*g)
									e.dx.add(xi, w*g)
								}
								xi++
								wi++
							}
						}
					}
					yi++
				}
			}
		}
	}
	if !c.Linear {
		e.y.relu()
		e.y8.relu()
	}
	return e
}

// convCase is convData in the layouts and the precision of c, between guards, with the results.
type convCase struct {
	*convData
	c              *Conv
	team           *Team
	a              *arena
	x, w, b, y, dy []float32
	x8             []uint8
	packed, back   []float32
	packed8, ws    []float32
	outY, outY8    []float32
	dw, dw8        []float32
	db, db8, dx    []float32
}

func (d *convData) with(planarIn, planarOut bool, p Precision) *convCase {
	c := d.c
	c.PlanarIn, c.PlanarOut, c.Precision = planarIn, planarOut, p
	a := newArena()
	k := &convCase{convData: d, c: &c, a: a,
		x: a.copied("x", arrange(c.input(d.n), d.x, planarIn)), x8: a.copiedBytes("x8", arrange(c.input(d.n), d.x8, planarIn)),
		w: a.copied("w", d.w), b: a.copied("b", d.b),
		y: a.copied("y", arrange(c.output(d.n), d.y, planarOut)), dy: a.copied("dy", arrange(c.output(d.n), d.dy, planarOut)),
		packed: a.out("packed", c.PackLen()), packed8: a.out("packed8", c.PackLen()), back: a.out("back", c.PackBackLen()),
		outY: a.out("outY", len(d.y)), outY8: a.out("outY8", len(d.y)),
		dw: a.out("dw", len(d.w)), dw8: a.out("dw8", len(d.w)), db: a.out("db", c.OutC), db8: a.out("db8", c.OutC),
		dx: a.out("dx", len(d.x)), ws: a.out("ws", c.Workspace(d.n, nil)),
	}
	if c.Linear {
		k.y = nil // not read
	}
	return k
}

// on sets the team, with a workspace for it.
func (k *convCase) on(t *Team) *convCase {
	k.team, k.ws = t, k.a.out("ws", k.c.Workspace(k.n, t))
	return k
}

// reset overwrites the results of an earlier run with NaN and sets the precision.
func (k *convCase) reset(p Precision) {
	k.c.Precision = p
	for _, s := range [][]float32{k.packed, k.packed8, k.back, k.outY, k.outY8, k.dw, k.dw8, k.db, k.db8, k.dx, k.ws} {
		fill(s, nan)
	}
}

// eachSlice calls f with every slice of floats.
func (k *convCase) eachSlice(f func(s *[]float32)) {
	for _, s := range []*[]float32{&k.x, &k.w, &k.b, &k.y, &k.dy, &k.packed, &k.packed8, &k.back,
		&k.outY, &k.outY8, &k.dw, &k.dw8, &k.db, &k.db8, &k.dx, &k.ws} {
		f(s)
	}
}

// run calls every function of the layer.
func (k *convCase) run() {
	ConvPack(k.team, k.packed, k.w, 1, k.c, k.ws)
	ConvPack(k.team, k.packed8, k.w, byteScale, k.c, k.ws)
	ConvPackBack(k.team, k.back, k.w, k.c, k.ws)
	ConvForward(k.team, k.outY, k.x, k.packed, k.b, k.n, k.c, k.ws)
	ConvForwardU8(k.team, k.outY8, k.x8, k.packed8, k.b, k.n, k.c, k.ws)
	ConvBackward(k.team, k.dw, k.db, k.dx, k.x, k.back, k.y, k.dy, k.n, k.c, k.ws)
	ConvBackwardU8(k.team, k.dw8, k.db8, k.x8, byteScale, k.y, k.dy, k.n, k.c, k.ws)
}

// results returns the results of run, in planar images.
func (k *convCase) results() map[string][]float32 {
	in, out := k.c.input(k.n), k.c.output(k.n)
	return map[string][]float32{
		"y": flatten(out, k.outY, k.c.PlanarOut), "y of bytes": flatten(out, k.outY8, k.c.PlanarOut),
		"dw": k.dw, "dw of bytes": k.dw8, "db": k.db, "db of bytes": k.db8,
		"dx": flatten(in, k.dx, k.c.PlanarIn),
	}
}

// byName returns the exact results under the names of convCase.results.
func (e convExact) byName() map[string]exact {
	return map[string]exact{"y": e.y, "y of bytes": e.y8, "dw": e.dw, "dw of bytes": e.dw8,
		"db": e.db, "db of bytes": e.db, "dx": e.dx}
}
