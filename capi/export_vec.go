package capi

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// vector is a vec.Vec with the state that calls of the host need.
type vector struct {
	mu        sync.RWMutex // held by the call in progress; offer and send share it
	recvMu    sync.Mutex   // held by recv, which may run concurrently with offer and send
	asyncMu   sync.Mutex   // held while vec.Async is called
	vec       *vec.Vec
	pool      *threads.Pool
	threads   int
	pin       int
	batchSize int
	mask      []bool   // of the reset in progress
	family    *family  // nil: the environments are not functions of the host
	rows      hostRows // of the step or reset in progress
	actions   hostActions

	offers struct {
		sync.Mutex
		list  []*hostRows // the oldest first
		spare []*hostRows // received rows, for later offers
	}
}

var vectors = newTable[*vector](kindVec)

const (
	maxEnvs    = 65536
	maxThreads = threads.Max
)

func newVector(name string, o *C.paceline_vec_options) (v *vector, err error) {
	options, err := env.ParseOptions(C.GoString(o.env_options))
	if err != nil {
		return nil, err
	}
	n, size, numThreads := int(o.num_envs), int(o.batch_size), int(o.num_threads)
	switch {
	case n < 1 || n > maxEnvs:
		return nil, fmt.Errorf("num_envs: %d, must be 1 to %d", n, maxEnvs)
	case size > n:
		return nil, fmt.Errorf("batch_size: %d, must be 1 to num_envs (%d), or 0 for all", size, n)
	case numThreads > maxThreads:
		return nil, fmt.Errorf("num_threads: %d, must be 0 to %d", numThreads, maxThreads)
	case o.autoreset > C.PACELINE_DISABLED:
		return nil, fmt.Errorf("autoreset: %d, must be PACELINE_NEXT_STEP (0), PACELINE_SAME_STEP (1) or PACELINE_DISABLED (2)", o.autoreset)
	case o.pin < -1:
		return nil, fmt.Errorf("pin: %d, must be the number of a core, or -1 for none", o.pin)
	}
	if numThreads == 0 {
		numThreads = threads.Cores
	}
	numThreads = min(numThreads, n)
	if size == 0 {
		size = n
	}
	v = &vector{mask: make([]bool, n), threads: numThreads, pin: int(o.pin), batchSize: size, family: familyOf(name)}
	if v.pool, err = threads.NewStepping(numThreads, v.pin); err != nil {
		return nil, err
	}
	modes := [...]vec.Autoreset{C.PACELINE_NEXT_STEP: vec.NextStep, C.PACELINE_SAME_STEP: vec.SameStep, C.PACELINE_DISABLED: vec.Disabled}
	if v.vec, err = vec.Make(name, options, n, 0, v.pool, modes[o.autoreset], nil); err != nil {
		v.pool.Close()
		return nil, err
	}
	return v, nil
}

// close frees everything. A recv that waits returns.
func (v *vector) close() {
	v.mu.Lock() // a call in progress ends first
	defer v.mu.Unlock()
	v.asyncMu.Lock()
	v.vec.Close()
	v.asyncMu.Unlock()
	v.recvMu.Lock()
	defer v.recvMu.Unlock()
	v.pool.Close()
}

// busy reports whether a function of its environments may be in progress.
func (v *vector) busy() bool {
	if !v.mu.TryLock() {
		return true
	}
	defer v.mu.Unlock()
	return v.vec.UnderWay() > 0
}

// callVec runs f if no other call is in progress, recv included.
func callVec(id C.uint64_t, why *C.pl_error, f func(*vector) error) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		if !v.mu.TryLock() {
			return fault.ErrBusy
		}
		defer v.mu.Unlock()
		if !v.recvMu.TryLock() {
			return fault.ErrBusy
		}
		defer v.recvMu.Unlock()
		return f(v)
	}), why)
}

// withAsync runs f concurrently with recv and with other calls of withAsync.
func (v *vector) withAsync(f func(*vec.Async) error) error {
	if !v.mu.TryRLock() {
		return fault.ErrBusy
	}
	defer v.mu.RUnlock()
	a, err := v.async()
	if err != nil {
		return err
	}
	return f(a)
}

func callAsync(id C.uint64_t, why *C.pl_error, f func(*vector, *vec.Async) error) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		return v.withAsync(func(a *vec.Async) error { return f(v, a) })
	}), why)
}

// async returns the Async, which the first call makes.
func (v *vector) async() (*vec.Async, error) {
	v.asyncMu.Lock()
	defer v.asyncMu.Unlock()
	return v.vec.Async(v.batchSize, v.threads, v.pin)
}

//export pacelineGoVecNew
func pacelineGoVecNew(out *C.uint64_t, name *C.char, options *C.paceline_vec_options, why *C.pl_error) C.int {
	return create(out, vectors, why, func() (*vector, error) { return newVector(C.GoString(name), options) })
}

//export pacelineGoVecSpec
func pacelineGoVecSpec(obs, action *C.paceline_spec, id C.uint64_t, why *C.pl_error) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		return putSpec(v.vec.Spec(), obs, action)
	}), why)
}

