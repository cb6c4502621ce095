//go:build cgo

package kernel

/*
#cgo CFLAGS: -O2 -g1 -std=c11
#cgo LDFLAGS: -lm -pthread
#cgo noescape paceline_kernel_conv
#cgo nocallback paceline_kernel_conv
#cgo noescape paceline_kernel_dense
#cgo nocallback paceline_kernel_dense
#cgo noescape paceline_kernel_norm
#cgo nocallback paceline_kernel_norm
#cgo noescape paceline_kernel_modulate
#cgo nocallback paceline_kernel_modulate
#cgo noescape paceline_kernel_flat
#cgo nocallback paceline_kernel_flat
#cgo nocallback paceline_kernel_peak
#include "kernel.h"
#include "../cpu/float_mode.h"
*/
import "C"

import (
	"unsafe"

	"github.com/paceline-rl/paceline/core/cpu"
)

// native is one table of C functions. Its methods translate arguments and cut calls into parts.
type native struct{ k *C.struct_paceline_kernels }

// nativeTable makes a path from its C tables for FP32 and BF16.
func nativeTable(name string, fp32, bf16 *C.struct_paceline_kernels) *table {
	p := native{fp32}
	bf16Layers := native{bf16}.layers()
	bf16Layers.direct = name == cpu.AMX
	return &table{
		name:       name,
		layers:     [2]layers{p.layers(), bf16Layers},
		rmsProp:    p.rmsProp,
		adam:       p.adam,
		rAdam:      p.rAdam,
		adaGrad:    p.adaGrad,
		sumSquares: p.sumSquares,
		average:    p.average,

		normForward: p.normForward, normBackward: p.normBackward,
		add: mapping(p.k.add), exp: mapping(p.k.exp), log: mapping(p.k.log), tanh: mapping(p.k.tanh), tanhBackward: p.tanhBackward,
		tdTargets: p.tdTargets, tdLoss: p.tdLoss, logSoftmax: p.logSoftmax, gaussianLogProbs: p.gaussianLogProbs, actorCritic: p.actorCritic,
		categoricalMeans: p.categoricalMeans, project: p.project, categoricalLoss: p.categoricalLoss, quantileLoss: p.quantileLoss,
		modulate: p.modulate, modulateBackward: p.modulateBackward,
	}
}

func (p native) layers() layers {
	return layers{p.convPack, p.convPackBack, p.convForward, p.convBackward, p.densePack, p.denseForward, p.denseBackward, p.peak, false}
}

// helpers are the threads of a team without the caller's.
type helpers struct{ team *C.struct_paceline_team }

// start makes the team on a thread of the Go runtime. Helpers inherit CPU affinity, scheduling
// policy and niceness of the thread that starts them, and the host may have changed those of the
// caller's thread.
func (h *helpers) start(n int) bool {
	made := make(chan *C.struct_paceline_team)
	go func() { made <- C.paceline_team_new(C.int(n)) }()
	h.team = <-made
	return h.team != nil
}

func (h *helpers) stop() {
	if h.team != nil {
		C.paceline_team_free(h.team)
		h.team = nil
	}
}

func (t *Team) share(helpers, parts int) C.struct_paceline_share {
	s := C.struct_paceline_share{helpers: C.int(helpers), parts: C.ptrdiff_t(parts)}
	if t != nil {
		s.team = t.helpers.team
	}
	return s
}

