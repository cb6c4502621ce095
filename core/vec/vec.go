// Package vec steps many environments at once, on as many threads as asked,
// into rows of memory that belong to the caller.
//
// What holds for a Vec of them:
//
//   - The number of threads changes the time taken and nothing else. Each
//     environment has its own stream of random numbers and its own row, and
//     where several fail, the lowest index is reported.
//   - A bad argument is refused before anything has moved.
//   - An environment that fails or panics is an *env.Error with its index; the
//     others take their step all the same. The failed one's row is undefined
//     and it must be reset.
//   - Steps allocate nothing (as far as the environments do not).
//
// Autoreset follows Gymnasium 1.x; see the constants of type Autoreset. Async steps the
// environments of a Vec apart from one another.
package vec

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

// Autoreset says what happens to an environment whose episode has ended, in
// the words of Gymnasium 1.x.
type Autoreset uint8

const (
	// NextStep: the step after the end ignores its action and resets instead:
	// the row holds the first observation, reward 0 and no End. Such a row is
	// no transition.
	NextStep Autoreset = iota
	// SameStep: the environment is reset at once. The row holds the first
	// observation of the next episode beside the reward and the End of the last
	// one, whose last observation is in FinalObs.
	SameStep
	// Disabled: the caller resets it by mask; stepping it before is an error.
	Disabled
)

// String returns Gymnasium's name: "NextStep", "SameStep" or "Disabled".
func (a Autoreset) String() string {
	switch a {
	case NextStep:
		return "NextStep"
	case SameStep:
		return "SameStep"
	case Disabled:
		return "Disabled"
	}
	return fmt.Sprintf("Autoreset(%d)", uint8(a))
}

// phase is what an environment is ready for.
type phase uint8

const (
	fresh   phase = iota // never reset, or failed: only a Reset helps
	running              // in an episode
	ended                // after the last step of an episode (not in SameStep)
)

// Vec is n environments of one kind. Its methods must not run at the same
// time, with the exception of StepOne for different environments.
type Vec struct {
	envs   []env.Env
	phases []phase
	spec   env.Spec
	bytes  int // of one observation
	infos  []env.InfoSpec
	mode   Autoreset
	pool   *threads.Pool
	light  bool // a call is so short that helpers would come late
	closed bool
	starts *starts // nil: episodes begin where they begin
	async  *Async  // nil until it is asked for

	// Arguments of the call in progress and the loops over them, made once so
	// that a call allocates nothing.
	actions           Actions
	mask              []bool
	rows              *Rows
	stepAll, resetAll func(worker, i int) error
}

// New makes n environments, one after the other, by mk(0) to mk(n-1). All must
// have the same Spec, thresholds apart. They must be reset before the first step. The Vec closes
// its environments, also when New fails; the pool stays the caller's and may
// serve several Vecs, one call at a time.
func New(mk func(i int) (env.Env, error), n int, pool *threads.Pool, mode Autoreset) (*Vec, error) {
	if n < 1 {
		return nil, fmt.Errorf("num_envs: %d, must be at least 1", n)
	}
	if mode > Disabled {
		return nil, fmt.Errorf("autoreset: %d, must be NextStep (0), SameStep (1) or Disabled (2)", mode)
	}
	if pool == nil {
		return nil, errors.New("pool: nil, must be a threads.Pool")
	}
	v := &Vec{phases: make([]phase, n), mode: mode, pool: pool, light: true}
	for i := range n {
		e, err := mk(i)
		if err == nil && e == nil {
			err = errors.New("nil, must be an environment")
		}
		if err == nil {
			v.envs = append(v.envs, e)
			if e, ok := e.(env.Numbered); ok {
				e.Number(i)
			}
			err = v.admit(e)
		}
		if err != nil {
			return nil, errors.Join(&env.Error{Index: i, Err: err}, v.Close())
		}
	}
	v.stepAll = func(_, i int) error {
		action, box := v.actions.of(i, len(v.spec.Action.Low))
		return v.step(i, action, box, place{v.rows, i})
	}
	v.resetAll = func(_, i int) error {
		if v.mask != nil && !v.mask[i] {
			return nil
		}
		return v.reset(i, place{v.rows, i})
	}
	return v, nil
}

