package dqn

import (
	"sync"
	"time"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// updates does the minibatch updates: the paper's trainer thread. It owns theta
// while an update is in progress and reads D and theta-minus, which nobody writes
// then.
//
// The main thread says how many updates may be done (release) and waits until they
// are done (wait). With training that is not concurrent, and in the sequential
// emulation, there is no trainer thread: wait does the updates itself.
//
// The trainer thread holds a core during an update and acquires it anew for the
// next, so that a main thread that waits for one comes in between. In turn the
// main thread has none while it waits for updates.
type updates struct {
	cfg      *Config
	schedule *schedule
	clock    *clock // read only where no step is being counted: Begun, Warmup
	host     *train.Host

	theta, thetaMinus *nn.Params
	memory            *replay.Memory
	draws             *rng.Stream // "replay"
	stepper           nn.QStepper
	sampler           replay.Sampler
	picks             []int // of the minibatch
	batch             experience.Transitions
	report            nn.Report
	units             *train.Units

	// stacks and mirror have the frames of D in the memory of a GPU; nil: it is not there.
	stacks nn.StackStepper
	mirror *replay.Mirror
	ahead  ahead
	rates  []float64     // of the updates that it does at a time
	each   time.Duration // that one of them took lately

	cores    *threads.Budget
	device   nn.Device     // shares the work of an update
	pool     *threads.Pool // shares the copying of a minibatch
	threaded bool
	exited   chan struct{}

	mu       sync.Mutex
	changed  *sync.Cond
	released int64 // updates that may be done
	done     int64 // u
	running  bool  // an update is in progress
	closing  bool
	err      error // the first failure; no update is done after it
	losses   [100]float32
	measured int64 // losses ever written there
}

func newUpdates(d *DQN, spec nn.Spec, cores *threads.Budget) (up *updates, err error) {
	cfg := &d.cfg
	up = &updates{
		cfg: cfg, schedule: &d.schedule, clock: &d.clock, host: d.host,
		theta: d.theta, thetaMinus: d.thetaMinus,
		memory: d.memory, draws: rng.New(uint64(cfg.Seed), "replay", 0), cores: cores,
		sampler: replay.Uniform{Memory: d.memory}, picks: make([]int, cfg.BatchSize), batch: *d.memory.Minibatch(cfg.BatchSize),
		units: train.NewUnits(spec),
	}
	up.changed = sync.NewCond(&up.mu)
	defer func() {
		if err != nil {
			up.close()
		}
	}()
	if up.pool, err = threads.NewPool(cores.Cores(), cores); err != nil {
		return up, err
	}
	if up.device, err = d.device.Another(cores.Cores(), cores); err != nil {
		return up, err
	}
	up.stepper, err = up.device.QStepper(nn.StepperConfig{
		Net: spec, Rows: cfg.BatchSize, Loss: nn.TD{Kind: cfg.Loss, Reduction: cfg.LossReduction}, Optimizer: cfg.optimizer(), MaxGradNorm: cfg.MaxGradNorm, Window: cfg.windowUpdates(),
	}, cfg.DoubleQ)
	if err != nil {
		return up, err
	}
	return up, up.placeReplay()
}

// start gives the updates a thread of their own.
func (up *updates) start() {
	up.threaded = true
	up.exited = make(chan struct{})
	go up.work()
}

func (up *updates) work() {
	defer close(up.exited)
	up.mu.Lock()
	defer up.mu.Unlock()
	for {
		for !up.closing && up.idle() {
			up.changed.Wait()
		}
		if up.closing {
			return
		}
		up.acquireCore()
		if !up.closing && !up.idle() { // halt may have taken the updates back
			up.next()
		}
		up.cores.Release(1)
	}
}

// idle reports whether no update may be done. Called with mu held.
func (up *updates) idle() bool { return up.err != nil || up.done >= up.released }

// acquireCore waits for a core. Called with mu held; it is unlocked meanwhile, as
// those who have the cores need it.
func (up *updates) acquireCore() {
	up.mu.Unlock()
	up.cores.Acquire()
	up.mu.Lock()
}

// rest lets the main thread wait for over, without its core. Called with mu held;
// it is unlocked meanwhile.
func (up *updates) rest(over func() bool) {
	if over() {
		return
	}
	up.cores.Release(1)
	for !over() {
		up.changed.Wait()
	}
	up.acquireCore()
}

// one does the next update. Called with mu held; it is unlocked meanwhile.
func (up *updates) one() {
	u := up.done + 1
	up.running = true
	up.mu.Unlock()
	began, helped := time.Now(), up.device.Busy()+up.pool.Busy()
	loss, err := up.update(u)
	up.host.Learned(time.Since(began), up.device.Busy()+up.pool.Busy()-helped)
	up.mu.Lock()
	up.running = false
	if err != nil {
		up.err = err
	} else {
		up.count(loss)
	}
	up.changed.Broadcast()
}

// count counts an update that was applied. Called with mu held.
func (up *updates) count(loss float32) {
	up.losses[up.measured%int64(len(up.losses))] = loss
	up.measured++
	up.done++
	up.host.Updates.Store(up.done)
}

// update is one minibatch: draw it from D, compute the gradient of the loss
// against theta-minus, apply it to theta.
func (up *updates) update(u int64) (loss float32, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.Caught(r)
		}
	}()
	up.sampler.Draw(up.draws, up.picks)
	up.memory.Gather(up.picks, float32(up.cfg.Gamma), &up.batch, up.pool)
	at := up.stepOf(u)
	err = up.stepper.Update(up.theta, up.thetaMinus, &up.batch, up.schedule.Rate.At(at), &up.report)
	if err != nil {
		return 0, train.AtUpdate(err, at, u)
	}
	up.theta.Updates = uint64(u)
	up.units.Look(up.stepper, at, up.batch.Obs, up.cfg.BatchSize)
	return float32(up.report.Loss), nil
}

