package offpolicy

import "github.com/paceline-rl/paceline/core/nn"

// This file is for the tests of methods.

// Order runs the concurrent schedule on one thread: the updates of a window come before its steps,
// in tests alone, or after the steps at which they are due. Both give the same bits as the trainer
// thread.
type Order int

const (
	Concurrently Order = iota // by the trainer thread
	UpdatesFirst
	UpdatesLast
)

// Emulate ends the trainer thread and does updates in an order.
func (r *Run) Emulate(o Order) {
	r.Updates.end()
	r.Updates.threaded = false
	r.order = o
}

// WindowEvent is what Run.Watch is told.
type WindowEvent int

const (
	WindowBegins WindowEvent = iota
	WindowEnds
)

func (r *Run) tell(e WindowEvent) {
	if r.Watch != nil {
		r.Watch(e)
	}
}

// Wrap wraps the steppers, for tests: stepper wraps the stepper of single updates. frames, which
// may be nil, wraps the stepper of updates on a GPU that has the frames of the replay memory.
func (up *Updates) Wrap(stepper func(nn.QStepper) nn.QStepper, frames func(nn.StackStepper) nn.StackStepper) {
	up.mu.Lock()
	defer up.mu.Unlock()
	for up.running {
		up.changed.Wait()
	}
	up.updater.stepper = stepper(up.updater.stepper)
	if g := &up.gpu; g.frames != nil && frames != nil {
		g.frames = frames(g.frames)
		g.prefetch.frames = g.frames
	}
}

// LimitPrefetch limits the number of prefetched minibatches to n. It is for tests.
func (up *Updates) LimitPrefetch(n int) {
	f := &up.gpu.prefetch
	f.after = f.after[:min(n, len(f.after))]
}
