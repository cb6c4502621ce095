package train

import (
	"errors"
	"fmt"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/vec"
)

// maxSteps is the largest number of steps of a run, maxEnd the last step at which a run may end.
// They keep sums of step counts far from overflow.
const (
	maxSteps = 1 << 50
	maxEnd   = 2 * maxSteps
)

// Begin begins a run of total further steps, warm-up included, which ends at step num_timesteps +
// total. The first call acts as with both flags. Without ResetTimesteps the counts continue. The
// schedules are always new: from step 0 to the end of this run. Where the host steps the
// environments, ResetEnvs says that the next Act shows the first observations of new episodes. Both
// flags discard a round that Act began; without flags Begin refuses to. ResetTimesteps also
// discards the episodes of Stats and Episodes, the updates of "dqn" that are due and a rollout that
// is not full, and clears the error that ended training. A rollout that is full, where Stop has
// ended its update, is still learned from, at the rates of the new run.
func (t *Trainer) Begin(total int64, flags Flags) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if err := t.begin(total, flags); err != nil {
		return err
	}
	t.implied = false
	return nil
}

func (t *Trainer) begin(total int64, flags Flags) error {
	if total < 1 || total > maxSteps {
		return fmt.Errorf("total_timesteps: %d, must be 1 to %d", total, int64(maxSteps))
	}
	if !t.begun {
		flags |= ResetTimesteps | ResetEnvs
	}
	if flags == 0 && t.acted {
		return errors.New("begin: between act and observe, must be before act or after observe, or pass PACELINE_RESET_ENVS")
	}
	if err := t.settle(t.interrupt(0)); err != nil && (flags&ResetTimesteps == 0 || !changedNothing(err)) {
		return err
	}
	if flags&ResetEnvs == 0 && t.needsReset {
		return errors.New("begin: after a load the environments must be reset; pass PACELINE_RESET_ENVS")
	}
	others := t.others(flags&ResetTimesteps == 0)
	if steps := t.monitor.Steps.Load() + others; flags&ResetTimesteps == 0 && total > maxEnd-steps {
		return fmt.Errorf("total_timesteps: %d, must be at most %d after %d steps", total, max(0, maxEnd-steps), steps)
	}
	if err := t.method.Begin(total, flags); err != nil {
		return err
	}
	if t.external != nil {
		t.external.others = others
	}
	if flags&ResetTimesteps != 0 {
		t.monitor.forgetEpisodes()
	}
	t.monitor.use.begin()
	t.monitor.speed.begin(t.monitor)
	t.needsReset, t.acted = false, false
	t.end = t.monitor.Steps.Load() + others + total
	t.begun = true
	return nil
}

// others returns the steps of other learners, where Adopt has said them and the count goes on.
func (t *Trainer) others(goesOn bool) int64 {
	if t.external == nil || !goesOn {
		return 0
	}
	return t.external.others
}

// interrupt returns the Interrupt of the call in progress; limit 0 is no time limit.
func (t *Trainer) interrupt(limit time.Duration) *Interrupt {
	i := &Interrupt{stopping: &t.stopping}
	if limit > 0 {
		i.deadline = t.monitor.began.Add(limit)
	}
	return i
}

// Run takes up to steps further steps (0: to the end of the run), for up to limit (0: no limit), or
// until Stop. It returns at the end of a round and does not wait for updates that run concurrently,
// except, within limit, at the end of the run.
//
// If no run was begun, Run begins one of that many steps. If the run is over, and Run has begun it
// or a checkpoint held it, Run begins a further one. A run that Begin has begun continues past its
// end instead, and schedules keep their last values.
func (t *Trainer) Run(steps int64, limit time.Duration) error {
	return t.RunRollouts(0, steps, limit)
}