func floats(s []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(s))) }
func bytes(s []uint8) *C.uint8_t  { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func integer(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func (c *Conv) c() C.struct_paceline_conv {
	return C.struct_paceline_conv{
		in_c: C.ptrdiff_t(c.InC), in_h: C.ptrdiff_t(c.InH), in_w: C.ptrdiff_t(c.InW),
		out_c: C.ptrdiff_t(c.OutC), kernel: C.ptrdiff_t(c.Kernel), stride: C.ptrdiff_t(c.Stride),
		out_h: C.ptrdiff_t(c.OutH()), out_w: C.ptrdiff_t(c.OutW()),
		planar_in: integer(c.PlanarIn), planar_out: integer(c.PlanarOut), linear: integer(c.Linear),
	}
}

// The results of a call do not depend on the number of parts. A part is rows, columns or elements,
// each computed independently of the others. Where parts are terms of a sum (blocks of images,
// parts of SumSquares), their number depends on the shapes alone.

// rowsPerPart is the largest number of images or rows in a part of a shared forward pass.
const rowsPerPart = 4

// minSharedProducts is the smallest dense layer that is shared, in multiplications: fewer take less
// time than waking a thread.
const minSharedProducts = 1 << 18

// denseParts returns the number of parts, at most limit, of a dense layer that is cut along width
// outputs or inputs.
func denseParts(n int, d *Dense, width, limit int) int {
	if n*d.In*d.Out < minSharedProducts {
		return 1
	}
	return min(limit, (width+maxCols-1)/maxCols)
}

func (p native) conv(t *Team, which uint32, helpers, parts int, a C.struct_paceline_conv_args) {
	C.paceline_kernel_conv(p.k, t.share(helpers, parts), which, a)
	t.end(helpers)
}

func (p native) convPack(t *Team, packed, w []float32, scale float32, c *Conv, ws []float32) {
	parts := (c.OutC + maxCols - 1) / maxCols
	p.conv(t, C.PACELINE_CONV_PACK, t.begin(parts), parts, C.struct_paceline_conv_args{
		c: c.c(), into: floats(packed), w: floats(w), scale: C.float(scale), ws: floats(ws), ws_per_thread: C.ptrdiff_t(c.perThread()),
	})
}

func (p native) convPackBack(t *Team, packed, w []float32, c *Conv, ws []float32) {
	parts := (c.OutC + maxCols - 1) / maxCols
	p.conv(t, C.PACELINE_CONV_PACK_BACK, t.begin(parts), parts, C.struct_paceline_conv_args{
		c: c.c(), into: floats(packed), w: floats(w), ws: floats(ws), ws_per_thread: C.ptrdiff_t(c.perThread()),
	})
}

func (p native) convForward(t *Team, y, x []float32, x8 []uint8, packed, b []float32, n int, c *Conv, ws []float32) {
	helpers, parts := t.begin(n), 1
	if helpers > 0 {
		parts = max((n+rowsPerPart-1)/rowsPerPart, min(n, helpers+1))
	}
	p.conv(t, C.PACELINE_CONV_FORWARD, helpers, parts, C.struct_paceline_conv_args{
		c: c.c(), n: C.ptrdiff_t(n), into: floats(y), x: floats(x), x8: bytes(x8), w: floats(packed), b: floats(b),
		ws: floats(ws), ws_per_thread: C.ptrdiff_t(c.perThread()),
	})
}

func (p native) convBackward(t *Team, dw, db, dx, x []float32, x8 []uint8, scale float32, packed, y, dy []float32, n int, c *Conv, ws []float32) {
	parts := convBlocks(n)
	p.conv(t, C.PACELINE_CONV_BACKWARD, t.begin(parts), parts, C.struct_paceline_conv_args{
		c: c.c(), n: C.ptrdiff_t(n), into: floats(dw), db: floats(db), dx: floats(dx), x: floats(x), x8: bytes(x8), scale: C.float(scale),
		w: floats(packed), y: floats(y), dy: floats(dy), ws: floats(ws), ws_per_thread: C.ptrdiff_t(c.perThread()), sums: floats(ws[t.Threads()*c.perThread():]),
	})
}

func (p native) densePack(t *Team, packed, w []float32, d Dense) {
	parts := denseParts(1, &d, d.Out, t.Threads())
	helpers := t.begin(parts)
	C.paceline_kernel_dense(p.k, t.share(helpers, parts), C.PACELINE_DENSE_PACK, C.struct_paceline_dense_args{
		into: floats(packed), w: floats(w), in: C.ptrdiff_t(d.In), out: C.ptrdiff_t(d.Out),
	})
	t.end(helpers)
}

func (p native) denseForward(t *Team, y, x, w []float32, packed bool, b []float32, n int, d Dense, ws []float32) {
	parts := denseParts(n, &d, d.Out, 4*t.Threads())
	helpers := t.begin(parts)
	if helpers == 0 {
		parts = 1
	}
	C.paceline_kernel_dense(p.k, t.share(helpers, parts), C.PACELINE_DENSE_FORWARD, C.struct_paceline_dense_args{
		into: floats(y), x: floats(x), w: floats(w), packed: integer(packed), b: floats(b), n: C.ptrdiff_t(n), in: C.ptrdiff_t(d.In), out: C.ptrdiff_t(d.Out),
		relu: integer(d.ReLU), tiled: integer(d.Tiled), ws: floats(ws), ws_per_thread: C.ptrdiff_t(len(ws) / t.Threads()),
	})
	t.end(helpers)
}

func (p native) denseBackward(t *Team, dw, db, dx, x, w, y, dy []float32, n int, d Dense, ws []float32) {
	// Every part packs all of dy first, so there is one part per thread.
	helpers := t.begin(denseParts(n, &d, d.In, t.Threads()))
	C.paceline_kernel_dense(p.k, t.share(helpers, helpers+1), C.PACELINE_DENSE_BACKWARD, C.struct_paceline_dense_args{
		into: floats(dw), db: floats(db), dx: floats(dx), x: floats(x), w: floats(w), y: floats(y), dy: floats(dy),
		n: C.ptrdiff_t(n), in: C.ptrdiff_t(d.In), out: C.ptrdiff_t(d.Out), relu: integer(d.ReLU), ws: floats(ws), ws_per_thread: C.ptrdiff_t(len(ws) / t.Threads()),
	})
	t.end(helpers)
}

func (p native) flat(t *Team, which uint32, parts int, a C.struct_paceline_flat_args) {
	helpers := t.begin(parts)
	C.paceline_kernel_flat(p.k, t.share(helpers, parts), which, a)
	t.end(helpers)
}

func (p native) rmsProp(t *Team, theta, grad []float32, factor float32, avg, sq []float32, lr float32, decay float64, eps float32, centered, epsInside bool) {
	p.flat(t, C.PACELINE_RMSPROP, flatParts(len(theta)), C.struct_paceline_flat_args{
		theta: floats(theta), grad: floats(grad), factor: C.float(factor), first: floats(avg), second: floats(sq), n: C.ptrdiff_t(len(theta)),
		lr: C.float(lr), beta2: C.double(decay), eps: C.float(eps), centered: integer(centered), eps_inside: integer(epsInside),
	})
}

func (p native) adam(t *Team, theta, grad []float32, factor float32, m, v []float32, lr float32, beta1, beta2 float64, eps float32, step int64) {
	p.flat(t, C.PACELINE_ADAM, flatParts(len(theta)), C.struct_paceline_flat_args{
		theta: floats(theta), grad: floats(grad), factor: C.float(factor), first: floats(m), second: floats(v), n: C.ptrdiff_t(len(theta)),
		lr: C.float(lr), beta1: C.double(beta1), beta2: C.double(beta2), eps: C.float(eps), step: C.int64_t(step),
	})
}

func (p native) rAdam(t *Team, theta, grad []float32, factor float32, m, v []float32, size float32, beta1, beta2 float64, eps float32, rectified bool) {
	p.flat(t, C.PACELINE_RADAM, flatParts(len(theta)), C.struct_paceline_flat_args{
		theta: floats(theta), grad: floats(grad), factor: C.float(factor), first: floats(m), second: floats(v), n: C.ptrdiff_t(len(theta)),
		lr: C.float(size), beta1: C.double(beta1), beta2: C.double(beta2), eps: C.float(eps), rectified: integer(rectified),
	})
}

func (p native) adaGrad(t *Team, theta, grad []float32, factor float32, sq []float32, lr, eps float32) {
	p.flat(t, C.PACELINE_ADAGRAD, flatParts(len(theta)), C.struct_paceline_flat_args{
		theta: floats(theta), grad: floats(grad), factor: C.float(factor), second: floats(sq), n: C.ptrdiff_t(len(theta)), lr: C.float(lr), eps: C.float(eps),
	})
}

func (p native) sumSquares(t *Team, x []float32) float64 {
	var sums partSums
	p.flat(t, C.PACELINE_SUM_SQUARES, len(sums.of(x)), C.struct_paceline_flat_args{
		grad: floats(x), n: C.ptrdiff_t(len(x)), sums: (*C.double)(&sums[0]),
	})
	return sums.total()
}

func (p native) average(t *Team, x, y []float32, weight float64) {
	p.flat(t, C.PACELINE_AVERAGE, flatParts(len(x)), C.struct_paceline_flat_args{
		theta: floats(x), grad: floats(y), n: C.ptrdiff_t(len(x)), beta1: C.double(weight),
	})
}

func (p native) peak(rounds int) (flop float64) {
	C.paceline_kernel_peak(p.k, C.ptrdiff_t(rounds))
	return float64(p.k.peak_flop) * float64(rounds)
}

// floatMode returns the floating-point mode of the calling thread. It and setFloatMode are for
// tests, whose files cannot use cgo.
func floatMode() uint64 { return uint64(C.paceline_float_mode()) }

func setFloatMode(mode uint64) { C.paceline_float_set(C.uint64_t(mode)) }
