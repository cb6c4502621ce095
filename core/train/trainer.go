package train

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// Trainer is one run of a method: environments, or the rows of those that the host steps,
// experience, networks and updates.
type Trainer struct {
	def    *Definition
	cfg    *Config // resolved
	common *Common
	spec   env.Spec

	calls   sync.Mutex // held by the call in progress
	closing atomic.Bool
	closed  bool
	broken  error // a panic, which ends every later call

	method Method
	optional
	external *externalUpdates // nil: the updates are the trainer's own
	source   *vec.Vec         // nil where the host steps
	cores    *threads.Budget  // num_threads: the caller holds one inside a call
	pool     *threads.Pool
	device   nn.Device
	lost     string // why the GPU is lost; "": it is not
	monitor  *Monitor

	begun    bool // a run was begun
	implied  bool // Run has begun the run, or a load
	end      int64
	halted   bool // after Stop: updates that are due wait for the next step
	stopping atomic.Bool

	needsReset bool // after a load: the next Begin must reset the environments
	acted      bool // between Act and Observe, where the host steps
}

// New makes a Trainer that steps its own environments. mk(i) makes environment i, already seeded.
// If mk is nil the environments are those of the setting env, seeded by vec.SeedFor.
func New(cfg *Config, mk func(i int) (env.Env, error)) (*Trainer, error) {
	t, setup, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if mk == nil {
		setup.Trusted = true
		t.source, err = t.makeBuiltIn(setup)
	} else {
		of := func(i int) (env.Env, error) { return mk(setup.FirstEnv + i) }
		t.source, err = vec.New(of, t.common.NumEnvs, t.pool, t.autoreset())
		if err == nil {
			err = t.fit(setup, *t.source.Spec())
		}
	}
	if err != nil {
		return nil, errors.Join(err, t.closeParts())
	}
	t.spec.Waits = t.source.Spec().Waits // env_options may set it
	setup.Source, setup.Spec.Waits, setup.Disabled = t.source, t.spec.Waits, t.autoreset() == vec.Disabled
	return t, t.make(setup)
}

// autoreset is the mode of the source that the settings ask for.
func (t *Trainer) autoreset() vec.Autoreset {
	if s, ok := t.cfg.settings().(LateResets); ok && s.ResetsLate() {
		return vec.Disabled
	}
	return vec.SameStep
}

// NewPushed makes a Trainer for environments that the host steps, with Act and Observe.
func NewPushed(cfg *Config, spec env.Spec) (*Trainer, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	t, setup, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	spec.Masks = t.common.ActionMasks
	if err = t.fit(setup, spec); err == nil && t.autoreset() == vec.Disabled {
		err = errors.New("mid_batch_reset: false, must be true where the caller steps the environments, and so resets them")
	}
	if err != nil {
		return nil, errors.Join(err, t.closeParts())
	}
	if t.common.Groups > 1 {
		t.monitor.Notify("groups: %d, where the caller steps all environments in one call, changes nothing", t.common.Groups)
	}
	return t, t.make(setup)
}

// prepare makes everything that does not depend on the environments.
func prepare(cfg *Config) (*Trainer, *Setup, error) {
	t := &Trainer{def: cfg.def, cfg: cfg.Clone()}
	notices, err := t.cfg.settings().Resolve()
	if err != nil {
		return nil, nil, err
	}
	t.common = t.cfg.Common()
	if err := checkDevice(t.common); err != nil {
		return nil, nil, err
	}
	if g, w := t.common.Groups, t.common.NumEnvs; g > w {
		return nil, nil, fmt.Errorf("groups: %d, must be at most num_envs (%d)", g, w)
	}
	t.monitor = newMonitor(t.common.StatsWindowSize)
	t.monitor.notices = notices
	if err := cpu.Err(); err != nil { // PACELINE_ISA names instructions that this machine lacks
		return nil, nil, err
	}
	n := t.common.NumThreads
	if n == 0 {
		n = threads.Cores
	}
	if t.cores, err = threads.NewBudget(n); err != nil {
		return nil, nil, err
	}
	if t.pool, err = threads.NewPool(n, t.cores); err != nil {
		return nil, nil, err
	}
	t.monitor.use.cores = n
	setup := &Setup{Config: t.cfg.settings(), Common: t.common, Cores: t.cores, Pool: t.pool, Monitor: t.monitor, cfg: t.cfg}
	if o := outsideOf(setup.Config); o != nil {
		t.external = &externalUpdates{}
		setup.Learners, setup.FirstEnv = o.OutsideLearners, o.OutsideLearner*t.common.NumEnvs
	}
	return t, setup, nil
}

