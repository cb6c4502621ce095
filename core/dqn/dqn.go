package dqn

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin" // the environments that cfg.Env may name
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

// Errors that callers tell apart.
var (
	ErrBusy   = errors.New("another call is in progress")
	ErrClosed = errors.New("closed")
)

// DQN is one course of learning: environments or the rows that stand for them,
// replay memory, networks, trainer. One call at a time: a second one meanwhile
// gets ErrBusy. Stop and Stats may be called at any time.
type DQN struct {
	cfg  Config // resolved
	spec env.Spec

	calls  sync.Mutex // held by the call in progress
	closed bool
	broken error // a panic: no further work

	// Parameter sets by their names in the paper; the snapshot is theta at the
	// start of the window.
	theta, thetaMinus, snapshot *nn.Params

	memory   *replay.Memory // D
	samplers *samplers
	trainer  *trainer

	clock    clock
	schedule schedule
	begun    bool  // Begin was called
	phase    int   // the row whose turn it is; 0 between rounds
	slice    int64 // rounds between two looks at the clock, where samplers run unsynchronised
	room     int64 // steps of every environment that fit into the replay's rings
	stopping atomic.Bool
	halted   bool // stopped: updates that are due stay undone until the next step
	push     *push

	emulate emulation
	watch   func(windowEvent) // tests look at windows through it

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

func (d *DQN) observe(e windowEvent) {
	if d.watch != nil {
		d.watch(e)
	}
}

// New makes a DQN that steps its own environments: those that mk makes (mk(i)
// is environment i, already seeded), or with mk nil the built-in one that
// cfg.Env names, seeded by vec.SeedFor.
func New(cfg Config, mk func(i int) (env.Env, error)) (*DQN, error) {
	if mk == nil {
		if cfg.Env == "" {
			return nil, fmt.Errorf("env: empty, must name a built-in environment (%v)", env.IDs())
		}
		mk = func(i int) (env.Env, error) {
			e, err := env.Make(cfg.Env)
			if err != nil {
				return nil, err
			}
			e.Seed(vec.SeedFor(uint64(cfg.Seed), i))
			return e, nil
		}
	}
	threads := cfg.NumThreads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	pool, err := vec.NewPool(min(threads, cfg.NumEnvs))
	if err != nil {
		return nil, err
	}
	v, err := vec.New(mk, cfg.NumEnvs, pool, vec.SameStep)
	if err != nil {
		pool.Close()
		var e *env.Error
		if errors.As(err, &e) {
			err = e.Err // the same for every index: the index says nothing
		}
		return nil, err
	}
	rows := vec.NewRows(v.Spec().Obs, cfg.NumEnvs)
	d, err := build(cfg, v.Spec(), rows, make([]int32, cfg.NumEnvs), replay.StackTrusted)
	if err != nil {
		return nil, errors.Join(err, v.Close(), closePool(pool))
	}
	d.samplers.vec, d.samplers.pool = v, pool
	if !d.cfg.Synchronized {
		for range pool.Threads() {
			n, err := nn.NewNetwork(d.network(), 1)
			if err != nil {
				return nil, errors.Join(err, d.Close())
			}
			d.samplers.alone = append(d.samplers.alone, n)
		}
	}
	return d, nil
}

func closePool(p *vec.Pool) error { p.Close(); return nil }

func (d *DQN) network() nn.Spec { return networkSpec(&d.cfg, d.spec) }

func networkSpec(cfg *Config, spec env.Spec) nn.Spec {
	arch := cfg.Policy
	if arch == "auto" {
		arch = "MlpPolicy"
		if len(spec.Obs.Shape) == 3 {
			arch = "CnnPolicy"
		}
	}
	s := nn.Spec{Arch: "nature_cnn", Obs: spec.Obs, Actions: spec.Action.N}
	if arch == "MlpPolicy" {
		s.Arch, s.Hidden = "mlp", cfg.NetArch
	}
	return s
}

// build makes everything that does not depend on who steps the environments.
func build(cfg Config, spec env.Spec, rows *vec.Rows, actions []int32, stack replay.StackMode) (*DQN, error) {
	notices, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	d := &DQN{cfg: cfg, spec: spec, notices: notices, slice: 1}
	netSpec := d.network()
	// The same weights for the same seed, whatever else the seed is used for.
	if d.theta, err = netSpec.Init(rng.New(uint64(cfg.Seed), "weights", 0)); err != nil {
		return nil, err
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
	d.samplers.actor = actor
	if d.samplers.joint, err = nn.NewNetwork(netSpec, cfg.NumEnvs); err == nil {
		d.trainer, err = newTrainer(d, netSpec, uint64(cfg.Seed))
	}
	if err != nil {
		d.memory.Close()
		return nil, err
	}
	if cfg.Concurrent {
		d.trainer.start()
	}
	return d, nil
}

func clone(p *nn.Params) *nn.Params {
	c := nn.NewParams(p.Layout)
	c.CopyFrom(p)
	return c
}

// enter begins a call; leave, deferred, ends it and turns a panic into an
// error that spoils this object only.
func (d *DQN) enter() error {
	if !d.calls.TryLock() {
		return ErrBusy
	}
	if d.closed {
		d.calls.Unlock()
		return ErrClosed
	}
	if d.broken != nil {
		d.calls.Unlock()
		return d.broken
	}
	return nil
}

func (d *DQN) leave(err *error) {
	if r := recover(); r != nil {
		*err = &PanicError{Value: r, Stack: debug.Stack()}
	}
	var p *PanicError
	if errors.As(*err, &p) {
		d.broken = *err
	}
	d.publish()
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
// observations of new episodes.
func (d *DQN) Begin(total int64, flags uint32) (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	return d.begin(total, flags)
}

func (d *DQN) begin(total int64, flags uint32) error {
	if total < 1 {
		return fmt.Errorf("total_timesteps: %d, must be at least 1", total)
	}
	if !d.begun {
		flags |= ResetTimesteps | ResetEnvs
	}
	if err := d.settle(); err != nil {
		return err
	}
	if d.push != nil {
		if err := d.push.begin(flags&ResetEnvs != 0); err != nil {
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
		if err := d.trainer.idle(); err != nil {
			return err
		}
		d.memory.Flush()
		windows := d.clock.Windows
		d.clock = clock{Windows: windows, Begun: d.trainer.position(), WarmAt: int64(d.cfg.LearningStarts), Copies: -1}
		d.schedule = newSchedule(&d.cfg, total)
	}
	d.clock.End = d.clock.steps() + total
	d.begun, d.halted = true, false
	return nil
}

// Run takes up to maxSteps further steps (0: to the end of the course), for up
// to maxTime (0: no limit), or until Stop. It ends at the end of a round and
// does not wait for the trainer's thread, except at the end of the course.
// Without a Begin before it, it begins a course of maxSteps.
func (d *DQN) Run(maxSteps int64, maxTime time.Duration) (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	if d.push != nil {
		return errors.New("run: the environments of this trainer are stepped by the caller; use act and observe")
	}
	if maxSteps < 0 {
		return fmt.Errorf("max_steps: %d, must be at least 0", maxSteps)
	}
	if !d.begun {
		if maxSteps == 0 {
			return errors.New("max_steps: 0, must be at least 1 where no course of learning was begun")
		}
		if err := d.begin(maxSteps, 0); err != nil {
			return err
		}
	}
	until := d.clock.End
	if maxSteps > 0 {
		until = d.clock.steps() + maxSteps
	}
	var deadline time.Time
	if maxTime > 0 {
		deadline = time.Now().Add(maxTime)
	}
	if err := d.samplers.repair(); err != nil {
		return err
	}
	d.halted = false
	err = d.learn(until, deadline)
	if d.stopping.Swap(false) {
		d.trainer.halt()
		d.halted = true
	}
	if err == nil && !d.halted && d.clock.steps() >= d.clock.End {
		err = d.settle()
	}
	if failure := d.trainer.failed(); err == nil {
		err = failure
	}
	return err
}

// Stop makes the Run in progress return after the round and the update at
// hand, or the next Run at once if none is in progress.
func (d *DQN) Stop() { d.stopping.Store(true) }

// Settle finishes the updates due at this step. After a Stop nothing is made
// up for until the next step.
func (d *DQN) Settle() (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	return d.settle()
}

func (d *DQN) settle() error {
	if !d.begun || d.halted || !d.clock.Warm {
		return d.trainer.idle()
	}
	if d.cfg.Concurrent && d.emulate != updatesFirst {
		return d.trainer.wait(d.due(d.clock.T))
	}
	return d.catchUp()
}

// makeRoom enlarges the replay's rings if a round might not fit, which short
// episodes and their tails can bring about. The trainer must not be reading.
func (d *DQN) makeRoom() error {
	if !d.clock.Warm && d.clock.Warmup%int64(d.cfg.Window) < int64(d.cfg.NumEnvs) {
		d.memory.Flush() // nobody samples before the warm-up is over
	}
	if d.room = d.leastRoom(); d.room > 0 {
		return nil
	}
	if err := d.trainer.idle(); err != nil {
		return err
	}
	if err := d.memory.Grow(); err != nil {
		return err
	}
	d.room = d.leastRoom()
	return nil
}

// leastRoom is the number of steps that every environment can take.
func (d *DQN) leastRoom() int64 {
	room := d.memory.Room(0)
	for i := 1; i < d.cfg.NumEnvs; i++ {
		room = min(room, d.memory.Room(i))
	}
	return room
}

func (d *DQN) waited(since time.Time) { d.times.wait += time.Since(since) }

// Spec describes the environments.
func (d *DQN) Spec() env.Spec { return d.spec }

// Config returns the settings as they act: nothing is "auto" any more.
func (d *DQN) Config() Config { return d.cfg }

// Notice returns the next thing worth saying once, or "".
func (d *DQN) Notice() (text string, err error) {
	if err := d.enter(); err != nil {
		return "", err
	}
	defer d.leave(&err)
	if len(d.notices) > 0 {
		text, d.notices = d.notices[0], d.notices[1:]
	}
	return text, nil
}

// Close ends the threads, after at most one environment step and one update,
// and frees everything. Further calls return ErrClosed.
func (d *DQN) Close() error {
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
