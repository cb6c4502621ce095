package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/policy"
)

var policies = newTable[*policy.Policy](kindPolicy)

// A larger number can only be a mistake.
const (
	maxRows  = 1 << 20 // of paceline_policy_act
	maxBytes = 1 << 40 // of a policy or a state
	maxState = 1 << 20 // of a console's state
)

//export pacelineGoPolicyLoad
func pacelineGoPolicyLoad(out *C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return create(out, policies, why, func() (*policy.Policy, error) { return policy.Load(C.GoString(file)) })
}

//export pacelineGoPolicyFromTrainer
func pacelineGoPolicyFromTrainer(out *C.uint64_t, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		p, err := t.Policy()
		if err == nil {
			*out = C.uint64_t(policies.put(p))
		}
		return err
	}), why)
}

//export pacelineGoPolicyFromBytes
func pacelineGoPolicyFromBytes(out *C.uint64_t, from unsafe.Pointer, size C.size_t, why *C.pl_error) C.int {
	return create(out, policies, why, func() (*policy.Policy, error) {
		if size > maxBytes {
			return nil, fmt.Errorf("size: %d, must be at most %d", size, maxBytes)
		}
		if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("size: %d", size), Bytes: int64(size)}); err != nil {
			return nil, err
		}
		return policy.FromBytes(bytes.Clone(unsafe.Slice((*byte)(from), int(size))))
	})
}

//export pacelineGoPolicySpec
func pacelineGoPolicySpec(obs, action *C.paceline_spec, id C.uint64_t, why *C.pl_error) C.int {
	return report(policies.use(uint64(id), func(p *policy.Policy) error {
		return putSpec(p.Spec(), obs, action)
	}), why)
}

//export pacelineGoPolicyDescribe
func pacelineGoPolicyDescribe(out **C.char, id C.uint64_t, why *C.pl_error) C.int {
	return report(policies.use(uint64(id), func(p *policy.Policy) error {
		outputs := []map[string]any{}
		for _, o := range p.Outputs() {
			outputs = append(outputs, map[string]any{"name": o.Name, "len": o.Len})
		}
		return putJSON(out, map[string]any{"env": p.Spec().ID, "outputs": outputs, "state_bytes": 0, "host_data": p.HostData()})
	}), why)
}

// flag converts 0 or 1 to a bool and refuses other numbers.
func flag(name string, n C.uint32_t) (bool, error) {
	if n > 1 {
		return false, fmt.Errorf("%s: %d, must be 0 or 1", name, n)
	}
	return n == 1, nil
}

// actOptions converts the host's options, whose masks have the given number of bytes. NULL
// gives nil. state and episode_starts are refused: no network has a state.
func actOptions(o *C.paceline_act_options, masks int) (*policy.Options, error) {
	if o == nil {
		return nil, nil
	}
	sample, err := flag("o.sample", o.sample)
	if err != nil {
		return nil, err
	}
	if o.state != nil {
		return nil, errors.New("o.state: set, must be NULL: this version has no networks with a state")
	}
	if o.episode_starts != nil {
		return nil, errors.New("o.episode_starts: set, must be NULL: this version has no networks with a state")
	}
	return &policy.Options{Sample: sample, Epsilon: float64(o.epsilon), Seed: uint64(o.seed), Counter: uint64(o.counter),
		Masks: hostSlice((*byte)(o.action_masks), masks)}, nil
}

//export pacelineGoPolicyAct
func pacelineGoPolicyAct(id C.uint64_t, n C.size_t, obs unsafe.Pointer, o *C.paceline_act_options, actions unsafe.Pointer, outputs **C.float, why *C.pl_error) C.int {
	return report(policies.use(uint64(id), func(p *policy.Policy) error {
		if n > maxRows {
			return fmt.Errorf("n: %d, must be at most %d", n, maxRows)
		}
		spec, rows := p.Spec(), int(n)
		with, err := actOptions(o, rows*spec.Action.Logits())
		if err != nil || n == 0 {
			return err
		}
		var to [][]float32
		if outputs != nil {
			heads := p.Outputs()
			to = make([][]float32, len(heads))
			for k, array := range unsafe.Slice(outputs, len(heads)) {
				to[k] = hostSlice((*float32)(array), rows*heads[k].Len)
			}
		}
		var chosen hostActions
		chosen.bind(&spec.Action, actions, rows)
		err = p.Act(rows, unsafe.Slice((*byte)(obs), rows*spec.Obs.Bytes()), with, chosen.vec, to)
		if err == nil {
			chosen.write()
		}
		return err
	}), why)
}

