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

// Seed restarts each environment's stream, or those where mask is true, from its own
// seed; it takes effect at the next reset. There must be Len() seeds, and as many
// entries of a mask.
func (v *Vec) Seed(seeds []uint64, mask []bool) error {
	if err := v.idle(); err != nil {
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

// seedOne restarts the stream of environment i.
func (v *Vec) seedOne(i int, seed uint64) {
	v.envs[i].Seed(seed)
	if v.starts != nil {
		v.starts.seed(i, seed)
	}
}

// Reset starts an episode in every environment, or where mask is true: a mask
// has Len() entries, one of them true at least. It writes Obs, Rewards (0),
// Ends (0) and Starts (true) of these rows and leaves the others as they are.
// Environments that fail are a *Failure.
// The episode begins a game. Only where a mask names an ended episode in Disabled, the reset does
// what an autoreset would: it goes on with the game after a lost life, unless a seed is due.
func (v *Vec) Reset(rows *Rows, mask []bool) error {
	if err := v.checkReset(rows, mask); err != nil {
		return err
	}
	v.rows, v.mask = rows, mask
	return v.hasReset(v.pool.Do(len(v.envs), v.resetAll))
}

// StartReset is Reset on other threads, beside what its caller does, who calls FinishReset
// before anything else of v. rows and mask are v's until then.
func (v *Vec) StartReset(rows *Rows, mask []bool) error {
	if err := v.checkReset(rows, mask); err != nil {
		return err
	}
	v.rows, v.mask = rows, mask
	v.pool.Start(len(v.envs), v.resetAll)
	return nil
}

// FinishReset waits for the resets of StartReset, and returns what Reset would have.
func (v *Vec) FinishReset() error { return v.hasReset(v.pool.Wait()) }

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

func (v *Vec) hasReset(err error) error {
	v.rows, v.mask = nil, nil
	return cmp.Or(err, v.failures.take())
}

// lightest is how long all environments together may take to be stepped by the caller
// alone, as waking a helper takes about as long.
const lightest = 5 * time.Microsecond

// do runs f, which returns no errors, for all environments, by the pool if that pays.
func (v *Vec) do(f func(worker, i int) error) (err error) {
	began := time.Now()
	if v.light {
		for i := range v.envs {
			_ = f(0, i)
		}
		v.light = time.Since(began) < 2*lightest || v.pool.Threads() == 1
		return nil
	}
	err = v.pool.Do(len(v.envs), f)
	v.light = v.own == nil && time.Since(began)*time.Duration(v.pool.Threads()) < lightest
	return err
}

// Step takes one action in every environment: Discrete has Len() entries of 0
// to Spec().Action.N-1, or Box as many rows within the bounds. Actions, and in Disabled the
// ends before them, are checked first, and nothing moves unless all are good; the action of
// a row that only resets (NextStep) is ignored and not looked at. Environments that fail
// are a *Failure, and the others have moved.
func (v *Vec) Step(actions Actions, rows *Rows) error {
	if err := v.check(rows); err != nil {
		return err
	}
	if err := v.checkActions(actions, len(v.envs)); err != nil {
		return err
	}
	for i := range v.envs {
		if err := v.checkStep(i, actions.of(i, len(v.spec.Action.Low))); err != nil {
			return err
		}
	}
	v.rows, v.actions = rows, actions
	err := v.do(v.stepAll)
	v.rows, v.actions = nil, Actions{}
	return cmp.Or(err, v.failures.take())
}

// checkActions refuses actions of another kind or number.
func (v *Vec) checkActions(a Actions, n int) error {
	have, want := len(a.Discrete), n
	if v.spec.Action.N == 0 {
		have, want = len(a.Box), n*len(v.spec.Action.Low)
	}
	if have != want {
		return fmt.Errorf("actions: %d, must be %d, one for each environment", have, want)
	}
	return nil
}

// StepOne takes one action in environment i, as Step does. Calls for different
// environments may run at the same time, also inside a loop of the pool.
func (v *Vec) StepOne(i int, a Action, rows *Rows) error {
	if i < 0 || i >= len(v.envs) {
		return fmt.Errorf("environment: %d, must be 0 to %d", i, len(v.envs)-1)
	}
	if err := v.check(rows); err != nil {
		return err
	}
	if err := v.checkStep(i, a); err != nil {
		return err
	}
	if stepped, err := v.step(i, a, slot{rows, i}); err != nil {
		return failureOf(err, stepped)
	}
	return nil
}

// check refuses rows of another size than the environments need.
func (v *Vec) check(r *Rows) error {
	if err := v.idle(); err != nil {
		return err
	}
	if r == nil {
		return errors.New("rows: nil, must be a Rows")
	}
	return v.checkRows(r, len(v.envs))
}

// idle says why environments may not be touched now, if so: the Vec is closed, or its
// Async has some under way.
func (v *Vec) idle() error {
	switch {
	case v.closed:
		return errClosed
	case v.async != nil && v.async.busy():
		return errUnderWay
	}
	return nil
}

// errClosed is what a Vec answers after Close.
var errClosed = fmt.Errorf("environments: %w", fault.ErrClosed)

var (
	errUnderWay = errors.New("environments: some were sent on their way and not received, must be received first")
	errFresh    = errors.New("step before reset")
	errEnded    = errors.New("step after the episode ended, must be reset first (autoreset is Disabled)")
)

func (v *Vec) checkStep(i int, a Action) error {
	spec := &v.spec.Action
	switch {
	case v.phases[i] == fresh:
		return fmt.Errorf("environment %d: %w", i, errFresh)
	case v.phases[i] == ended:
		if v.mode == Disabled {
			return fmt.Errorf("environment %d: %w", i, errEnded)
		}
		return nil // NextStep: only resets
	case spec.N > 0 && a.Box != nil:
		return fmt.Errorf("environment %d: action: a box, must be a number of 0 to %d", i, spec.N-1)
	case spec.N > 0 && (a.Discrete < 0 || int(a.Discrete) >= spec.N):
		return fmt.Errorf("environment %d: action: %d, must be 0 to %d", i, a.Discrete, spec.N-1)
	case len(a.Box) != len(spec.Low):
		return fmt.Errorf("environment %d: action: %d numbers, must be a box of %d", i, len(a.Box), len(spec.Low))
	}
	for k, x := range a.Box {
		if !(x >= spec.Low[k] && x <= spec.High[k]) {
			return fmt.Errorf("environment %d: action[%d]: %v, must be %v to %v", i, k, x, spec.Low[k], spec.High[k])
		}
	}
	return nil
}

// slot is where an environment writes: row at of rows. With rows nil that is not known
// before the step is done; the Async then gives it a slot.
type slot struct {
	rows *Rows
	at   int
}

// step and reset do the work of one row. Whatever goes wrong in them leaves
// the environment fresh, and the error is an *env.Error. stepped says that the row has
// the whole step all the same: only the reset behind it failed.

func (v *Vec) step(i int, a Action, to slot) (stepped bool, err error) {
	if v.phases[i] == ended {
		return false, v.reset(i, to, false)
	}
	defer v.failed(i, &err)
	var reward float32
	var end env.End
	e, obs := v.envs[i], v.row(i, to)
	var late env.Delayer
	if to.rows == nil {
		late, _ = e.(env.Delayer)
	}
	switch {
	case late != nil:
		reward, end, err = late.Advance(a.Discrete, a.Box)
	case a.Box != nil:
		reward, end, err = e.(env.BoxEnv).StepBox(a.Box, obs)
	default:
		reward, end, err = e.Step(a.Discrete, obs)
	}
	if err != nil {
		return false, err
	}
	if err := env.CheckReward(reward); err != nil {
		return false, err
	}
	if late != nil {
		to = v.async.claim(i)
		obs = v.row(i, to)
		late.Observe(obs)
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
	stepped = true // a panic below must not take that back
	if err := v.startEpisode(i, obs); err != nil {
		return stepped, err
	}
	v.inform(i, to.rows.Infos, to.rows.Masks, to.at)
	to.rows.Starts[to.at] = true
	return stepped, nil
}

// owed reports whether a reset by mask of environment i takes an autoreset's place.
func (v *Vec) owed(i int) bool { return v.mode == Disabled && v.phases[i] == ended }

func (v *Vec) reset(i int, to slot, restart bool) (err error) {
	defer v.failed(i, &err)
	if e, ok := v.envs[i].(env.Restarter); ok && restart {
		e.Restart()
	}
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

// startEpisode resets environment i.
func (v *Vec) startEpisode(i int, obs []byte) error {
	if err := v.envs[i].Reset(obs); err != nil {
		return err
	}
	if v.starts != nil {
		if err := v.starts.walk(v.envs[i], i, obs); err != nil {
			return err
		}
	}
	if err := v.spec.Obs.CheckFinite(obs); err != nil {
		return err
	}
	return v.readMask(i, 0)
}

// readMask asks environment i what may be done after a step that left the episode by end.
// After a termination all may: nothing will be.
func (v *Vec) readMask(i int, end env.End) error {
	if v.masks == nil {
		return nil
	}
	mask := row(v.masks, i, v.spec.Action.N)
	if end&env.Terminated != 0 {
		for a := range mask {
			mask[a] = 1
		}
		return nil
	}
	return env.ReadMask(v.envs[i], mask)
}

// row is the row of obs of a slot, or the scratch row of environment i that has none yet.
func (v *Vec) row(i int, at slot) []byte {
	if at.rows == nil {
		return v.async.scratch(i)
	}
	return row(at.rows.Obs, at.at, v.bytes)
}

// inform writes what environment i shows beside its observation.
func (v *Vec) inform(i int, columns [][]byte, masks []byte, at int) {
	if len(columns) > 0 {
		v.envs[i].(env.Informer).Inform(columns, at)
	}
	if n := v.spec.Action.N; masks != nil {
		copy(row(masks, at, n), row(v.masks, i, n))
	}
}

// failed, deferred, turns an error or a panic of environment i into an
// *env.Error.
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
