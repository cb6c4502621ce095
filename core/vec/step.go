package vec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// Seed restarts the random stream of every environment, or of those where mask is true, from the
// environment's seed. The seed takes effect at the next reset. seeds and mask have Len() entries;
// mask may be nil.
func (v *Vec) Seed(seeds []uint64, mask []bool) error {
	if err := v.checkIdle(); err != nil {
		return err
	}
	if len(seeds) != len(v.envs) {
		return fmt.Errorf("seeds: %d, must be %d, one for each environment", len(seeds), len(v.envs))
	}
	if mask != nil && len(mask) != len(v.envs) {
		return fmt.Errorf("mask: %d entries, must be %d", len(mask), len(v.envs))
	}
	for i, seed := range seeds {
		if mask == nil || mask[i] {
			v.seedOne(i, seed)
		}
	}
	return nil
}

func (v *Vec) seedOne(i int, seed uint64) {
	v.envs[i].Seed(seed)
	if v.decorrelation != nil {
		v.decorrelation.seed(i, seed)
	}
}

// Reset starts an episode in every environment, or in those where mask is true. A mask has Len()
// entries, of which at least one is true. Reset writes Obs, Rewards (0), Ends (0) and Starts (true)
// of the reset rows and leaves the other rows unchanged. If environments fail, the error is a
// *Failure.
//
// The episode begins a new game, with one exception: in Disabled, a reset by mask after the end of
// an episode replaces the autoreset. It continues the game after a lost life, unless the
// environment was seeded since.
func (v *Vec) Reset(rows *Rows, mask []bool) error {
	if err := v.checkReset(rows, mask); err != nil {
		return err
	}
	v.rows, v.mask = rows, mask
	return v.finishCall(v.pool.Do(len(v.envs), v.resetAll))
}

// StartReset starts a Reset on other threads and returns. The caller must call FinishReset before
// any other method of v, and must not touch rows and mask until then.
func (v *Vec) StartReset(rows *Rows, mask []bool) error {
	if err := v.checkReset(rows, mask); err != nil {
		return err
	}
	v.rows, v.mask = rows, mask
	v.pool.Start(len(v.envs), v.resetAll)
	return nil
}

// FinishReset waits for the resets of StartReset and returns the error of the Reset.
func (v *Vec) FinishReset() error { return v.finishCall(v.pool.Wait()) }

func (v *Vec) checkReset(rows *Rows, mask []bool) error {
	if err := v.check(rows); err != nil || mask == nil {
		return err
	}
	if len(mask) != len(v.envs) {
		return fmt.Errorf("reset_mask: %d entries, must be %d", len(mask), len(v.envs))
	}
	if !slices.Contains(mask, true) {
		return errors.New("reset_mask: no entry is true, at least one must be")
	}
	return nil
}

// finishCall drops the arguments of the call in progress and returns its error: err, or a *Failure.
func (v *Vec) finishCall(err error) error {
	v.rows, v.mask, v.actions = nil, nil, Actions{}
	return cmp.Or(err, v.failures.flush())
}

// serialTime limits how long the steps of all environments together may take on the caller's
// thread alone. Waking a helper takes about as long.
const serialTime = 5 * time.Microsecond

// do calls f for all environments, on the caller's thread if the last call was short and on the
// pool otherwise. f returns no errors.
func (v *Vec) do(f func(worker, i int) error) (err error) {
	began := time.Now()
	if v.serial {
		for i := range v.envs {
			_ = f(0, i)
		}
		v.serial = time.Since(began) < 2*serialTime || v.pool.Threads() == 1
		return nil
	}
	err = v.pool.Do(len(v.envs), f)
	v.serial = v.waiting == nil && time.Since(began)*time.Duration(v.pool.Threads()) < serialTime
	return err
}

// Step takes one action in every environment. No environment moves if an action is not one of
// Spec().Action or, in Disabled, if an episode has ended. The action of a row that only resets
// (NextStep) is not checked. If environments fail, the error is a *Failure, and the others have
// taken their step.
func (v *Vec) Step(actions Actions, rows *Rows) error {
	if err := v.check(rows); err != nil {
		return err
	}
	if err := v.spec.Action.CheckSize(actions.Discrete, actions.Box, len(v.envs)); err != nil {
		return err
	}
	for i := range v.envs {
		if err := v.checkStep(i, actions.of(i, v.width)); err != nil {
			return err
		}
	}
	v.rows, v.actions = rows, actions
	if v.batches != nil {
		v.StepBatch(0, len(v.envs), v.skipsNone, actions, rows)
	}
	return v.finishCall(v.do(v.stepAll))
}

