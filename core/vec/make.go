package vec

import (
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/threads"
)

// Make makes n environments that are registered under id and seeds them by SeedFor. Besides the
// environment's own options it accepts "decorrelation_steps" (see Decorrelate) and "waits", true or
// false, which replaces Spec.Waits.
//
// Make calls admit with environment 0 before it makes the others, and returns its error. If admit
// is nil, limits.Admit checks the memory of all environments. An error in making environment 0
// comes without the number 0, because it concerns all environments.
func Make(id string, options env.Options, n int, seed uint64, pool *threads.Pool, mode Autoreset, admit func(first env.Env) error) (*Vec, error) {
	if admit == nil {
		admit = func(first env.Env) error { return limits.Admit(Bytes(first, n)) }
	}
	var maxSteps int
	waits := new(bool)
	options, _, err := split(id, options, env.Field{Name: "decorrelation_steps", To: &maxSteps, Max: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	options, given, err := split(id, options, env.Field{Name: "waits", To: waits})
	if err != nil {
		return nil, err
	}
	if !given {
		waits = nil
	}
	v, err := build(func(i int) (env.Env, error) {
		e, err := env.Make(id, options)
		if err == nil && i == 0 {
			if err = admit(e); err != nil {
				err = errors.Join(err, e.Close())
			}
		}
		return e, err
	}, n, pool, mode, waits)
	if err != nil {
		var e *env.Error
		if errors.As(err, &e) && e.Index == 0 {
			err = e.Err
		}
		return nil, err
	}
	if err := v.Decorrelate(maxSteps); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	for i := range n {
		v.seedOne(i, SeedFor(seed, i))
	}
	return v, nil
}

// split reads option f, if it is given, and returns the other options.
func split(id string, options env.Options, f env.Field) (others env.Options, given bool, err error) {
	value, given := options[f.Name]
	if !given {
		return options, false, nil
	}
	others = maps.Clone(options)
	delete(others, f.Name)
	return others, true, (env.Options{f.Name: value}).Read(id, []env.Field{f})
}

// Bytes returns the memory of n environments like first.
func Bytes(first env.Env, n int) limits.Part {
	return limits.Part{Setting: fmt.Sprintf("num_envs: %d", n), Bytes: int64(n) * env.BytesOf(first)}
}
