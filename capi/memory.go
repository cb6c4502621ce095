package main

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/vec"
)

// arena is the rows that both sides see. It is mapped memory, outside the Go
// heap and kept in forked children (who may look at their arrays), and stays
// until its owner and every lease of a paceline_buffers have let go.
type arena struct {
	memory  []byte
	refs    atomic.Int64
	envs    int
	bytes   int // of an observation
	rows    *vec.Rows
	actions []int32
}

// leases maps the ids in paceline_buffers to what they keep.
var leases = newTable[*arena](kindLease)

// newArena maps rows for n environments, zeroed. The caller holds the first
// reference.
func newArena(obs env.ObsSpec, n int) (*arena, error) {
	a := &arena{envs: n, bytes: obs.Bytes()}
	parts := []int{n * a.bytes, n * a.bytes, 4 * n, 4 * n, n}
	total := 0
	for i, size := range parts {
		at := total
		total += (size + 63) &^ 63 // no two parts on one cache line
		parts[i] = at
	}
	var err error
	if a.memory, err = syscall.Mmap(-1, 0, total, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE); err != nil {
		return nil, fmt.Errorf("rows of %d environments: %d bytes cannot be had: %w", n, total, err)
	}
	at := func(i int) unsafe.Pointer { return unsafe.Pointer(&a.memory[parts[i]]) }
	a.rows = &vec.Rows{
		Obs:      unsafe.Slice((*byte)(at(0)), n*a.bytes),
		FinalObs: unsafe.Slice((*byte)(at(1)), n*a.bytes),
		Rewards:  unsafe.Slice((*float32)(at(3)), n),
		Ends:     unsafe.Slice((*env.End)(at(4)), n),
		Starts:   make([]bool, n),
	}
	a.actions = unsafe.Slice((*int32)(at(2)), n)
	a.refs.Store(1)
	return a, nil
}

func (a *arena) drop() {
	if a.refs.Add(-1) == 0 {
		syscall.Munmap(a.memory)
	}
}

// lease fills in out, with an id of its own.
func (a *arena) lease(out *C.paceline_buffers) {
	a.refs.Add(1)
	out.num_envs = C.uint32_t(a.envs)
	out.obs_bytes, out.action_bytes = C.size_t(a.bytes), 4
	out.obs = unsafe.Pointer(unsafe.SliceData(a.rows.Obs))
	out.final_obs = unsafe.Pointer(unsafe.SliceData(a.rows.FinalObs))
	out.actions = (*C.int32_t)(unsafe.SliceData(a.actions))
	out.rewards = (*C.float)(unsafe.SliceData(a.rows.Rewards))
	out.ended = (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(a.rows.Ends)))
	out.id = C.uint64_t(leases.put(a))
}

//export pacelineGoBuffersRelease
func pacelineGoBuffersRelease(id C.uint64_t) {
	guarded(func() error {
		if a, ok := leases.take(uint64(id)); ok {
			a.drop()
		}
		return nil
	})
}
