package dqn

import "time"

// This file is Algorithm 1 of the paper, line for line where the paper has a
// line. doc.go lists its symbols and closes what it leaves open.
//
// Environments of the library's own are driven by learn. Where the host steps
// them (push.go), one pass of learn's loop is Act, the host's step, Observe.

// learn takes steps until so many are taken, the deadline is over or Stop is
// called. It ends between rounds and does not wait for the trainer; whatever it
// returns, errInterrupted included, the next call goes on from there.
func (d *DQN) learn(until int64) error {
	for d.clock.steps() < until || d.phase != 0 {
		if d.phase == 0 && (d.stopping.Load() || !d.deadline.IsZero() && !d.mark.Before(d.deadline)) {
			return nil
		}
		if err := d.prepare(); err != nil {
			return err
		}
		var n int64
		var err error
		switch {
		case !d.clock.Warm: // Prepopulate replay memory D with N experiences collected randomly
			n, err = d.randomRound()
			d.clock.Warmup += n
		case d.cfg.Synchronized: // for t = 1, 2, ...
			n, err = d.synchronisedRound()
			d.clock.T += n
		default:
			n, err = d.unsynchronisedChunk(until)
			d.clock.T += n
		}
		d.count()
		if err != nil {
			d.phase = 0 // the next attempt begins with a whole round
			return err
		}
	}
	return nil
}

// prepare is what happens between two rounds: the warm-up ends, training that
// is not concurrent catches up, a window that is over gives way to the next,
// and the replay memory makes room for a round.
func (d *DQN) prepare() error {
	if !d.clock.Warm && d.clock.Warmup >= d.clock.WarmAt {
		d.memory.Flush()
		d.clock.Warm, d.clock.Due = true, d.clock.T // the first window begins at once
	}
	if d.clock.Warm {
		if !d.cfg.Concurrent {
			// Every experience enters D before the next update, and the updates due
			// are done before the next Q-values.
			if err := d.catchUp(); err != nil {
				return err
			}
			if d.phase == 0 {
				d.updateTarget()
			}
		}
		// if t mod C = 1 then
		if d.clock.T >= d.clock.Due && d.phase == 0 {
			if err := d.boundary(); err != nil {
				return err
			}
		}
	}
	return d.makeRoom()
}

// boundary ends a window and opens the next.
func (d *DQN) boundary() error {
	// Wait for trainer thread and all sampler threads to finish their tasks
	if err := d.await(d.due(d.clock.T)); err != nil {
		return err
	}
	d.tell(windowEnds)
	// Flush all sampler threads' temporary buffers to D
	d.memory.Flush()
	// Update target network parameters: theta-minus <- theta
	d.updateTarget()
	if d.cfg.Actor == ActorSnapshot {
		d.snapshot.CopyFrom(d.theta)
	}
	window := int64(d.cfg.Window)
	d.clock.Due = (d.clock.T/window + 1) * window
	d.clock.Windows++
	d.tell(windowBegins)
	// Asynchronously dispatch trainer thread for C / F minibatches sampled from D:
	// they are released as they become due, at the start of each round.
	if d.emulate == updatesFirst {
		return d.trainer.wait(d.due(d.windowEnd()), nil, time.Time{})
	}
	return nil
}

// updateTarget copies theta if t has reached or passed a multiple of C since
// the last copy; t = 0 is one.
func (d *DQN) updateTarget() {
	if passed := d.clock.T / d.cfg.targetInterval(); passed > d.clock.Copies {
		d.clock.Copies = passed
		d.thetaMinus.CopyFrom(d.theta)
	}
}

// windowEnd is the first round end at or past the next boundary, if the
// course of learning does not end before.
func (d *DQN) windowEnd() int64 {
	w := int64(d.cfg.NumEnvs)
	end := min(d.clock.Due, d.clock.End-d.clock.Warmup)
	return d.clock.T + (end-d.clock.T+w-1)/w*w
}

// synchronisedRound is Synchronized Execution: one minibatch gives the Q-values
// of all environments, then each takes one step.
func (d *DQN) synchronisedRound() (int64, error) {
	if err := d.release(d.clock.T + int64(d.cfg.NumEnvs)); err != nil {
		return 0, err
	}
	// In one minibatch, compute Q-values Q(s(j), .) for each sampler thread
	if err := d.samplers.choose(d.clock.T, &d.schedule, true); err != nil {
		return 0, err
	}
	d.lap(&d.times.act)
	// Asynchronously dispatch i-th sampler thread for one step, for every i
	n, err := d.samplers.round()
	d.lap(&d.times.env)
	d.room--
	return n, err
}

