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

// hostRows is a paceline_rows of the host and its counterpart for core: observations, infos and
// masks are the host's own arrays; rewards, ends, starts and ids are copies in core's types.
type hostRows struct {
	c   C.paceline_rows
	vec vec.Rows
}

// bind checks host, the rows of n environments of spec, and makes h.vec from its arrays.
func (h *hostRows) bind(spec *env.Spec, n int, host *C.paceline_rows) error {
	switch {
	case int(host.num_rows) != n:
		return fmt.Errorf("rows.num_rows: %d, must be %d", host.num_rows, n)
	case host.obs == nil:
		return fmt.Errorf("rows.obs: NULL, must point to %d observations", n)
	case !spec.Masks && (host.action_masks != nil || host.final_action_masks != nil):
		return fmt.Errorf("rows.action_masks: set, must be NULL where actions have no masks (setting action_masks)")
	case host.device_type != 0 && host.device_type != C.PACELINE_CPU || host.device_id != 0:
		return fmt.Errorf("rows.device_type: %d, device_id: %d, must be PACELINE_CPU (%d) and 0: other devices are not supported", host.device_type, host.device_id, C.PACELINE_CPU)
	}
	size := n * spec.Obs.Bytes()
	r := &h.vec
	h.c = *host
	r.Obs = unsafe.Slice((*byte)(host.obs), size)
	r.FinalObs = nil
	if host.final_obs != nil {
		r.FinalObs = unsafe.Slice((*byte)(host.final_obs), size)
	}
	r.Masks = hostSlice((*byte)(host.action_masks), n*spec.Action.Logits())
	r.FinalMasks = hostSlice((*byte)(host.final_action_masks), n*spec.Action.Logits())
	if len(r.Ends) != n {
		r.Rewards, r.Ends, r.Starts, r.IDs = make([]float32, n), make([]env.End, n), make([]bool, n), make([]int32, n)
		for i := range r.IDs {
			r.IDs[i] = int32(i)
		}
	}
	return nil
}

// bindFor is bind and bindInfos for n rows that v writes.
func (h *hostRows) bindFor(v *vec.Vec, n int, host *C.paceline_rows) error {
	if err := h.bind(v.Spec(), n, host); err != nil {
		return err
	}
	if v.Mode() == vec.SameStep && host.final_obs == nil {
		return fmt.Errorf("rows.final_obs: NULL, must point to %d observations where autoreset is PACELINE_SAME_STEP", n)
	}
	return h.bindInfos(v.Infos(), n)
}

// bindInfos adds the host's arrays of infos, after bind.
func (h *hostRows) bindInfos(specs []env.InfoSpec, n int) (err error) {
	r := &h.vec
	if r.Infos, err = columns(r.Infos[:0], specs, n, "infos", h.c.infos); err != nil {
		return err
	}
	r.FinalInfos, err = columns(r.FinalInfos[:0], specs, n, "final_infos", h.c.final_infos)
	return err
}

// columns appends the host's arrays of infos to list, one for each of specs; none for NULL.
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

// read copies rewards and ends from the host's arrays.
func (h *hostRows) read() error {
	n := len(h.vec.Ends)
	for _, x := range []struct {
		name    string
		missing bool
	}{{"rewards", h.c.rewards == nil}, {"terminated", h.c.terminated == nil}, {"truncated", h.c.truncated == nil}} {
		if x.missing {
			return fmt.Errorf("rows.%s: NULL, must point to %d entries", x.name, n)
		}
	}
	rewards := hostSlice((*float64)(h.c.rewards), n)
	terminated, truncated := hostSlice((*uint8)(h.c.terminated), n), hostSlice((*uint8)(h.c.truncated), n)
	for i := range n {
		h.vec.Rewards[i] = float32(rewards[i])
		h.vec.Ends[i] = 0
		if terminated[i] != 0 {
			h.vec.Ends[i] |= env.Terminated
		}
		if truncated[i] != 0 {
			h.vec.Ends[i] |= env.Truncated
		}
	}
	return nil
}

// write copies rewards, ends, starts and ids to the host's arrays: of all rows if mask is nil,
// else of those whose mask is true.
func (h *hostRows) write(mask []bool) {
	n := len(h.vec.Ends)
	rewards := hostSlice((*float64)(h.c.rewards), n)
	terminated, truncated := hostSlice((*uint8)(h.c.terminated), n), hostSlice((*uint8)(h.c.truncated), n)
	started, ids := hostSlice((*uint8)(h.c.started), n), hostSlice((*int32)(h.c.env_ids), n)
	for i, end := range h.vec.Ends {
		if mask != nil && !mask[i] {
			continue
		}
		if rewards != nil {
			rewards[i] = float64(h.vec.Rewards[i])
		}
		if terminated != nil {
			terminated[i] = oneIf(end&(env.Terminated|env.Lost) != 0)
		}
		if truncated != nil {
			truncated[i] = oneIf(end&env.Truncated != 0)
		}
		if started != nil {
			started[i] = oneIf(h.vec.Starts[i])
		}
		if ids != nil {
			ids[i] = h.vec.IDs[i]
		}
	}
}

// hostSlice returns the n elements at p; nil for NULL.
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
