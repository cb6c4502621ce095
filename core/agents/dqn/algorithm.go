package dqn

import (
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// This file is Algorithm 1 of the paper, line for line where the paper has a
// line. doc.go lists its symbols and closes what it leaves open; window.go has
// what stands between the lines: when updates are released and waited for, and how
// long the samplers may run by themselves.

// Advance takes steps until so many are taken or p is over. Where the host steps
// the environments, one pass of its loop is Act, the host's step, Observe.
func (d *DQN) Advance(until int64, p *train.Pause) error {
	if err := d.samplers.Repair(); err != nil {
		return err
	}
	var failed error
	for d.samplers.InRound() || failed == nil && (d.clock.steps() < until || d.phase != 0) {
		if d.phase == 0 && !d.samplers.InRound() && p.Over(d.host.Mark()) {
			return nil
		}
		if err := d.betweenRounds(p); err != nil {
			return err
		}
		d.unseen = p.Deadline().IsZero() && until >= d.clock.Warmup+d.windowEnd()
		var n int64
		var err error
		switch {
		case !d.clock.Warm: // Prepopulate replay memory D with N experiences collected randomly
			n, err = d.randomRound()
			d.clock.Warmup += n
		case d.cfg.Synchronized: // for t = 1, 2, ...
			n, err = d.synchronisedRound(until, p, failed == nil)
			d.clock.T += n
		default:
			n, err = d.unsynchronisedSteps(until, p)
			d.clock.T += n
		}
		d.host.Count(d.clock.steps(), d.samplers)
		if err != nil {
			d.phase = 0 // the next attempt begins with a whole round
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// betweenRounds is what happens before a round: the warm-up ends, training that is
// not concurrent catches up, a window that is over gives way to the next, and the
// replay memory gets capacity for a round.
func (d *DQN) betweenRounds(p *train.Pause) error {
	d.backup.Poll()
	if !d.clock.Warm && d.clock.Warmup >= d.clock.WarmAt {
		d.memory.Flush()
		d.clock.Warm, d.clock.Due, d.clock.Refill = true, d.clock.T, 0 // the first window begins at once
	}
	d.notifyRefill()
	d.lookAtRate()
	if d.clock.Warm {
		if !d.cfg.Concurrent {
			// Every experience enters D before the next update, and the updates due
			// are done before the next Q-values.
			if err := d.catchUp(p); err != nil {
				return err
			}
			if d.phase == 0 {
				d.updateTarget()
			}
		}
		// if t mod C = 1 then
		if d.clock.T >= d.clock.Due && d.phase == 0 {
			if err := d.boundary(p); err != nil {
				return err
			}
		}
	}
	return d.ensureCapacity(p)
}

// boundary ends a window and opens the next.
func (d *DQN) boundary(p *train.Pause) error {
	// Wait for trainer thread and all sampler threads to finish their tasks
	if err := d.await(d.due(d.clock.T), p); err != nil {
		return err
	}
	d.notifyWatcher(windowEnds)
	// Flush all sampler threads' temporary buffers to D
	d.memory.Flush()
	// Update target network parameters: theta-minus <- theta
	d.updateTarget()
	if d.cfg.Actor == ActorSnapshot {
		d.snapshot.CopyFrom(d.theta)
	}
	if err := d.keep(); err != nil {
		return err
	}
	window := int64(d.cfg.Window)
	d.clock.Due = (d.clock.T/window + 1) * window
	d.clock.Windows++
	d.notifyWatcher(windowBegins)
	// Asynchronously dispatch trainer thread for C / F minibatches sampled from D:
	// they are released as they become due, at the start of each round.
	if d.emulate == updatesFirst {
		return d.updates.wait(d.due(d.windowEnd()), nil)
	}
	return nil
}

// updateTarget moves theta-minus if t has reached or passed a multiple of C since the
// last time, by as many steps of tau as there were multiples; at t = 0 it is a copy.
func (d *DQN) updateTarget() {
	passed := d.clock.T / d.cfg.targetInterval()
	steps := passed - d.clock.Copies
	switch {
	case steps <= 0:
		return
	case d.cfg.Tau == 1 || d.clock.Copies < 0:
		d.thetaMinus.CopyFrom(d.theta)
	default:
		d.device.Average(d.thetaMinus, d.theta, 1-kernel.Power(1-d.cfg.Tau, steps))
	}
	d.clock.Copies = passed
}

// randomRound is a round of the warm-up.
func (d *DQN) randomRound() (int64, error) {
	ran, err := d.samplers.Round(0, d.uniform, false)
	d.host.Ran(ran)
	d.free--
	return ran.Made, err
}

// synchronisedRound is Synchronized Execution: one minibatch gives the Q-values of
// all environments, then each takes one step. Where there are two groups of them and goOn
// says so, the next round may begin in this one, as what acts does not change in a window.
func (d *DQN) synchronisedRound(until int64, p *train.Pause, goOn bool) (int64, error) {
	end := d.clock.T + int64(d.cfg.NumEnvs)
	err := d.release(end)
	if err != nil && !d.samplers.InRound() {
		return 0, err
	}
	more := goOn && err == nil && d.cfg.Concurrent && end < d.clock.Due && d.clock.Warmup+end < until && d.free > 1 && !p.Over(d.host.Mark())
	// In one minibatch, compute Q-values Q(s(j), .) for each sampler thread
	// Asynchronously dispatch i-th sampler thread for one step, for every i
	ran, err := d.samplers.Round(d.clock.T, d.explore, more)
	d.host.Ran(ran)
	d.free--
	return ran.Made, err
}

// unsynchronisedSteps lets every sampler run by itself up to the next step at which
// one has to wait for another: the window's end when training is concurrent, the
// next update when it is not.
func (d *DQN) unsynchronisedSteps(until int64, p *train.Pause) (int64, error) {
	n, w := d.untilMeeting(until), int64(d.cfg.NumEnvs)
	if err := d.updates.failed(); err != nil {
		return 0, err
	}
	ran, err := d.samplers.Run(d.clock.T, d.phase, n, d.explore, p.Watch(), func(steps int64) {
		d.release(d.clock.T + steps) // an error is met at the next meeting
	})
	d.host.Ran(ran)
	if first := (w - int64(d.phase)) % w; ran.Steps > first {
		d.free -= (ran.Steps - first + w - 1) / w // rounds begun
	}
	d.phase = (d.phase + int(ran.Steps%w)) % d.cfg.NumEnvs
	return ran.Made, err
}

// Act is the first half of a round where the host steps the environments.
func (d *DQN) Act(rows *vec.Rows, p *train.Pause) ([]int32, error) {
	if err := d.samplers.Use(rows, d.clock.steps()); err != nil {
		return nil, err
	}
	if err := d.betweenRounds(p); err != nil {
		return nil, err
	}
	d.unseen = false
	var chooser policy.Chooser = d.uniform
	if d.clock.Warm {
		if err := d.release(d.clock.T + int64(d.samplers.Steps())); err != nil {
			return nil, err
		}
		chooser = d.explore
	}
	err := d.samplers.Choose(d.clock.T, chooser, d.cfg.Synchronized)
	d.host.Lap(train.Acting)
	return d.samplers.Actions(), err
}

// Observe is the second half: all rows are taken, or none.
func (d *DQN) Observe(rows *vec.Rows, p *train.Pause) error {
	n, err := d.samplers.Observe(rows, d.clock.steps(), func(i int, next []byte) error { return d.checkNext(i, next, p) })
	if err != nil {
		return err
	}
	d.free--
	if d.clock.Warm {
		d.clock.T += n
	} else {
		d.clock.Warmup += n
	}
	d.host.Count(d.clock.steps(), d.samplers)
	return nil
}
