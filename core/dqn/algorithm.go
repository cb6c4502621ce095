package dqn

import "time"

// This file is Algorithm 1 of the paper, line for line where the paper has a
// line. doc.go lists its symbols and closes what it leaves open.
//
// Environments of the library's own are driven by learn. Where the host steps
// them (push.go), one pass of learn's loop is Act, the host's step, Observe.

// learn takes steps until so many are taken, the deadline is over (zero: none)
// or Stop is called. It ends between rounds and does not wait for the trainer.
func (d *DQN) learn(until int64, deadline time.Time) error {
	for d.clock.steps() < until || d.phase != 0 {
		if d.phase == 0 && (d.stopping.Load() || !deadline.IsZero() && !time.Now().Before(deadline)) {
			return nil
		}
		if err := d.trainer.failed(); err != nil {
			return err
		}
		if err := d.makeRoom(); err != nil {
			return err
		}
		var n int64
		var err error
		switch {
		case !d.warm(): // Prepopulate replay memory D with N experiences collected randomly
			n, err = d.samplers.warmUp()
			d.clock.Warmup += n
		default:
			// for t = 1, 2, ...
			if err := d.synchronise(); err != nil {
				return err
			}
			if d.cfg.Synchronized {
				n, err = d.synchronisedRound()
			} else {
				n, err = d.unsynchronisedChunk(until)
			}
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

// warm tells whether the warm-up is over. Its last act is the boundary at t = 0.
func (d *DQN) warm() bool {
	if !d.clock.Warm && d.clock.Warmup >= d.clock.WarmAt {
		d.clock.Warm = true
		d.clock.Due = d.clock.T
	}
	return d.clock.Warm
}

// synchronise is what happens between two rounds: training that is not
// concurrent catches up, and a window that is over gives way to the next.
func (d *DQN) synchronise() error {
	t := d.clock.T
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
	if t >= d.clock.Due && d.phase == 0 {
		return d.boundary()
	}
	return nil
}

// boundary ends a window and opens the next.
func (d *DQN) boundary() error {
	// Wait for trainer thread and all sampler threads to finish their tasks
	began := time.Now()
	if err := d.trainer.wait(d.due(d.clock.T)); err != nil {
		return err
	}
	d.waited(began)
	d.observe(windowEnds)
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
	d.observe(windowBegins)
	// Asynchronously dispatch trainer thread for C / F minibatches sampled from D:
	// they are released as they become due, at the start of each round.
	if d.emulate == updatesFirst {
		return d.trainer.wait(d.due(d.windowEnd()))
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
	w := d.cfg.NumEnvs
	d.releaseUntil(d.clock.T + int64(w))
	// In one minibatch, compute Q-values Q(s(j), .) for each sampler thread
	if err := d.chooseJointly(); err != nil {
		return 0, err
	}
	// Asynchronously dispatch i-th sampler thread for one step, for every i
	began := time.Now()
	n, err := d.samplers.round()
	d.times.env += time.Since(began)
	return n, err
}

// chooseJointly fills in the actions of all rows.
func (d *DQN) chooseJointly() error {
	began := time.Now()
	w, actions := d.cfg.NumEnvs, d.samplers.spec.Action.N
	q, err := d.samplers.joint.Forward(d.samplers.actor, d.samplers.rows.Obs, w)
	if err != nil {
		return err
	}
	for i := range w {
		epsilon := d.schedule.epsilon(d.clock.T + int64(i))
		d.samplers.actions[i] = d.samplers.choose(i, epsilon, q[i*actions:(i+1)*actions])
	}
	d.times.act += time.Since(began)
	return nil
}

// unsynchronisedChunk lets every sampler run by itself up to the next step at
// which somebody has to wait: the window's end when training is concurrent, the
// next update when it is not.
func (d *DQN) unsynchronisedChunk(until int64) (int64, error) {
	n := d.chunkLength(until)
	d.releaseUntil(d.clock.T + n)
	began := time.Now()
	made, acting, err := d.samplers.runUnsynchronised(d.clock.T, d.phase, n, false, &d.schedule)
	took := time.Since(began)
	d.times.act += acting
	d.times.env += max(0, took*time.Duration(d.samplers.pool.Threads())-acting)
	d.phase = (d.phase + int(n)) % d.cfg.NumEnvs
	d.adapt(took)
	return made, err
}

// chunkLength is the number of steps until the samplers must meet.
func (d *DQN) chunkLength(until int64) int64 {
	w, phase := int64(d.cfg.NumEnvs), int64(d.phase)
	t := d.clock.T
	roundEnd := func(at int64) int64 { // the first round end at or past at
		return t - phase + max(w, (at-t+phase+w-1)/w*w)
	}
	end := min(roundEnd(d.clock.Due), roundEnd(until-d.clock.Warmup), t-phase+min(d.slice, d.room)*w)
	if !d.cfg.Concurrent {
		copyAt := (t/d.cfg.targetInterval() + 1) * d.cfg.targetInterval()
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

// due is the number of the update that t steps ask for.
func (d *DQN) due(t int64) int64 { return d.clock.Begun + d.cfg.updatesDue(t) }

// releaseUntil lets the trainer begin what will be due when the round or chunk
// at hand is over. Nobody can look at theta before that.
func (d *DQN) releaseUntil(t int64) {
	if d.cfg.Concurrent && d.emulate == notEmulated {
		d.trainer.release(d.due(t))
	}
}

// catchUp brings training that is not concurrent up to t.
func (d *DQN) catchUp() error {
	u := d.due(d.clock.T)
	if d.trainer.position() >= u {
		return nil
	}
	d.memory.Flush()
	return d.trainer.wait(u)
}

// warmUp is a round of random actions.
func (s *samplers) warmUp() (int64, error) {
	made, _, err := s.runUnsynchronised(0, 0, int64(len(s.coins)), true, nil)
	return made, err
}
