package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
)

// transitionsOf returns the host's arrays. Terminated is new: the host has bytes, core has bools.
func transitionsOf(spec *env.Spec, host *C.paceline_transitions) (x train.Transitions, err error) {
	n := int(host.num_rows)
	if err := needArrays("transitions", n,
		array{"obs", host.obs}, array{"next_obs", host.next_obs}, array{"actions", unsafe.Pointer(host.actions)},
		array{"rewards", unsafe.Pointer(host.rewards)}, array{"terminated", unsafe.Pointer(host.terminated)},
	); err != nil {
		return x, err
	}
	masks, err := hostMasks(spec, "transitions", host.next_masks, n, false)
	if err != nil {
		return x, err
	}
	size := n * spec.Obs.Bytes()
	return train.Transitions{
		Obs:        unsafe.Slice((*byte)(host.obs), size),
		NextObs:    unsafe.Slice((*byte)(host.next_obs), size),
		Actions:    unsafe.Slice((*int32)(host.actions), n),
		Rewards:    unsafe.Slice((*float32)(host.rewards), n),
		Terminated: make([]bool, n),
		NextMasks:  masks,
	}, nil
}

//export pacelineGoTrainerReadTransitions
func pacelineGoTrainerReadTransitions(to *C.paceline_transitions, id C.uint64_t, numbers *C.int64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		x, err := transitionsOf(t.spec, to)
		if err != nil {
			return err
		}
		if err := t.ReadTransitions(unsafe.Slice((*int64)(numbers), len(x.Actions)), &x); err != nil {
			return err
		}
		for i, terminated := range x.Terminated {
			hostSlice((*uint8)(to.terminated), len(x.Terminated))[i] = oneIf(terminated)
		}
		return nil
	}), why)
}

//export pacelineGoTrainerAddTransitions
func pacelineGoTrainerAddTransitions(id C.uint64_t, from *C.paceline_transitions, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		x, err := transitionsOf(t.spec, from)
		if err != nil {
			return err
		}
		for i, terminated := range hostSlice((*uint8)(from.terminated), len(x.Terminated)) {
			x.Terminated[i] = terminated != 0
		}
		return t.AddTransitions(&x)
	}), why)
}
