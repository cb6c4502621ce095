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

// intern returns the only C copy of a text, which is never freed. Texts must come from a
// bounded set.
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
	case action.kind != C.PACELINE_DISCRETE:
		return s, fmt.Errorf("action kind: %d, must be PACELINE_DISCRETE (%d)", action.kind, C.PACELINE_DISCRETE)
	case action.dtype != C.PACELINE_INT32:
		return s, fmt.Errorf("action dtype: %d, must be PACELINE_INT32 (%d)", action.dtype, C.PACELINE_INT32)
	case action.n < 1 || action.n > math.MaxInt32:
		return s, fmt.Errorf("action n: %d, must be 1 to %d", action.n, math.MaxInt32)
	case obs.frame_stack < 0 || obs.frame_stack > math.MaxInt32:
		return s, fmt.Errorf("observation frame_stack: %d, must be 0 or the first axis of the shape", obs.frame_stack)
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
	s.Action.N = int(action.n)
	return s, s.Check()
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
	action.kind, action.dtype, action.n = C.PACELINE_DISCRETE, C.PACELINE_INT32, C.int64_t(s.Action.N)
	if s.Action.N == 0 {
		action.kind, action.dtype, action.ndim = C.PACELINE_BOX, C.PACELINE_FLOAT32, 1
		action.shape[0] = C.int64_t(len(s.Action.Low))
	}
	return nil
}
