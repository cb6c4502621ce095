package dqn

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/replay"
)

// Stored is train.Replayed's: D.
func (d *DQN) Stored() int { return d.memory.Len() }

// Recall is train.Replayed's.
func (d *DQN) Recall(numbers []int64, to *experience.Transitions) {
	picks := make([]int, len(numbers))
	for row, i := range numbers {
		picks[row] = int(i)
	}
	d.memory.Gather(picks, float32(d.cfg.Gamma), to, nil)
}

// Insert is train.Replayed's. It flushes, in the middle of a window, too: minibatches that were
// drawn ahead are drawn again.
func (d *DQN) Insert(from *experience.Transitions) error {
	if err := d.await(0, nil); err != nil {
		return err
	}
	defer func() {
		d.memory.Flush()
		d.free = 0
	}()
	for row := range from.Actions {
		if err := d.insert(from, row); err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
	}
	return nil
}

func (d *DQN) insert(from *experience.Transitions, row int) error {
	e, size := row%d.cfg.NumEnvs, d.spec.Obs.Bytes()
	if d.memory.Free(e) < 2 {
		d.memory.Flush() // evicts what is too old
	}
	if d.memory.Free(e) < 2 {
		if err := d.memory.Grow(2); err != nil {
			return err
		}
	}
	s := experience.Step{Action: from.Actions[row], Reward: from.Rewards[row], Updates: uint64(d.updates.position())}
	if from.Terminated[row] {
		s.End = env.Terminated
	}
	if d.spec.Masks {
		n := d.spec.Action.N
		s.NextMask = from.NextMasks[row*n : (row+1)*n]
	}
	obs, next := from.Obs[row*size:(row+1)*size], from.NextObs[row*size:(row+1)*size]
	err := d.memory.Insert(e, &s, obs, next)
	if errors.Is(err, replay.ErrNotAStack) {
		if err := d.storeWhole(nil); err != nil {
			return err
		}
		return d.insert(from, row)
	}
	return err
}