// stepOf is the step, warm-up included, whose burst update u is of.
func (up *updates) stepOf(u int64) int64 { return up.clock.Warmup + up.cfg.burstAt(u-up.clock.Begun) }

// release lets updates up to number u begin. It returns the error that ended
// training, if one did.
func (up *updates) release(u int64) error {
	up.mu.Lock()
	defer up.mu.Unlock()
	if u > up.released {
		up.released = u
		up.changed.Broadcast()
	}
	return up.err
}

// wait returns when u updates and all that were released before are done: D, theta
// and theta-minus are then the caller's until the next release. Or it returns the
// error that prevents it, or train.ErrPaused when p is over.
func (up *updates) wait(u int64, p *train.Pause) error {
	up.mu.Lock()
	defer up.mu.Unlock()
	if u > up.released {
		up.released = u
		up.changed.Broadcast()
	}
	if deadline := p.Deadline(); up.threaded && !deadline.IsZero() && up.done < up.released {
		alarm := time.AfterFunc(time.Until(deadline), up.wake)
		defer alarm.Stop()
	}
	over := func() bool { return up.idle() || p.Over(time.Now()) }
	if up.threaded {
		up.rest(over)
	} else {
		for !over() {
			up.next()
		}
	}
	if !up.idle() {
		return train.ErrPaused
	}
	return up.err
}

// wake makes wait check its Pause.
func (up *updates) wake() {
	up.mu.Lock()
	up.changed.Broadcast()
	up.mu.Unlock()
}

// halt takes back what is released and not begun, and returns when no update is in
// progress.
func (up *updates) halt() {
	up.mu.Lock()
	defer up.mu.Unlock()
	up.released = up.done
	up.rest(func() bool { return !up.running })
	up.released = up.done // it may have been in progress
}

// failed returns the error that ended training, if one did.
func (up *updates) failed() error {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.err
}

// forgive lets training that ended with a loss that is not finite go on: the
// parameters, or the run, are others now. A panic is for ever.
func (up *updates) forgive() {
	up.mu.Lock()
	defer up.mu.Unlock()
	if up.err != nil && isNotFinite(up.err) {
		up.err = nil
		up.released = up.done
	}
}

// fail ends training with an error.
func (up *updates) fail(err error) {
	up.mu.Lock()
	up.err = err
	up.mu.Unlock()
}

// position is u, the number of updates done.
func (up *updates) position() int64 {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.done
}

// setPosition is used when a checkpoint is loaded. No update is in progress.
func (up *updates) setPosition(u int64) {
	up.mu.Lock()
	up.done, up.released, up.err, up.measured = u, u, nil, 0
	up.mu.Unlock()
	up.host.Updates.Store(u)
}

// meanLoss is over the latest 100 updates, NaN before the first.
func (up *updates) meanLoss() float64 {
	up.mu.Lock()
	defer up.mu.Unlock()
	n := min(up.measured, int64(len(up.losses)))
	sum := 0.0
	for _, l := range up.losses[:n] {
		sum += float64(l)
	}
	return sum / float64(n)
}

// end ends the trainer thread, after the update in progress.
func (up *updates) end() {
	up.mu.Lock()
	up.closing = true
	up.changed.Broadcast()
	up.mu.Unlock()
	if up.threaded {
		<-up.exited
	}
}

func (up *updates) close() {
	up.end()
	if up.pool != nil {
		up.pool.Close()
	}
	if up.device != nil {
		up.device.Close()
	}
}
