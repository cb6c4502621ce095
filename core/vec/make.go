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
// environment's own options there is "decorrelation_steps"; see Decorrelate. What is wrong
// with all of them is reported without a number. admit is given the first of them before
// the others are made, and an error from it is returned; nil: Admit.
func Make(id string, options env.Options, n int, seed uint64, pool *threads.Pool, mode Autoreset, admit func(first env.Env) error) (*Vec, error) {
	if admit == nil {
		admit = func(first env.Env) error { return limits.Admit(Bytes(first, n)) }
	}
	var most int
	if value, ok := options["decorrelation_steps"]; ok {
		field := env.Field{Name: "decorrelation_steps", To: &most, Max: math.MaxInt32}
		if err := (env.Options{field.Name: value}).Read(id, []env.Field{field}); err != nil {
			return nil, err
		}
		options = maps.Clone(options)
		delete(options, field.Name)
	}
	v, err := New(func(i int) (env.Env, error) {
		e, err := env.Make(id, options)
		if err == nil && i == 0 {
			if err = admit(e); err != nil {
				err = errors.Join(err, e.Close())
			}
		}
		return e, err
	}, n, pool, mode)
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

// Bytes is the memory that n environments like first take.
func Bytes(first env.Env, n int) limits.Part {
	return limits.Part{Setting: fmt.Sprintf("num_envs: %d", n), Bytes: int64(n) * env.BytesOf(first)}
}
