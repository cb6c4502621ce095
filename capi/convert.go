package capi

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
)

// putText writes a copy of text, which the host frees, unless err is set.
func putText(out **C.char, text string, err error) error {
	if err == nil {
		*out = C.CString(text)
	}
	return err
}

func putJSON(out **C.char, value any) error {
	text, err := json.Marshal(value)
	return putText(out, string(text), err)
}

// create writes the handle of the object that f makes to out.
func create[T any](out *C.uint64_t, objects *table[T], why *C.pl_error, f func() (T, error)) C.int {
	return report(guarded(func() error {
		v, err := f()
		if err == nil {
			*out = C.uint64_t(objects.put(v))
		}
		return err
	}), why)
}

// putBytes writes bytes to out and their number to size; with out NULL the number alone. If
// the bytes do not fit, it writes nothing.
func putBytes(out unsafe.Pointer, size *C.size_t, bytes []byte) error {
	if out != nil {
		if uint64(*size) < uint64(len(bytes)) {
			return fmt.Errorf("size: %d, must be at least %d", *size, len(bytes))
		}
		copy(unsafe.Slice((*byte)(out), len(bytes)), bytes)
	}
	*size = C.size_t(len(bytes))
	return nil
}

var interned struct {
	sync.Mutex
	texts map[string]*C.char
}

// intern returns the only C copy of a text, which is never freed. Texts must come from a bounded
// set, except the arrays of action specs (putActionSpec): each different array of the host stays in
// memory until the process ends.
func intern(s string) *C.char {
	interned.Lock()
	defer interned.Unlock()
	p, ok := interned.texts[s]
	if !ok {
		if interned.texts == nil {
			interned.texts = make(map[string]*C.char)
		}
		p = C.CString(s)
		interned.texts[s] = p
	}
	return p
}

// internNumbers is intern for numbers of 4 bytes, NULL for none.
func internNumbers[T int32 | float32](list []T) unsafe.Pointer {
	if len(list) == 0 {
		return nil
	}
	return unsafe.Pointer(intern(string(unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), 4*len(list)))))
}

// specOf converts the specs of the host's environments.
func specOf(obs, action *C.paceline_spec) (env.Spec, error) {
	var s env.Spec
	switch {
	case obs.kind != C.PACELINE_BOX:
		return s, fmt.Errorf("observation kind: %d, must be PACELINE_BOX (%d)", obs.kind, C.PACELINE_BOX)
	case obs.dtype != C.PACELINE_UINT8 && obs.dtype != C.PACELINE_FLOAT32:
		return s, fmt.Errorf("observation dtype: %d, must be PACELINE_UINT8 (%d) or PACELINE_FLOAT32 (%d)", obs.dtype, C.PACELINE_UINT8, C.PACELINE_FLOAT32)
	case obs.ndim < 1 || int(obs.ndim) > len(obs.shape):
		return s, fmt.Errorf("observation ndim: %d, must be 1 to %d", obs.ndim, len(obs.shape))
	case obs.frame_stack < 0 || obs.frame_stack > math.MaxInt32:
		return s, fmt.Errorf("observation frame_stack: %d, must be 0 or divide the first axis of the shape", obs.frame_stack)
	}
	for _, d := range obs.shape[:obs.ndim] {
		s.Obs.Shape = append(s.Obs.Shape, int(d))
	}
	s.Obs.FrameStack = int(obs.frame_stack)
	s.Obs.DType, s.Obs.Low, s.Obs.High = env.Uint8, []float32{0}, []float32{255}
	if obs.dtype == C.PACELINE_FLOAT32 {
		inf := float32(math.Inf(1))
		s.Obs.DType, s.Obs.Low, s.Obs.High = env.Float32, []float32{-inf}, []float32{inf}
	}
	var err error
	if s.Action, err = actionSpecOf(action); err != nil {
		return s, err
	}
	return s, s.Check()
}

// maxActionEntries bounds the branches, and the numbers of the box, that are read from the host.
const maxActionEntries = 1 << 18