// admit checks the newest environment's spec against the first one's.
func (v *Vec) admit(e env.Env) error {
	s := e.Spec()
	var infos []env.InfoSpec
	if e, ok := e.(env.Informer); ok {
		infos = e.Infos()
	}
	if len(v.envs) == 1 {
		v.spec, v.bytes, v.infos = s, s.Obs.Bytes(), infos
		if err := s.Check(); err != nil {
			return err
		}
		if _, ok := e.(env.BoxEnv); !ok && s.Action.N == 0 {
			return errors.New("actions: a box, which the environment has no StepBox for")
		}
		return nil
	}
	first := v.spec
	switch {
	case s.ID != first.ID:
		return fmt.Errorf("id: %q, must be that of environment 0: %q", s.ID, first.ID)
	case s.Obs.DType != first.Obs.DType:
		return fmt.Errorf("observation dtype: %v, must be that of environment 0: %v", s.Obs.DType, first.Obs.DType)
	case !slices.Equal(s.Obs.Shape, first.Obs.Shape):
		return fmt.Errorf("observation shape: %v, must be that of environment 0: %v", s.Obs.Shape, first.Obs.Shape)
	case s.Obs.FrameStack != first.Obs.FrameStack:
		return fmt.Errorf("observation frame_stack: %d, must be that of environment 0: %d", s.Obs.FrameStack, first.Obs.FrameStack)
	case !slices.Equal(s.Obs.Low, first.Obs.Low) || !slices.Equal(s.Obs.High, first.Obs.High):
		return errors.New("observation bounds: differ from those of environment 0, must be the same")
	case !s.Action.Equal(first.Action):
		return fmt.Errorf("actions: %v, must be those of environment 0: %v", s.Action, first.Action)
	case !slices.Equal(infos, v.infos):
		return errors.New("infos: differ from those of environment 0, must be the same")
	case s.MaxSteps != first.MaxSteps:
		return fmt.Errorf("max_steps: %d, must be that of environment 0: %d", s.MaxSteps, first.MaxSteps)
	}
	return nil
}

// Spec returns the Spec that all environments have.
func (v *Vec) Spec() env.Spec { return v.spec }

// InfoSpecs describes the columns of Rows.Infos; none if the environments tell no more
// than their observations.
func (v *Vec) InfoSpecs() []env.InfoSpec { return v.infos }

// Recipe returns the name and the hash of the recipe that the environments follow, both
// "" if they have none.
func (v *Vec) Recipe() (name, hash string) {
	if e, ok := v.envs[0].(env.Named); ok {
		return e.Recipe()
	}
	return "", ""
}

// Len returns the number of environments.
func (v *Vec) Len() int { return len(v.envs) }

// Mode returns the autoreset mode.
func (v *Vec) Mode() Autoreset { return v.mode }

// Resetting tells whether the next step of environment i ignores its action
// and resets: only in NextStep, after the end of an episode.
func (v *Vec) Resetting(i int) bool { return v.mode == NextStep && v.phases[i] == ended }

// SeedFor returns the seed of environment i in a run with the given seed: the
// first number of the run's stream ("env", i).
func SeedFor(seed uint64, i int) uint64 { return rng.New(seed, "env", i).Uint64() }

// Seed restarts each environment's stream from its own seed; it takes effect
// at the next reset. There must be Len() seeds.
func (v *Vec) Seed(seeds []uint64) error {
	if len(seeds) != len(v.envs) {
		return fmt.Errorf("seeds: %d, must be %d, one for each environment", len(seeds), len(v.envs))
	}
	for i, seed := range seeds {
		v.SeedOne(i, seed)
	}
	return nil
}

// SeedOne restarts the stream of environment i, 0 to Len()-1.
func (v *Vec) SeedOne(i int, seed uint64) {
	v.envs[i].Seed(seed)
	if v.starts != nil {
		v.starts.seed(i, seed)
	}
}

