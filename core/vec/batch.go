package vec

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// Batched is a SingleStepper whose environments step together in one call (env.Batcher).
type Batched interface {
	SingleStepper
	// Batched reports whether they do.
	Batched() bool
	// StepBatch takes a step in environments first to end-1, except where skip returns true, in
	// one call. Each of them then needs a StepOne with the same action and rows, which
	// completes the step: it checks what the environment returned, and resets it where the
	// mode says so. StepOne also returns the error if the call failed. Calls for disjoint
	// ranges may run concurrently.
	StepBatch(first, end int, skip func(i int) bool, actions Actions, rows *Rows)
}

var _ Batched = (*Vec)(nil)

// batches is what StepBatch keeps for StepOne.
type batches struct {
	steps   []env.BatchStep // [Len()]: a range of environments uses its part
	results []result        // of each environment
}

// result is what StepBatch left for the StepOne of an environment.
type result struct {
	pending bool
	reward  float32
	end     env.End
	err     error
}

func newBatches(n int) *batches {
	return &batches{make([]env.BatchStep, n), make([]result, n)}
}

func (v *Vec) Batched() bool { return v.batches != nil }

func (v *Vec) StepBatch(first, end int, skip func(i int) bool, actions Actions, rows *Rows) {
	b := v.batches
	steps := b.steps[first:first]
	for i := first; i < end; i++ {
		// StepOne does what is left: it resets, or refuses the action.
		if skip(i) || v.phases[i] != running {
			continue
		}
		a := actions.of(i, v.width)
		if v.checkStep(i, a) == nil {
			steps = append(steps, env.BatchStep{Env: v.envs[i], Row: i, Branches: a.Discrete, Box: a.Box})
		}
	}
	if len(steps) == 0 {
		return
	}
	err := stepBatch(steps, rows.Obs)
	for _, s := range steps {
		b.results[s.Row] = result{true, s.Reward, s.End, cmp.Or(err, s.Err)}
	}
}

// stepBatch makes the call, and an error of a panic in it.
func stepBatch(steps []env.BatchStep, obs []byte) (err error) {
	defer fault.Recover(&err)
	return steps[0].Env.(env.Batcher).StepBatch(steps, obs)
}

// take returns the result that StepBatch left for environment i.
func (b *batches) take(i int) (result, bool) {
	if b == nil || !b.results[i].pending {
		return result{}, false
	}
	r := b.results[i]
	b.results[i] = result{}
	return r, true
}

// checkBatcher refuses environments of which only some step together, or whose steps wait: each of
// those has a thread of its own.
func (v *Vec) checkBatcher(e env.Env, waits bool) error {
	b, ok := e.(env.Batcher)
	batched := ok && b.Batched()
	switch {
	case batched && waits:
		return errors.New("waits: true, must be false where environments step together in one call")
	case len(v.envs) == 1:
		v.batched = batched
	case batched != v.batched:
		return fmt.Errorf("batched: %v, must be that of environment 0: %v", batched, v.batched)
	}
	return nil
}
