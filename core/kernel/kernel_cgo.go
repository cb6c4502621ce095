//go:build cgo

package kernel

/*
#cgo CFLAGS: -O2 -std=c11
#cgo LDFLAGS: -lm
#cgo noescape paceline_kernel_conv_forward
#cgo nocallback paceline_kernel_conv_forward
#cgo noescape paceline_kernel_conv_grad_w
#cgo nocallback paceline_kernel_conv_grad_w
#cgo noescape paceline_kernel_conv_grad_x
#cgo nocallback paceline_kernel_conv_grad_x
#cgo noescape paceline_kernel_relu_grad
#cgo nocallback paceline_kernel_relu_grad
#cgo noescape paceline_kernel_dense_forward
#cgo nocallback paceline_kernel_dense_forward
#cgo noescape paceline_kernel_dense_grad_w
#cgo nocallback paceline_kernel_dense_grad_w
#cgo noescape paceline_kernel_dense_grad_x
#cgo nocallback paceline_kernel_dense_grad_x
#cgo noescape paceline_kernel_rmsprop
#cgo nocallback paceline_kernel_rmsprop
#cgo noescape paceline_kernel_adam
#cgo nocallback paceline_kernel_adam
#cgo noescape paceline_kernel_adagrad
#cgo nocallback paceline_kernel_adagrad
#cgo noescape paceline_kernel_sum_squares
#cgo nocallback paceline_kernel_sum_squares
#cgo noescape paceline_kernel_scale
#cgo nocallback paceline_kernel_scale
#cgo nocallback paceline_kernel_float_mode
#cgo nocallback paceline_kernel_set_float_mode
#include "kernel.h"
*/
import "C"

import "unsafe"

// native is one C path. Its methods only translate arguments.
type native struct{ k *C.struct_paceline_kernels }

// nativeTable makes a path out of a table of C functions.
func nativeTable(name string, k *C.struct_paceline_kernels) *table {
	p := native{k}
	return &table{
		name:          name,
		convForward:   p.convForward,
		convForwardU8: p.convForwardU8,
		convGradW:     p.convGradW,
		convGradWU8:   p.convGradWU8,
		convGradX:     p.convGradX,
		reluGrad:      p.reluGrad,
		denseForward:  p.denseForward,
		denseGradW:    p.denseGradW,
		denseGradX:    p.denseGradX,
		rmsProp:       p.rmsProp,
		adam:          p.adam,
		adaGrad:       p.adaGrad,
		sumSquares:    p.sumSquares,
		scale:         p.scale,
	}
}

func floats(s []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(s))) }
func bytes(s []uint8) *C.uint8_t  { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func integer(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func (c Conv) c() C.struct_paceline_conv {
	return C.struct_paceline_conv{
		in_c: C.ptrdiff_t(c.InC), in_h: C.ptrdiff_t(c.InH), in_w: C.ptrdiff_t(c.InW),
		out_c: C.ptrdiff_t(c.OutC), kernel: C.ptrdiff_t(c.Kernel), stride: C.ptrdiff_t(c.Stride),
		out_h: C.ptrdiff_t(c.OutH()), out_w: C.ptrdiff_t(c.OutW()),
	}
}

func (p native) convForward(y, x, w, b []float32, n int, c Conv, ws []float32) {
	C.paceline_kernel_conv_forward(p.k, floats(y), floats(x), nil, 1, floats(w), floats(b), C.ptrdiff_t(n), c.c(), floats(ws))
}

func (p native) convForwardU8(y []float32, x []uint8, scale float32, w, b []float32, n int, c Conv, ws []float32) {
	C.paceline_kernel_conv_forward(p.k, floats(y), nil, bytes(x), C.float(scale), floats(w), floats(b), C.ptrdiff_t(n), c.c(), floats(ws))
}

func (p native) convGradW(dw, db, x, dz []float32, n int, c Conv, ws []float32) {
	C.paceline_kernel_conv_grad_w(p.k, floats(dw), floats(db), floats(x), nil, 1, floats(dz), C.ptrdiff_t(n), c.c(), floats(ws))
}

func (p native) convGradWU8(dw, db []float32, x []uint8, scale float32, dz []float32, n int, c Conv, ws []float32) {
	C.paceline_kernel_conv_grad_w(p.k, floats(dw), floats(db), nil, bytes(x), C.float(scale), floats(dz), C.ptrdiff_t(n), c.c(), floats(ws))
}

func (p native) convGradX(dx, w, dz []float32, n int, c Conv, ws []float32) {
	C.paceline_kernel_conv_grad_x(p.k, floats(dx), floats(w), floats(dz), C.ptrdiff_t(n), c.c(), floats(ws))
}

func (p native) reluGrad(dz, y, dy []float32) {
	C.paceline_kernel_relu_grad(p.k, floats(dz), floats(y), floats(dy), C.ptrdiff_t(len(dz)))
}

func (p native) denseForward(y, x, w, b []float32, n, in, out int, relu bool) {
	C.paceline_kernel_dense_forward(p.k, floats(y), floats(x), floats(w), floats(b), C.ptrdiff_t(n), C.ptrdiff_t(in), C.ptrdiff_t(out), integer(relu))
}

func (p native) denseGradW(dw, db, x, dz []float32, n, in, out int, ws []float32) {
	C.paceline_kernel_dense_grad_w(p.k, floats(dw), floats(db), floats(x), floats(dz), C.ptrdiff_t(n), C.ptrdiff_t(in), C.ptrdiff_t(out), floats(ws))
}

func (p native) denseGradX(dx, w, dz []float32, n, in, out int, ws []float32) {
	C.paceline_kernel_dense_grad_x(p.k, floats(dx), floats(w), floats(dz), C.ptrdiff_t(n), C.ptrdiff_t(in), C.ptrdiff_t(out), floats(ws))
}

func (p native) rmsProp(theta, grad, avg, sq []float32, lr, decay, eps float32, centered, epsInside bool) {
	C.paceline_kernel_rmsprop(p.k, floats(theta), floats(grad), floats(avg), floats(sq), C.ptrdiff_t(len(theta)),
		C.float(lr), C.float(decay), C.float(eps), integer(centered), integer(epsInside))
}

func (p native) adam(theta, grad, m, v []float32, lr, beta1, beta2, eps float32, step int64) {
	C.paceline_kernel_adam(p.k, floats(theta), floats(grad), floats(m), floats(v), C.ptrdiff_t(len(theta)),
		C.float(lr), C.float(beta1), C.float(beta2), C.float(eps), C.int64_t(step))
}

func (p native) adaGrad(theta, grad, sq []float32, lr, eps float32) {
	C.paceline_kernel_adagrad(p.k, floats(theta), floats(grad), floats(sq), C.ptrdiff_t(len(theta)), C.float(lr), C.float(eps))
}

func (p native) sumSquares(x []float32) float64 {
	return float64(C.paceline_kernel_sum_squares(p.k, floats(x), C.ptrdiff_t(len(x))))
}

func (p native) scale(x []float32, a float32) {
	C.paceline_kernel_scale(p.k, floats(x), C.ptrdiff_t(len(x)), C.float(a))
}

// floatMode and setFloatMode reach the calling thread's floating-point control
// register, for the test that a host's mode does not change results (a test file
// cannot use cgo).
func floatMode() uint64 { return uint64(C.paceline_kernel_float_mode()) }

func setFloatMode(mode uint64) { C.paceline_kernel_set_float_mode(C.uint64_t(mode)) }