// Reset begins an episode in every environment, or where mask is true: a mask
// has Len() entries, one of them true at least. It writes Obs, Rewards (0),
// Ends (0) and Starts (true) of these rows and leaves the others as they are.
func (v *Vec) Reset(rows *Rows, mask []bool) error {
	if err := v.check(rows); err != nil {
		return err
	}
	if mask != nil {
		if len(mask) != len(v.envs) {
			return fmt.Errorf("reset_mask: %d entries, must be %d", len(mask), len(v.envs))
		}
		if !slices.Contains(mask, true) {
			return errors.New("reset_mask: no entry is true, at least one must be")
		}
	}
	v.rows, v.mask = rows, mask
	err := v.pool.Do(len(v.envs), v.resetAll)
	v.rows, v.mask = nil, nil
	return err
}

// lightest is how long all environments together may take to be stepped by the caller
// alone, as waking a helper takes about as long.
const lightest = 5 * time.Microsecond

// do runs f for all environments, by the pool if that pays.
func (v *Vec) do(f func(worker, i int) error) (err error) {
	began := time.Now()
	if v.light {
		for i := range v.envs {
			if e := f(0, i); e != nil && err == nil {
				err = e
			}
		}
		v.light = time.Since(began) < 2*lightest || v.pool.Threads() == 1
		return err
	}
	err = v.pool.Do(len(v.envs), f)
	v.light = time.Since(began)*time.Duration(v.pool.Threads()) < lightest
	return err
}

