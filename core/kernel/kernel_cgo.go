//go:build cgo

package kernel

/*
#cgo CFLAGS: -O2 -std=c11
#cgo LDFLAGS: -lm
#cgo noescape paceline_kernel_conv_pack
#cgo nocallback paceline_kernel_conv_pack
#cgo noescape paceline_kernel_conv_pack_back
#cgo nocallback paceline_kernel_conv_pack_back
#cgo noescape paceline_kernel_conv_forward
#cgo nocallback paceline_kernel_conv_forward
#cgo noescape paceline_kernel_conv_backward
#cgo nocallback paceline_kernel_conv_backward
#cgo noescape paceline_kernel_dense_forward
#cgo nocallback paceline_kernel_dense_forward
#cgo noescape paceline_kernel_dense_backward
#cgo nocallback paceline_kernel_dense_backward
#cgo noescape paceline_kernel_rmsprop
#cgo nocallback paceline_kernel_rmsprop
#cgo noescape paceline_kernel_adam
#cgo nocallback paceline_kernel_adam
#cgo noescape paceline_kernel_adagrad
#cgo nocallback paceline_kernel_adagrad
#cgo noescape paceline_kernel_sum_squares
#cgo nocallback paceline_kernel_sum_squares
#cgo nocallback paceline_kernel_peak
#cgo noescape paceline_kernel_add
#cgo nocallback paceline_kernel_add
#cgo noescape paceline_kernel_scale
#cgo nocallback paceline_kernel_scale
#cgo nocallback paceline_kernel_float_mode
#cgo nocallback paceline_kernel_set_float_mode
#include "kernel.h"
*/
import "C"

import "unsafe"

// native is one table of C functions. Its methods only translate arguments.
type native struct{ k *C.struct_paceline_kernels }

// nativeTable makes a path out of its tables for FP32 and BF16.
func nativeTable(name string, fp32, bf16 *C.struct_paceline_kernels) *table {
	p := native{fp32}
	return &table{
		name:       name,
		layers:     [2]layers{p.layers(), native{bf16}.layers()},
		rmsProp:    p.rmsProp,
		adam:       p.adam,
		adaGrad:    p.adaGrad,
		sumSquares: p.sumSquares,
		scale:      p.scale,
		add:        p.add,
	}
}

func (p native) layers() layers {
	return layers{p.convPack, p.convPackBack, p.convForward, p.convBackward, p.denseForward, p.denseBackward, p.peak}
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
		planar_in: integer(c.PlanarIn), planar_out: integer(c.PlanarOut),
	}
}

func (p native) convPack(packed, w []float32, scale float32, c *Conv, from, to int, ws []float32) {
	C.paceline_kernel_conv_pack(p.k, floats(packed), floats(w), C.float(scale), c.c(), C.ptrdiff_t(from), C.ptrdiff_t(to), floats(ws))
}

func (p native) convPackBack(packed, w []float32, c *Conv, from, to int, ws []float32) {
	C.paceline_kernel_conv_pack_back(p.k, floats(packed), floats(w), c.c(), C.ptrdiff_t(from), C.ptrdiff_t(to), floats(ws))
}

func (p native) convForward(y, x []float32, x8 []uint8, packed, b []float32, n int, c *Conv, ws []float32) {
	C.paceline_kernel_conv_forward(p.k, floats(y), floats(x), bytes(x8), floats(packed), floats(b), C.ptrdiff_t(n), c.c(), floats(ws))
}

func (p native) convBackward(dw, db, dx, x []float32, x8 []uint8, scale float32, packed, y, dy []float32, n int, c *Conv, ws []float32) {
	C.paceline_kernel_conv_backward(p.k, floats(dw), floats(db), floats(dx), floats(x), bytes(x8), C.float(scale), floats(packed), floats(y), floats(dy), C.ptrdiff_t(n), c.c(), floats(ws))
}

func (p native) denseForward(y, x, w, b []float32, n int, d *Dense, from, to int, ws []float32) {
	C.paceline_kernel_dense_forward(p.k, floats(y[from:]), floats(x), floats(w[from*d.In:]), floats(b[from:]),
		C.ptrdiff_t(n), C.ptrdiff_t(d.In), C.ptrdiff_t(to-from), C.ptrdiff_t(d.Out), integer(d.ReLU), floats(ws))
}

func (p native) denseBackward(dw, db, dx, x, w, y, dy []float32, n int, d *Dense, from, to int, ws []float32) {
	if from > 0 {
		db = nil
	}
	if dx != nil {
		dx = dx[from:]
	}
	if !d.ReLU {
		y = nil
	}
	C.paceline_kernel_dense_backward(p.k, floats(dw[from:]), floats(db), floats(dx), floats(x[from:]), floats(w[from:]), floats(y), floats(dy),
		C.ptrdiff_t(n), C.ptrdiff_t(to-from), C.ptrdiff_t(d.In), C.ptrdiff_t(d.Out), floats(ws))
}

func (p native) rmsProp(theta, grad, avg, sq []float32, lr float32, decay float64, eps float32, centered, epsInside bool) {
	C.paceline_kernel_rmsprop(p.k, floats(theta), floats(grad), floats(avg), floats(sq), C.ptrdiff_t(len(theta)),
		C.float(lr), C.double(decay), C.float(eps), integer(centered), integer(epsInside))
}

func (p native) adam(theta, grad, m, v []float32, lr float32, beta1, beta2 float64, eps float32, step int64) {
	C.paceline_kernel_adam(p.k, floats(theta), floats(grad), floats(m), floats(v), C.ptrdiff_t(len(theta)),
		C.float(lr), C.double(beta1), C.double(beta2), C.float(eps), C.int64_t(step))
}

func (p native) adaGrad(theta, grad, sq []float32, lr, eps float32) {
	C.paceline_kernel_adagrad(p.k, floats(theta), floats(grad), floats(sq), C.ptrdiff_t(len(theta)), C.float(lr), C.float(eps))
}

func (p native) sumSquares(x []float32) float64 {
	return float64(C.paceline_kernel_sum_squares(p.k, floats(x), C.ptrdiff_t(len(x))))
}

func (p native) add(x, y []float32) {
	C.paceline_kernel_add(p.k, floats(x), floats(y), C.ptrdiff_t(len(x)))
}

func (p native) scale(x []float32, a float32) {
	C.paceline_kernel_scale(p.k, floats(x), C.ptrdiff_t(len(x)), C.float(a))
}

func (p native) peak(rounds int) (flop float64) {
	C.paceline_kernel_peak(p.k, C.ptrdiff_t(rounds))
	return float64(p.k.peak_flop) * float64(rounds)
}

// floatMode and setFloatMode reach the calling thread's floating-point control
// register, for the test that a host's mode does not change results (a test file
// cannot use cgo).
func floatMode() uint64 { return uint64(C.paceline_kernel_float_mode()) }

func setFloatMode(mode uint64) { C.paceline_kernel_set_float_mode(C.uint64_t(mode)) }
