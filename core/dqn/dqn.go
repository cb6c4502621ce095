package dqn

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin" // the environments that cfg.Env may name
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// DQN is one course of learning: environments or the rows that stand for them,
// replay memory, networks, trainer. One call at a time: a second one meanwhile
// gets fault.ErrBusy. Stop and Stats may be called at any time.
type DQN struct {
	cfg  Config // resolved
	spec env.Spec

	calls   sync.Mutex // held by the call in progress
	closing atomic.Bool
	closed  bool
	broken  error // a panic: no further work

	// Parameter sets by their names in the paper; the snapshot is theta at the
	// start of the window.
	theta, thetaMinus, snapshot *nn.Params

	memory   *replay.Memory // D
	samplers *samplers
	trainer  *trainer
	cores    *threads.Budget // num_threads: the main thread holds one inside a call

	clock    clock
	schedule schedule
	begun    bool      // Begin was called
	phase    int       // the row whose turn it is; 0 between rounds
	slice    int64     // rounds between two looks at the clock, where samplers run unsynchronised
	room     int64     // further rounds that fit into the replay's rings for sure; 0: ask again
	deadline time.Time // of the Run in progress; zero: none
	stopping atomic.Bool
	halted   bool // stopped: updates that are due stay undone until the next step
	push     *push

	emulate emulation
	watch   func(windowEvent) // tests look at windows through it

	mark    time.Time // when the main thread turned to what it is doing now
	times   struct{ env, act, wait time.Duration }
	stats   stats
	notices []string
}

// emulation runs the concurrent schedule on one thread, for tests: all updates
// of a window before its steps, or after them.
type emulation int

const (
	notEmulated emulation = iota
	updatesFirst
	updatesLast
)

type windowEvent int

const (
	windowBegins windowEvent = iota
	windowEnds
)

func (d *DQN) tell(e windowEvent) {
	if d.watch != nil {
		d.watch(e)
	}
}

