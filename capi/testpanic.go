//go:build pacelinetest

package capi

/*
#include "bridge.h"
*/
import "C"

import "github.com/paceline-rl/paceline/core/env"

// Panics for capi/ctest/panic.c, in the test library only: inside a call on a trainer, and
// inside a step of an environment.

//export pacelineGoTestPanic
func pacelineGoTestPanic(id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(*trainer) error { panic("injected by a test") }), why)
}

func init() {
	env.Register("Panic-v0", func(o env.Options) (env.Env, error) {
		e, err := env.Make("CartPole-v1", o)
		return &panicEnv{Env: e}, err
	})
}

type panicEnv struct {
	env.Env
	steps int
}

func (e *panicEnv) Step(action int32, obs []byte) (float32, env.End, error) {
	if e.steps++; e.steps == 100 {
		panic("injected by a test")
	}
	return e.Env.Step(action, obs)
}
