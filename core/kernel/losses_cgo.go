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
#cgo noescape paceline_kernel_gaussian_log_probs
#cgo nocallback paceline_kernel_gaussian_log_probs
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

func (p native) tdLoss(dq, q []float32, actions []int32, targets, weights []float32, width int, squared bool, order WeightOrder, weight float32) float64 {
	return float64(C.paceline_kernel_td_loss(p.k, floats(dq), floats(q), integers(actions), floats(targets), floats(weights),
		C.ptrdiff_t(len(actions)), C.ptrdiff_t(width), integer(squared), C.enum_paceline_weight_order(order), C.float(weight)))
}

func (p native) logSoftmax(y, x []float32, width int) {
	C.paceline_kernel_log_softmax(p.k, floats(y), floats(x), C.ptrdiff_t(len(x)/width), C.ptrdiff_t(width))
}

func (p native) gaussianLogProbs(logProbs, means, logStd, x []float32) {
	C.paceline_kernel_gaussian_log_probs(p.k, floats(logProbs), floats(means), floats(logStd), floats(x),
		C.ptrdiff_t(len(logProbs)), C.ptrdiff_t(len(logStd)))
}

func (p native) actorCritic(d *ActorCriticGradients, b *ActorCriticBatch, n int, entropyCoef, valueCoef float32) ActorCriticParts {
	var parts [5]C.double
	var c ClipBatch
	if b.Clip != nil {
		c = *b.Clip
	}
	C.paceline_kernel_actor_critic(p.k, C.struct_paceline_actor_critic_args{
		dlogits: floats(d.Logits), dmeans: floats(d.Means), dlog_std: floats(d.LogStd), dvalues: floats(d.Values),
		logits: floats(b.Logits), means: floats(b.Means), log_std: floats(b.LogStd), values: floats(b.Values),
		branches: integers(b.Branches), actions: integers(b.Actions), continuous: floats(b.Continuous), masks: bytes(b.Masks),
		advantages: floats(b.Advantages), returns: floats(b.Returns), weights: floats(b.Weights),
		log_probs: floats(c.LogProbs), clips: floats(c.Ranges), old_values: floats(c.Values), value_clips: floats(c.ValueRanges),
		softmax: floats(d.softmax), inverse: floats(d.inverse), log_std_sum: (*C.double)(unsafe.SliceData(d.logStdSum)),
		n: C.ptrdiff_t(n), width: C.ptrdiff_t(b.Width), num_branches: C.ptrdiff_t(b.branches()), size: C.ptrdiff_t(len(b.LogStd)),
		entropy_coef: C.float(entropyCoef), value_coef: C.float(valueCoef), largest_error: integer(c.Largest),
	}, &parts[0])
	return ActorCriticParts{float64(parts[0]), float64(parts[1]), float64(parts[2]), float64(parts[3]), float64(parts[4])}
}
