package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// This file is for programs whose actors, replay memories and learners are in processes of their
// own (Nair et al. 2015, section 4; Horgan et al. 2018). One Trainer is a replay memory: AddSteps,
// Draw and SetErrors. Another one is a learner: GradientOf and Adopt. Both have updates from
// outside, and the program carries steps, minibatches and errors from one to the other.

// Steps are consecutive steps of one environment, in the caller's memory.
type Steps struct {
	Begins    bool   // the first observation begins a segment; otherwise it is the last one of the steps before
	Obs       []byte // n+1 observations; the last one is arbitrary if End is a termination
	Actions   []int32
	Rewards   []float32
	End       env.End // of the last step
	NextMasks []byte  // n masks of next observations; empty where actions have none
}

// Decoupled is a Learner whose replay memory and whose updates can be used from different
// processes. Arguments have been checked.
type Decoupled interface {
	// AddSteps adds steps of environment e. A transition can be drawn as soon as its n steps are
	// stored or its episode has ended. After an error the steps before the one that failed have been
	// added.
	AddSteps(e int, from *Steps) error
	// DrawRows is the number of rows of a minibatch.
	DrawRows() int
	// Weighted reports whether minibatches have importance weights.
	Weighted() bool
	// Draw draws a minibatch. identities get numbers that transitions keep while they are stored,
	// until a load.
	Draw(beta float64, to *Transitions, identities []int64) error
	// SetErrors takes the errors of transitions, of which priorities are made. Transitions that are no
	// longer stored are passed over.
	SetErrors(identities []int64, of []float32)
	// UpdateOf does the next update, with a minibatch from another replay memory. It writes the errors
	// of the rows to `to`, where minibatches have importance weights.
	UpdateOf(batch *Transitions, to []float32) error
	// ByUpdates reports whether schedules and targets follow the updates, and not the steps.
	ByUpdates() bool
}

// AddSteps adds steps of environment e, 0 to num_envs-1, to the replay memory. An environment's
// segment goes on from one call to the next until it ends or another one begins. Begins cuts a
// segment in progress, as a truncation after its last step. A run must not have begun.
func (t *Trainer) AddSteps(e int, from *Steps) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	a, err := t.decoupled("add_steps")
	if err != nil {
		return err
	}
	if t.begun {
		return errors.New("add_steps: a run was begun, must be a trainer that takes no steps itself")
	}
	if e < 0 || e >= t.common.NumEnvs {
		return fmt.Errorf("env: %d, must be 0 to %d", e, t.common.NumEnvs-1)
	}
	if err := t.checkSteps(from); err != nil {
		return err
	}
	return a.AddSteps(e, from)
}

func (t *Trainer) checkSteps(x *Steps) error {
	n, size, actions := len(x.Actions), t.spec.Obs.Bytes(), t.spec.Action.N
	masks := 0
	if t.spec.Masks {
		masks = n * actions
	}
	if n == 0 {
		return errors.New("num_steps: 0, must be at least 1")
	}
	if len(x.Obs) != (n+1)*size || len(x.Rewards) != n || len(x.NextMasks) != masks {
		return fmt.Errorf("steps: %d bytes of observations, %d rewards and %d bytes of masks, must be %d, %d and %d", len(x.Obs), len(x.Rewards), len(x.NextMasks), (n+1)*size, n, masks)
	}
	refused := func(i int, err error) error { return &env.RowError{Of: "step", Index: i, Err: err} }
	for i, action := range x.Actions {
		if action < 0 || int(action) >= actions {
			return refused(i, fmt.Errorf("action: %d, must be 0 to %d", action, actions-1))
		}
		if err := env.CheckReward(x.Rewards[i]); err != nil {
			return refused(i, err)
		}
	}
	for i := range n + 1 {
		if i == 0 && !x.Begins || i == n && x.End&env.Terminated != 0 {
			continue // not read
		}
		if err := t.spec.Obs.CheckFinite(x.Obs[i*size : (i+1)*size]); err != nil {
			return refused(max(0, i-1), fmt.Errorf("row %d of obs: %w", i, err))
		}
		if i > 0 && t.spec.Masks && env.Allowed(x.NextMasks[(i-1)*actions:i*actions]) == 0 {
			return refused(i-1, fmt.Errorf("next_masks: %w", fault.ErrNoneAllowed))
		}
	}
	return nil
}

// Draw draws a minibatch of batch_size transitions from the replay memory: Obs, NextObs, Actions,
// Rewards, Discounts and NextMasks of `to`, over n_steps, and Weights, whose exponent is beta, 0 to
// 1; all are 1 where draws are uniform. identities name the transitions for SetErrors.
func (t *Trainer) Draw(beta float64, to *Transitions, identities []int64) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	a, err := t.decoupled("draw")
	if err != nil {
		return err
	}
	if !(beta >= 0 && beta <= 1) {
		return fmt.Errorf("beta: %v, must be 0 to 1", beta)
	}
	if err := t.minibatchSizes(a, to); err != nil {
		return err
	}
	if len(identities) != len(to.Actions) {
		return fmt.Errorf("identities: %d entries, must be %d", len(identities), len(to.Actions))
	}
	batch := *to
	if !a.Weighted() {
		batch.Weights = nil
	}
	if err := a.Draw(beta, &batch, identities); err != nil {
		return err
	}
	if !a.Weighted() {
		for i := range to.Weights {
			to.Weights[i] = 1
		}
	}
	return nil
}

