// Package vec steps many environments at once, on as many threads as asked,
// into rows of memory that belong to the caller.
//
// What holds for a Vec of them:
//
//   - The number of threads changes the time taken and nothing else. Each
//     environment has its own stream of random numbers and its own row, and
//     where several fail, the lowest index is reported.
//   - A bad argument is refused before anything has moved.
//   - Environments that fail or panic are named by a *Failure; the others take
//     their step all the same. A failed one must be reset, and its row is undefined,
//     unless the Failure says that its step counts.
//   - Steps allocate nothing (as far as the environments do not).
//   - Environments whose steps wait (env.Spec.Waits) have a thread each, up to
//     threads.Max. These hold no core of the pool's budget, and neither does the caller
//     of Step or Reset until all are done: others compute meanwhile.
//   - What begins the episode after an ended one goes on with its game, if only a life was lost
//     (env.Restarter): an autoreset, in Disabled a reset by mask. Every other Reset begins a game.
//
// Autoreset follows Gymnasium 1.x; see the constants of type Autoreset. Async steps the
// environments of a Vec asynchronously. Whoever needs only some of what they do takes
// a Source, a One or a Queue.
package vec

import (
	"errors"
	"fmt"
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
	masks  []byte // what each environment allows now, a row each; nil without Spec.Masks
	mode   Autoreset
	pool   *threads.Pool
	own    *threads.Pool // where steps wait: pool, with a thread for each environment; else nil
	light  bool          // a call is so short that helpers would come late
	closed bool
	starts *starts // nil: episodes begin where they begin
	async  *Async  // nil until it is asked for

	// Arguments of the call in progress and the loops over them, made once so
	// that a call allocates nothing.
	actions           Actions
	mask              []bool
	rows              *Rows
	stepAll, resetAll func(worker, i int) error
	failures          failures // of that call
}

// New makes n environments, one after the other, by mk(0) to mk(n-1). All must
// have the same Spec, thresholds apart. They must be reset before the first step. The Vec closes
// its environments, also when New fails; the pool stays the caller's and may
// serve several Vecs, one call at a time.
func New(mk func(i int) (env.Env, error), n int, pool *threads.Pool, mode Autoreset) (*Vec, error) {
	return build(mk, n, pool, mode, nil)
}

// build is New. With waits not nil it says, instead of their Spec, whether steps wait.
func build(mk func(i int) (env.Env, error), n int, pool *threads.Pool, mode Autoreset, waits *bool) (*Vec, error) {
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
	if v.spec.Masks {
		v.masks = make([]byte, n*v.spec.Action.N)
	}
	if waits != nil {
		v.spec.Waits = *waits
	}
	if v.spec.Waits {
		var err error
		if v.own, err = threads.NewWaiting(min(n, threads.Max), pool.Budget()); err != nil {
			return nil, errors.Join(err, v.Close())
		}
		v.pool, v.light = v.own, false
	}
	v.stepAll = func(_, i int) error {
		stepped, err := v.step(i, v.actions.of(i, len(v.spec.Action.Low)), slot{v.rows, i})
		v.failures.add(err, stepped)
		return nil
	}
	v.resetAll = func(_, i int) error {
		if v.mask == nil || v.mask[i] {
			v.failures.add(v.reset(i, slot{v.rows, i}, v.mask == nil || !v.owed(i)), false)
		}
		return nil
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
	}
	if _, ok := e.(env.Masker); !ok && s.Masks {
		return errors.New("masks: true, but the environment has no Mask")
	}
	if len(v.envs) == 1 {
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
	case s.Masks != first.Masks:
		return fmt.Errorf("masks: %v, must be that of environment 0: %v", s.Masks, first.Masks)
	case s.Waits != first.Waits:
		return fmt.Errorf("waits: %v, must be that of environment 0: %v", s.Waits, first.Waits)
	case !slices.Equal(infos, v.infos):
		return errors.New("infos: differ from those of environment 0, must be the same")
	case s.MaxSteps != first.MaxSteps:
		return fmt.Errorf("max_steps: %d, must be that of environment 0: %d", s.MaxSteps, first.MaxSteps)
	}
	return nil
}

// Spec returns the Spec that all environments have, to be read only: a copy would cost as much as the step of an environment.
func (v *Vec) Spec() *env.Spec { return &v.spec }

// Infos describes the columns of Rows.Infos; none if the environments report no more
// than their observations.
func (v *Vec) Infos() []env.InfoSpec { return v.infos }

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

// Pool returns the pool that steps the environments: that of New, or the Vec's own where
// steps wait.
func (v *Vec) Pool() *threads.Pool { return v.pool }

// Mode returns the autoreset mode.
func (v *Vec) Mode() Autoreset { return v.mode }

// SeedFor returns the seed of environment i in a run with the given seed: the
// first number of the run's stream ("env", i).
func SeedFor(seed uint64, i int) uint64 { return rng.New(seed, "env", i).Uint64() }

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
	if v.own != nil {
		v.own.Close()
	}
	return errors.Join(errs...)
}
