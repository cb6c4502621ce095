package offpolicy

import "github.com/paceline-rl/paceline/core/train"

// Flush moves all staged experience into the replay memory, while no update is in progress.
func (r *Run) Flush() {
	r.Memory.Flush()
	r.drawing.Flushed()
}

// WindowIsOver reports whether the window in progress has no further step.
func (r *Run) WindowIsOver() bool { return r.Clock.T >= r.Clock.NextWindow && r.turn == 0 }

// Elapsed is what epsilon and the target network follow: t of all learners, or with
// Periods.ByUpdates the updates of Theta since t = 0 that the samplers know.
func (r *Run) Elapsed() int64 { return r.Clock.elapsed(r.cfg.Periods.ByUpdates) }

// Exploration is the epsilon of a step of the round in progress, by its t.
func (r *Run) Exploration(t int64) float64 {
	if r.cfg.Periods.ByUpdates {
		return r.Schedule.Epsilon.At(r.Clock.Applied)
	}
	return r.Schedule.Epsilon.At(t + r.Clock.OthersT)
}

// countApplied lets the samplers know the updates of Theta. No update is in progress.
func (r *Run) countApplied() {
	if r.cfg.Periods.ByUpdates {
		r.Clock.Applied = max(0, int64(r.Theta.Updates)-r.Clock.AppliedBefore)
	}
}

// EndWindow waits for the updates of the window.
func (r *Run) EndWindow(interrupt *train.Interrupt) error {
	if err := r.await(r.due(r.Clock.T), interrupt); err != nil {
		return err
	}
	r.countApplied()
	r.tell(WindowEnds)
	return nil
}

// BeginWindow begins the next window. The caller has flushed the replay memory and updated
// ThetaMinus.
func (r *Run) BeginWindow() error {
	if r.Snapshot != nil {
		r.Snapshot.CopyFrom(r.Theta)
	}
	if err := r.backup.make(r); err != nil {
		return err
	}
	window := r.cfg.Periods.Window
	r.Clock.NextWindow = (r.Clock.T/window + 1) * window
	r.Clock.Windows++
	r.tell(WindowBegins)
	if r.order == UpdatesFirst {
		return r.Updates.wait(r.due(r.windowEnd()), nil)
	}
	return nil
}

// EndWarmup ends the warm-up when it has all of its steps. The first window begins at once.
func (r *Run) EndWarmup() {
	if c := &r.Clock; !c.Warm && c.Warmup >= c.WarmAt {
		r.Flush()
		c.Warm, c.NextWindow, c.Refill = true, c.T, 0
	}
}

// windowEnd is the t of the round end at which the window ends, or the run if that comes first.
func (r *Run) windowEnd() int64 {
	w := int64(r.envs)
	end := min(r.Clock.NextWindow, r.Clock.End-r.Clock.Warmup)
	return r.Clock.T + (end-r.Clock.T+w-1)/w*w
}

// asked is the number of the latest update that t steps ask for.
func (r *Run) asked(t int64) int64 {
	return r.Clock.UpdatesBefore + r.cfg.updatesDue(t, r.Clock.NextWindow)
}

// due is the number of the latest update that is due at t.
func (r *Run) due(t int64) int64 { return min(r.asked(t), r.hold) }

// wholeWindow reports whether a call takes all further steps of the window and no reader can run
// before the window's end.
func (r *Run) wholeWindow(until int64, interrupt *train.Interrupt) bool {
	return interrupt.Deadline().IsZero() && until >= r.Clock.Warmup+r.windowEnd()
}

// release lets the trainer thread begin the updates that are due at t, the end of the steps that
// follow: no reader runs before that. With untilWindowEnd a GPU gets all updates of the
// window.
func (r *Run) release(t int64, untilWindowEnd bool) error {
	if !r.cfg.Concurrent || r.order != Concurrently {
		return nil
	}
	if untilWindowEnd && r.Updates.OnGPU() {
		t = max(t, r.windowEnd())
	}
	return r.Updates.Release(r.due(t))
}

// CatchUp does the updates that are due, where training is not concurrent. All experience enters
// the replay memory before the first of them. An Interrupt may end CatchUp between two of them: the
// next call goes on without a flush, which would change the priorities that stand still until the
// last of them is done.
func (r *Run) CatchUp(interrupt *train.Interrupt) error {
	if u := r.due(r.Clock.T); r.Updates.Done() < u {
		if r.Memory.Pending() > 0 {
			r.Flush()
		}
		if err := r.await(u, interrupt); err != nil {
			return err
		}
	}
	r.countApplied()
	return nil
}

// await returns when u updates are done and none is in progress, or train.ErrInterrupted. In the
// middle of a round it ignores the Interrupt, and an update that fails ends the round.
func (r *Run) await(u int64, interrupt *train.Interrupt) error {
	if r.turn != 0 {
		err := r.Updates.wait(u, nil)
		if err != nil {
			r.turn = 0
		}
		return err
	}
	err := r.Updates.wait(u, interrupt)
	r.Monitor.Lap(train.Waiting)
	return err
}
