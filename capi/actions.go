package capi

import (
	"math"
	"slices"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/vec"
)

// hostActions are the host's actions of n environments and their counterpart for core. In the
// host's memory an action is an int32 for each branch, then a float32 for each entry of the box. If
// all numbers are of one type, vec refers to the host's memory. Otherwise read and write copy.
type hostActions struct {
	vec   vec.Actions
	words []uint32 // the host's memory, if vec holds copies
	ints  int      // integers of an action
	size  int      // words of an action
}

// bind sets the host's memory of n actions. NULL: there is none.
func (h *hostActions) bind(spec *env.ActionSpec, p unsafe.Pointer, n int) {
	ints, floats := spec.Ints(), spec.Floats()
	h.words, h.ints, h.size = nil, ints, ints+floats
	switch {
	case p == nil:
		h.vec = vec.Actions{}
	case floats == 0:
		h.vec = vec.Actions{Discrete: unsafe.Slice((*int32)(p), n*ints)}
	case ints == 0:
		h.vec = vec.Actions{Box: unsafe.Slice((*float32)(p), n*floats)}
	default:
		h.words = unsafe.Slice((*uint32)(p), n*h.size)
		h.vec.Discrete = slices.Grow(h.vec.Discrete[:0], n*ints)[:n*ints]
		h.vec.Box = slices.Grow(h.vec.Box[:0], n*floats)[:n*floats]
	}
}

// read copies the host's actions to vec.
func (h *hostActions) read() {
	floats := h.size - h.ints
	for at := 0; at < len(h.words); at += h.size {
		action, i := h.words[at:at+h.size], at/h.size
		for b, word := range action[:h.ints] {
			h.vec.Discrete[i*h.ints+b] = int32(word)
		}
		for k, word := range action[h.ints:] {
			h.vec.Box[i*floats+k] = math.Float32frombits(word)
		}
	}
}

// write copies vec to the host's actions.
func (h *hostActions) write() {
	floats := h.size - h.ints
	for at := 0; at < len(h.words); at += h.size {
		i := at / h.size
		putAction(h.words[at:at+h.size], h.vec.Discrete[i*h.ints:(i+1)*h.ints], h.vec.Box[i*floats:(i+1)*floats])
	}
}

// putAction writes one action in the host's form.
func putAction(to []uint32, branches []int32, box []float32) {
	for b, a := range branches {
		to[b] = uint32(a)
	}
	for k, x := range box {
		to[len(branches)+k] = math.Float32bits(x)
	}
}