//export pacelineGoVecDescribe
func pacelineGoVecDescribe(out **C.char, id C.uint64_t, why *C.pl_error) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		return putJSON(out, v.describe())
	}), why)
}

func (v *vector) describe() map[string]any {
	s := v.vec.Spec()
	name, hash := v.vec.Recipe()
	return map[string]any{
		"env": s.ID, "recipe": name, "recipe_hash": hash, "infos": columnsOf(v.vec.Infos()),
		"obs_low": bounds(s.Obs.Low), "obs_high": bounds(s.Obs.High),
		"action_low": bounds(s.Action.Low), "action_high": bounds(s.Action.High),
		"action_branches": append([]int32{}, s.Action.Branches...),
		"action_masks":    s.Masks, "action_names": append([]string{}, s.Action.Names...),
		"max_steps": s.MaxSteps, "threshold": s.Threshold, "render_fps": s.FPS,
	}
}

// columnsOf returns columns of infos for JSON.
func columnsOf(specs []env.InfoSpec) []map[string]any {
	list := []map[string]any{}
	for _, c := range specs {
		list = append(list, map[string]any{"name": c.Name, "dtype": c.DType.String(), "len": c.Len})
	}
	return list
}

// bounds returns numbers for JSON: null for infinity, which JSON lacks.
func bounds(values []float32) []any {
	list := make([]any, len(values))
	for i, x := range values {
		if !math.IsInf(float64(x), 0) {
			list[i] = x
		}
	}
	return list
}

//export pacelineGoVecReset
func pacelineGoVecReset(id C.uint64_t, seeds *C.uint64_t, mask *C.uint8_t, rows *C.paceline_rows, why *C.pl_error) C.int {
	return callVec(id, why, func(v *vector) error { return v.reset((*uint64)(seeds), (*uint8)(mask), rows) })
}

func (v *vector) reset(seeds *uint64, mask *uint8, rows *C.paceline_rows) error {
	if err := v.rows.bindFor(v.vec, len(v.mask), rows); err != nil {
		return err
	}
	all := v.mask
	any := mask == nil
	for i := range all {
		all[i] = mask == nil || unsafe.Slice(mask, len(all))[i] != 0
		any = any || all[i]
	}
	if !any {
		return fmt.Errorf("mask: %d bytes of 0, at least one must be another", len(all))
	}
	if seeds != nil {
		if err := v.vec.Seed(unsafe.Slice(seeds, len(all)), all); err != nil {
			return err
		}
	}
	if mask == nil {
		return v.writeStepped(v.vec.Reset(&v.rows.vec, nil), all)
	}
	return v.writeStepped(v.vec.Reset(&v.rows.vec, all), all)
}

// writeStepped writes the rows of a step or reset that ended with err, and returns err. It
// writes the rows whose mask is true (nil: all) and whose environment did not fail before or
// in its step.
func (v *vector) writeStepped(err error, mask []bool) error {
	var failed *vec.Failure
	switch {
	case err == nil:
		v.rows.write(mask)
	case errors.As(err, &failed):
		stepped := slices.Repeat([]bool{true}, len(v.mask))
		if mask != nil {
			copy(stepped, mask)
		}
		for _, row := range failed.Rows {
			stepped[row.Err.Index] = row.Stepped
		}
		v.rows.write(stepped)
	}
	return err
}

//export pacelineGoVecStep
func pacelineGoVecStep(id C.uint64_t, actions unsafe.Pointer, rows *C.paceline_rows, why *C.pl_error) C.int {
	return callVec(id, why, func(v *vector) error {
		if err := v.rows.bindFor(v.vec, len(v.mask), rows); err != nil {
			return err
		}
		v.actions.bind(&v.vec.Spec().Action, actions, len(v.mask))
		v.actions.read()
		return v.writeStepped(v.vec.Step(v.actions.vec, &v.rows.vec), nil)
	})
}

//export pacelineGoVecOffer
func pacelineGoVecOffer(id C.uint64_t, rows *C.paceline_rows, why *C.pl_error) C.int {
	return callAsync(id, why, func(v *vector, a *vec.Async) error {
		o := &v.offers
		o.Lock()
		defer o.Unlock()
		offered := new(hostRows)
		if n := len(o.spare); n > 0 {
			offered, o.spare = o.spare[n-1], o.spare[:n-1]
		}
		if err := offered.bindFor(v.vec, v.batchSize, rows); err != nil {
			return err
		}
		if err := a.Offer(&offered.vec); err != nil {
			return err
		}
		o.list = append(o.list, offered)
		return nil
	})
}

//export pacelineGoVecSend
func pacelineGoVecSend(id C.uint64_t, ids *C.int32_t, n C.size_t, actions unsafe.Pointer, why *C.pl_error) C.int {
	return callAsync(id, why, func(v *vector, a *vec.Async) error {
		if err := v.checkCount(n); err != nil {
			return err
		}
		var sent hostActions // not v.actions: several threads may send at the same time
		sent.bind(&v.vec.Spec().Action, actions, int(n))
		sent.read()
		return a.Send(unsafe.Slice((*int32)(ids), int(n)), sent.vec)
	})
}

