package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

type denseCase struct {
	n, in, out        int
	a                 *arena
	x, w, b, dz       []float32
	y, dw, db, dx, ws []float32
}

func newDenseCase(n, in, out int, r *rand.Rand) *denseCase {
	a := newArena()
	return &denseCase{n: n, in: in, out: out, a: a,
		x: a.random("x", n*in, r), w: a.random("w", out*in, r), b: a.random("b", out, r), dz: a.random("dz", n*out, r),
		y: a.out("y", n*out), dw: a.out("dw", out*in), db: a.out("db", out), dx: a.out("dx", n*in),
		ws: a.out("ws", DenseWorkspace(n, in, out)),
	}
}

func (k *denseCase) run(relu bool) {
	DenseForward(k.y, k.x, k.w, k.b, k.n, k.in, k.out, relu)
	DenseGradW(k.dw, k.db, k.x, k.dz, k.n, k.in, k.out, k.ws)
	DenseGradX(k.dx, k.w, k.dz, k.n, k.in, k.out, k.ws)
}

func TestDense(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, n := range []int{1, 2, 5, 7, 33} {
			for _, in := range []int{1, 3, 4, 15, 16, 17, 31, 64, 100, 513} {
				for _, out := range []int{1, 2, 6, 7, 8, 9, 16, 33, 64} {
					k := newDenseCase(n, in, out, r)
					relu := r.IntN(2) == 0
					k.run(relu)
					k.a.check(t)
					y, dw, db, dx := newExact(n*out), newExact(out*in), newExact(out), newExact(n*in)
					for i := range n {
						for o := range out {
							y.add(i*out+o, float64(k.b[o]))
							g := float64(k.dz[i*out+o])
							db.add(o, g)
							for j := range in {
								x, w := float64(k.x[i*in+j]), float64(k.w[o*in+j])
								y.add(i*out+o, x*w)
								dw.add(o*in+j, x*g)
								dx.add(i*in+j, w*g)
							}
						}
					}
					if relu {
						y.relu()
					}
					name := fmt.Sprintf("n=%d in=%d out=%d ", n, in, out)
					y.compare(t, name+"y", k.y)
					dw.compare(t, name+"dw", k.dw)
					db.compare(t, name+"db", k.db)
					dx.compare(t, name+"dx", k.dx)
				}
			}
		}
	})
}

func TestDenseRowsAreIndependent(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, in := range []int{4, 64, 513} {
			for _, out := range []int{6, 64, 77} {
				k := newDenseCase(33, in, out, r)
				k.run(true)
				for _, n := range []int{1, 7} {
					for i := 0; i+n <= 33; i += 13 {
						few := newDenseCase(n, in, out, r)
						copy(few.x, k.x[i*in:])
						copy(few.dz, k.dz[i*out:])
						copy(few.w, k.w)
						copy(few.b, k.b)
						few.run(true)
						sameBits(t, "y", few.y, k.y[i*out:(i+n)*out])
						sameBits(t, "dx", few.dx, k.dx[i*in:(i+n)*in])
					}
				}
			}
		}
	})
}