// RunRollouts is Run, which also returns at the round that makes the last of `rollouts` rollouts
// full (0: no limit), before the update of that rollout, also at the end of the run. A rollout in
// progress counts as one. Only the rollouts of methods a2c, ppo and pqn are counted
// (Interrupt.Filled). The learners of a3c and appo have rollouts of their own: with a limit, a call
// at or after the end of the run finishes those in progress and begins no others, and no further
// run. With rule mean all learners take a rollout that one of them has begun.
func (t *Trainer) RunRollouts(rollouts, steps int64, limit time.Duration) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if t.source == nil {
		return errors.New("run: the environments of this trainer are stepped by the caller; use act and observe")
	}
	if t.external != nil {
		return errors.New("run: the updates of this trainer come from outside; use gradient and adopt")
	}
	if steps < 0 {
		return fmt.Errorf("max_steps: %d, must be at least 0", steps)
	}
	if rollouts < 0 {
		return fmt.Errorf("max_rollouts: %d, must be at least 0", rollouts)
	}
	interrupt := t.interrupt(limit)
	interrupt.rollouts = rollouts
	switch over := t.monitor.Steps.Load() >= t.end; {
	case !t.begun && steps == 0:
		return errors.New("max_steps: 0, must be at least 1 where no run was begun")
	case over && rollouts > 0 && steps == 0 && t.unfinished():
		return errors.New("max_steps: 0, must be at least 1 where the run is over and rollouts are to be finished")
	case t.begun && t.needsReset:
		return errors.New("run: no run was begun since experience was loaded; call begin with PACELINE_RESET_ENVS first")
	case !t.begun, over && steps > 0 && t.implied && (rollouts == 0 || !t.unfinished()):
		cut, err := t.settleWithin(interrupt)
		if err != nil {
			return err
		}
		if cut {
			break // no step is taken: the updates of the previous run come first, with its rates
		}
		if err := t.begin(min(steps, maxSteps), 0); err != nil {
			return err
		}
		t.implied = true
	}
	until := t.end
	if steps > 0 {
		until = t.monitor.Steps.Load() + min(steps, maxSteps)
	}
	t.halted, interrupt.end = false, t.end
	err = t.method.Advance(until, interrupt)
	filled := rollouts > 0 && interrupt.rollouts == 0
	if err == nil && !filled && t.monitor.Steps.Load() >= t.end {
		err = t.settle(interrupt)
	}
	t.monitor.speed.look(t.monitor)
	if t.stopping.Swap(false) {
		t.halt()
	}
	if err == nil || errors.Is(err, ErrInterrupted) {
		err = t.method.Failed()
	}
	return err
}

// unfinished reports whether some learner with rollouts of its own is in one.
func (t *Trainer) unfinished() bool {
	m, ok := t.method.(SeveralRollouts)
	return ok && m.Unfinished() > 0
}

// Stop makes the Run in progress return after the current round and the current update, or, if none
// is in progress, the next Run at once. Updates that are due wait for the next step; readers get
// the current parameters. Any goroutine may call it.
func (t *Trainer) Stop() {
	t.stopping.Store(true)
	if t.background != nil {
		t.background.Wake()
	}
}

// halt leaves the updates that are due and have not begun to the next step.
func (t *Trainer) halt() {
	t.haltUpdates()
	t.halted = true
}

// haltUpdates waits for the update in progress.
func (t *Trainer) haltUpdates() {
	if t.background != nil {
		t.background.Halt()
	}
}

// Settle does the updates that are due at this step. After Stop they wait for the next step. It
// returns fault.ErrTimedOut if limit (0: none) passes first.
func (t *Trainer) Settle(limit time.Duration) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	cut, err := t.settleWithin(t.interrupt(limit))
	if cut && !t.halted {
		return fmt.Errorf("settle: %w", fault.ErrTimedOut)
	}
	return err
}

// settle does the updates that are due. Those that are left when the Interrupt is raised are done
// by the next call that reads.
func (t *Trainer) settle(interrupt *Interrupt) error {
	_, err := t.settleWithin(interrupt)
	return err
}

// settleWithin is settle, which also reports whether updates are left because the Interrupt was
// raised. An update that comes from outside is left without that.
func (t *Trainer) settleWithin(interrupt *Interrupt) (cut bool, err error) {
	if t.stopping.Load() {
		t.halt()
	}
	if t.halted {
		return false, t.method.Failed()
	}
	if err = t.method.Settle(interrupt); !errors.Is(err, ErrInterrupted) {
		return false, err
	}
	if t.stopping.Load() {
		t.halt()
	}
	return !errors.Is(err, errOutside), nil
}

// settleToRead is settle before a read. After a loss or an action that is not finite, or where
// nothing could be drawn, the earlier parameters can still be read, and after a GPU was lost those
// of the latest copy.
func (t *Trainer) settleToRead() error {
	err := t.settle(t.interrupt(0))
	if changedNothing(err) {
		return nil
	}
	if err == nil {
		for _, s := range t.method.Sets() {
			s.Params.Host()
		}
		err = t.device.Lost()
	}
	if errors.Is(err, fault.ErrDeviceLost) {
		return t.restoreBackup(err)
	}
	return err
}

// changedNothing reports whether err is of an update or a round that has changed nothing: a loss or
// an action is not finite, or nothing could be drawn. A number of an environment that is not finite
// is another error.
func changedNothing(err error) bool {
	var e *env.Error
	return errors.Is(err, ErrNothingToDraw) || errors.Is(err, actor.ErrAction) || errors.Is(err, fault.ErrNotFinite) && !errors.As(err, &e)
}

// restoreBackup goes back to the latest copy that was made before the GPU was lost.
func (t *Trainer) restoreBackup(lost error) error {
	if t.recoverer == nil || !t.recoverer.Recover() {
		return fmt.Errorf("nothing had been copied from it: %w", lost)
	}
	t.lost = lost.Error()
	return nil
}

