package actor_test

import (
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// batchedWalk steps several Walks in one call, with the results of single steps.
type batchedWalk struct {
	*traintest.Walk
	calls *atomic.Int64
}

func (b batchedWalk) Batched() bool { return true }

func (b batchedWalk) StepBatch(steps []env.BatchStep, obs []byte) error {
	b.calls.Add(1)
	for k := range steps {
		s := &steps[k]
		s.Reward, s.End, s.Err = s.Env.(batchedWalk).Walk.Step(s.Branches[0], obs[8*s.Row:8*s.Row+8])
	}
	return nil
}
