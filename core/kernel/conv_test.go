package kernel

import (
	"math/rand/v2"
	"testing"
)

// Runs of kernel*InC floats that are and are not multiples of a vector, of four
// and of a tile; outputs and channels that fill no tile; strides that drop rows.
var convShapes = []Conv{
	{1, 1, 1, 1, 1, 1},
	{1, 5, 6, 1, 2, 1},
	{1, 7, 2, 40, 1, 1},
	{1, 8, 8, 14, 8, 4},
	{2, 7, 7, 7, 2, 1},
	{3, 9, 11, 5, 3, 2},
	{3, 13, 13, 35, 5, 3},
	{4, 36, 37, 32, 8, 4},
	{5, 12, 10, 33, 4, 3},
	{7, 6, 9, 6, 3, 1},
	{16, 10, 9, 64, 3, 1},
	{32, 8, 8, 64, 4, 2},
	{64, 9, 9, 64, 3, 1},
	{8, 6, 6, 17, 6, 1},
}

// eachTap visits every multiplication of a convolution: output, input and weight
// index.
func eachTap(n int, c Conv, f func(i, o, y, x, w int)) {
	for i := range n {
		for o := range c.OutC {
			for oy := range c.OutH() {
				for ox := range c.OutW() {
					for ch := range c.InC {
						for ky := range c.Kernel {
							for kx := range c.Kernel {
								f(i, o, ((i*c.OutC+o)*c.OutH()+oy)*c.OutW()+ox,
									((i*c.InC+ch)*c.InH+oy*c.Stride+ky)*c.InW+ox*c.Stride+kx,
									((o*c.InC+ch)*c.Kernel+ky)*c.Kernel+kx)
							}
						}
					}
				}
			}
		}
	}
}

type convCase struct {
	n           int
	c           Conv
	a           *arena
	x, w, b, dz []float32
	x8          []uint8
	y, dw, db   []float32
	dx, ws      []float32
}

func newConvCase(n int, c Conv, r *rand.Rand) *convCase {
	a := newArena()
	k := &convCase{n: n, c: c, a: a,
		x: a.random("x", n*c.InLen(), r), w: a.random("w", c.WeightLen(), r),
		b: a.random("b", c.OutC, r), dz: a.random("dz", n*c.OutLen(), r),
		y: a.out("y", n*c.OutLen()), dw: a.out("dw", c.WeightLen()), db: a.out("db", c.OutC),
		dx: a.out("dx", n*c.InLen()), ws: a.out("ws", c.Workspace()),
		x8: make([]uint8, n*c.InLen()),
	}
	for i := range k.x8 {
		k.x8[i] = uint8(r.Uint32())
	}
	return k
}

// run calls everything; after it y, dw and db hold the results on floats, and
// the returned slices those on bytes.
func (k *convCase) run() (y8, dw8, db8 []float32) {
	y8 = k.a.out("y8", k.n*k.c.OutLen())
	dw8 = k.a.out("dw8", k.c.WeightLen())
	db8 = k.a.out("db8", k.c.OutC)
	ConvForward(k.y, k.x, k.w, k.b, k.n, k.c, k.ws)
	ConvGradW(k.dw, k.db, k.x, k.dz, k.n, k.c, k.ws)
	ConvGradX(k.dx, k.w, k.dz, k.n, k.c, k.ws)
	ConvForwardU8(y8, k.x8, 1.0/255, k.w, k.b, k.n, k.c, k.ws)
	ConvGradWU8(dw8, db8, k.x8, 1.0/255, k.dz, k.n, k.c, k.ws)
	return y8, dw8, db8
}

func TestConv(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, c := range convShapes {
			for _, n := range []int{1, 3} {
				t.Run(c.String(), func(t *testing.T) {
					k := newConvCase(n, c, r)
					y8, dw8, db8 := k.run()
					k.a.check(t)

					y, dw, dx := newExact(len(k.y)), newExact(len(k.dw)), newExact(len(k.dx))
					wantY8, wantDW8, db := newExact(len(k.y)), newExact(len(k.dw)), newExact(c.OutC)
					plane := c.OutH() * c.OutW()
					for i := range k.y {
						o := i / plane % c.OutC
						y.add(i, float64(k.b[o]))
						wantY8.add(i, float64(k.b[o]))
						db.add(o, float64(k.dz[i]))
					}
					eachTap(n, c, func(_, _, yi, xi, wi int) {
						x8 := float64(k.x8[xi]) / 255
						y.add(yi, float64(k.x[xi])*float64(k.w[wi]))
						wantY8.add(yi, x8*float64(k.w[wi]))
						dw.add(wi, float64(k.x[xi])*float64(k.dz[yi]))
						wantDW8.add(wi, x8*float64(k.dz[yi]))
						dx.add(xi, float64(k.w[wi])*float64(k.dz[yi]))
					})
					y.relu()
					wantY8.relu()
					y.compare(t, "y", k.y)
					wantY8.compare(t, "y of bytes", y8)
					dw.compare(t, "dw", k.dw)
					wantDW8.compare(t, "dw of bytes", dw8)
					db.compare(t, "db", k.db)
					db.compare(t, "db of bytes", db8)
					dx.compare(t, "dx", k.dx)
				})
			}
		}
	})
}

// A picture's results do not depend on the batch that it is part of, nor on the
// place of the slices in memory.
func TestConvRowsAreIndependent(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, c := range convShapes {
			if c.OutLen() > 10000 {
				continue
			}
			k := newConvCase(33, c, r)
			y8, _, _ := k.run()
			for _, i := range []int{0, 1, 17, 32} {
				one := newConvCase(1, c, r)
				copy(one.x, k.x[i*c.InLen():])
				copy(one.x8, k.x8[i*c.InLen():])
				copy(one.dz, k.dz[i*c.OutLen():])
				copy(one.w, k.w)
				copy(one.b, k.b)
				one.ws = make([]float32, c.Workspace()+7)[7:] // another alignment
				oneY8, _, _ := one.run()
				sameBits(t, "y", one.y, k.y[i*c.OutLen():(i+1)*c.OutLen()])
				sameBits(t, "y of bytes", oneY8, y8[i*c.OutLen():(i+1)*c.OutLen()])
				sameBits(t, "dx", one.dx, k.dx[i*c.InLen():(i+1)*c.InLen()])
			}
		}
	})
}
