package kernel

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/threads"
)

// Team is the threads that share the work of a call: the calling thread and helpers, which sleep
// between calls. A nil *Team is the calling thread alone. A team runs one call at a time: a
// concurrent call, and a call after Close, panics (package fault says when a misuse panics).
//
// Helpers are threads of the operating system, not goroutines; team.c says why. The "go" path does
// not use them.
type Team struct {
	threads int
	budget  *threads.Budget // nil: every call gets all helpers
	inCall  atomic.Bool
	closed  bool
	helpers helpers

	began      time.Time    // start of the call that has helpers from the budget
	helperTime atomic.Int64 // nanoseconds, summed over helpers from the budget
}

// NewTeam starts a team of n threads, 1 to threads.Max. The owner must Close it. With a budget, the
// caller of a function holds a core of the budget. The call gets a helper for each further core
// that is free at its beginning. These cores are released when the call ends.
func NewTeam(n int, budget *threads.Budget) (*Team, error) {
	if n < 1 || n > threads.Max {
		return nil, fmt.Errorf("threads: %d, must be 1 to %d", n, threads.Max)
	}
	t := &Team{threads: n, budget: budget}
	if n > 1 && !t.helpers.start(n-1) {
		return nil, fmt.Errorf("threads: %d, more than the system could start", n)
	}
	return t, nil
}

// Threads returns the number of threads, the calling thread included.
func (t *Team) Threads() int {
	if t == nil {
		return 1
	}
	return t.threads
}

// Busy returns the time for which helpers have held cores of the budget, summed over helpers. It
// may be called at any time.
func (t *Team) Busy() time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.helperTime.Load())
}

// Close ends the helpers. No call may be in progress or follow. A second Close does nothing.
func (t *Team) Close() {
	if t == nil || t.closed {
		return
	}
	t.begin(1) // panics during a call
	t.closed = true
	t.helpers.stop()
}

// begin returns the number of helpers that a call of the given number of parts gets until end.
func (t *Team) begin(parts int) (helpers int) {
	if t == nil {
		return 0
	}
	if t.closed || !t.inCall.CompareAndSwap(false, true) {
		panic("kernel: a call with a team that is closed, or in another call")
	}
	helpers = min(t.threads, parts) - 1
	if t.budget != nil {
		if helpers = t.budget.TryAcquire(helpers); helpers > 0 {
			t.began = time.Now()
		}
	}
	return helpers
}

func (t *Team) end(helpers int) {
	if t == nil {
		return
	}
	if t.budget != nil && helpers > 0 {
		t.helperTime.Add(int64(helpers) * int64(time.Since(t.began)))
		t.budget.Release(helpers)
	}
	t.inCall.Store(false)
}
