package kernel

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/threads"
)

// Team is a set of threads that share the work of a call: the calling one and
// helpers, which sleep between calls. A nil *Team is the calling thread alone.
// One call at a time: another one beside it, or after Close, panics (package fault
// says when a misuse does).
//
// Helpers are threads of the operating system, not goroutines (team.c says why);
// the "go" path has no use for them.
type Team struct {
	threads int
	budget  *threads.Budget // nil: every helper may come at any time
	busy    atomic.Bool
	closed  bool
	helpers helpers

	began time.Time    // of a call with helpers of the budget
	spent atomic.Int64 // nanoseconds of such calls, times their helpers
}

// NewTeam starts a team of the given number of threads, 1 to threads.Max. Its
// owner must Close it. With a budget, whoever calls a function with the team holds
// one of its cores, and helpers come only as far as further ones are free, from
// the beginning of the call to its end.
func NewTeam(n int, budget *threads.Budget) (*Team, error) {
	if n < 1 || n > threads.Max {
		return nil, fmt.Errorf("threads: %d, must be 1 to %d", n, threads.Max)
	}
	t := &Team{threads: n, budget: budget}
	if n > 1 && !t.helpers.start(n-1) {
		return nil, fmt.Errorf("threads: %d, of which the system does not start all", n)
	}
	return t, nil
}

// Threads returns the number of threads, the calling one included.
func (t *Team) Threads() int {
	if t == nil {
		return 1
	}
	return t.threads
}

// Busy returns how long helpers have had cores of the budget, added over them. It may be
// called at any time.
func (t *Team) Busy() time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.spent.Load())
}

// Close ends the helpers. There must be no call in progress, and none after;
// calling Close again does nothing.
func (t *Team) Close() {
	if t == nil || t.closed {
		return
	}
	t.begin(1) // panics where there is a call
	t.closed = true
	t.helpers.stop()
}

// begin returns how many helpers a call of so many parts gets, until end.
func (t *Team) begin(parts int) (helpers int) {
	if t == nil {
		return 0
	}
	if t.closed || !t.busy.CompareAndSwap(false, true) {
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
		t.spent.Add(int64(helpers) * int64(time.Since(t.began)))
		t.budget.Release(helpers)
	}
	t.busy.Store(false)
}
