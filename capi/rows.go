package main

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

// batch is a paceline_rows and the vec.Rows that are filled for it: observations and infos
// in the host's own arrays, and of the few other numbers a copy, in the host's types, when
// they are there.
type batch struct {
	host C.paceline_rows
	rows vec.Rows
}

// take makes the rows for the host's arrays, of n environments.
func (b *batch) take(v *vec.Vec, n int, host *C.paceline_rows) error {
	switch {
	case int(host.num_rows) != n:
		return fmt.Errorf("rows.num_rows: %d, must be %d", host.num_rows, n)
	case host.obs == nil:
		return fmt.Errorf("rows.obs: NULL, must point to %d observations", n)
	case v.Mode() == vec.SameStep && host.final_obs == nil:
		return fmt.Errorf("rows.final_obs: NULL, must point to %d observations where autoreset is PACELINE_SAME_STEP", n)
	}
	size := n * v.Spec().Obs.Bytes()
	r := &b.rows
	b.host = *host
	r.Obs = unsafe.Slice((*byte)(host.obs), size)
	r.FinalObs = nil
	if host.final_obs != nil {
		r.FinalObs = unsafe.Slice((*byte)(host.final_obs), size)
	}
	if len(r.Ends) != n {
		r.Rewards, r.Ends, r.Starts, r.IDs = make([]float32, n), make([]env.End, n), make([]bool, n), make([]int32, n)
		for i := range r.IDs {
			r.IDs[i] = int32(i)
		}
	}
	var err error
	if r.Infos, err = columns(r.Infos[:0], v, n, "infos", host.infos); err != nil {
		return err
	}
	r.FinalInfos, err = columns(r.FinalInfos[:0], v, n, "final_infos", host.final_infos)
	return err
}

// columns adds the host's arrays of infos to list; NULL has none.
func columns(list [][]byte, v *vec.Vec, n int, name string, arrays *unsafe.Pointer) ([][]byte, error) {
	if arrays == nil {
		return nil, nil
	}
	specs := v.InfoSpecs()
	for k, array := range unsafe.Slice(arrays, len(specs)) {
		if array == nil {
			return nil, fmt.Errorf("rows.%s[%d]: NULL, must point to %d entries of %s", name, k, n, specs[k].Name)
		}
		list = append(list, unsafe.Slice((*byte)(array), n*specs[k].Bytes()))
	}
	return list, nil
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
