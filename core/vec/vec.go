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
// Autoreset follows Gymnasium 1.x; see the constants of type Autoreset.
package vec

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
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

// Rows is where a Vec of n environments writes; all of it belongs to the
// caller, and another one may be passed at every call. Row i belongs to
// environment i alone, so different ones can be written and read at once.
type Rows struct {
	// Obs has n rows of Spec().Obs.Bytes() bytes: what each environment shows now.
	Obs []byte
	// FinalObs is of the same size, and needed in SameStep only. Its row i is
	// written where Ends[i] is not 0: the last observation of the episode.
	FinalObs []byte
	// Rewards has n entries.
	Rewards []float32
	// Ends has n entries: how the step left the episode.
	Ends []env.End
	// Starts has n entries: whether the row of Obs is the first of an episode.
	// In NextStep such a row of a Step is no transition; in SameStep it comes
	// with the End of the episode before.
	Starts []bool
}

// NewRows returns Rows for n environments, FinalObs included.
func NewRows(spec env.ObsSpec, n int) *Rows {
	size := n * spec.Bytes()
	return &Rows{
		Obs:      make([]byte, size),
		FinalObs: make([]byte, size),
		Rewards:  make([]float32, n),
		Ends:     make([]env.End, n),
		Starts:   make([]bool, n),
	}
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
	mode   Autoreset
	pool   *threads.Pool
	closed bool

	// Arguments of the call in progress and the loops over them, made once so
	// that a call allocates nothing.
	actions           []int32
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
	v := &Vec{phases: make([]phase, n), mode: mode, pool: pool}
	for i := range n {
		e, err := mk(i)
		if err == nil && e == nil {
			err = errors.New("nil, must be an environment")
		}
		if err == nil {
			v.envs = append(v.envs, e)
			err = v.admit(e.Spec())
		}
		if err != nil {
			return nil, errors.Join(&env.Error{Index: i, Err: err}, v.Close())
		}
	}
	v.stepAll = func(_, i int) error { return v.step(i, v.actions[i], v.rows) }
	v.resetAll = func(_, i int) error {
		if v.mask != nil && !v.mask[i] {
			return nil
		}
		return v.reset(i, v.rows)
	}
	return v, nil
}

// admit checks the newest environment's spec against the first one's.
func (v *Vec) admit(s env.Spec) error {
	if len(v.envs) == 1 {
		v.spec, v.bytes = s, s.Obs.Bytes()
		return s.Check()
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
	case s.Action != first.Action:
		return fmt.Errorf("actions: %d, must be that of environment 0: %d", s.Action.N, first.Action.N)
	case s.MaxSteps != first.MaxSteps:
		return fmt.Errorf("max_steps: %d, must be that of environment 0: %d", s.MaxSteps, first.MaxSteps)
	}
	return nil
}

// Spec returns the Spec that all environments have.
func (v *Vec) Spec() env.Spec { return v.spec }

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
	for i, e := range v.envs {
		e.Seed(seeds[i])
	}
	return nil
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

// Step takes one action in every environment: actions has Len() entries of 0
// to Spec().Action.N-1. Actions, and in Disabled the ends before them, are
// checked first, and nothing moves unless all are good; the action of a row
// that only resets (NextStep) is ignored and not looked at.
func (v *Vec) Step(actions []int32, rows *Rows) error {
	if err := v.check(rows); err != nil {
		return err
	}
	if len(actions) != len(v.envs) {
		return fmt.Errorf("actions: %d, must be %d, one for each environment", len(actions), len(v.envs))
	}
	for i, a := range actions {
		if err := v.checkStep(i, a); err != nil {
			return err
		}
	}
	v.rows, v.actions = rows, actions
	err := v.pool.Do(len(v.envs), v.stepAll)
	v.rows, v.actions = nil, nil
	return err
}

// StepOne takes one action in environment i, as Step does. Calls for different
// environments may run at the same time, also inside a loop of the pool.
func (v *Vec) StepOne(i int, action int32, rows *Rows) error {
	if i < 0 || i >= len(v.envs) {
		return fmt.Errorf("environment: %d, must be 0 to %d", i, len(v.envs)-1)
	}
	if err := v.check(rows); err != nil {
		return err
	}
	if err := v.checkStep(i, action); err != nil {
		return err
	}
	return v.step(i, action, rows)
}

// check refuses rows of another size than the environments need.
func (v *Vec) check(r *Rows) error {
	n := len(v.envs)
	switch {
	case v.closed:
		return errors.New("environments: closed")
	case r == nil:
		return errors.New("rows: nil, must be a Rows")
	case len(r.Obs) != n*v.bytes:
		return fmt.Errorf("rows.Obs: %d bytes, must be %d (%d rows of %d)", len(r.Obs), n*v.bytes, n, v.bytes)
	case v.mode == SameStep && len(r.FinalObs) != n*v.bytes:
		return fmt.Errorf("rows.FinalObs: %d bytes, must be %d (%d rows of %d)", len(r.FinalObs), n*v.bytes, n, v.bytes)
	case len(r.Rewards) != n:
		return fmt.Errorf("rows.Rewards: %d entries, must be %d", len(r.Rewards), n)
	case len(r.Ends) != n:
		return fmt.Errorf("rows.Ends: %d entries, must be %d", len(r.Ends), n)
	case len(r.Starts) != n:
		return fmt.Errorf("rows.Starts: %d entries, must be %d", len(r.Starts), n)
	}
	return nil
}