// unsynchronisedChunk lets every sampler run by itself up to the next step at
// which somebody has to wait: the window's end when training is concurrent, the
// next update when it is not.
func (d *DQN) unsynchronisedChunk(until int64) (int64, error) {
	n, w := d.chunkLength(until), int64(d.cfg.NumEnvs)
	if err := d.release(d.clock.T + n); err != nil {
		return 0, err
	}
	made, err := d.samplers.runUnsynchronised(d.clock.T, d.phase, n, &d.schedule)
	var took time.Duration
	d.lap(&took)
	d.times.act += time.Duration(d.samplers.chunk.acting.Load())
	d.times.env += time.Duration(d.samplers.chunk.stepping.Load())
	if first := (w - int64(d.phase)) % w; n > first {
		d.room -= (n - first + w - 1) / w // rounds begun
	}
	d.phase = (d.phase + int(n)) % d.cfg.NumEnvs
	d.adapt(took)
	return made, err
}

// chunkLength is the number of steps until the samplers must meet.
func (d *DQN) chunkLength(until int64) int64 {
	w, phase := int64(d.cfg.NumEnvs), int64(d.phase)
	t := d.clock.T
	roundEnd := func(at int64) int64 { // the first round end past t and not before at
		return t - phase + max(w, (at-t+phase+w-1)/w*w)
	}
	end := min(roundEnd(d.clock.Due), roundEnd(until-d.clock.Warmup), t-phase+max(1, min(d.slice, d.room))*w)
	if !d.cfg.Concurrent {
		copyAt := (d.clock.Copies + 1) * d.cfg.targetInterval()
		end = min(end, d.cfg.dueAt(d.cfg.updatesDue(t)+1), roundEnd(copyAt))
	}
	return end - t
}

// adapt keeps chunks so short that the deadline and Stop are looked at often.
// The meeting between two chunks changes no result.
func (d *DQN) adapt(took time.Duration) {
	const enough = 10 * time.Millisecond
	switch {
	case took < enough/4:
		d.slice = min(d.slice*2, 1<<20)
	case took > enough:
		d.slice = max(1, d.slice/2)
	}
}

// randomRound is a round of the warm-up.
func (d *DQN) randomRound() (int64, error) {
	d.samplers.chooseRandomly()
	n, err := d.samplers.round()
	d.lap(&d.times.env)
	d.room--
	return n, err
}

// due is the number of the update that t steps ask for.
func (d *DQN) due(t int64) int64 { return d.clock.Begun + d.cfg.updatesDue(t) }

// release lets the trainer begin what will be due when the round or chunk at
// hand is over. Nobody sees theta before that.
func (d *DQN) release(t int64) error {
	if d.cfg.Concurrent && d.emulate == notEmulated {
		return d.trainer.release(d.due(t))
	}
	return nil
}

// catchUp brings training that is not concurrent up to t.
func (d *DQN) catchUp() error {
	u := d.due(d.clock.T)
	if d.trainer.position() >= u {
		return nil
	}
	d.memory.Flush()
	return d.await(u)
}

// await returns when the trainer has done u updates and rests, or with
// errInterrupted at the deadline or at a Stop. In mid-round neither is heeded.
func (d *DQN) await(u int64) error {
	if d.phase != 0 {
		return d.trainer.wait(u, nil, time.Time{})
	}
	err := d.trainer.wait(u, &d.stopping, d.deadline)
	d.lap(&d.times.wait)
	return err
}

// makeRoom sees to it that a round fits into the replay's rings. Where short
// episodes and their tails have filled them, they are enlarged, while the
// trainer rests.
func (d *DQN) makeRoom() error {
	if d.phase != 0 || d.room > 0 {
		return nil
	}
	if d.room = d.leastRoom(); d.room > 0 {
		return nil
	}
	if err := d.await(0); err != nil {
		return err
	}
	if !d.clock.Warm {
		d.memory.Flush() // nobody samples before the warm-up is over
		if d.room = d.leastRoom(); d.room > 0 {
			return nil
		}
	}
	if err := d.memory.Grow(); err != nil {
		return err
	}
	d.room = d.leastRoom()
	return nil
}

// leastRoom is the number of steps that every environment can take for sure.
func (d *DQN) leastRoom() int64 {
	room := d.memory.Room(0)
	for i := 1; i < d.cfg.NumEnvs; i++ {
		room = min(room, d.memory.Room(i))
	}
	return room
}