// Act chooses an action for every row from its observation: the first half of a round. Boxes are
// within their bounds. After a Begin with ResetEnvs rows.Obs are the first observations of new
// episodes. If it waits for updates, it returns fault.ErrStopped after Stop, and fault.ErrTimedOut
// when limit (0: none) has passed; nothing has changed then.
func (t *Trainer) Act(rows *vec.Rows, actions vec.Actions, limit time.Duration) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	switch {
	case t.source != nil:
		return errors.New("act: the environments of this trainer are stepped by itself; use run")
	case !t.begun || t.needsReset:
		return errors.New("act: no run was begun since the environments were made or loaded; call begin first")
	case t.acted:
		return errors.New("act: called twice without observe between")
	case t.external != nil && t.external.learner.RoundsToUpdate() == 0:
		return errors.New("act: an update is due; call gradient before")
	}
	if err := t.checkRows(rows, false); err != nil {
		return err
	}
	if err := t.spec.Action.CheckSize(actions.Discrete, actions.Box, t.common.NumEnvs); err != nil {
		return err
	}
	// Steps continue after Stop, but not after Close, which also calls Stop. With updates from outside
	// the next Gradient takes the stop.
	if t.external == nil {
		t.stopping.Store(false)
	}
	if t.closing.Load() {
		return fault.ErrClosed
	}
	t.halted = false
	chosen, err := t.pushed.Act(rows, t.roundInterrupt(limit))
	if err != nil {
		return waited("act", err)
	}
	copy(actions.Discrete, chosen.Discrete)
	copy(actions.Box, chosen.Box)
	t.acted = true
	return nil
}

// roundInterrupt is that of Act and Observe, which wait for updates. Those from outside are not
// waited for.
func (t *Trainer) roundInterrupt(limit time.Duration) *Interrupt {
	if t.external != nil {
		return nil
	}
	return t.interrupt(limit)
}

// waited returns the error of a call that waited for updates, with the name of the call.
func waited(call string, err error) error {
	switch {
	case !errors.Is(err, ErrInterrupted) || errors.Is(err, errOutside):
		return err
	case errors.Is(err, fault.ErrStopped):
		return fmt.Errorf("%s: %w for the updates that are due", call, fault.ErrStopped)
	}
	return fmt.Errorf("%s: %w, while updates that are due were waited for", call, fault.ErrTimedOut)
}

// Observe records how the environments answered the actions of Act: rewards, ends, observations. It
// is the second half of a round. If it refuses a row, or returns fault.ErrStopped or
// fault.ErrTimedOut, it has recorded nothing and can be called again. At the end of the run it does
// the updates that are due, within limit.
func (t *Trainer) Observe(rows *vec.Rows, limit time.Duration) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if t.source != nil {
		return errors.New("observe: the environments of this trainer are stepped by itself; use run")
	}
	if !t.acted {
		return errors.New("observe: must follow act")
	}
	if err := t.checkRows(rows, true); err != nil {
		return err
	}
	interrupt := t.roundInterrupt(limit)
	if err := t.pushed.Observe(rows, interrupt); err != nil {
		return waited("observe", err)
	}
	t.acted = false
	t.monitor.speed.look(t.monitor)
	if t.monitor.Steps.Load() >= t.end {
		return t.settle(interrupt)
	}
	return t.method.Failed()
}

// checkRows refuses rows of a size that Act, or with answered Observe, does not read.
func (t *Trainer) checkRows(rows *vec.Rows, answered bool) error {
	if rows == nil {
		return errors.New("rows: nil, must be a Rows")
	}
	size := t.spec.Obs.Bytes()
	for _, x := range []struct {
		name      string
		have, per int
	}{
		{"rows.Obs", len(rows.Obs), size}, {"rows.FinalObs", len(rows.FinalObs), size},
		{"rows.Rewards", len(rows.Rewards), 1}, {"rows.Ends", len(rows.Ends), 1},
	} {
		if x.name != "rows.Obs" && !answered {
			continue
		}
		if want := t.common.NumEnvs * x.per; x.have != want && (x.name != "rows.FinalObs" || t.common.Autoreset == "same_step") {
			return fmt.Errorf("%s: %d, must be %d (num_envs %d times %d)", x.name, x.have, want, t.common.NumEnvs, x.per)
		}
	}
	for _, x := range []struct {
		name   string
		masks  []byte
		needed bool
	}{
		{"rows.Masks", rows.Masks, true}, {"rows.FinalMasks", rows.FinalMasks, answered && t.common.Autoreset == "same_step"},
	} {
		switch size := t.spec.Action.Logits(); {
		case x.masks != nil && !t.spec.Masks:
			return fmt.Errorf("%s: set, must be nil where action_masks is false", x.name)
		case t.spec.Masks && x.needed && len(x.masks) != t.common.NumEnvs*size:
			return fmt.Errorf("%s: %d, must be %d (num_envs %d times %d actions)", x.name, len(x.masks), t.common.NumEnvs*size, t.common.NumEnvs, size)
		}
	}
	return nil
}
