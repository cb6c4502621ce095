package train

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
)

// Transitions are the arguments of ReadTransitions and AddTransitions.
type Transitions = experience.Transitions

// Replayed is a Method with a replay memory that the host may read and add to. The Trainer calls it
// between two calls of Advance, after the updates that are due.
type Replayed interface {
	// NumTransitions returns how many transitions can be read.
	NumTransitions() int
	// ReadTransitions copies transitions by their numbers, 0 to NumTransitions()-1. They are ordered
	// by environment, and within an environment by age, oldest first.
	ReadTransitions(numbers []int64, to *Transitions)
	// AddTransitions adds transitions of no episode of the run, transition i to environment i mod
	// num_envs. They, and all steps before them, can be drawn at once, and updates go on after
	// ErrNothingToDraw. An error names a row; the rows before it have been added.
	AddTransitions(from *Transitions) error
}

// needsReplay refuses calls on a method without a replay memory.
func (t *Trainer) needsReplay() error {
	if t.replayed == nil {
		return fmt.Errorf("transitions: %s to read or add to", t.noReplay())
	}
	return nil
}

// ReadTransitions copies transitions of the replay memory, after the updates that are due at this
// step. numbers: see Replayed.ReadTransitions. It draws no random number and changes nothing.
func (t *Trainer) ReadTransitions(numbers []int64, to *Transitions) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if err := t.needsReplay(); err != nil {
		return err
	}
	if err := t.settleToRead(); err != nil {
		return err
	}
	r := t.replayed
	for i, n := range numbers {
		switch stored := r.NumTransitions(); {
		case stored == 0:
			return errors.New("transitions: 0 in the replay memory, must be at least 1 to read one")
		case n < 0 || n >= int64(stored):
			return fmt.Errorf("numbers[%d]: %d, must be 0 to %d: there are %d transitions", i, n, stored-1, stored)
		}
	}
	if err := t.sizes(to, len(numbers)); err != nil {
		return err
	}
	r.ReadTransitions(numbers, to)
	return nil
}

// AddTransitions adds transitions to the replay memory, after the updates that are due at this
// step: see Replayed.AddTransitions. It ignores Updates. It refuses rows that are not transitions
// of these environments before it adds any.
func (t *Trainer) AddTransitions(from *Transitions) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if err := t.needsReplay(); err != nil {
		return err
	}
	if err := t.sizes(from, len(from.Actions)); err != nil {
		return err
	}
	for i := range from.Actions {
		if err := t.checkTransition(from, i); err != nil {
			return &env.RowError{Of: "row", Index: i, Err: err}
		}
	}
	if err := t.settle(t.interrupt(0)); err != nil && !errors.Is(err, ErrNothingToDraw) {
		return err
	}
	return t.replayed.AddTransitions(from)
}

// sizes refuses slices that do not have n transitions.
func (t *Trainer) sizes(x *Transitions, n int) error {
	obs, masks := n*t.spec.Obs.Bytes(), 0
	if t.spec.Masks {
		masks = n * t.spec.Action.N
	}
	for _, s := range []struct {
		name      string
		got, want int
	}{
		{"obs", len(x.Obs), obs}, {"next_obs", len(x.NextObs), obs}, {"actions", len(x.Actions), n},
		{"rewards", len(x.Rewards), n}, {"terminated", len(x.Terminated), n}, {"next_masks", len(x.NextMasks), masks},
	} {
		if s.got != s.want {
			return fmt.Errorf("%s: %d entries, must be %d", s.name, s.got, s.want)
		}
	}
	return nil
}

func (t *Trainer) checkTransition(x *Transitions, i int) error {
	size, actions := t.spec.Obs.Bytes(), t.spec.Action.N
	if a := x.Actions[i]; a < 0 || int(a) >= actions {
		return fmt.Errorf("action: %d, must be 0 to %d", a, actions-1)
	}
	if err := env.CheckReward(x.Rewards[i]); err != nil {
		return err
	}
	if err := t.spec.Obs.CheckFinite(x.Obs[i*size : (i+1)*size]); err != nil {
		return err
	}
	if x.Terminated[i] {
		return nil // the next observation is not used
	}
	if err := t.spec.Obs.CheckFinite(x.NextObs[i*size : (i+1)*size]); err != nil {
		return fmt.Errorf("next %w", err)
	}
	if t.spec.Masks && env.Allowed(x.NextMasks[i*actions:(i+1)*actions]) == 0 {
		return fmt.Errorf("next_masks: %w", fault.ErrNoneAllowed)
	}
	return nil
}

// noReplay says why the method is not Replayed.
func (t *Trainer) noReplay() string {
	return fmt.Sprintf("%s is an on-policy method and has no replay memory", t.def.Name)
}
