//go:build cgo

package kernel

/*
#cgo noescape paceline_kernel_map
#cgo nocallback paceline_kernel_map
#cgo noescape paceline_kernel_tanh_backward
#cgo nocallback paceline_kernel_tanh_backward
#cgo noescape paceline_kernel_td_targets
#cgo nocallback paceline_kernel_td_targets
#cgo noescape paceline_kernel_td_loss
#cgo nocallback paceline_kernel_td_loss
#cgo noescape paceline_kernel_log_softmax
#cgo nocallback paceline_kernel_log_softmax
#cgo noescape paceline_kernel_actor_critic
#cgo nocallback paceline_kernel_actor_critic
#include "kernel.h"
*/
import "C"

import "unsafe"

// The functions of this file are not shared among threads: a loss reads a few thousand numbers.

func integers(s []int32) *C.int32_t { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(s))) }

// mapping wraps a C function that maps len(x) elements of x to y.
func mapping(f *C.paceline_map) func(y, x []float32) {
	return func(y, x []float32) { C.paceline_kernel_map(f, floats(y), floats(x), C.ptrdiff_t(len(x))) }
}

func (p native) tanhBackward(dx, y, dy []float32) {
	C.paceline_kernel_tanh_backward(p.k, floats(dx), floats(y), floats(dy), C.ptrdiff_t(len(dy)))
}

func (p native) tdTargets(targets, next, rewards, discounts []float32, width int) {
	C.paceline_kernel_td_targets(p.k, floats(targets), floats(next), floats(rewards), floats(discounts),
		C.ptrdiff_t(len(rewards)), C.ptrdiff_t(width))
}

func (p native) tdLoss(dq, q []float32, actions []int32, targets, weights []float32, width int, squared bool, weight float32) float64 {
	return float64(C.paceline_kernel_td_loss(p.k, floats(dq), floats(q), integers(actions), floats(targets), floats(weights),
		C.ptrdiff_t(len(actions)), C.ptrdiff_t(width), integer(squared), C.float(weight)))
}

func (p native) logSoftmax(y, x []float32, width int) {
	C.paceline_kernel_log_softmax(p.k, floats(y), floats(x), C.ptrdiff_t(len(x)/width), C.ptrdiff_t(width))
}

func (p native) actorCritic(dlogits, dvalues []float32, b *ActorCriticBatch, entropyCoef, valueCoef float32) ActorCriticParts {
	var parts [5]C.double
	var c ClipBatch
	if b.Clip != nil {
		c = *b.Clip
	}
	masks := (*C.uint8_t)(unsafe.SliceData(b.Masks))
	C.paceline_kernel_actor_critic(p.k, floats(dlogits), floats(dvalues), floats(b.Logits), floats(b.Values), integers(b.Actions), masks,
		floats(b.Advantages), floats(b.Returns), floats(b.Weights), floats(c.LogProbs), floats(c.Ranges), floats(c.Values), floats(c.ValueRanges),
		C.ptrdiff_t(len(b.Actions)), C.ptrdiff_t(b.Width), C.float(entropyCoef), C.float(valueCoef), integer(c.Largest), &parts[0])
	return ActorCriticParts{float64(parts[0]), float64(parts[1]), float64(parts[2]), float64(parts[3]), float64(parts[4])}
}
