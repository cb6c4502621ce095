package offpolicy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/train"
)

// NumTransitions implements train.Replayed.
func (r *Run) NumTransitions() int { return r.Memory.Len() }

// ReadTransitions implements train.Replayed.
func (r *Run) ReadTransitions(numbers []int64, to *experience.Transitions) {
	picks := make([]int, len(numbers))
	for row, i := range numbers {
		picks[row] = int(i)
	}
	r.Memory.Gather(picks, 1, r.cfg.Gamma, to, nil)
}

// AddTransitions implements train.Replayed.
func (r *Run) AddTransitions(from *experience.Transitions) error {
	return AddTransitions(from, r.envs, func(env int) (*Run, int) { return r, env }, r)
}

// AddTransitions adds transitions to the replay memories of runs, transition i to environment i mod
// envs. of returns the run of an environment, and the number that it has in that run.
// AddTransitions flushes the memories, even inside a window; prefetched minibatches are then drawn
// again.
func AddTransitions(from *experience.Transitions, envs int, of func(env int) (*Run, int), runs ...*Run) error {
	for _, r := range runs {
		if r.spec.Masks && r.cfg.ownMasks() {
			return errors.New("munchausen: true, no transitions can be added where environments have action masks, because they come without the masks of their observations")
		}
		if err := r.addable(from); err != nil {
			return err
		}
		r.Updates.forgive(train.ErrNothingToDraw)
		// An update from outside is left to its Gradient.
		if err := r.await(0, nil); err != nil && !errors.Is(err, train.ErrInterrupted) {
			return err
		}
	}
	defer func() {
		for _, r := range runs {
			r.Flush()
			r.room.forget()
		}
	}()
	for row := range from.Actions {
		r, e := of(row % envs)
		if err := r.insert(from, row, e); err != nil {
			return &env.RowError{Of: "row", Index: row, Err: err}
		}
	}
	return nil
}

// addable refuses transitions of which none could ever be drawn: over n steps each is a tail.
func (r *Run) addable(from *experience.Transitions) error {
	which := "transitions"
	switch {
	case r.cfg.NSteps == 1 || r.cfg.Tails == replay.KeepTails || len(from.Actions) == 0:
		return nil
	case r.cfg.Tails == replay.DropTruncated:
		if slices.Contains(from.Terminated, true) {
			return nil
		}
		which = "transitions that do not terminate"
	}
	return fmt.Errorf("n_step_tails: %s, must be keep to add %s where n_steps is %d: each has one step and could never be drawn",
		replay.TailNames[r.cfg.Tails], which, r.cfg.NSteps)
}

// insert adds a transition to environment e.
func (r *Run) insert(from *experience.Transitions, row, e int) error {
	size := r.spec.Obs.Bytes()
	s := experience.Step{Action: from.Actions[row : row+1], Reward: from.Rewards[row], Updates: uint64(r.Updates.Done())}
	if from.Terminated[row] {
		s.End = env.Terminated
	}
	if r.spec.Masks {
		n := r.spec.Action.N
		s.NextMask = from.NextMasks[row*n : (row+1)*n]
	}
	obs, next := from.Obs[row*size:(row+1)*size], from.NextObs[row*size:(row+1)*size]
	return r.addOrStoreWhole(func() error {
		if err := r.makeRoom(e); err != nil {
			return err
		}
		return r.Memory.Insert(e, &s, obs, next)
	})
}
