// Package vec steps several environments in parallel and writes the results to rows of memory
// that belong to the caller.
//
// Invariants of a Vec:
//
//   - The number of threads does not change the results. Each environment has its own random
//     stream and its own row. If several environments fail, the error is that of the lowest index.
//   - Arguments are checked before any environment moves.
//   - A *Failure lists the environments that failed or panicked. All other environments take
//     their step. A failed environment must be reset. Its row is undefined, unless the Failure
//     says that the step counts (FailedRow.Stepped).
//   - A step allocates nothing, apart from what the environments allocate.
//   - If steps wait (env.Spec.Waits), each environment has a thread, up to threads.Max threads.
//     These threads hold no core of the pool's budget. The caller of Step or Reset gives up its
//     core until all environments are done.
//   - An autoreset after a lost life continues the game (env.Restarter). In mode Disabled a reset
//     by mask replaces the autoreset and does the same. Every other Reset begins a new game.
//
// Autoreset follows Gymnasium 1.x; see the constants of type Autoreset. Async steps the
// environments of a Vec asynchronously. Source, SingleStepper and Queue are the interfaces for
// callers that use only part of a Vec or an Async.
package vec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

// Autoreset says how an environment is reset after the end of an episode. The names are
// Gymnasium's.
type Autoreset uint8

const (
	// NextStep resets in the step after the end. That step ignores its action. Its row holds the
	// first observation, reward 0 and no End, and is not a transition.
	NextStep Autoreset = iota
	// SameStep resets in the step that ends the episode. The row holds the reward and the End of
	// that step and the first observation of the next episode. FinalObs holds the last
	// observation of the ended episode.
	SameStep
	// Disabled never resets: the caller resets by mask. A step before that reset is an error.
	Disabled
)

// phase is the state of an environment between two calls.
type phase uint8

const (
	fresh   phase = iota // never reset, or failed: only Reset is allowed
	running              // in an episode
	ended                // after the last step of an episode; never in SameStep
)

// Vec is n environments with equal Specs. Its methods must not run concurrently. The exception is
// StepOne for different environments.
type Vec struct {
	envs   []env.Env
	phases []phase
	spec   env.Spec
	bytes  int // of one observation
	width  width
	infos  []env.InfoSpec
	// masks is [n][maskBytes], the current action masks; nil without Spec.Masks.
	masks     []byte
	maskBytes int
	mode      Autoreset
	pool      *threads.Pool // runs the loops: the pool of New, or waiting
	closed    bool
	part      bool   // the environments belong to another Vec
	async     *Async // nil before the first call of Async

	// waiting has a thread for each environment. It is nil if steps do not wait.
	waiting *threads.Pool
	// serial says that the next Step runs on the caller's thread alone; see serialTime.
	serial        bool
	decorrelation *decorrelation // nil without random first steps
	batched       bool           // the environments step together in one call
	batches       *batches       // nil if they do not

	// The arguments of the call in progress and the two loops over the environments. The loops
	// are made once, so that a call allocates nothing.
	actions           Actions
	mask              []bool
	rows              *Rows
	stepAll, resetAll func(worker, i int) error
	skipsNone         func(i int) bool // returns false
	failures          failures         // of the call in progress
}

// New makes n environments by mk(0) to mk(n-1), one after the other. All must have the same Spec,
// apart from the threshold. The environments must be reset before the first step. The Vec closes
// its environments, also if New fails. The pool remains the caller's. Several Vecs may use it,
// one call at a time.
func New(mk func(i int) (env.Env, error), n int, pool *threads.Pool, mode Autoreset) (*Vec, error) {
	return build(mk, n, pool, mode, nil)
}

// build is New. If waits is not nil, it replaces Spec.Waits.
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
	v := &Vec{phases: make([]phase, n), mode: mode, pool: pool, serial: true}
	for i := range n {
		e, err := mk(i)
		if err == nil && e == nil {
			err = errors.New("nil, must be an environment")
		}
		if err == nil {
			v.envs = append(v.envs, e)
			if e, ok := e.(env.Indexed); ok {
				e.SetIndex(i)
			}
			err = v.admit(e)
		}
		if err != nil {
			return nil, errors.Join(&env.Error{Index: i, Err: err}, v.Close())
		}
	}
	if waits != nil {
		v.spec.Waits = *waits
	}
	if err := v.open(); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// open makes what steps the environments.
func (v *Vec) open() (err error) {
	n := len(v.envs)
	if v.spec.Masks {
		v.masks = make([]byte, n*v.maskBytes)
	}
	if v.spec.Waits {
		if v.waiting, err = threads.NewWaiting(min(n, threads.Max), v.pool.Budget()); err != nil {
			return err
		}
		v.pool, v.serial = v.waiting, false
	}
	if v.batched {
		v.batches = newBatches(n)
		v.skipsNone = func(int) bool { return false }
	}
	v.stepAll = func(_, i int) error {
		stepped, err := v.step(i, v.actions.of(i, v.width), slot{v.rows, i})
		v.failures.add(err, stepped)
		return nil
	}
	v.resetAll = func(_, i int) error {
		if v.mask == nil || v.mask[i] {
			newGame := v.mask == nil || !v.replacesAutoreset(i)
			v.failures.add(v.reset(i, slot{v.rows, i}, newGame), false)
		}
		return nil
	}
	return nil
}

// admit compares the Spec of the newest environment with that of environment 0.
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
		v.width, v.maskBytes = width{s.Action.Ints(), s.Action.Floats()}, s.Action.Logits()
	}
	if err := s.Action.CheckEnv(e); err != nil {
		return err
	}
	if _, ok := e.(env.Masker); !ok && s.Masks {
		return errors.New("masks: true, but the environment has no Mask")
	}
	if err := v.checkBatcher(e, s.Waits); err != nil || len(v.envs) == 1 {
		return err
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
	case !s.Action.EqualKind(first.Action):
		return fmt.Errorf("actions: %v, must be those of environment 0: %v", s.Action, first.Action)
	case !s.Action.EqualBounds(first.Action):
		return errors.New("action bounds: differ from those of environment 0, must be the same")
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

// Spec returns the Spec of all environments. The caller must not change it. Spec returns no copy,
// because a copy takes as long as the step of a small environment.
func (v *Vec) Spec() *env.Spec { return &v.spec }

// Infos describes the columns of Rows.Infos. It is empty if the environments have no infos.
func (v *Vec) Infos() []env.InfoSpec { return v.infos }

// Recipe returns the name and the hash of the environments' recipe, or "" and "" without a recipe.
func (v *Vec) Recipe() (name, hash string) {
	if e, ok := v.envs[0].(env.RecipeEnv); ok {
		return e.Recipe()
	}
	return "", ""
}

// Len returns the number of environments.
func (v *Vec) Len() int { return len(v.envs) }

// Pool returns the pool that steps the environments: the pool of New, or the Vec's own pool if
// steps wait.
func (v *Vec) Pool() *threads.Pool { return v.pool }

// Mode returns the autoreset mode.
func (v *Vec) Mode() Autoreset { return v.mode }

// SeedFor returns the seed of environment i in a run with the given seed: the first number of the
// run's stream ("env", i).
func SeedFor(seed uint64, i int) uint64 { return rng.New(seed, "env", i).Uint64() }

// Close closes the environments, but not the pool of New. A second Close does nothing.
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
		if v.part {
			break
		}
		if err := e.Close(); err != nil {
			errs = append(errs, &env.Error{Index: i, Err: err})
		}
	}
	if v.waiting != nil {
		v.waiting.Close()
	}
	return errors.Join(errs...)
}