// New makes a DQN that steps its own environments: those that mk makes (mk(i)
// is environment i, already seeded), or with mk nil the built-in one that
// cfg.Env names, seeded by vec.SeedFor.
func New(cfg Config, mk func(i int) (env.Env, error)) (*DQN, error) {
	notices, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	cores, pool, err := share(&cfg)
	if err != nil {
		return nil, err
	}
	stack := replay.StackDeclared
	var v *vec.Vec
	if mk == nil {
		stack = replay.StackTrusted // ours stack frames as they say
		v, err = builtIn(&cfg, pool)
	} else {
		v, err = vec.New(mk, cfg.NumEnvs, pool, vec.SameStep)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	spec := v.Spec()
	if cfg.FrameStack > 0 {
		spec.Obs.FrameStack, stack = cfg.FrameStack, replay.StackDeclared
	}
	rows := vec.NewRows(spec.Obs, cfg.NumEnvs)
	rows.AddInfos(v.InfoSpecs())
	d, err := build(cfg, spec, rows, make([]int32, cfg.NumEnvs), stack, cores, pool)
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	d.notices = notices
	d.samplers.vec = v
	d.samplers.score = scoreOf(v.InfoSpecs())
	if !d.cfg.Synchronized {
		for range pool.Threads() {
			n, err := nn.NewNetwork(d.network(), 1, nil)
			if err != nil {
				return nil, errors.Join(err, d.Close())
			}
			d.samplers.alone = append(d.samplers.alone, n)
		}
	}
	return d, nil
}

func builtIn(cfg *Config, pool *threads.Pool) (*vec.Vec, error) {
	if cfg.Env == "" {
		return nil, fmt.Errorf("env: empty, must name a built-in environment (%s)", env.Known())
	}
	options, err := env.ParseOptions(cfg.EnvOptions)
	if err != nil {
		return nil, err
	}
	return vec.Make(cfg.Env, options, cfg.NumEnvs, uint64(cfg.Seed), pool, vec.SameStep)
}

// share returns the cores of a DQN and the pool of its samplers. Where each row
// is a matter of its own, more threads than rows have no work.
func share(cfg *Config) (*threads.Budget, *threads.Pool, error) {
	n := cfg.NumThreads
	if n == 0 {
		n = threads.Cores
	}
	cores, err := threads.NewBudget(n)
	if err != nil {
		return nil, nil, err
	}
	if !cfg.Synchronized {
		n = min(n, cfg.NumEnvs)
	}
	pool, err := threads.NewPool(n, cores)
	return cores, pool, err
}

// Env returns the environment's name and the name and hash of the recipe that it follows,
// "" where there is none.
func (d *DQN) Env() (name, recipe, hash string) {
	if d.samplers.vec != nil {
		recipe, hash = d.samplers.vec.Recipe()
	}
	return d.spec.ID, recipe, hash
}

func (d *DQN) network() nn.Spec { return networkSpec(&d.cfg, d.spec) }

// networkSpec is the network that resolved settings stand for.
func networkSpec(cfg *Config, spec env.Spec) nn.Spec {
	if cfg.Policy == policyMLP {
		return nn.Spec{Arch: "mlp", Obs: spec.Obs, Actions: spec.Action.N, Hidden: cfg.NetArch, Precision: precisions[cfg.Precision]}
	}
	return nn.Spec{Arch: "nature_cnn", Obs: spec.Obs, Actions: spec.Action.N, Precision: precisions[cfg.Precision]}
}

// build makes everything that does not depend on who steps the environments.
// cfg is resolved but for the policy. The pool is the DQN's from now on, and
// closed on failure.
func build(cfg Config, spec env.Spec, rows *vec.Rows, actions []int32, stack replay.StackMode, cores *threads.Budget, pool *threads.Pool) (d *DQN, err error) {
	var team *kernel.Team
	defer func() {
		if err != nil {
			pool.Close()
			team.Close()
		}
	}()
	switch {
	case spec.Action.N == 0:
		return nil, fmt.Errorf("actions: %v, must be discrete for a Q-network", spec.Action)
	case spec.LifeLoss:
		return nil, fmt.Errorf("life_loss_info: true, must be false for training (episodic_life ends an episode with a life)")
	}
	if err := kernel.Err(); err != nil { // PACELINE_ISA names what this machine has not
		return nil, err
	}
	if cfg.Policy == policyAuto {
		cfg.Policy = policyMLP
		if len(spec.Obs.Shape) == 3 {
			cfg.Policy = policyCNN
		}
	}
	d = &DQN{cfg: cfg, spec: spec, slice: 1, cores: cores}
	netSpec := d.network()
	// The same weights for the same seed, whatever else the seed is used for.
	if d.theta, err = netSpec.Init(rng.New(uint64(cfg.Seed), "weights", 0)); err != nil {
		return nil, fmt.Errorf("policy: %s does not fit the environment: %w", cfg.Policy, err)
	}
	d.thetaMinus = clone(d.theta)
	actor := d.thetaMinus
	switch cfg.Actor {
	case ActorOnline:
		actor = d.theta
	case ActorSnapshot:
		d.snapshot = clone(d.theta)
		actor = d.snapshot
	}
	if d.memory, err = replay.New(replay.Config{
		Obs: spec.Obs, Envs: cfg.NumEnvs, Capacity: cfg.BufferSize,
		Window: cfg.Window, Stack: stack,
	}); err != nil {
		return nil, err
	}
	d.samplers = newSamplers(&d.cfg, spec, d.memory, rows, actions)
	if team, err = kernel.NewTeam(pool.Threads(), cores); err == nil {
		d.samplers.actor, d.samplers.pool, d.samplers.team = actor, pool, team
		d.samplers.joint, err = nn.NewNetwork(netSpec, cfg.NumEnvs, team)
	}
	if err == nil {
		d.trainer, err = newTrainer(d, netSpec, uint64(cfg.Seed))
	}
	if err != nil {
		d.memory.Close()
		return nil, err
	}
	if cfg.Concurrent {
		d.trainer.start()
	}
	d.publish()
	return d, nil
}

func clone(p *nn.Params) *nn.Params {
	c := nn.NewParams(p.Layout)
	c.CopyFrom(p)
	return c
}

// enter begins a call that computes: as soon as there is a core for it. leave,
// deferred, ends it and turns a panic into an error that spoils this object only.
func (d *DQN) enter() error {
	if err := d.lock(); err != nil {
		return err
	}
	d.mark = time.Now()
	d.cores.Take() // the trainer gives its own up after an update
	d.lap(&d.times.wait)
	return nil
}

// lock keeps other calls out.
func (d *DQN) lock() error {
	locked := d.calls.TryLock()
	switch {
	case d.closing.Load():
		if locked {
			d.calls.Unlock()
		}
		return fault.ErrClosed
	case !locked:
		return fault.ErrBusy
	case d.broken != nil:
		defer d.calls.Unlock()
		return d.broken
	}
	return nil
}

func (d *DQN) leave(err *error) {
	if r := recover(); r != nil {
		*err = fault.Caught(r)
	}
	var p *fault.Panic
	var e *env.Error
	if errors.As(*err, &p) && !errors.As(*err, &e) { // an environment's is its own affair
		d.broken = *err
	}
	d.publish()
	d.cores.Give(1)
	d.calls.Unlock()
}

// Flags of Begin.
const (
	ResetTimesteps = 1 << iota // count steps from 0: a new warm-up, new schedules
	ResetEnvs                  // cut the episodes in progress and begin new ones
)

// Begin begins a course of learning of so many steps, warm-up included. The
// first call acts as with both flags. Without ResetTimesteps the counts and
// the schedules of the course before go on. Where the host steps the
// environments, ResetEnvs says that the observation rows hold the first
// observations of new episodes; a round that Act began is forgotten.
func (d *DQN) Begin(total int64, flags uint32) (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	return d.begin(total, flags)
}

func (d *DQN) begin(total int64, flags uint32) error {
	if total < 1 || total > maxSteps {
		return fmt.Errorf("total_timesteps: %d, must be 1 to %d", total, int64(maxSteps))
	}
	if !d.begun {
		flags |= ResetTimesteps | ResetEnvs
	}
	if err := d.settle(); err != nil {
		return err
	}
	if d.push != nil {
		if err := d.beginPush(flags&ResetEnvs != 0); err != nil {
			return err
		}
	}
	if flags&ResetEnvs != 0 {
		if err := d.samplers.reset(); err != nil {
			return err
		}
	}
	if flags&ResetTimesteps != 0 {
		// What has not entered D yet does so now, while no window is open.
		d.memory.Flush()
		d.clock = clock{Windows: d.clock.Windows, Begun: d.trainer.position(), WarmAt: int64(d.cfg.LearningStarts), Copies: -1}
		d.schedule = newSchedule(&d.cfg, total)
	}
	d.clock.End = d.clock.steps() + total
	d.begun = true
	return nil
}

// maxSteps keeps sums of step counts far from overflow.
const maxSteps = 1 << 50

// Run takes up to steps further steps (0: to the end of the course), for up
// to maxTime (0: no limit), or until Stop. It ends at the end of a round and
// does not wait for the trainer's thread, except, within maxTime, at the end
// of the course. Without a Begin before it, it begins a course of that length.
func (d *DQN) Run(steps int64, maxTime time.Duration) (err error) {
	began := time.Now()
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	if d.push != nil {
		return errors.New("run: the environments of this trainer are stepped by the caller; use act and observe")
	}
	if steps < 0 {
		return fmt.Errorf("max_steps: %d, must be at least 0", steps)
	}
	if !d.begun {
		if steps == 0 {
			return errors.New("max_steps: 0, must be at least 1 where no course of learning was begun")
		}
		if err := d.begin(steps, 0); err != nil {
			return err
		}
	}
	until := d.clock.End
	if steps > 0 {
		until = d.clock.steps() + min(steps, maxSteps)
	}
	if maxTime > 0 {
		d.deadline = began.Add(maxTime)
		defer func() { d.deadline = time.Time{} }()
	}
	d.halted = false
	if slices.Contains(d.samplers.broken, true) {
		err = d.samplers.repair()
	}
	if err == nil {
		err = d.learn(until)
	}
	if err == nil && d.clock.steps() >= d.clock.End {
		err = d.settle()
	}
	if d.stopping.Swap(false) {
		d.halt()
	}
	if err == nil || errors.Is(err, errInterrupted) {
		err = d.trainer.failed()
	}
	return err
}

// Stop makes the Run in progress return after the round and the update at
// hand, or the next Run at once if none is in progress. Until steps go on
// nothing is made up for: whoever looks sees what there is.
func (d *DQN) Stop() {
	d.stopping.Store(true)
	d.trainer.wake()
}

// halt lets the trainer rest after the update in progress.
func (d *DQN) halt() {
	d.trainer.halt()
	d.halted = true
}

// Settle finishes the updates due at this step. After a Stop nothing is made
// up for until the next step.
func (d *DQN) Settle() (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	return d.settle()
}

// settle leaves D, theta and theta-minus to the caller. Between Act and
// Observe the updates of the round at hand are done, too: they have begun.
func (d *DQN) settle() error {
	if d.stopping.Load() {
		d.halt()
	}
	var err error
	switch {
	case d.halted || !d.clock.Warm:
		err = d.trainer.failed()
	case d.cfg.Concurrent && d.emulate != updatesFirst:
		err = d.await(d.due(d.clock.T))
	default:
		err = d.catchUp()
	}
	if errors.Is(err, errInterrupted) {
		if d.stopping.Load() {
			d.halt()
		}
		return nil // at a deadline the rest is for whoever looks
	}
	return err
}

// settleToSee is settle for those who look: that training has failed does not
// keep anybody from seeing how far it came.
func (d *DQN) settleToSee() error {
	if err := d.settle(); !errors.Is(err, fault.ErrNotFinite) {
		return err
	}
	return nil
}

// lap adds the time since the last lap to what it was spent on.
func (d *DQN) lap(spent *time.Duration) {
	now := time.Now()
	*spent += now.Sub(d.mark)
	d.mark = now
}

// Spec describes the environments.
func (d *DQN) Spec() env.Spec { return d.spec }

// Config returns the settings as they act: what was "auto" or left to a
// default that depends on others is filled in.
func (d *DQN) Config() Config { return d.cfg }

// Notice returns the next thing worth saying once, or "".
func (d *DQN) Notice() (text string, err error) {
	if err := d.lock(); err != nil {
		return "", err
	}
	defer d.calls.Unlock()
	if len(d.notices) > 0 {
		text, d.notices = d.notices[0], d.notices[1:]
	}
	return text, nil
}

// Close ends the threads, after at most one environment step and one update,
// and frees everything. It may be called while another call is in progress,
// which then returns. Further calls return fault.ErrClosed.
func (d *DQN) Close() error {
	d.closing.Store(true)
	d.Stop()
	d.calls.Lock()
	defer d.calls.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.trainer.close()
	err := d.samplers.close()
	d.memory.Close()
	return err
}