// startStates returns the host's start states, in the host's memory.
func startStates(o *C.paceline_eval_options) ([][]byte, error) {
	switch {
	case o.num_starts == 0:
		return nil, nil
	case o.num_starts > maxRows:
		return nil, fmt.Errorf("o.num_starts: %d, must be at most %d", o.num_starts, maxRows)
	case o.starts == nil || o.start_sizes == nil:
		return nil, fmt.Errorf("o.starts, o.start_sizes: NULL, must point to %d states and their sizes", o.num_starts)
	}
	n := int(o.num_starts)
	states, sizes := make([][]byte, n), unsafe.Slice(o.start_sizes, n)
	for i, at := range unsafe.Slice(o.starts, n) {
		if at == nil {
			return nil, fmt.Errorf("o.starts[%d]: NULL, must be a state of paceline_console_save", i)
		}
		if sizes[i] > maxState {
			return nil, fmt.Errorf("o.start_sizes[%d]: %d, must be that of a console's state", i, sizes[i])
		}
		states[i] = unsafe.Slice((*byte)(at), int(sizes[i]))
	}
	return states, nil
}

//export pacelineGoPolicyEvaluate
func pacelineGoPolicyEvaluate(out *C.paceline_evaluation, id C.uint64_t, envName, options *C.char, o *C.paceline_eval_options, why *C.pl_error) C.int {
	return report(policies.use(uint64(id), func(p *policy.Policy) error {
		with, err := env.ParseOptions(C.GoString(options))
		if err != nil {
			return err
		}
		how := policy.EvalOptions{Episodes: 10}
		if o != nil {
			how = policy.EvalOptions{Episodes: int(o.episodes), Epsilon: float64(o.epsilon), Seed: uint64(o.seed), MaxFrames: int(o.max_frames)}
			if how.Sample, err = flag("o.sample", o.sample); err != nil {
				return err
			}
			if how.Starts, err = startStates(o); err != nil {
				return err
			}
		}
		e, err := p.Evaluate(C.GoString(envName), with, how)
		if err != nil {
			return err
		}
		out.episodes = C.int64_t(e.Episodes)
		out.mean_return, out.std_return = C.double(e.MeanReturn), C.double(e.StdReturn)
		out.min_return, out.max_return = C.double(e.MinReturn), C.double(e.MaxReturn)
		out.mean_length = C.double(e.MeanLen)
		if o != nil {
			copy(hostSlice((*float64)(o.returns), e.Episodes), e.Returns)
			copy(hostSlice((*int64)(o.lengths), e.Episodes), e.Lengths)
		}
		return nil
	}), why)
}

//export pacelineGoPolicyStop
func pacelineGoPolicyStop(id C.uint64_t, why *C.pl_error) C.int {
	return report(policies.use(uint64(id), func(p *policy.Policy) error { p.StopEvaluations(); return nil }), why)
}

//export pacelineGoPolicySave
func pacelineGoPolicySave(id C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return report(policies.use(uint64(id), func(p *policy.Policy) error {
		return p.Save(C.GoString(file))
	}), why)
}

//export pacelineGoPolicyToBytes
func pacelineGoPolicyToBytes(out unsafe.Pointer, size *C.size_t, id C.uint64_t, why *C.pl_error) C.int {
	return report(policies.use(uint64(id), func(p *policy.Policy) error {
		b, err := p.Bytes()
		if err != nil {
			return err
		}
		return putBytes(out, size, b)
	}), why)
}

//export pacelineGoPolicyFree
func pacelineGoPolicyFree(id C.uint64_t) { policies.remove(uint64(id)) }