//export pacelineGoVecSendReset
func pacelineGoVecSendReset(id C.uint64_t, ids *C.int32_t, n C.size_t, seeds *C.uint64_t, why *C.pl_error) C.int {
	return callAsync(id, why, func(v *vector, a *vec.Async) error {
		if err := v.checkCount(n); err != nil {
			return err
		}
		var all []uint64
		if seeds != nil {
			all = unsafe.Slice((*uint64)(seeds), int(n))
		}
		return a.SendReset(unsafe.Slice((*int32)(ids), int(n)), all)
	})
}

//export pacelineGoVecSendNewGame
func pacelineGoVecSendNewGame(id C.uint64_t, ids *C.int32_t, n C.size_t, why *C.pl_error) C.int {
	return callAsync(id, why, func(v *vector, a *vec.Async) error {
		if err := v.checkCount(n); err != nil {
			return err
		}
		return a.SendNewGame(unsafe.Slice((*int32)(ids), int(n)))
	})
}

func (v *vector) checkCount(n C.size_t) error {
	if n > C.size_t(len(v.mask)) {
		return fmt.Errorf("n: %d, must be at most %d, the number of environments", n, len(v.mask))
	}
	return nil
}

//export pacelineGoVecRecv
func pacelineGoVecRecv(id C.uint64_t, maxMS C.int64_t, why *C.pl_error) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		limit, err := limitOf(maxMS)
		if err != nil {
			return err
		}
		if v.family.inside() {
			return errInside
		}
		if !v.recvMu.TryLock() {
			return fault.ErrBusy
		}
		defer v.recvMu.Unlock()
		var a *vec.Async
		if err := v.withAsync(func(made *vec.Async) error { a = made; return nil }); err != nil {
			return err
		}
		if limit == 0 {
			limit = -1 // no limit
		}
		if _, err := a.Recv(limit); err != nil {
			return err
		}
		o := &v.offers
		o.Lock()
		defer o.Unlock()
		received := o.list[0]
		received.write(nil)
		o.list = o.list[1:]
		o.spare = append(o.spare, received)
		return nil
	}), why)
}

//export pacelineGoVecUnderWay
func pacelineGoVecUnderWay(out *C.size_t, id C.uint64_t, why *C.pl_error) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		v.asyncMu.Lock() // not mu: the call neither waits for a step nor makes one fail
		defer v.asyncMu.Unlock()
		*out = C.size_t(v.vec.UnderWay())
		return nil
	}), why)
}

//export pacelineGoVecDrain
func pacelineGoVecDrain(id C.uint64_t, why *C.pl_error) C.int {
	return callVec(id, why, func(v *vector) error {
		if v.family.inside() && v.vec.UnderWay() > 0 {
			return errInside
		}
		a, err := v.async()
		if err == nil {
			a.Drain()
		}
		return err
	})
}

//export pacelineGoVecSave
func pacelineGoVecSave(out unsafe.Pointer, size *C.size_t, id C.uint64_t, i C.uint32_t, why *C.pl_error) C.int {
	return callVec(id, why, func(v *vector) error {
		state, err := v.vec.Save(int(i))
		if err != nil {
			return err
		}
		return putBytes(out, size, state)
	})
}

//export pacelineGoVecRestore
func pacelineGoVecRestore(id C.uint64_t, i C.uint32_t, state unsafe.Pointer, size C.size_t, why *C.pl_error) C.int {
	return callVec(id, why, func(v *vector) error {
		if size > maxBytes {
			return fmt.Errorf("size: %d, must be at most %d", size, int64(maxBytes))
		}
		return v.vec.Restore(int(i), unsafe.Slice((*byte)(state), int(size)))
	})
}

//export pacelineGoVecRender
func pacelineGoVecRender(out *C.uint8_t, size *C.size_t, height, width *C.uint32_t, id C.uint64_t, i C.uint32_t, why *C.pl_error) C.int {
	return callVec(id, why, func(v *vector) error {
		rgb, w, h, err := v.vec.Render(int(i))
		if err != nil {
			return err
		}
		if err := putBytes(unsafe.Pointer(out), size, rgb); err != nil {
			return err
		}
		*height, *width = C.uint32_t(h), C.uint32_t(w)
		return nil
	})
}

//export pacelineGoVecFree
func pacelineGoVecFree(id C.uint64_t, why *C.pl_error) C.int {
	if err := vectors.checkKind(uint64(id)); err != nil {
		return report(err, why)
	}
	if v, ok := vectors.find(uint64(id)); ok && v.family.inside() && v.busy() {
		return report(errInside, why)
	}
	if v, ok := vectors.remove(uint64(id)); ok {
		guarded(func() error {
			v.close()
			return nil
		})
	}
	return C.PACELINE_OK
}
