package train

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
)

// ErrInterrupted is returned when Stop was called or the deadline has passed, with fault.ErrStopped
// or fault.ErrTimedOut, never both. Without either it is returned where an update comes from
// outside, and to a learner whose slice of the run has ended.
var ErrInterrupted = errors.New("interrupted")

var (
	errStopped  = fmt.Errorf("%w: %w", ErrInterrupted, fault.ErrStopped)
	errTimedOut = fmt.Errorf("%w: %w", ErrInterrupted, fault.ErrTimedOut)
)

// Interrupt tells a method when its call must return early: after Stop, after a deadline, and after
// a number of rollouts. A nil Interrupt never does.
type Interrupt struct {
	stopping *atomic.Bool
	deadline time.Time // zero: none
	rollouts int64     // that may still become full; 0: no limit
	end      int64     // of the run
}

// Err returns the error, which wraps ErrInterrupted, with which the call must return at a time, or
// nil. If Stop was called and the deadline has passed, the error is that of Stop.
func (i *Interrupt) Err(now time.Time) error {
	switch {
	case i == nil:
		return nil
	case i.stopping.Load():
		return errStopped
	case !i.deadline.IsZero() && !now.Before(i.deadline):
		return errTimedOut
	}
	return nil
}

// Raised reports whether the call must return at a time.
func (i *Interrupt) Raised(now time.Time) bool { return i.Err(now) != nil }

// Watch returns a function for the loops of any goroutines, which reports whether the call must
// return now.
func (i *Interrupt) Watch() func() bool {
	switch {
	case i == nil:
		return func() bool { return false }
	case i.deadline.IsZero():
		return i.stopping.Load
	}
	return func() bool { return i.Raised(time.Now()) }
}

// Filled counts a rollout that has become full, and reports whether the call must return at it,
// before its update.
func (i *Interrupt) Filled() bool {
	if i == nil || i.rollouts == 0 {
		return false
	}
	i.rollouts--
	return i.rollouts == 0
}

// Ends reports whether a call that counts rollouts begins at or after the end of the run, at a
// step. Learners then finish the rollouts in progress and begin no others, except with rule mean
// one that another learner has begun.
func (i *Interrupt) Ends(step int64) bool { return i != nil && i.rollouts > 0 && step >= i.end }

// Deadline returns the deadline, or the zero time if there is none.
func (i *Interrupt) Deadline() time.Time {
	if i == nil {
		return time.Time{}
	}
	return i.deadline
}
