package main

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/paceline-rl/paceline/core/dqn"
	"github.com/paceline-rl/paceline/core/env"
)

var policies = newTable[*dqn.Policy](kindPolicy)

// mostRows bounds one call of act; more is a mistake in n.
const mostRows = 1 << 20

//export pacelineGoPolicyLoad
func pacelineGoPolicyLoad(out *C.uint64_t, file *C.char, why *C.char) C.int {
	return report(guarded(func() error {
		name, err := path(file)
		if err != nil {
			return err
		}
		p, err := dqn.LoadPolicy(name)
		if err == nil {
			*out = C.uint64_t(policies.put(p))
		}
		return err
	}), why)
}

//export pacelineGoPolicyFromTrainer
func pacelineGoPolicyFromTrainer(out *C.uint64_t, id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		p, err := t.Policy()
		if err == nil {
			*out = C.uint64_t(policies.put(p))
		}
		return err
	}), why)
}

//export pacelineGoPolicySpec
func pacelineGoPolicySpec(obs, action *C.paceline_spec, id C.uint64_t, why *C.char) C.int {
	return report(policies.use(uint64(id), func(p *dqn.Policy) error {
		return putSpec(p.Spec(), obs, action)
	}), why)
}

//export pacelineGoPolicyAct
func pacelineGoPolicyAct(id C.uint64_t, n C.size_t, obs, actions unsafe.Pointer, values *C.float, why *C.char) C.int {
	return report(policies.use(uint64(id), func(p *dqn.Policy) error {
		if n > mostRows {
			return fmt.Errorf("n: %d, must be at most %d", n, mostRows)
		}
		if n == 0 {
			return nil
		}
		spec, rows := p.Spec(), int(n)
		var q []float32
		if values != nil {
			q = unsafe.Slice((*float32)(values), rows*spec.Action.N)
		}
		return p.Act(rows, unsafe.Slice((*byte)(obs), rows*spec.Obs.Bytes()), unsafe.Slice((*int32)(actions), rows), q)
	}), why)
}

// envOptions reads what environments are made with; NULL is nothing.
func envOptions(p *C.char) (env.Options, error) {
	if p == nil {
		return nil, nil
	}
	options, err := text("options", p)
	if err != nil {
		return nil, err
	}
	return env.ParseOptions(options)
}

//export pacelineGoPolicyEvaluate
func pacelineGoPolicyEvaluate(out *C.paceline_evaluation, id C.uint64_t, envName, options *C.char, episodes C.int64_t, epsilon C.double, seed C.uint64_t, why *C.char) C.int {
	return report(policies.use(uint64(id), func(p *dqn.Policy) error {
		name, err := text("env", envName)
		if err != nil {
			return err
		}
		with, err := envOptions(options)
		if err != nil {
			return err
		}
		e, err := p.Evaluate(name, with, int(episodes), float64(epsilon), uint64(seed))
		if err != nil {
			return err
		}
		out.episodes = C.int64_t(e.Episodes)
		out.mean_return, out.std_return = C.double(e.MeanReturn), C.double(e.StdReturn)
		out.min_return, out.max_return = C.double(e.MinReturn), C.double(e.MaxReturn)
		out.mean_length = C.double(e.MeanLen)
		return nil
	}), why)
}

//export pacelineGoPolicySave
func pacelineGoPolicySave(id C.uint64_t, file *C.char, why *C.char) C.int {
	return report(policies.use(uint64(id), func(p *dqn.Policy) error {
		name, err := path(file)
		if err != nil {
			return err
		}
		return p.Save(name)
	}), why)
}

//export pacelineGoPolicyFree
func pacelineGoPolicyFree(id C.uint64_t) { policies.take(uint64(id)) }