// Step takes one action in every environment: Discrete has Len() entries of 0
// to Spec().Action.N-1, or Box as many rows within the bounds. Actions, and in Disabled the
// ends before them, are checked first, and nothing moves unless all are good; the action of
// a row that only resets (NextStep) is ignored and not looked at.
func (v *Vec) Step(actions Actions, rows *Rows) error {
	if err := v.check(rows); err != nil {
		return err
	}
	if err := v.checkActions(actions, len(v.envs)); err != nil {
		return err
	}
	for i := range v.envs {
		action, box := actions.of(i, len(v.spec.Action.Low))
		if err := v.checkStep(i, action, box); err != nil {
			return err
		}
	}
	v.rows, v.actions = rows, actions
	err := v.do(v.stepAll)
	v.rows, v.actions = nil, Actions{}
	return err
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

// StepOne takes one discrete action in environment i, as Step does. Calls for different
// environments may run at the same time, also inside a loop of the pool.
func (v *Vec) StepOne(i int, action int32, rows *Rows) error {
	if i < 0 || i >= len(v.envs) {
		return fmt.Errorf("environment: %d, must be 0 to %d", i, len(v.envs)-1)
	}
	if err := v.check(rows); err != nil {
		return err
	}
	if err := v.checkStep(i, action, nil); err != nil {
		return err
	}
	return v.step(i, action, nil, place{rows, i})
}

// check refuses rows of another size than the environments need.
func (v *Vec) check(r *Rows) error {
	if err := v.Idle(); err != nil {
		return err
	}
	if r == nil {
		return errors.New("rows: nil, must be a Rows")
	}
	return v.checkRows(r, len(v.envs))
}

// Idle tells why environments may not be touched now, if so: the Vec is closed, or its
// Async has some under way.
func (v *Vec) Idle() error {
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

func (v *Vec) checkStep(i int, action int32, box []float32) error {
	spec := &v.spec.Action
	switch {
	case v.phases[i] == fresh:
		return fmt.Errorf("environment %d: %w", i, errFresh)
	case v.phases[i] == ended:
		if v.mode == Disabled {
			return fmt.Errorf("environment %d: %w", i, errEnded)
		}
		return nil // NextStep: only resets
	case spec.N > 0 && (action < 0 || int(action) >= spec.N):
		return fmt.Errorf("environment %d: action: %d, must be 0 to %d", i, action, spec.N-1)
	case len(box) != len(spec.Low):
		return fmt.Errorf("environment %d: action: a number, must be a box of %d", i, len(spec.Low))
	}
	for k, x := range box {
		if !(x >= spec.Low[k] && x <= spec.High[k]) {
			return fmt.Errorf("environment %d: action[%d]: %v, must be %v to %v", i, k, x, spec.Low[k], spec.High[k])
		}
	}
	return nil
}

// place is where an environment writes: row at of rows. With rows nil that is not known
// before the step is done; the Async then gives it a place.
type place struct {
	rows *Rows
	at   int
}

// step and reset do the work of one row. Whatever goes wrong in them leaves
// the environment fresh.

func (v *Vec) step(i int, action int32, box []float32, to place) (err error) {
	if v.phases[i] == ended {
		return v.reset(i, to)
	}
	defer v.failed(i, &err)
	var reward float32
	var end env.End
	e, obs := v.envs[i], v.row(i, to)
	late, _ := e.(env.Delayer)
	switch {
	case to.rows == nil && late != nil:
		reward, end, err = late.Advance(action, box)
	case box != nil:
		reward, end, err = e.(env.BoxEnv).StepBox(box, obs)
	default:
		reward, end, err = e.Step(action, obs)
	}
	if err != nil {
		return err
	}
	if err := env.CheckReward(reward); err != nil {
		return err
	}
	if to.rows == nil && late != nil {
		to = v.async.claim(i)
		obs = v.row(i, to)
		late.Observe(obs)
	}
	if err := v.spec.Obs.CheckFinite(obs); err != nil {
		return err
	}
	if to.rows == nil {
		to = v.async.claim(i)
		copy(v.row(i, to), obs)
		obs = v.row(i, to)
	}
	to.rows.Rewards[to.at], to.rows.Ends[to.at], to.rows.Starts[to.at] = reward, end, false
	v.inform(i, to.rows.Infos, to.at)
	if !end.Over() {
		return nil
	}
	if v.mode != SameStep {
		v.phases[i] = ended
		return nil
	}
	copy(row(to.rows.FinalObs, to.at, v.bytes), obs)
	v.inform(i, to.rows.FinalInfos, to.at)
	if err := v.begin(i, obs); err != nil {
		return err
	}
	v.inform(i, to.rows.Infos, to.at)
	to.rows.Starts[to.at] = true
	return nil
}

func (v *Vec) reset(i int, to place) (err error) {
	defer v.failed(i, &err)
	obs := v.row(i, to)
	if err := v.begin(i, obs); err != nil {
		return err
	}
	if to.rows == nil {
		to = v.async.claim(i)
		copy(v.row(i, to), obs)
	}
	v.inform(i, to.rows.Infos, to.at)
	v.phases[i] = running
	to.rows.Rewards[to.at], to.rows.Ends[to.at], to.rows.Starts[to.at] = 0, 0, true
	return nil
}

// begin resets environment i.
func (v *Vec) begin(i int, obs []byte) error {
	if err := v.envs[i].Reset(obs); err != nil {
		return err
	}
	if v.starts != nil {
		if err := v.starts.walk(v.envs[i], i, obs); err != nil {
			return err
		}
	}
	return v.spec.Obs.CheckFinite(obs)
}

// row is the row of obs of a place, or the room of environment i that has none yet.
func (v *Vec) row(i int, at place) []byte {
	if at.rows == nil {
		return v.async.room(i)
	}
	return row(at.rows.Obs, at.at, v.bytes)
}

func (v *Vec) inform(i int, columns [][]byte, at int) {
	if len(columns) > 0 {
		v.envs[i].(env.Informer).Inform(columns, at)
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

// Close closes the environments; calling it again does nothing. The pool is
// left open.
func (v *Vec) Close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	if v.async != nil {
		v.async.close()
	}
	var errs []error
	for i, e := range v.envs {
		if err := e.Close(); err != nil {
			errs = append(errs, &env.Error{Index: i, Err: err})
		}
	}
	return errors.Join(errs...)
}