// makeBuiltIn makes the environments of the setting env, after memory for them and for everything
// else was admitted.
func (t *Trainer) makeBuiltIn(setup *Setup) (*vec.Vec, error) {
	c := t.common
	if c.Env == "" {
		return nil, fmt.Errorf("env: empty, must name a built-in environment (%s)", env.Known())
	}
	options, err := env.ParseOptions(c.EnvOptions)
	if err != nil {
		return nil, err
	}
	v, err := vec.Make(c.Env, options, c.NumEnvs, uint64(c.Seed), t.pool, t.autoreset(), func(first env.Env) error {
		return t.fit(setup, first.Spec(), vec.Bytes(first, c.NumEnvs))
	})
	if err != nil || setup.FirstEnv == 0 {
		return v, err
	}
	seeds := make([]uint64, c.NumEnvs)
	for i := range seeds {
		seeds[i] = vec.SeedFor(uint64(c.Seed), setup.FirstEnv+i)
	}
	return v, v.Seed(seeds, nil)
}

// fit adapts setup and the settings to environments of this spec, opens the device and admits the
// memory of the run, together with parts.
func (t *Trainer) fit(setup *Setup, spec env.Spec, parts ...limits.Part) error {
	if err := t.checkSpec(setup, spec); err != nil {
		return err
	}
	return t.openAndAdmit(setup, parts...)
}

// checkSpec checks that the method can learn in environments of this spec. It sets the specs of t
// and setup, the setting action_masks and the settings of the policy.
func (t *Trainer) checkSpec(setup *Setup, spec env.Spec) error {
	setup.Spec = spec
	if t.common.FrameStack > 0 {
		setup.Spec.Obs.FrameStack = t.common.FrameStack
		setup.Trusted = false
		if err := setup.Spec.Obs.CheckStack(); err != nil {
			return err
		}
	}
	t.spec = setup.Spec
	switch {
	case t.common.ActionMasks && !t.spec.Masks:
		return fmt.Errorf("action_masks: true, must be false: %s gives none", cmp.Or(t.spec.ID, "the environment"))
	case t.spec.Masks && !t.def.Masks:
		return fmt.Errorf("action_masks: true, must be false: %s does not use them", t.def.Name)
	}
	if err := t.def.checkAction(t.spec.Action); err != nil {
		return err
	}
	t.common.ActionMasks = t.spec.Masks
	if err := t.cfg.fitPolicy(t.spec.Obs); err != nil {
		return err
	}
	t.noticeUnused()
	return nil
}

// openAndAdmit opens the device, on which the method's memory depends. Then it admits that memory,
// together with parts.
func (t *Trainer) openAndAdmit(setup *Setup, parts ...limits.Part) error {
	if err := t.openDevice(); err != nil {
		return err
	}
	setup.Device = t.device
	if t.external != nil {
		setup.Device = &outsideDevice{t.device, t.external}
	}
	own, err := t.def.Memory(setup)
	if err != nil {
		return err
	}
	return limits.Admit(append(own, parts...)...)
}

