package capi

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
)

// family is the host's table and what its environments share. The last one to
// drop it calls the host's release.
type family struct {
	c    *C.pl_family
	spec env.Spec
	refs atomic.Int64
}

// errInside refuses what would wait for the function that it is called from.
var errInside = fmt.Errorf("%w: called from inside a function of its own environments, which it would wait for", fault.ErrBusy)

// inside reports whether this thread is in a function of the family; nil is none.
func (f *family) inside() bool { return f != nil && C.pl_is_inside(unsafe.Pointer(f.c)) != 0 }

func (f *family) drop() {
	if f.refs.Add(-1) == 0 {
		C.pl_family_release(f.c)
	}
}

// callbackError is a function of the table that returned something else than 0.
type callbackError struct {
	function string
	code     C.int
	text     string // the host's, or ""
}

func (e *callbackError) Error() string {
	if e.text != "" {
		return e.text
	}
	return fmt.Sprintf("%s returned %d (and set no text by paceline_set_callback_error)", e.function, e.code)
}

// failure takes the text that trampoline.c kept.
func failure(function string, code C.int, kept **C.char) error {
	e := &callbackError{function: function, code: code}
	if *kept != nil {
		e.text = C.GoString(*kept)
		C.free(unsafe.Pointer(*kept))
		*kept = nil
	}
	return e
}

// checkTable refuses a table that lacks what it must have.
func checkTable(t *C.paceline_env_table) error {
	for _, x := range []struct {
		name    string
		missing bool
	}{{"spec", t.spec == nil}, {"create", t.create == nil}, {"reset", t.reset == nil}, {"step", t.step == nil}, {"destroy", t.destroy == nil}} {
		if x.missing {
			return fmt.Errorf("table.%s: NULL, must be a function", x.name)
		}
	}
	switch {
	case (t.save == nil) != (t.restore == nil):
		return fmt.Errorf("table.save and table.restore: one is NULL, must be both or none")
	case t.flags&^C.PACELINE_ENV_WAITS != 0:
		return fmt.Errorf("table.flags: %d, must be 0 or PACELINE_ENV_WAITS (1)", t.flags)
	}
	return nil
}

func (f *family) readSpec() error {
	var obs, action C.paceline_spec
	var kept *C.char
	if code := C.pl_env_spec(f.c, &obs, &action, &kept); code != 0 {
		return failure("spec", code, &kept)
	}
	var err error
	f.spec, err = specOf(&obs, &action)
	f.spec.ID = "a table of functions"
	f.spec.Masks = f.c.table.mask != nil
	f.spec.Waits = f.c.table.flags&C.PACELINE_ENV_WAITS != 0
	return err
}

// make makes environment number index.
func (f *family) make(index int, seed uint64) (env.Env, error) {
	c := (*C.pl_env)(C.calloc(1, C.sizeof_pl_env))
	if c == nil {
		return nil, syscall.ENOMEM
	}
	c.family = f.c
	if code := C.pl_env_create(c, C.uint32_t(index), C.uint64_t(seed)); code != 0 {
		err := failure("create", code, &c.text)
		C.free(unsafe.Pointer(c))
		return nil, err
	}
	f.refs.Add(1)
	e := &tableEnv{family: f, c: c}
	if f.c.table.save != nil {
		return &savingTableEnv{e}, nil
	}
	return e, nil
}

// tableEnv is one environment of the host's.
type tableEnv struct {
	family *family
	c      *C.pl_env
}

func (e *tableEnv) Spec() env.Spec { return e.family.spec }

// Seed does nothing: a table makes each environment with its seed, and nobody
// seeds a trainer's environments again.
func (e *tableEnv) Seed(uint64) {}

func (e *tableEnv) Reset(obs []byte) error {
	if code := C.pl_env_reset(e.c, unsafe.Pointer(unsafe.SliceData(obs))); code != 0 {
		return failure("reset", code, &e.c.text)
	}
	return nil
}

func (e *tableEnv) Step(action int32, obs []byte) (float32, env.End, error) {
	e.c.action = C.int32_t(action)
	if code := C.pl_env_step(e.c, unsafe.Pointer(unsafe.SliceData(obs))); code != 0 {
		return 0, 0, failure("step", code, &e.c.text)
	}
	reward, end := float32(e.c.reward), env.End(e.c.ended)
	if end > env.Terminated|env.Truncated {
		return 0, 0, &callbackError{text: fmt.Sprintf("ended: %d, must be 0 to 3, bits of enum paceline_end", end)}
	}
	return reward, end, nil
}

// Mask is called where the table has a function for it.
func (e *tableEnv) Mask(mask []byte) error {
	if code := C.pl_env_mask(e.c, (*C.uint8_t)(unsafe.SliceData(mask))); code != 0 {
		return failure("mask", code, &e.c.text)
	}
	return nil
}

// Bytes is what it takes beside the host's own memory.
func (e *tableEnv) Bytes() int64 { return 512 }

func (e *tableEnv) Close() error {
	C.pl_env_destroy(e.c)
	e.c = nil
	e.family.drop()
	return nil
}

// mostState bounds the state of one environment, in bytes.
const mostState = 256 << 20

// savingTableEnv is one whose state can be written down.
type savingTableEnv struct{ *tableEnv }

func (e *savingTableEnv) Save() ([]byte, error) {
	var size C.size_t
	if code := C.pl_env_save(e.c, nil, &size); code != 0 {
		return nil, failure("save", code, &e.c.text)
	}
	// A state may have grown between the two calls, but not for ever.
	for range 8 {
		if size > mostState {
			return nil, &callbackError{text: fmt.Sprintf("save: *len is %d, must be at most %d", size, mostState)}
		}
		if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("save: *len %d", size), Bytes: int64(size)}); err != nil {
			return nil, err
		}
		state := make([]byte, size+1) // never empty: NULL asks for the size
		given := size
		if code := C.pl_env_save(e.c, unsafe.Pointer(&state[0]), &size); code != 0 {
			return nil, failure("save", code, &e.c.text)
		}
		if size <= given {
			return state[:size], nil
		}
	}
	return nil, &callbackError{text: "save: asked for more bytes every time"}
}

func (e *savingTableEnv) Restore(state []byte) error {
	p := append(state[:len(state):len(state)], 0) // never NULL
	if code := C.pl_env_restore(e.c, unsafe.Pointer(&p[0]), C.size_t(len(state))); code != 0 {
		return failure("restore", code, &e.c.text)
	}
	return nil
}
