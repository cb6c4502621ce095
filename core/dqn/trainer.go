package dqn

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

// errInterrupted ends a wait for the trainer at a deadline or at a Stop.
var errInterrupted = errors.New("interrupted")

// trainer does the minibatch updates: the paper's trainer thread. It owns theta
// while an update is in progress and reads D and theta-minus, which nobody
// writes then.
//
// The main thread tells it how many updates it may do (release) and waits until
// they are done (wait). With training that is not concurrent, and in the
// sequential emulation, there is no thread: wait does the updates itself.
//
// Its thread holds a core during an update and asks for it anew for the next, so
// that a main thread that waits for one comes in between. In turn the main
// thread has none while it waits for the trainer.
type trainer struct {
	cfg      *Config
	schedule *schedule
	clock    *clock // read only where no step is being counted: Begun, Warmup

	theta, thetaMinus *nn.Params
	memory            *replay.Memory
	draws             *rng.Stream // "replay"
	learner           *nn.Learner
	optimizer         nn.Optimizer
	gradient          []float32
	sample            *replay.Batch
	batch             nn.Batch

	cores    *threads.Budget
	team     *kernel.Team  // shares the work of an update
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
	busy     time.Duration
}

func newTrainer(d *DQN, spec nn.Spec, seed uint64) (*trainer, error) {
	cfg := &d.cfg
	tr := &trainer{
		cfg: cfg, schedule: &d.schedule, clock: &d.clock,
		theta: d.theta, thetaMinus: d.thetaMinus,
		memory: d.memory, draws: rng.New(seed, "replay", 0), cores: d.cores,
		gradient: make([]float32, d.theta.Layout.Size),
		sample:   d.memory.NewBatch(cfg.BatchSize),
	}
	tr.changed = sync.NewCond(&tr.mu)
	var err error
	if tr.pool, err = threads.NewPool(d.cores.Cores(), d.cores); err != nil {
		return nil, err
	}
	if tr.team, err = kernel.NewTeam(d.cores.Cores(), d.cores); err == nil {
		tr.learner, err = nn.NewLearner(spec, cfg.BatchSize, nn.Loss{Kind: cfg.Loss, Reduction: cfg.LossReduction}, tr.team)
	}
	if err == nil {
		tr.optimizer, err = newOptimizer(cfg, d.theta.Layout.Size, tr.team)
	}
	if err != nil {
		tr.pool.Close()
		tr.team.Close()
		return nil, err
	}
	tr.batch = nn.Batch{
		Obs: tr.sample.Obs, NextObs: tr.sample.NextObs, Actions: tr.sample.Actions,
		Rewards: tr.sample.Rewards, Discounts: make([]float32, cfg.BatchSize),
	}
	return tr, nil
}

func newOptimizer(cfg *Config, size int, team *kernel.Team) (nn.Optimizer, error) {
	oc := nn.OptimizerConfig{Name: cfg.Optimizer}
	if !math.IsNaN(cfg.OptimizerEps) {
		oc.Eps = cfg.OptimizerEps
	}
	return nn.NewOptimizer(oc, size, team)
}

// start gives the trainer a thread of its own.
func (tr *trainer) start() {
	tr.threaded = true
	tr.exited = make(chan struct{})
	go tr.work()
}

func (tr *trainer) work() {
	defer close(tr.exited)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for {
		for !tr.closing && tr.idle() {
			tr.changed.Wait()
		}
		if tr.closing {
			return
		}
		tr.takeCore()
		if !tr.closing && !tr.idle() { // halt may have taken the updates back
			tr.one()
		}
		tr.cores.Give(1)
	}
}

// idle tells whether no update may be done. Called with mu held.
func (tr *trainer) idle() bool { return tr.err != nil || tr.done >= tr.released }

// takeCore waits for a core. Called with mu held; it is free meanwhile, as those
// who have the cores need it.
func (tr *trainer) takeCore() {
	tr.mu.Unlock()
	tr.cores.Take()
	tr.mu.Lock()
}

// rest lets the main thread wait for over, without its core. Called with mu
// held; it is free meanwhile.
func (tr *trainer) rest(over func() bool) {
	if over() {
		return
	}
	tr.cores.Give(1)
	for !over() {
		tr.changed.Wait()
	}
	tr.takeCore()
}