var (
	errFresh = errors.New("step before reset")
	errEnded = errors.New("step after the episode ended, must be reset first (autoreset is Disabled)")
)

func (v *Vec) checkStep(i int, action int32) error {
	switch {
	case v.phases[i] == fresh:
		return fmt.Errorf("environment %d: %w", i, errFresh)
	case v.phases[i] == ended:
		if v.mode == Disabled {
			return fmt.Errorf("environment %d: %w", i, errEnded)
		}
		return nil // NextStep: only resets
	case action < 0 || int(action) >= v.spec.Action.N:
		return fmt.Errorf("environment %d: action: %d, must be 0 to %d", i, action, v.spec.Action.N-1)
	}
	return nil
}

// step and reset do the work of one row. Whatever goes wrong in them leaves
// the environment fresh.

func (v *Vec) step(i int, action int32, rows *Rows) (err error) {
	if v.phases[i] == ended {
		return v.reset(i, rows)
	}
	defer v.failed(i, &err)
	obs := row(rows.Obs, i, v.bytes)
	reward, end, err := v.envs[i].Step(action, obs)
	if err != nil {
		return err
	}
	if err := env.CheckReward(reward); err != nil {
		return err
	}
	if err := v.spec.Obs.CheckFinite(obs); err != nil {
		return err
	}
	start := false
	if end != 0 {
		if v.mode == SameStep {
			copy(row(rows.FinalObs, i, v.bytes), obs)
			if err := v.envs[i].Reset(obs); err != nil {
				return err
			}
			if err := v.spec.Obs.CheckFinite(obs); err != nil {
				return err
			}
			start = true
		} else {
			v.phases[i] = ended
		}
	}
	rows.Rewards[i], rows.Ends[i], rows.Starts[i] = reward, end, start
	return nil
}

func (v *Vec) reset(i int, rows *Rows) (err error) {
	defer v.failed(i, &err)
	obs := row(rows.Obs, i, v.bytes)
	if err := v.envs[i].Reset(obs); err != nil {
		return err
	}
	if err := v.spec.Obs.CheckFinite(obs); err != nil {
		return err
	}
	v.phases[i] = running
	rows.Rewards[i], rows.Ends[i], rows.Starts[i] = 0, 0, true
	return nil
}

// failed, deferred, turns an error or a panic of environment i into an
// *env.Error.
func (v *Vec) failed(i int, err *error) {
	if r := recover(); r != nil {
		*err = &env.PanicError{Value: r, Stack: debug.Stack()}
	}
	if *err != nil {
		v.phases[i] = fresh
		*err = &env.Error{Index: i, Err: *err}
	}
}

func row(b []byte, i, size int) []byte { return b[i*size : (i+1)*size : (i+1)*size] }

const saveVersion = 1

// Save returns the whole state of environment i, the stream included, except
// for its row, which is the caller's. The environment must be an env.Saver.
func (v *Vec) Save(i int) ([]byte, error) {
	s, err := v.saver(i)
	if err != nil {
		return nil, err
	}
	state, err := s.Save()
	if err != nil {
		return nil, &env.Error{Index: i, Err: err}
	}
	return append([]byte{saveVersion, byte(v.phases[i])}, state...), nil
}

// Restore puts environment i into a state that Save returned, of any
// environment of the same kind and autoreset mode. After an error it must be
// reset.
func (v *Vec) Restore(i int, state []byte) error {
	s, err := v.saver(i)
	if err != nil {
		return err
	}
	v.phases[i] = fresh
	if len(state) < 2 || state[0] != saveVersion || phase(state[1]) > ended || phase(state[1]) == ended && v.mode == SameStep {
		return &env.Error{Index: i, Err: errors.New("state: not one that Save of a vector environment returned")}
	}
	if err := s.Restore(state[2:]); err != nil {
		return &env.Error{Index: i, Err: err}
	}
	v.phases[i] = phase(state[1])
	return nil
}

func (v *Vec) saver(i int) (env.Saver, error) {
	if i < 0 || i >= len(v.envs) {
		return nil, fmt.Errorf("environment: %d, must be 0 to %d", i, len(v.envs)-1)
	}
	s, ok := v.envs[i].(env.Saver)
	if !ok {
		return nil, &env.Error{Index: i, Err: fmt.Errorf("%s has no save and restore", v.spec.ID)}
	}
	return s, nil
}

// Render returns an RGB picture of environment i, which must be an
// env.Renderer.
func (v *Vec) Render(i int) (rgb []byte, width, height int, err error) {
	if i < 0 || i >= len(v.envs) {
		return nil, 0, 0, fmt.Errorf("environment: %d, must be 0 to %d", i, len(v.envs)-1)
	}
	r, ok := v.envs[i].(env.Renderer)
	if !ok {
		return nil, 0, 0, &env.Error{Index: i, Err: fmt.Errorf("%s cannot be rendered", v.spec.ID)}
	}
	if rgb, width, height, err = r.Render(); err != nil {
		err = &env.Error{Index: i, Err: err}
	}
	return rgb, width, height, err
}

// Close closes the environments; calling it again does nothing. The pool is
// left open.
func (v *Vec) Close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	var errs []error
	for i, e := range v.envs {
		if err := e.Close(); err != nil {
			errs = append(errs, &env.Error{Index: i, Err: err})
		}
	}
	return errors.Join(errs...)
}