// StepOne takes one action in environment i, as Step does. Calls for different environments may
// run concurrently, also inside a loop of the pool.
func (v *Vec) StepOne(i int, a Action, rows *Rows) error {
	if i < 0 || i >= len(v.envs) {
		return fmt.Errorf("environment: %d, must be 0 to %d", i, len(v.envs)-1)
	}
	if err := v.check(rows); err != nil {
		return err
	}
	if err := v.spec.Action.CheckSize(a.Discrete, a.Box, 1); err != nil {
		return refused(i, err)
	}
	if err := v.checkStep(i, a); err != nil {
		return err
	}
	if stepped, err := v.step(i, a, slot{rows, i}); err != nil {
		return failureOf(err, stepped)
	}
	return nil
}

// check returns an error if the environments may not be used now or r does not have their size.
func (v *Vec) check(r *Rows) error {
	if err := v.checkIdle(); err != nil {
		return err
	}
	if r == nil {
		return errors.New("rows: nil, must be a Rows")
	}
	return v.checkRows(r, len(v.envs))
}

// checkIdle returns an error if the Vec is closed or environments of its Async are under way.
func (v *Vec) checkIdle() error {
	switch {
	case v.closed:
		return errClosed
	case v.UnderWay() > 0:
		return errUnderWay
	}
	return nil
}

// UnderWay returns the number of environments of the Async that are under way.
func (v *Vec) UnderWay() int {
	if v.async == nil {
		return 0
	}
	return v.async.UnderWay()
}

// errClosed is the error of all calls after Close.
var errClosed = fmt.Errorf("environments: %w", fault.ErrClosed)

var (
	errUnderWay = errors.New("environments: some are under way, must be received first")
	errFresh    = errors.New("step before reset")
	errEnded    = errors.New("step after the episode ended, must be reset first (autoreset is Disabled)")
)

// checkStep returns an error if environment i cannot take the action a, whose size is right.
func (v *Vec) checkStep(i int, a Action) error {
	switch v.phases[i] {
	case fresh:
		return refused(i, errFresh)
	case ended:
		if v.mode == Disabled {
			return refused(i, errEnded)
		}
		return nil // NextStep: the step resets and ignores the action
	}
	if n := v.spec.Action.N; n > 0 && uint(a.Discrete[0]) < uint(n) { // the common case
		return nil
	}
	if err := v.spec.Action.CheckAction(a.Discrete, a.Box); err != nil {
		return refused(i, err)
	}
	return nil
}

// refused returns an error about the arguments for environment i.
func refused(i int, err error) error {
	return &env.RowError{Of: "environment", Index: i, Err: err}
}

// slot is the row that an environment writes: row at of rows. rows is nil while the row is not
// known: an Async chooses it when the step is done (claim).
type slot struct {
	rows *Rows
	at   int
}