// actionSpecOf converts the spec of the actions of the host's environments.
func actionSpecOf(a *C.paceline_spec) (s env.ActionSpec, err error) {
	branches := a.kind == C.PACELINE_MULTI_DISCRETE || a.kind == C.PACELINE_HYBRID
	box := a.kind == C.PACELINE_BOX || a.kind == C.PACELINE_HYBRID
	switch {
	case a.kind != C.PACELINE_DISCRETE && !branches && !box:
		return s, fmt.Errorf("action kind: %d, must be PACELINE_DISCRETE (%d), PACELINE_MULTI_DISCRETE (%d), PACELINE_BOX (%d) or PACELINE_HYBRID (%d)",
			a.kind, C.PACELINE_DISCRETE, C.PACELINE_MULTI_DISCRETE, C.PACELINE_BOX, C.PACELINE_HYBRID)
	case !box && a.dtype != C.PACELINE_INT32:
		return s, fmt.Errorf("action dtype: %d, must be PACELINE_INT32 (%d)", a.dtype, C.PACELINE_INT32)
	case box && a.dtype != C.PACELINE_FLOAT32:
		return s, fmt.Errorf("action dtype: %d, must be PACELINE_FLOAT32 (%d) for a box", a.dtype, C.PACELINE_FLOAT32)
	case a.kind == C.PACELINE_DISCRETE && (a.n < 1 || a.n > math.MaxInt32):
		return s, fmt.Errorf("action n: %d, must be 1 to %d", a.n, math.MaxInt32)
	case branches && (a.num_branches < 1 || a.num_branches > maxActionEntries):
		return s, fmt.Errorf("action num_branches: %d, must be 1 to %d", a.num_branches, maxActionEntries)
	case branches && a.branches == nil:
		return s, fmt.Errorf("action branches: NULL, must point to %d numbers", a.num_branches)
	case box && a.ndim != 1:
		return s, fmt.Errorf("action ndim: %d, must be 1 for a box", a.ndim)
	case box && (a.shape[0] < 1 || a.shape[0] > maxActionEntries):
		return s, fmt.Errorf("action shape[0]: %d, must be 1 to %d", a.shape[0], maxActionEntries)
	}
	if a.kind == C.PACELINE_DISCRETE {
		s.N = int(a.n)
		return s, nil
	}
	if branches {
		s.Branches = slices.Clone(unsafe.Slice((*int32)(a.branches), int(a.num_branches)))
	}
	if box {
		s.Low = boundsOf((*float32)(a.low), int(a.shape[0]), -1)
		s.High = boundsOf((*float32)(a.high), int(a.shape[0]), 1)
	}
	return s, nil
}

// boundsOf copies n bounds of the host; NULL: infinity of the sign.
func boundsOf(p *float32, n, sign int) []float32 {
	if p == nil {
		return slices.Repeat([]float32{float32(math.Inf(sign))}, n)
	}
	return slices.Clone(unsafe.Slice(p, n))
}

// putSpec writes s to the host's structs, which come zeroed.
func putSpec(s *env.Spec, obs, action *C.paceline_spec) error {
	if len(s.Obs.Shape) > len(obs.shape) {
		return fmt.Errorf("observation shape: %v, must have at most %d axes", s.Obs.Shape, len(obs.shape))
	}
	obs.kind, obs.dtype, obs.ndim = C.PACELINE_BOX, C.PACELINE_UINT8, C.uint32_t(len(s.Obs.Shape))
	if s.Obs.DType == env.Float32 {
		obs.dtype = C.PACELINE_FLOAT32
	}
	for i, d := range s.Obs.Shape {
		obs.shape[i] = C.int64_t(d)
	}
	obs.frame_stack = C.int64_t(s.Obs.FrameStack)
	putActionSpec(&s.Action, action)
	return nil
}

// putActionSpec writes s to the host's struct, which comes zeroed.
func putActionSpec(s *env.ActionSpec, action *C.paceline_spec) {
	action.kind, action.dtype = C.PACELINE_DISCRETE, C.PACELINE_INT32
	if s.N > 0 {
		action.n = C.int64_t(s.N)
		return
	}
	if len(s.Branches) > 0 {
		action.kind = C.PACELINE_MULTI_DISCRETE
		action.branches, action.num_branches = (*C.int32_t)(internNumbers(s.Branches)), C.int64_t(len(s.Branches))
	}
	if len(s.Low) == 0 {
		return
	}
	action.kind, action.dtype, action.ndim = C.PACELINE_BOX, C.PACELINE_FLOAT32, 1
	if len(s.Branches) > 0 {
		action.kind = C.PACELINE_HYBRID
	}
	action.shape[0] = C.int64_t(len(s.Low))
	action.low, action.high = (*C.float)(internNumbers(s.Low)), (*C.float)(internNumbers(s.High))
}
