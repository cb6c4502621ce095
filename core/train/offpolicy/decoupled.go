package offpolicy

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/train"
)

// This file makes a Run one part of a method whose actors, replay memories and learners are
// decoupled (train.Decoupled): a replay memory that others fill and draw from, or a learner of
// minibatches that others bring.

// AddSteps implements train.Decoupled.
func (r *Run) AddSteps(e int, from *train.Steps) error {
	if r.spec.Masks && r.cfg.ownMasks() {
		return errors.New("munchausen: true, no steps can be added where environments have action masks, because they come without the masks of their observations")
	}
	if !from.Begins && !r.Memory.Open(e) {
		return fmt.Errorf("begins: 0, must be 1, as no segment of environment %d is in progress", e)
	}
	size, masks := r.spec.Obs.Bytes(), r.spec.Action.N
	read := from.Obs
	if from.End&env.Terminated != 0 {
		read = read[:len(read)-size]
	}
	if err := r.Memory.CheckSteps(e, from.Begins, read); err != nil {
		return err
	}
	defer func() {
		r.Flush()
		r.room.forget()
	}()
	for i := range from.Actions {
		if err := r.makeRoom(e); err != nil {
			return err
		}
		if i == 0 && from.Begins {
			if err := r.Memory.Begin(e, from.Obs[:size]); err != nil {
				return err
			}
		}
		s := experience.Step{Action: from.Actions[i : i+1], Reward: from.Rewards[i]}
		if i == len(from.Actions)-1 {
			s.End = from.End
		}
		if r.spec.Masks {
			s.NextMask = from.NextMasks[i*masks : (i+1)*masks]
		}
		next := from.Obs[(i+1)*size : (i+2)*size]
		if err := r.addOrStoreWhole(func() error { return r.Memory.Add(e, &s, next) }); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom makes room for the beginning of a segment and a step of environment e.
func (r *Run) makeRoom(e int) error {
	if r.Memory.Room(e) < 2 {
		r.Flush() // evicts transitions that are too old
	}
	if r.Memory.Room(e) < 2 {
		return r.Memory.Grow(2)
	}
	return nil
}

// addOrStoreWhole calls add. If add gives an observation that is not a stack, addOrStoreWhole
// changes the replay memory to whole observations and calls add again.
func (r *Run) addOrStoreWhole(add func() error) error {
	err := add()
	if !errors.Is(err, replay.ErrNotAStack) {
		return err
	}
	if err := r.storeWhole(nil); err != nil {
		return err
	}
	return add()
}

// DrawRows implements train.Decoupled.
func (r *Run) DrawRows() int { return r.cfg.BatchSize }

// Draw implements train.Decoupled.
func (r *Run) Draw(beta float64, to *train.Transitions, identities []int64) error {
	upd := &r.Updates.updater
	if err := upd.drawable(); err != nil {
		return err
	}
	upd.draw(beta, upd.picks, to)
	for row, pick := range upd.picks {
		identities[row] = r.Memory.Identity(pick)
	}
	return nil
}

// SetErrors implements train.Decoupled.
func (r *Run) SetErrors(identities []int64, of []float32) {
	picks, known := make([]int, 0, len(identities)), make([]float32, 0, len(identities))
	for row, identity := range identities {
		if pick, ok := r.Memory.Pick(identity); ok && r.drawing.Has(pick) {
			picks, known = append(picks, pick), append(known, of[row])
		}
	}
	if len(picks) > 0 {
		r.drawing.Update(picks, known)
	}
}

// CheckUpdateOf comes before everything that an update of a minibatch that others bring changes.
func (r *Run) CheckUpdateOf() error {
	switch {
	case r.spec.Masks && r.cfg.ownMasks():
		return errors.New("munchausen: true, must be false for gradient_of where environments have action masks, because the minibatch comes without the masks of its observations")
	case r.Clock.End == 0 && len(r.Schedule.Rate) > 1:
		return errors.New("gradient_of: no run was begun, and learning_rate changes; call begin first, which says where it ends")
	}
	return nil
}

// UpdateOf implements train.Decoupled. The method has called CheckUpdateOf and updated ThetaMinus.
func (r *Run) UpdateOf(batch *train.Transitions, to []float32) error {
	up := r.Updates
	up.mu.Lock()
	defer up.mu.Unlock()
	if up.err != nil {
		return up.err
	}
	up.lockedRun(func(u int64) (losses []float32, err error) {
		defer fault.Recover(&err)
		upd := &up.updater
		if upd.keys {
			batch.Key = upd.draws.Uint64()
		}
		if err := upd.step(u, batch); err != nil {
			return nil, err
		}
		copy(to, upd.report.Rows)
		return upd.loss[:], nil
	})
	up.released = up.done
	return up.err
}

// Weighted implements train.Decoupled.
func (r *Run) Weighted() bool { return r.cfg.Priorities != nil }

// ByUpdates implements train.Decoupled.
func (r *Run) ByUpdates() bool { return r.cfg.Periods.ByUpdates }

// TakeApplied lets the clocks know the updates of Theta, before an update of a minibatch that
// others bring.
func (r *Run) TakeApplied() { r.countApplied() }
