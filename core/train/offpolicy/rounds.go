package offpolicy

import (
	"errors"

	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// room counts rounds that fit into the rings of the replay memory. rounds is never more than the
// rings have room for; 0: unknown.
type room struct {
	memory *replay.Memory
	envs   int
	rounds int64
}

// forget is called after the rings have changed.
func (m *room) forget() { m.rounds = 0 }

// measure sets rounds to the rounds that fit into every ring for certain.
func (m *room) measure() bool {
	m.rounds = m.memory.Room(0)
	for i := 1; i < m.envs; i++ {
		m.rounds = min(m.rounds, m.memory.Room(i))
	}
	return m.rounds > 0
}

// InRound reports whether some environments have taken their step of a round and others have not.
func (r *Run) InRound() bool { return r.turn != 0 || r.Samplers.InRound() }

// AtRoundEnd reports whether no environment is ahead of another in a round of StepAlone; see
// InRound for the two halves.
func (r *Run) AtRoundEnd() bool { return r.turn == 0 }

// Reserve makes room for a round in the replay memory. Where short episodes with their last
// observations have filled the rings, it enlarges them while no update is in progress. A warm-up
// in a memory that is full flushes before every round: not when the rings are full, because their
// sizes differ after a load.
func (r *Run) Reserve(interrupt *train.Interrupt) error {
	if r.turn != 0 {
		return nil
	}
	full := !r.Clock.Warm && r.Memory.Len()+r.Memory.Pending() >= r.cfg.BufferSize
	if !full && (r.room.rounds > 0 || r.room.measure()) {
		return nil
	}
	if err := r.await(0, interrupt); err != nil {
		return err
	}
	if full {
		r.Flush() // no update draws from it during the warm-up
	}
	if r.room.measure() {
		return nil
	}
	if err := r.Memory.Grow(1); err != nil {
		return err
	}
	r.room.measure()
	return nil
}

// RandomRound is a round of the warm-up.
func (r *Run) RandomRound(c policy.Chooser) error {
	ran, err := r.Samplers.Round(0, c, false)
	r.Monitor.Ran(ran)
	r.room.rounds--
	r.Clock.Warmup += ran.Taken
	r.Monitor.Add(ran.Taken, r.Samplers)
	return err
}

// JointRound is a round in which one forward pass serves all environments. If anotherFollows, the
// first of two halves may begin the next round in it: the acting parameters stay the same inside a
// window, except those of a noisy network.
func (r *Run) JointRound(c policy.Chooser, until int64, interrupt *train.Interrupt, anotherFollows bool) error {
	end := r.Clock.T + int64(r.envs)
	err := r.release(end, r.wholeWindow(until, interrupt))
	if err != nil && !r.Samplers.InRound() {
		return err
	}
	anotherFollows = anotherFollows && err == nil && r.noise == nil && r.cfg.Concurrent && end < r.Clock.NextWindow && r.Clock.Warmup+end < until && r.room.rounds > 1 && !interrupt.Raised(r.Monitor.Mark())
	ran, err := r.Samplers.Round(r.Clock.T, c, anotherFollows)
	r.Monitor.Ran(ran)
	r.room.rounds--
	r.Clock.T += ran.Taken
	r.Monitor.Add(ran.Taken, r.Samplers)
	return err
}

// StepAlone lets every sampler step by itself up to the next step at which one has to wait for
// another: the window's end where training is concurrent, else the next update.
func (r *Run) StepAlone(c policy.Chooser, until int64, interrupt *train.Interrupt) error {
	n, w := r.untilMeeting(until), int64(r.envs)
	if err := r.Updates.Failed(); err != nil {
		r.turn = 0
		return err
	}
	untilWindowEnd := r.wholeWindow(until, interrupt)
	ran, err := r.Samplers.Run(r.Clock.T, r.turn, n, c, interrupt.Watch(), func(steps int64) {
		r.release(r.Clock.T+steps, untilWindowEnd) // the next call returns the error
	})
	r.Monitor.Ran(ran)
	if first := (w - int64(r.turn)) % w; ran.Asked > first {
		r.room.rounds -= (ran.Asked - first + w - 1) / w // rounds begun
	}
	r.turn = (r.turn + int(ran.Asked%w)) % r.envs
	r.Clock.T += ran.Taken
	r.Monitor.Add(ran.Taken, r.Samplers)
	if err != nil {
		r.turn = 0 // the next call begins with a whole round
	}
	return err
}

// untilMeeting is the number of steps that samplers may take before one waits for another.
func (r *Run) untilMeeting(until int64) int64 {
	w, turn := int64(r.envs), int64(r.turn)
	t := r.Clock.T
	roundEnd := func(at int64) int64 { // the first round end past t and not before at
		return t - turn + max(w, (at-t+turn+w-1)/w*w)
	}
	end := min(roundEnd(r.Clock.NextWindow), roundEnd(until-r.Clock.Warmup), t-turn+max(1, r.room.rounds)*w)
	if !r.cfg.Concurrent {
		p := r.cfg.Periods
		copyAt := (r.Clock.TargetMultiple + 1) * p.TargetInterval
		nextBurst := (t/int64(p.TrainFreq) + 1) * int64(p.TrainFreq)
		end = min(end, nextBurst)
		switch {
		case !p.ByUpdates:
			end = min(end, roundEnd(copyAt))
		case r.Elapsed() >= copyAt: // updates in mid-round have made it due
			end = min(end, roundEnd(t))
		}
	}
	return end - t
}

// Choose chooses actions for rows that the host steps, and releases the updates of the round.
func (r *Run) Choose(c policy.Chooser) (vec.Actions, error) {
	if r.Clock.Warm {
		if err := r.release(r.Clock.T+int64(r.Samplers.Steps()), false); err != nil {
			return vec.Actions{}, err
		}
	}
	err := r.Samplers.Choose(r.Clock.T, c, r.cfg.Synchronized)
	r.Monitor.Lap(train.Acting)
	return r.Samplers.Actions(), err
}

// Observe implements train.Pushed: it records all rows, or none.
func (r *Run) Observe(rows *vec.Rows, interrupt *train.Interrupt) error {
	steps, err := r.Samplers.Observe(rows, r.Clock.Steps(), func(i int, next []byte) error { return r.checkNext(i, next, interrupt) })
	if err != nil {
		return err
	}
	r.room.rounds--
	if r.Clock.Warm {
		r.Clock.T += steps
	} else {
		r.Clock.Warmup += steps
	}
	r.Monitor.Add(steps, r.Samplers)
	return nil
}

// checkNext refuses a row of the host's that would spoil the replay memory.
func (r *Run) checkNext(i int, next []byte, interrupt *train.Interrupt) error {
	err := r.Memory.CheckNext(i, next)
	if errors.Is(err, replay.ErrNotAStack) {
		return r.storeWhole(interrupt)
	}
	return err
}

// storeWhole changes the replay memory to whole observations.
func (r *Run) storeWhole(interrupt *train.Interrupt) error {
	if err := r.await(0, interrupt); err != nil {
		return err
	}
	more, err := r.Memory.StoreWhole()
	if err != nil {
		return err
	}
	r.room.measure()
	r.Monitor.Notify("observations are not stacks of successive frames along their first axis; they are stored whole, which takes %.1f MB more (%.1f MB in all)",
		float64(more)/1e6, float64(r.Memory.Bytes())/1e6)
	return nil
}
