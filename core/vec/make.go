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

// Make makes n environments that are registered under id, seeded by SeedFor. Beside the
// environment's own options there are "decorrelation_steps"; see Decorrelate; and "waits",
// true or false, which says instead of their Spec whether steps wait. What is wrong
// with all of them is reported without a number. admit is given the first of them before
// the others are made, and an error from it is returned; nil: Admit.
func Make(id string, options env.Options, n int, seed uint64, pool *threads.Pool, mode Autoreset, admit func(first env.Env) error) (*Vec, error) {
	if admit == nil {
		admit = func(first env.Env) error { return limits.Admit(Bytes(first, n)) }
	}
	var most int
	waits := new(bool)
	options, _, err := split(id, options, env.Field{Name: "decorrelation_steps", To: &most, Max: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	options, said, err := split(id, options, env.Field{Name: "waits", To: waits})
	if err != nil {
		return nil, err
	}
	if !said {
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
	if err := v.Decorrelate(most); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	for i := range n {
		v.seedOne(i, SeedFor(seed, i))
	}
	return v, nil
}

// split reads the option that f describes, which every environment has, and returns the
// others, and whether it was there.
func split(id string, options env.Options, f env.Field) (others env.Options, said bool, err error) {
	value, said := options[f.Name]
	if !said {
		return options, false, nil
	}
	others = maps.Clone(options)
	delete(others, f.Name)
	return others, true, (env.Options{f.Name: value}).Read(id, []env.Field{f})
}

// Bytes is the memory that n environments like first take.
func Bytes(first env.Env, n int) limits.Part {
	return limits.Part{Setting: fmt.Sprintf("num_envs: %d", n), Bytes: int64(n) * env.BytesOf(first)}
}
