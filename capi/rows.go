package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/vec"
)

// batch is a paceline_rows and the vec.Rows that stand for it: observations and infos in
// the host's own arrays, and of the few other numbers a copy, in core's types.
type batch struct {
	host C.paceline_rows
	rows vec.Rows
}

// take makes the rows for the host's arrays, of n environments of spec.
func (b *batch) take(spec *env.Spec, n int, host *C.paceline_rows) error {
	switch {
	case int(host.num_rows) != n:
		return fmt.Errorf("rows.num_rows: %d, must be %d", host.num_rows, n)
	case host.obs == nil:
		return fmt.Errorf("rows.obs: NULL, must point to %d observations", n)
	case !spec.Masks && (host.action_masks != nil || host.final_action_masks != nil):
		return fmt.Errorf("rows.action_masks: set, must be NULL where actions have no masks (setting action_masks)")
	case host.device_type != 0 && host.device_type != C.PACELINE_CPU || host.device_id != 0:
		return fmt.Errorf("rows.device_type: %d, device_id: %d, must be PACELINE_CPU (%d) and 0: no other device is built yet", host.device_type, host.device_id, C.PACELINE_CPU)
	}
	size := n * spec.Obs.Bytes()
	r := &b.rows
	b.host = *host
	r.Obs = unsafe.Slice((*byte)(host.obs), size)
	r.FinalObs = nil
	if host.final_obs != nil {
		r.FinalObs = unsafe.Slice((*byte)(host.final_obs), size)
	}
	r.Masks = hostSlice((*byte)(host.action_masks), n*spec.Action.N)
	r.FinalMasks = hostSlice((*byte)(host.final_action_masks), n*spec.Action.N)
	if len(r.Ends) != n {
		r.Rewards, r.Ends, r.Starts, r.IDs = make([]float32, n), make([]env.End, n), make([]bool, n), make([]int32, n)
		for i := range r.IDs {
			r.IDs[i] = int32(i)
		}
	}
	return nil
}

// takeFor is take for rows that v writes.
func (b *batch) takeFor(v *vec.Vec, n int, host *C.paceline_rows) error {
	if err := b.take(v.Spec(), n, host); err != nil {
		return err
	}
	if v.Mode() == vec.SameStep && host.final_obs == nil {
		return fmt.Errorf("rows.final_obs: NULL, must point to %d observations where autoreset is PACELINE_SAME_STEP", n)
	}
	return b.takeInfos(v.Infos(), n)
}

// takeInfos adds the host's arrays of infos to rows that were taken.
func (b *batch) takeInfos(specs []env.InfoSpec, n int) (err error) {
	r := &b.rows
	if r.Infos, err = columns(r.Infos[:0], specs, n, "infos", b.host.infos); err != nil {
		return err
	}
	r.FinalInfos, err = columns(r.FinalInfos[:0], specs, n, "final_infos", b.host.final_infos)
	return err
}

// columns adds the host's arrays of infos to list; NULL has none.
func columns(list [][]byte, specs []env.InfoSpec, n int, name string, arrays *unsafe.Pointer) ([][]byte, error) {
	if arrays == nil {
		return nil, nil
	}
	for k, array := range unsafe.Slice(arrays, len(specs)) {
		if array == nil {
			return nil, fmt.Errorf("rows.%s[%d]: NULL, must point to %d entries of %s", name, k, n, specs[k].Name)
		}
		list = append(list, unsafe.Slice((*byte)(array), n*specs[k].Bytes()))
	}
	return list, nil
}

// read copies what the host's environments answered from its arrays.
func (b *batch) read() error {
	n := len(b.rows.Ends)
	for _, x := range []struct {
		name    string
		missing bool
	}{{"rewards", b.host.rewards == nil}, {"terminated", b.host.terminated == nil}, {"truncated", b.host.truncated == nil}} {
		if x.missing {
			return fmt.Errorf("rows.%s: NULL, must point to %d entries", x.name, n)
		}
	}
	rewards := hostSlice((*float64)(b.host.rewards), n)
	terminated, truncated := hostSlice((*uint8)(b.host.terminated), n), hostSlice((*uint8)(b.host.truncated), n)
	for i := range n {
		b.rows.Rewards[i] = float32(rewards[i])
		b.rows.Ends[i] = 0
		if terminated[i] != 0 {
			b.rows.Ends[i] |= env.Terminated
		}
		if truncated[i] != 0 {
			b.rows.Ends[i] |= env.Truncated
		}
	}
	return nil
}

// give writes the numbers to the host's arrays: all rows, or those under mask.
func (b *batch) give(mask []bool) {
	n := len(b.rows.Ends)
	rewards := hostSlice((*float64)(b.host.rewards), n)
	terminated, truncated := hostSlice((*uint8)(b.host.terminated), n), hostSlice((*uint8)(b.host.truncated), n)
	started, ids := hostSlice((*uint8)(b.host.started), n), hostSlice((*int32)(b.host.env_ids), n)
	for i, end := range b.rows.Ends {
		if mask != nil && !mask[i] {
			continue
		}
		if rewards != nil {
			rewards[i] = float64(b.rows.Rewards[i])
		}
		if terminated != nil {
			terminated[i] = oneIf(end&(env.Terminated|env.Lost) != 0)
		}
		if truncated != nil {
			truncated[i] = oneIf(end&env.Truncated != 0)
		}
		if started != nil {
			started[i] = oneIf(b.rows.Starts[i])
		}
		if ids != nil {
			ids[i] = b.rows.IDs[i]
		}
	}
}

// actionsAt are n of the host's.
func actionsAt(spec *env.ActionSpec, p unsafe.Pointer, n int) vec.Actions {
	if spec.N == 0 {
		return vec.Actions{Box: unsafe.Slice((*float32)(p), n*len(spec.Low))}
	}
	return vec.Actions{Discrete: unsafe.Slice((*int32)(p), n)}
}

func hostSlice[T any](p *T, n int) []T {
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, n)
}

func oneIf(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}
