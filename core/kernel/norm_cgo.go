//go:build cgo

package kernel

// #include "kernel.h"
import "C"

// minSharedNumbers is the smallest input that is shared: normalising fewer numbers takes less time
// than waking a thread.
const minSharedNumbers = 1 << 14

// norm calls a pass that is cut into at most the given number of parts, each of whole rows.
func (p native) norm(t *Team, which uint32, n, parts int, c *Norm, ws []float32, a C.struct_paceline_norm_args) {
	shared := parts
	if n*c.RowLen() < minSharedNumbers {
		shared = 1
	}
	helpers := t.begin(shared)
	if helpers == 0 && which == C.PACELINE_NORM_FORWARD {
		parts = 1
	}
	a.c = C.struct_paceline_norm{
		channels: C.ptrdiff_t(c.Channels), positions: C.ptrdiff_t(c.Positions),
		planar: integer(c.Planar), all: integer(c.All), relu: integer(c.ReLU), eps: C.float(c.Eps),
	}
	a.n, a.ws_per_thread = C.ptrdiff_t(n), C.ptrdiff_t(c.perThread())
	own, params := t.Threads()*c.perThread(), 2*c.ParamLen()
	a.ws, a.params, a.sums = floats(ws), floats(ws[own:]), floats(ws[own+params:])
	C.paceline_kernel_norm(p.k, t.share(helpers, parts), which, a)
	t.end(helpers)
}

func (p native) normForward(t *Team, y, statistics, x, scale, bias []float32, n int, c *Norm, ws []float32) {
	p.norm(t, C.PACELINE_NORM_FORWARD, n, (n+rowsPerPart-1)/rowsPerPart, c, ws, C.struct_paceline_norm_args{
		into: floats(y), statistics: floats(statistics), x: floats(x), scale: floats(scale), bias: floats(bias),
	})
}

func (p native) normBackward(t *Team, dscale, dbias, dx, statistics, x, y, dy, scale []float32, n int, c *Norm, ws []float32) {
	p.norm(t, C.PACELINE_NORM_BACKWARD, n, normBlocks(n), c, ws, C.struct_paceline_norm_args{
		into: floats(dscale), db: floats(dbias), dx: floats(dx), statistics: floats(statistics),
		x: floats(x), y: floats(y), dy: floats(dy), scale: floats(scale),
	})
}
