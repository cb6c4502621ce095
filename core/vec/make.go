package vec

import (
	"errors"
	"maps"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/threads"
)

// Make makes n environments that are registered under id, seeded by SeedFor. Beside the
// environment's own options there is "decorrelation_steps"; see Decorrelate. What is wrong
// with all of them is reported without a number.
func Make(id string, options env.Options, n int, seed uint64, pool *threads.Pool, mode Autoreset) (*Vec, error) {
	var most int
	if value, ok := options["decorrelation_steps"]; ok {
		field := env.Field{Name: "decorrelation_steps", To: &most, Max: math.MaxInt32}
		if err := (env.Options{field.Name: value}).Read(id, []env.Field{field}); err != nil {
			return nil, err
		}
		options = maps.Clone(options)
		delete(options, field.Name)
	}
	v, err := New(func(int) (env.Env, error) { return env.Make(id, options) }, n, pool, mode)
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
