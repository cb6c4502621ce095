package dqn

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
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
	target            nn.Network
	online            nn.Network // theta at the next observations, where double_q; else nil
	learner           nn.Learner
	optimizer         nn.Optimizer
	gradient          []float32
	sample            *replay.Batch
	batch             nn.Batch
	discounts         []float32
	best              []int32 // the action whose value a target has, where it is not simply the largest
	report            nn.Report
	units             *train.Units

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
	n := cfg.BatchSize
	up = &updates{
		cfg: cfg, schedule: &d.schedule, clock: &d.clock, host: d.host,
		theta: d.theta, thetaMinus: d.thetaMinus,
		memory: d.memory, draws: rng.New(uint64(cfg.Seed), "replay", 0), cores: cores,
		gradient:  make([]float32, d.theta.Layout.Size),
		sample:    d.memory.NewBatch(n),
		units:     train.NewUnits(spec),
		discounts: make([]float32, n),
		best:      make([]int32, n),
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
	if up.device, err = nn.NewCPU(cores.Cores(), cores); err != nil {
		return up, err
	}
	loss := nn.TD{Kind: cfg.Loss, Reduction: cfg.LossReduction}
	if up.learner, err = up.device.Learner(spec, n, loss); err != nil {
		return up, err
	}
	if up.target, err = up.device.Network(spec, n); err != nil {
		return up, err
	}
	if cfg.DoubleQ {
		if up.online, err = up.device.Network(spec, n); err != nil {
			return up, err
		}
	}
	up.batch = nn.Batch{Obs: up.sample.Obs, Actions: up.sample.Actions, Columns: [][]float32{make([]float32, n)}}
	up.optimizer, err = up.device.Optimizer(cfg.optimizer(), d.theta.Layout.Size)
	return up, err
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
			up.one()
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
		up.losses[up.measured%int64(len(up.losses))] = loss
		up.measured++
		up.done = u
		up.host.Updates.Store(u)
	}
	up.changed.Broadcast()
}

// update is one minibatch: draw it from D, compute the gradient of the loss
// against theta-minus, apply it to theta.
func (up *updates) update(u int64) (loss float32, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.Caught(r)
		}
	}()
	s := up.sample
	up.memory.Sample(up.draws, s, up.pool)
	gamma := float32(up.cfg.Gamma)
	for i, terminated := range s.Terminated {
		up.discounts[i] = gamma
		if terminated {
			up.discounts[i] = 0
		}
	}
	if err := up.targets(); err != nil {
		return 0, err
	}
	if err := up.learner.Gradient(up.theta, up.batch, up.gradient, &up.report); err != nil {
		return 0, err
	}
	loss = float32(up.report.Loss)
	at := up.clock.Warmup + up.cfg.burstAt(u-up.clock.Begun)
	up.units.Look(up.learner, at, s.Obs, len(s.Actions))
	if f := float64(loss); math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("loss: %v at step %d (update %d), %w; a lower learning_rate or smaller rewards may help", loss, at, u, fault.ErrNotFinite)
	}
	limit := up.cfg.MaxGradNorm
	if limit == 0 {
		limit = math.Inf(1)
	}
	norm, factor := up.optimizer.ClipGradNorm(up.gradient, limit)
	if norm-norm != 0 {
		return 0, fmt.Errorf("gradient norm: %v at step %d (update %d), %w; a lower learning_rate or smaller rewards may help", norm, at, u, fault.ErrNotFinite)
	}
	if err := up.optimizer.Apply(up.theta, up.gradient, factor, up.schedule.Rate.At(at)); err != nil {
		return 0, err
	}
	up.theta.Updates = uint64(u)
	return loss, nil
}

// targets computes r + gamma max_a Q(s', a; theta-minus), or with double_q
// r + gamma Q(s', argmax_a Q(s', a; theta); theta-minus), over the a that s' allows.
func (up *updates) targets() error {
	s, targets := up.sample, up.batch.Columns[0]
	next, err := up.target.Forward(up.thetaMinus, s.NextObs, len(s.Actions))
	if err != nil {
		return err
	}
	choosing, width := next, len(s.NextMasks)/len(s.Actions)
	switch {
	case up.online != nil:
		if choosing, err = up.online.Forward(up.theta, s.NextObs, len(s.Actions)); err != nil {
			return err
		}
	case width == 0:
		return nn.TDTargets(targets, next.Values[0], s.Rewards, up.discounts)
	}
	for i := range up.best {
		var mask []byte
		if width > 0 {
			mask = s.NextMasks[i*width : (i+1)*width]
		}
		up.best[i] = policy.Argmax(choosing.Row(0, i), mask)
	}
	return nn.TDTargetsAt(targets, next.Values[0], up.best, s.Rewards, up.discounts)
}

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
			up.one()
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