// step takes one step of environment i and writes its row. After an error, an *env.Error, the
// environment is fresh. With stepped the row is complete nevertheless: only the autoreset after the
// step failed.
func (v *Vec) step(i int, a Action, to slot) (stepped bool, err error) {
	if v.phases[i] == ended {
		return false, v.reset(i, to, false)
	}
	defer v.failed(i, &err)
	var reward float32
	var end env.End
	e, obs := v.envs[i], v.row(i, to)
	var delayer env.Delayer
	if to.rows == nil {
		delayer, _ = e.(env.Delayer)
	}
	result, done := v.batches.take(i)
	switch {
	case done:
		reward, end, err = result.reward, result.end, result.err
	case delayer != nil:
		reward, end, err = delayer.Advance(a.Discrete, a.Box)
	default:
		reward, end, err = v.spec.Action.Step(e, a.Discrete, a.Box, obs)
	}
	if err != nil {
		return false, err
	}
	if err := env.CheckReward(reward); err != nil {
		return false, err
	}
	if delayer != nil {
		to = v.async.claim(i)
		obs = v.row(i, to)
		delayer.Observe(obs)
	}
	if err := v.spec.Obs.CheckFinite(obs); err != nil {
		return false, err
	}
	if err := v.readMask(i, end); err != nil {
		return false, err
	}
	if to.rows == nil {
		to = v.async.claim(i)
		copy(v.row(i, to), obs)
		obs = v.row(i, to)
	}
	to.rows.Rewards[to.at], to.rows.Ends[to.at], to.rows.Starts[to.at] = reward, end, false
	v.inform(i, to.rows.Infos, to.rows.Masks, to.at)
	if !end.Over() {
		return true, nil
	}
	if v.mode != SameStep {
		v.phases[i] = ended
		return true, nil
	}
	copy(row(to.rows.FinalObs, to.at, v.bytes), obs)
	v.inform(i, to.rows.FinalInfos, to.rows.FinalMasks, to.at)
	stepped = true // stays true if the reset panics
	if err := v.startEpisode(i, obs); err != nil {
		return stepped, err
	}
	v.inform(i, to.rows.Infos, to.rows.Masks, to.at)
	to.rows.Starts[to.at] = true
	return stepped, nil
}

// replacesAutoreset reports whether a reset by mask of environment i replaces an autoreset.
func (v *Vec) replacesAutoreset(i int) bool { return v.mode == Disabled && v.phases[i] == ended }

// reset starts an episode of environment i, with newGame a new game, and writes its row. After an
// error, an *env.Error, the environment is fresh.
func (v *Vec) reset(i int, to slot, newGame bool) (err error) {
	defer v.failed(i, &err)
	if e, ok := v.envs[i].(env.Restarter); ok && newGame {
		e.Restart()
	}
	v.batches.take(i) // drops the result of a step that no StepOne completed
	obs := v.row(i, to)
	if err := v.startEpisode(i, obs); err != nil {
		return err
	}
	if to.rows == nil {
		to = v.async.claim(i)
		copy(v.row(i, to), obs)
	}
	v.inform(i, to.rows.Infos, to.rows.Masks, to.at)
	v.phases[i] = running
	to.rows.Rewards[to.at], to.rows.Ends[to.at], to.rows.Starts[to.at] = 0, 0, true
	return nil
}

// startEpisode resets environment i and takes the random first steps that are due.
func (v *Vec) startEpisode(i int, obs []byte) error {
	if err := v.envs[i].Reset(obs); err != nil {
		return err
	}
	if v.decorrelation != nil {
		if err := v.decorrelation.randomSteps(v.envs[i], i, obs); err != nil {
			return err
		}
	}
	if err := v.spec.Obs.CheckFinite(obs); err != nil {
		return err
	}
	return v.readMask(i, 0)
}

// readMask reads the action mask of environment i after a step with the given end. After a
// termination no action follows: the mask allows all.
func (v *Vec) readMask(i int, end env.End) error {
	if v.masks == nil {
		return nil
	}
	mask := row(v.masks, i, v.maskBytes)
	if end&env.Terminated != 0 {
		for a := range mask {
			mask[a] = 1
		}
		return nil
	}
	return env.ReadMask(v.envs[i], &v.spec.Action, mask)
}

// row returns the observation of slot to, or the scratch row of environment i while the slot is
// not known.
func (v *Vec) row(i int, to slot) []byte {
	if to.rows == nil {
		return v.async.scratch(i)
	}
	return row(to.rows.Obs, to.at, v.bytes)
}

// inform writes the infos and the mask of environment i to row at.
func (v *Vec) inform(i int, columns [][]byte, masks []byte, at int) {
	if len(columns) > 0 {
		v.envs[i].(env.Informer).Inform(columns, at)
	}
	if n := v.maskBytes; masks != nil {
		copy(row(masks, at, n), row(v.masks, i, n))
	}
}

// failed is deferred. It turns an error or a panic of environment i into an *env.Error.
func (v *Vec) failed(i int, err *error) {
	if r := recover(); r != nil {
		*err = fault.Caught(r)
	}
	if *err != nil {
		v.phases[i] = fresh
		*err = &env.Error{Index: i, Err: *err}
	}
}

func row(b []byte, i, size int) []byte { return b[i*size : (i+1)*size : (i+1)*size] }
