package capi

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
)

// family is the host's table, shared by its environments. The last unref calls the host's
// release.
type family struct {
	c    *C.pl_family
	spec env.Spec
	refs atomic.Int64
	// arguments has a *stepArguments for each concurrent call of step_many.
	arguments sync.Pool
}

// errInside refuses a call that could wait for the callback in which it is made.
var errInside = fmt.Errorf("%w: called from inside a function of its own environments, or of the same plugin's, for which it could wait", fault.ErrBusy)

// inside reports whether this thread is in a function of the family. f may be nil.
func (f *family) inside() bool { return f != nil && C.pl_is_inside(unsafe.Pointer(f.c)) != 0 }

func (f *family) unref() {
	if f.refs.Add(-1) == 0 {
		C.pl_family_release(f.c)
	}
}

// callbackError is the failure of a function of the table.
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

// callbackFailure makes the error of a function that returned code. It frees *kept, the text
// that trampoline.c kept.
func callbackFailure(function string, code C.int, kept **C.char) error {
	e := &callbackError{function: function, code: code}
	if *kept != nil {
		e.text = C.GoString(*kept)
		C.free(unsafe.Pointer(*kept))
		*kept = nil
	}
	return e
}

// checkTable refuses a table that lacks a required function or has unknown flags.
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
	case t.step_many != nil && t.flags&C.PACELINE_ENV_WAITS != 0:
		return fmt.Errorf("table.step_many: a function, must be NULL with the flag PACELINE_ENV_WAITS, by which each environment has a thread of its own")
	case t.flags&^C.PACELINE_ENV_WAITS != 0:
		return fmt.Errorf("table.flags: %d, must be 0 or PACELINE_ENV_WAITS (1)", t.flags)
	}
	return nil
}

func (f *family) readSpec() error {
	var obs, action C.paceline_spec
	var kept *C.char
	if code := C.pl_env_spec(f.c, &obs, &action, &kept); code != 0 {
		return callbackFailure("spec", code, &kept)
	}
	var err error
	f.spec, err = specOf(&obs, &action)
	f.spec.Masks = f.c.table.mask != nil
	f.spec.Waits = f.c.table.flags&C.PACELINE_ENV_WAITS != 0
	return err
}

