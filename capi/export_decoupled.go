package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
)

// array is a field of a struct of arrays.
type array struct {
	name string
	at   unsafe.Pointer
}

// needArrays refuses arrays that are NULL.
func needArrays(of string, n int, arrays ...array) error {
	for _, a := range arrays {
		if a.at == nil {
			return fmt.Errorf("%s.%s: NULL, must point to %d entries", of, a.name, n)
		}
	}
	return nil
}

// The most steps of a call, and rows of a minibatch.
const (
	mostSteps = 1 << 20
	mostRows  = 1 << 16
)

// hostMasks returns n action masks of the host's; nil if actions have none. NULL allows every
// action, unless it must not.
func hostMasks(spec *env.Spec, of string, at *C.uint8_t, n int, must bool) ([]byte, error) {
	switch given := hostSlice((*byte)(at), n*spec.Action.N); {
	case given != nil && !spec.Masks:
		return nil, fmt.Errorf("%s.next_masks: set, must be NULL where actions have no masks", of)
	case given != nil:
		return given, nil
	case spec.Masks && must:
		return nil, fmt.Errorf("%s.next_masks: NULL, must point to %d masks", of, n)
	case spec.Masks:
		return bytes.Repeat([]byte{1}, n*spec.Action.N), nil
	}
	return nil, nil
}

//export pacelineGoTrainerAddSteps
func pacelineGoTrainerAddSteps(id C.uint64_t, number C.uint32_t, from *C.paceline_steps, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		n := int(from.num_steps)
		if n > mostSteps {
			return fmt.Errorf("steps.num_steps: %d, must be at most %d", n, mostSteps)
		}
		if err := needArrays("steps", n, array{"obs", from.obs}, array{"actions", unsafe.Pointer(from.actions)}, array{"rewards", unsafe.Pointer(from.rewards)}); err != nil {
			return err
		}
		begins, err := flag("steps.begins", from.begins)
		if err != nil {
			return err
		}
		if all := C.uint32_t(C.PACELINE_TERMINATED | C.PACELINE_TRUNCATED); from.end > all {
			return fmt.Errorf("steps.end: %d, must be 0 to %d", from.end, all)
		}
		masks, err := hostMasks(t.spec, "steps", from.next_masks, n, false)
		if err != nil {
			return err
		}
		return t.AddSteps(int(number), &train.Steps{
			Begins: begins, End: env.End(from.end), Obs: unsafe.Slice((*byte)(from.obs), (n+1)*t.spec.Obs.Bytes()),
			Actions: unsafe.Slice((*int32)(from.actions), n), Rewards: unsafe.Slice((*float32)(from.rewards), n), NextMasks: masks,
		})
	}), why)
}

// minibatchOf returns the host's arrays.
func minibatchOf(spec *env.Spec, host *C.paceline_minibatch) (x train.Transitions, err error) {
	n := int(host.num_rows)
	if n > mostRows {
		return x, fmt.Errorf("minibatch.num_rows: %d, must be at most %d", n, mostRows)
	}
	if err := needArrays("minibatch", n,
		array{"obs", host.obs}, array{"next_obs", host.next_obs}, array{"actions", unsafe.Pointer(host.actions)},
		array{"rewards", unsafe.Pointer(host.rewards)}, array{"discounts", unsafe.Pointer(host.discounts)}, array{"weights", unsafe.Pointer(host.weights)},
	); err != nil {
		return x, err
	}
	masks, err := hostMasks(spec, "minibatch", host.next_masks, n, true)
	size := n * spec.Obs.Bytes()
	return train.Transitions{
		Obs:       unsafe.Slice((*byte)(host.obs), size),
		NextObs:   unsafe.Slice((*byte)(host.next_obs), size),
		Actions:   unsafe.Slice((*int32)(host.actions), n),
		Rewards:   unsafe.Slice((*float32)(host.rewards), n),
		Discounts: unsafe.Slice((*float32)(host.discounts), n),
		Weights:   unsafe.Slice((*float32)(host.weights), n),
		NextMasks: masks,
	}, err
}

//export pacelineGoTrainerDraw
func pacelineGoTrainerDraw(to *C.paceline_minibatch, id C.uint64_t, beta C.double, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if err := needArrays("minibatch", int(to.num_rows), array{"identities", unsafe.Pointer(to.identities)}); err != nil {
			return err
		}
		x, err := minibatchOf(t.spec, to)
		if err != nil {
			return err
		}
		return t.Draw(float64(beta), &x, unsafe.Slice((*int64)(to.identities), len(x.Actions)))
	}), why)
}

//export pacelineGoTrainerSetErrors
func pacelineGoTrainerSetErrors(id C.uint64_t, identities *C.int64_t, of *C.float, n C.size_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if n > 1<<24 {
			return fmt.Errorf("n: %d, must be at most %d", n, 1<<24)
		}
		return t.SetErrors(unsafe.Slice((*int64)(identities), n), unsafe.Slice((*float32)(of), n))
	}), why)
}

//export pacelineGoTrainerGradientOf
func pacelineGoTrainerGradientOf(out *C.float, n C.size_t, info *C.paceline_gradient, id C.uint64_t, batch *C.paceline_minibatch, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		to, err := hostSet(&t.sets[0], out, n)
		if err != nil {
			return err
		}
		x, err := minibatchOf(t.spec, batch)
		if err != nil {
			return err
		}
		g, err := t.GradientOf(to, &x, hostSlice((*float32)(batch.errors), len(x.Actions)))
		if err != nil {
			return err
		}
		fillGradient(info, g)
		return nil
	}), why)
}
