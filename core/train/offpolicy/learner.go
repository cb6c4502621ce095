package offpolicy

import (
	"errors"

	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/vec"
)

// This file makes a Run one of several learners (train.Learner). Each has a replay memory and a
// target network of its own, and its windows. The settings buffer_size, learning_starts and window
// are a learner's share here. Epsilon, the learning rate and the copies of the target network
// follow the steps of all learners, as known at the latest pull.

// SetOtherSteps implements train.Learner. The others have as many environments, and take equally
// long to warm up.
func (r *Run) SetOtherSteps(steps int64) {
	r.Clock.Others = steps
	r.Clock.OthersT = max(0, steps-int64(r.learners-1)*int64(r.cfg.LearningStarts))
}

// BeforeUpdates implements train.Learner.
func (r *Run) BeforeUpdates(f func() error) { r.Updates.before = f }

// ShareMoments implements train.Learner. There are no advantages.
func (r *Run) ShareMoments(func(own rollout.Moments) (rollout.Moments, error)) {}

// Statistics implements train.Learner. Nothing is normalised.
func (r *Run) Statistics() *normalize.Normalizer { return nil }

// Discard implements train.Learner. A replay memory may be used again.
func (r *Run) Discard() error { return nil }

// CheckUse implements train.Learner.
func (r *Run) CheckUse(rows *vec.Rows) error { return r.Samplers.CheckUse(rows, r.Clock.Steps()) }

// CheckRows implements train.Learner.
func (r *Run) CheckRows(rows *vec.Rows) error {
	return r.Samplers.CheckRows(rows, r.Clock.Steps(), func(i int, next []byte) error {
		if err := r.Memory.CheckNext(i, next); !errors.Is(err, replay.ErrNotAStack) { // see storeWhole
			return err
		}
		return nil
	})
}

// DueUpdates is the number of updates that the steps so far ask for and that are not done.
func (r *Run) DueUpdates() int64 {
	if !r.Clock.Warm {
		return 0
	}
	return max(0, r.asked(r.Clock.T)-r.Updates.Done())
}

// HoldUpdates lets at most n further updates be due until the next call, because the other learners
// have no more. Updates that are held may come in a later window than they would otherwise.
func (r *Run) HoldUpdates(n int64) { r.hold = r.Updates.Done() + n }

// RoundsToUpdate implements train.Learner. Rounds are whole here: rows that wait for a reset
// would make more of them.
func (r *Run) RoundsToUpdate() int {
	c, w, done := &r.Clock, int64(r.envs), r.Updates.Done()
	if c.Warm && r.due(c.T) > done {
		return 0
	}
	rounds, windowEnd := int64(0), c.NextWindow
	if !c.Warm {
		rounds, windowEnd = max(0, (c.WarmAt-c.Warmup+w-1)/w), c.T
	}
	if period := r.cfg.Periods.Window; c.T >= windowEnd {
		windowEnd = (c.T/period + 1) * period
	}
	at := r.cfg.dueAt(done-c.UpdatesBefore+1, c.T, windowEnd, w)
	return int(rounds + max(1, (at-c.T+w-1)/w))
}