// make makes environment number index.
func (f *family) make(index int, seed uint64) (env.Env, error) {
	c := (*C.pl_env)(C.calloc(1, C.size_t(C.sizeof_pl_env+f.spec.Action.Bytes())))
	if c == nil {
		return nil, syscall.ENOMEM
	}
	c.family, c.action = f.c, (*C.uint32_t)(unsafe.Add(unsafe.Pointer(c), C.sizeof_pl_env))
	if code := C.pl_env_create(c, C.uint32_t(index), C.uint64_t(seed)); code != 0 {
		err := callbackFailure("create", code, &c.text)
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

// tableEnv is one environment of the host.
type tableEnv struct {
	family *family
	c      *C.pl_env
}

func (e *tableEnv) Spec() env.Spec { return e.family.spec }

// Seed does nothing: create gets the environment's seed, and a trainer never seeds its
// environments again.
func (e *tableEnv) Seed(uint64) {}

func (e *tableEnv) Reset(obs []byte) error {
	if code := C.pl_env_reset(e.c, unsafe.Pointer(unsafe.SliceData(obs))); code != 0 {
		return callbackFailure("reset", code, &e.c.text)
	}
	return nil
}

func (e *tableEnv) Step(action int32, obs []byte) (float32, env.End, error) {
	*e.c.action = C.uint32_t(action)
	return e.step(obs)
}

func (e *tableEnv) StepAction(branches []int32, box []float32, obs []byte) (float32, env.End, error) {
	putAction(unsafe.Slice((*uint32)(e.c.action), len(branches)+len(box)), branches, box)
	return e.step(obs)
}

// step takes the action that is in e.c.
func (e *tableEnv) step(obs []byte) (float32, env.End, error) {
	if code := C.pl_env_step(e.c, unsafe.Pointer(unsafe.SliceData(obs))); code != 0 {
		return 0, 0, callbackFailure("step", code, &e.c.text)
	}
	end, err := endOf(e.c.ended)
	return float32(e.c.reward), end, err
}

func endOf(ended C.uint8_t) (env.End, error) {
	end := env.End(ended)
	if end > env.Terminated|env.Truncated {
		return 0, &callbackError{text: fmt.Sprintf("ended: %d, must be 0 to 3, bits of enum paceline_end", end)}
	}
	return end, nil
}

func (e *tableEnv) Batched() bool { return e.family.c.table.step_many != nil }

// hasTable is every environment of a family, with or without Save.
type hasTable interface{ table() *tableEnv }

func (e *tableEnv) table() *tableEnv { return e }

func (e *tableEnv) StepBatch(steps []env.BatchStep, obs []byte) error {
	f, n := e.family, len(steps)
	size := f.spec.Action.Bytes() / 4
	b, err := f.stepArguments(n)
	if err != nil {
		return err
	}
	defer f.arguments.Put(b)
	envs, rows := unsafe.Slice(b.c.envs, n), unsafe.Slice(b.c.rows, n)
	actions := unsafe.Slice((*uint32)(unsafe.Pointer(b.c.actions)), n*size)
	for k, s := range steps {
		envs[k], rows[k] = s.Env.(hasTable).table().c.env, C.uint32_t(s.Row)
		putAction(actions[k*size:(k+1)*size], s.Branches, s.Box)
	}
	var kept *C.char
	if code := C.pl_env_step_many(f.c, b.c, C.uint32_t(n), unsafe.Pointer(unsafe.SliceData(obs)), C.size_t(f.spec.Obs.Bytes()), &kept); code != 0 {
		return callbackFailure("step_many", code, &kept)
	}
	rewards, ended := unsafe.Slice(b.c.rewards, n), unsafe.Slice(b.c.ended, n)
	for k := range steps {
		steps[k].Reward = float32(rewards[k])
		steps[k].End, steps[k].Err = endOf(ended[k])
	}
	return nil
}

// stepArguments is C memory for a call of step_many. It is freed when it is garbage.
type stepArguments struct {
	c *C.pl_batch
	n int
}

// stepArguments returns memory for n environments. As many exist as calls run concurrently.
func (f *family) stepArguments(n int) (*stepArguments, error) {
	if b, _ := f.arguments.Get().(*stepArguments); b != nil && b.n >= n {
		return b, nil
	}
	b := &stepArguments{C.pl_batch_new(C.uint32_t(n), C.size_t(f.spec.Action.Bytes())), n}
	if b.c == nil {
		return nil, syscall.ENOMEM
	}
	runtime.AddCleanup(b, func(c *C.pl_batch) { C.free(unsafe.Pointer(c)) }, b.c)
	return b, nil
}

// Mask is called only if the table has a mask function.
func (e *tableEnv) Mask(mask []byte) error {
	if code := C.pl_env_mask(e.c, (*C.uint8_t)(unsafe.SliceData(mask))); code != 0 {
		return callbackFailure("mask", code, &e.c.text)
	}
	return nil
}

// Bytes is the library's memory for one environment, without the host's.
func (e *tableEnv) Bytes() int64 { return 512 }

func (e *tableEnv) Close() error {
	C.pl_env_destroy(e.c)
	e.c = nil
	e.family.unref()
	return nil
}

// maxStateBytes bounds the state of one environment, in bytes.
const maxStateBytes = 256 << 20

// savingTableEnv is a tableEnv whose table has save and restore.
type savingTableEnv struct{ *tableEnv }

func (e *savingTableEnv) Save() ([]byte, error) {
	var size C.size_t
	if code := C.pl_env_save(e.c, nil, &size); code != 0 {
		return nil, callbackFailure("save", code, &e.c.text)
	}
	// A state may grow between the call that asks for the size and the call that writes it.
	for range 8 {
		if size > maxStateBytes {
			return nil, &callbackError{text: fmt.Sprintf("save: *len is %d, must be at most %d", size, maxStateBytes)}
		}
		if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("save: *len %d", size), Bytes: int64(size)}); err != nil {
			return nil, err
		}
		state := make([]byte, size+1) // never empty: NULL asks for the size
		given := size
		if code := C.pl_env_save(e.c, unsafe.Pointer(&state[0]), &size); code != 0 {
			return nil, callbackFailure("save", code, &e.c.text)
		}
		if size <= given {
			return state[:size], nil
		}
	}
	return nil, &callbackError{text: "save: *len grew in each of 8 calls"}
}

func (e *savingTableEnv) Restore(state []byte) error {
	p := append(state[:len(state):len(state)], 0) // never NULL
	if code := C.pl_env_restore(e.c, unsafe.Pointer(&p[0]), C.size_t(len(state))); code != 0 {
		return callbackFailure("restore", code, &e.c.text)
	}
	return nil
}
