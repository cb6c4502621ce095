package dqn

import (
	"errors"

	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/train"
)

// emulation runs the concurrent schedule on one thread, for tests: all updates of
// a window before its steps, or after them.
type emulation int

const (
	notEmulated emulation = iota
	updatesFirst
	updatesLast
)

type windowEvent int

const (
	windowBegins windowEvent = iota
	windowEnds
)

func (d *DQN) notifyWatcher(e windowEvent) {
	if d.watch != nil {
		d.watch(e)
	}
}

// windowEnd is the first round end at or past the next boundary, if the run does
// not end before.
func (d *DQN) windowEnd() int64 {
	w := int64(d.cfg.NumEnvs)
	end := min(d.clock.Due, d.clock.End-d.clock.Warmup)
	return d.clock.T + (end-d.clock.T+w-1)/w*w
}

// due is the number of the update that t steps ask for.
func (d *DQN) due(t int64) int64 { return d.clock.Begun + d.cfg.updatesDue(t, d.clock.Due) }

// release lets the trainer thread begin what will be due when the steps at hand
// are over. Nobody sees theta before that. A GPU gets the whole window where nobody sees theta
// before its end.
func (d *DQN) release(t int64) error {
	if !d.cfg.Concurrent || d.emulate != notEmulated {
		return nil
	}
	if d.unseen && d.updates.stacks != nil {
		t = max(t, d.windowEnd())
	}
	return d.updates.release(d.due(t))
}

// catchUp brings training that is not concurrent up to t.
func (d *DQN) catchUp(p *train.Pause) error {
	u := d.due(d.clock.T)
	if d.updates.position() >= u {
		return nil
	}
	d.memory.Flush()
	return d.await(u, p)
}

// await returns when u updates are done and none is in progress, or
// train.ErrPaused when p is over. In mid-round p is not heeded.
func (d *DQN) await(u int64, p *train.Pause) error {
	if d.phase != 0 {
		return d.updates.wait(u, nil)
	}
	err := d.updates.wait(u, p)
	d.host.Lap(train.Waiting)
	return err
}

// untilMeeting is the number of steps until the samplers must meet.
func (d *DQN) untilMeeting(until int64) int64 {
	w, phase := int64(d.cfg.NumEnvs), int64(d.phase)
	t := d.clock.T
	roundEnd := func(at int64) int64 { // the first round end past t and not before at
		return t - phase + max(w, (at-t+phase+w-1)/w*w)
	}
	end := min(roundEnd(d.clock.Due), roundEnd(until-d.clock.Warmup), t-phase+max(1, d.free)*w)
	if !d.cfg.Concurrent {
		copyAt := (d.clock.Copies + 1) * d.cfg.targetInterval()
		nextBurst := (t/int64(d.cfg.TrainFreq) + 1) * int64(d.cfg.TrainFreq)
		end = min(end, nextBurst, roundEnd(copyAt))
	}
	return end - t
}

// ensureCapacity sees to it that a round fits into the replay's rings. Where short
// episodes and their tails have filled them, they are enlarged, while no update is
// in progress.
func (d *DQN) ensureCapacity(p *train.Pause) error {
	if d.phase != 0 || d.free > 0 {
		return nil
	}
	if d.free = d.leastFree(); d.free > 0 {
		return nil
	}
	if err := d.await(0, p); err != nil {
		return err
	}
	if !d.clock.Warm {
		d.memory.Flush() // nobody samples before the warm-up is over
		if d.free = d.leastFree(); d.free > 0 {
			return nil
		}
	}
	if err := d.memory.Grow(1); err != nil {
		return err
	}
	d.free = d.leastFree()
	return nil
}

// leastFree is the number of steps for which every environment's ring has capacity
// for sure.
func (d *DQN) leastFree() int64 {
	free := d.memory.Free(0)
	for i := 1; i < d.cfg.NumEnvs; i++ {
		free = min(free, d.memory.Free(i))
	}
	return free
}

// checkNext refuses a row of the host's that would spoil the replay memory.
func (d *DQN) checkNext(i int, next []byte, p *train.Pause) error {
	err := d.memory.CheckNext(i, next)
	if errors.Is(err, replay.ErrNotAStack) {
		return d.storeWhole(p)
	}
	return err
}

// storeWhole goes over to storing whole observations.
func (d *DQN) storeWhole(p *train.Pause) error {
	if err := d.await(0, p); err != nil {
		return err
	}
	more, err := d.memory.StoreWhole()
	if err != nil {
		return err
	}
	d.free = d.leastFree()
	d.host.Notify("observations are not stacks of successive frames along their first axis; they are stored whole, which takes %.1f MB more (%.1f MB in all)",
		float64(more)/1e6, float64(d.memory.Bytes())/1e6)
	return nil
}