// noticeUnused tells the user of layers that the policy does not have. The policy is resolved.
func (t *Trainer) noticeUnused() {
	name := map[string]string{PolicyMLP: "cnn", PolicyCNN: "activation_fn"}[t.common.Policy]
	value, err := t.cfg.Get(name)
	if err != nil {
		return // a method may have no such setting
	}
	if usual, _ := t.cfg.Table().Defaults().Get(name); value != usual {
		t.monitor.Notify("%s: %s is not used where policy is %s", name, value, t.common.Policy)
	}
}

// make makes the method. If it fails it closes pool, source and device.
func (t *Trainer) make(setup *Setup) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, t.closeParts())
		}
		limits.Collect()
	}()
	if t.method, err = t.def.New(setup); err != nil {
		return err
	}
	t.optional = optionalOf(t.method)
	if o := t.external; o != nil {
		var ok bool
		if o.learner, ok = t.method.(Learner); !ok {
			return fmt.Errorf("updates: outside, must be own for %s", t.def.Name)
		}
		o.learner.BeforeUpdates(o.begin)
	}
	if t.tunable != nil {
		knobs := t.tunable.Knobs()
		t.monitor.speed.knobs = &knobs
	}
	if t.pushed == nil && t.source == nil {
		return fmt.Errorf("method: %s, cannot learn in environments that the caller steps", t.def.Name)
	}
	t.publish()
	return nil
}

// enter begins a call that computes, and waits for a core. The deferred leave ends the call, and
// turns a panic into an error after which this Trainer is unusable.
func (t *Trainer) enter() error {
	if err := t.lock(); err != nil {
		return err
	}
	t.monitor.start()
	t.cores.Acquire() // an update on another goroutine releases its core when it ends
	t.monitor.Lap(Waiting)
	return nil
}

// lock refuses the call if another one is in progress.
func (t *Trainer) lock() error {
	locked := t.calls.TryLock()
	switch {
	case t.closing.Load():
		if locked {
			t.calls.Unlock()
		}
		return fault.ErrClosed
	case !locked:
		return fault.ErrBusy
	case t.broken != nil:
		defer t.calls.Unlock()
		return t.broken
	}
	return nil
}

// Busy reports whether a call is in progress. Environments step inside calls alone.
func (t *Trainer) Busy() bool {
	idle := t.calls.TryLock()
	if idle {
		t.calls.Unlock()
	}
	return !idle
}

func (t *Trainer) leave(err *error) {
	if r := recover(); r != nil {
		*err = fault.Caught(r)
	}
	if fault.Spoils(*err) != nil {
		t.broken = *err
	}
	if t.broken == nil {
		t.publish()
	}
	t.cores.Release(1)
	t.calls.Unlock()
}

// Spec describes the environments, to be read only.
func (t *Trainer) Spec() *env.Spec { return &t.spec }

// Env returns the environments' name, and the name and hash of their recipe, or "" if there is
// none.
func (t *Trainer) Env() (name, recipe, hash string) {
	if t.source != nil {
		recipe, hash = t.source.Recipe()
	}
	return t.spec.ID, recipe, hash
}

// Config returns the resolved settings, without "auto" and defaults that depend on other settings
// or on the machine.
func (t *Trainer) Config() *Config {
	c := t.cfg.Clone()
	c.Common().NumThreads = t.cores.Cores()
	return c
}

// Close ends the threads, after at most one environment step and one update, and frees everything.
// It may be called while another call is in progress, which then returns. Later calls return
// fault.ErrClosed.
func (t *Trainer) Close() error {
	t.closing.Store(true)
	t.Stop()
	t.calls.Lock()
	defer t.calls.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	return t.closeParts()
}

func (t *Trainer) closeParts() error {
	var errs []error
	if t.method != nil {
		errs = append(errs, t.method.Close())
	}
	if t.source != nil {
		errs = append(errs, t.source.Close())
	}
	t.pool.Close()
	if t.device != nil {
		t.device.Close()
	}
	return errors.Join(errs...)
}

// Method returns the method, for the tests of its own package and of traintest.
func (t *Trainer) Method() Method { return t.method }