// one does the next update. Called with mu held; it is free meanwhile.
func (tr *trainer) one() {
	u := tr.done + 1
	tr.running = true
	tr.mu.Unlock()
	began := time.Now()
	loss, err := tr.update(u)
	took := time.Since(began)
	tr.mu.Lock()
	tr.running = false
	tr.busy += took
	if err != nil {
		tr.err = err
	} else {
		tr.losses[tr.measured%int64(len(tr.losses))] = loss
		tr.measured++
		tr.done = u
	}
	tr.changed.Broadcast()
}

// update is one minibatch: draw it from D, compute the gradient of the loss
// against theta-minus, apply it to theta.
func (tr *trainer) update(u int64) (loss float32, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.Caught(r)
		}
	}()
	tr.memory.Sample(tr.draws, tr.sample, tr.pool)
	gamma := float32(tr.cfg.Gamma)
	for i, terminated := range tr.sample.Terminated {
		tr.batch.Discounts[i] = gamma
		if terminated {
			tr.batch.Discounts[i] = 0
		}
	}
	loss, err = tr.learner.Gradient(tr.theta, tr.thetaMinus, &tr.batch, tr.gradient)
	if err != nil {
		return 0, err
	}
	at := tr.clock.Warmup + tr.cfg.dueAt(u-tr.clock.Begun)
	if f := float64(loss); math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("loss: %v at step %d (update %d), %w; a lower learning_rate or smaller rewards may help", loss, at, u, fault.ErrNotFinite)
	}
	if tr.cfg.MaxGradNorm > 0 {
		tr.optimizer.ClipGradNorm(tr.gradient, tr.cfg.MaxGradNorm)
	}
	tr.optimizer.Apply(tr.theta.Data, tr.gradient, tr.schedule.rate(at))
	tr.theta.Version = uint64(u)
	return loss, nil
}

// release lets updates up to number u begin. It returns the error that ended
// training, if one did.
func (tr *trainer) release(u int64) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if u > tr.released {
		tr.released = u
		tr.changed.Broadcast()
	}
	return tr.err
}

// wait returns when u updates and all that were released before are done: D,
// theta and theta-minus are then the caller's until the next release. Or it
// returns the error that prevents it, or errInterrupted when stop is found true
// between two updates or the deadline is over; nil and zero: never.
func (tr *trainer) wait(u int64, stop *atomic.Bool, deadline time.Time) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if u > tr.released {
		tr.released = u
		tr.changed.Broadcast()
	}
	if tr.threaded && !deadline.IsZero() && tr.done < tr.released {
		alarm := time.AfterFunc(time.Until(deadline), tr.wake)
		defer alarm.Stop()
	}
	over := func() bool {
		return tr.idle() || stop != nil && stop.Load() || !deadline.IsZero() && !time.Now().Before(deadline)
	}
	if tr.threaded {
		tr.rest(over)
	} else {
		for !over() {
			tr.one()
		}
	}
	if !tr.idle() {
		return errInterrupted
	}
	return tr.err
}

// wake makes wait look at stop.
func (tr *trainer) wake() {
	tr.mu.Lock()
	tr.changed.Broadcast()
	tr.mu.Unlock()
}

// halt takes back what is released and not begun, and returns when no update
// is in progress.
func (tr *trainer) halt() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.released = tr.done
	tr.rest(func() bool { return !tr.running })
	tr.released = tr.done // it may have been in progress
}

// failed returns the error that ended training, if one did.
func (tr *trainer) failed() error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.err
}

// position is u, the number of updates done.
func (tr *trainer) position() int64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.done
}

// setPosition is used when a checkpoint is loaded. The trainer is idle.
func (tr *trainer) setPosition(u int64) {
	tr.mu.Lock()
	tr.done, tr.released, tr.err, tr.measured = u, u, nil, 0
	tr.mu.Unlock()
}

// meanLoss is over the latest updates, NaN before the first.
func (tr *trainer) meanLoss() (loss float64, updates int64, busy time.Duration) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n := min(tr.measured, int64(len(tr.losses)))
	sum := 0.0
	for _, l := range tr.losses[:n] {
		sum += float64(l)
	}
	return sum / float64(n), tr.done, tr.busy
}

// end ends the thread, after the update in progress.
func (tr *trainer) end() {
	tr.mu.Lock()
	tr.closing = true
	tr.changed.Broadcast()
	tr.mu.Unlock()
	if tr.threaded {
		<-tr.exited
	}
}

func (tr *trainer) close() {
	tr.end()
	tr.pool.Close()
	tr.team.Close()
}