// SetErrors takes the errors that GradientOf gave for transitions of Draw. It does nothing where
// draws are uniform.
func (t *Trainer) SetErrors(identities []int64, of []float32) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	a, err := t.decoupled("set_errors")
	if err != nil {
		return err
	}
	if len(of) != len(identities) {
		return fmt.Errorf("errors: %d entries, must be %d", len(of), len(identities))
	}
	for i, e := range of {
		if e-e != 0 {
			return &env.RowError{Of: "row", Index: i, Err: fmt.Errorf("error: %v, must be finite", e)}
		}
	}
	if a.Weighted() {
		a.SetErrors(identities, of)
	}
	return nil
}

// GradientOf is Gradient with a minibatch from another replay memory, at the parameters that the
// trainer has: it takes no rounds, and its State is GradientReady or GradientDropped. Errors of the
// rows are written to `to`, which may be empty; where draws are uniform they are 0. The clock must
// be that of updates, because the trainer knows no steps.
func (t *Trainer) GradientOf(out []float32, batch *Transitions, to []float32) (info GradientInfo, err error) {
	if err := t.enter(); err != nil {
		return info, err
	}
	defer t.leave(&err)
	a, err := t.decoupled("gradient_of")
	if err != nil {
		return info, err
	}
	theta := t.method.Sets()[0].Params
	switch size := theta.Layout.Size; {
	case !a.ByUpdates():
		return info, errors.New("gradient_of: clock is steps, must be updates")
	case t.acted:
		return info, errors.New("gradient_of: must not be called between act and observe")
	case len(out) != size:
		return info, fmt.Errorf("gradient: %d numbers, must be %d", len(out), size)
	}
	if err := t.minibatchSizes(a, batch); err != nil {
		return info, err
	}
	if len(to) > 0 && len(to) != len(batch.Actions) {
		return info, fmt.Errorf("errors: %d entries, must be %d", len(to), len(batch.Actions))
	}
	if err := t.checkMinibatch(batch); err != nil {
		return info, err
	}
	if !a.Weighted() {
		unweighted := *batch
		unweighted.Weights = nil
		batch = &unweighted
	}
	o := t.external
	o.to, o.info = out, GradientInfo{}
	defer func() { o.to = nil }()
	if err := a.UpdateOf(batch, to); err != nil {
		return info, err
	}
	if !a.Weighted() {
		clear(to)
	}
	o.info.Number, o.info.Updates, o.info.Steps = o.number, int64(theta.Updates), t.monitor.Steps.Load()
	return o.info, nil
}

// decoupled returns the method as a Decoupled with updates from outside. call is for the error.
func (t *Trainer) decoupled(call string) (Decoupled, error) {
	if t.external == nil {
		return nil, t.notOutside(call)
	}
	a, ok := t.method.(Decoupled)
	if !ok {
		return nil, fmt.Errorf("%s: %s", call, t.noReplay())
	}
	return a, nil
}

func (t *Trainer) minibatchSizes(a Decoupled, x *Transitions) error {
	n := a.DrawRows()
	if rows := len(x.Actions); rows != n {
		return fmt.Errorf("minibatch.num_rows: %d, must be batch_size (%d)", rows, n)
	}
	obs, masks := n*t.spec.Obs.Bytes(), 0
	if t.spec.Masks {
		masks = n * t.spec.Action.N
	}
	for _, s := range []struct {
		name      string
		got, want int
	}{
		{"obs", len(x.Obs), obs}, {"next_obs", len(x.NextObs), obs}, {"rewards", len(x.Rewards), n},
		{"discounts", len(x.Discounts), n}, {"weights", len(x.Weights), n}, {"next_masks", len(x.NextMasks), masks},
	} {
		if s.got != s.want {
			return fmt.Errorf("minibatch.%s: %d entries, must be %d (batch_size: %d)", s.name, s.got, s.want, n)
		}
	}
	return nil
}

func (t *Trainer) checkMinibatch(x *Transitions) error {
	for i := range x.Actions {
		if err := t.checkDrawn(x, i); err != nil {
			return &env.RowError{Of: "row", Index: i, Err: err}
		}
	}
	return nil
}

// checkDrawn checks row i of a minibatch.
func (t *Trainer) checkDrawn(x *Transitions, i int) error {
	actions, size := t.spec.Action.N, t.spec.Obs.Bytes()
	if err := t.spec.Obs.CheckFinite(x.Obs[i*size : (i+1)*size]); err != nil {
		return fmt.Errorf("obs: %w", err)
	}
	if err := t.spec.Obs.CheckFinite(x.NextObs[i*size : (i+1)*size]); err != nil {
		return fmt.Errorf("next_obs: %w", err)
	}
	switch a, w, d := x.Actions[i], x.Weights[i], x.Discounts[i]; {
	case a < 0 || int(a) >= actions:
		return fmt.Errorf("action: %d, must be 0 to %d", a, actions-1)
	case !(d >= 0 && d <= 1):
		return fmt.Errorf("discount: %v, must be 0 to 1", d)
	case !(w >= 0 && w <= math.MaxFloat32):
		return fmt.Errorf("weight: %v, must be finite and at least 0", w)
	case t.spec.Masks && env.Allowed(x.NextMasks[i*actions:(i+1)*actions]) == 0:
		return fmt.Errorf("next_masks: %w", fault.ErrNoneAllowed)
	}
	return env.CheckReward(x.Rewards[i])
}
