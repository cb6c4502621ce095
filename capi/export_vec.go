package main

/*
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/paceline-rl/paceline/core/dqn"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// vector is a vec.Vec with everything it needs.
type vector struct {
	mu     sync.Mutex // held by the call in progress
	vec    *vec.Vec
	pool   *threads.Pool
	envs   []env.Env // the Vec's
	shared *arena
	mask   []bool
}

var vectors = newTable[*vector](kindVec)

const (
	mostEnvs    = 65536
	mostThreads = threads.Max
)

func newVector(name string, n, numThreads int, mode vec.Autoreset) (v *vector, err error) {
	if n < 1 || n > mostEnvs {
		return nil, fmt.Errorf("num_envs: %d, must be 1 to %d", n, mostEnvs)
	}
	if numThreads > mostThreads {
		return nil, fmt.Errorf("num_threads: %d, must be 0 to %d", numThreads, mostThreads)
	}
	if numThreads == 0 {
		numThreads = min(runtime.GOMAXPROCS(0), mostThreads)
	}
	v = &vector{mask: make([]bool, n)}
	if v.pool, err = threads.NewPool(min(numThreads, n), nil); err != nil {
		return nil, err
	}
	v.vec, err = vec.New(func(i int) (env.Env, error) {
		e, err := env.Make(name)
		if err == nil {
			e.Seed(vec.SeedFor(0, i))
			v.envs = append(v.envs, e)
		}
		return e, err
	}, n, v.pool, mode)
	if err == nil {
		v.shared, err = newArena(v.vec.Spec().Obs, n)
	}
	if err != nil {
		v.close()
		return nil, unindexed(err)
	}
	return v, nil
}

// unindexed drops the number of the environment from an error that all have.
func unindexed(err error) error {
	var e *env.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func (v *vector) close() {
	if v.vec != nil {
		v.vec.Close()
	}
	if v.shared != nil {
		v.shared.drop()
	}
	v.pool.Close()
}

// call runs f if no other call is in progress.
func (v *vector) call(f func() error) error {
	if !v.mu.TryLock() {
		return dqn.ErrBusy
	}
	defer v.mu.Unlock()
	return f()
}

//export pacelineGoVecNew
func pacelineGoVecNew(out *C.uint64_t, name *C.char, numEnvs, numThreads, autoreset C.uint32_t, why *C.char) C.int {
	return report(guarded(func() error {
		id, err := text("env", name)
		if err != nil {
			return err
		}
		if autoreset > C.PACELINE_DISABLED {
			return fmt.Errorf("autoreset: %d, must be PACELINE_NEXT_STEP (0), PACELINE_SAME_STEP (1) or PACELINE_DISABLED (2)", autoreset)
		}
		modes := [...]vec.Autoreset{C.PACELINE_NEXT_STEP: vec.NextStep, C.PACELINE_SAME_STEP: vec.SameStep, C.PACELINE_DISABLED: vec.Disabled}
		v, err := newVector(id, int(numEnvs), int(numThreads), modes[autoreset])
		if err == nil {
			*out = C.uint64_t(vectors.put(v))
		}
		return err
	}), why)
}

//export pacelineGoVecSpec
func pacelineGoVecSpec(obs, action *C.paceline_spec, id C.uint64_t, why *C.char) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		return putSpec(v.vec.Spec(), obs, action)
	}), why)
}

//export pacelineGoVecBuffers
func pacelineGoVecBuffers(out *C.paceline_buffers, id C.uint64_t, why *C.char) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		v.shared.lease(out)
		return nil
	}), why)
}

//export pacelineGoVecReset
func pacelineGoVecReset(id C.uint64_t, seeds *C.uint64_t, mask *C.uint8_t, why *C.char) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		return v.call(func() error { return v.reset((*uint64)(seeds), (*uint8)(mask)) })
	}), why)
}

func (v *vector) reset(seeds *uint64, mask *uint8) error {
	all := v.mask
	any := mask == nil
	for i := range all {
		all[i] = mask == nil || unsafe.Slice(mask, len(all))[i] != 0
		any = any || all[i]
	}
	if !any {
		return fmt.Errorf("mask: %d bytes of 0, at least one must be another", len(all))
	}
	for i, on := range all {
		if on && seeds != nil {
			v.envs[i].Seed(unsafe.Slice(seeds, len(all))[i])
		}
	}
	return v.vec.Reset(v.shared.rows, all)
}

//export pacelineGoVecStep
func pacelineGoVecStep(id C.uint64_t, why *C.char) C.int {
	return report(vectors.use(uint64(id), func(v *vector) error {
		return v.call(func() error { return v.vec.Step(v.shared.actions, v.shared.rows) })
	}), why)
}

//export pacelineGoVecFree
func pacelineGoVecFree(id C.uint64_t) {
	if v, ok := vectors.take(uint64(id)); ok {
		guarded(func() error {
			v.mu.Lock() // a call in progress ends first
			v.close()
			return nil
		})
	}
}
