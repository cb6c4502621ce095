package actor

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// stepping is how a Group with a Source takes steps: Round in lockstep, Run without.
type stepping struct {
	waits      bool        // the Source's steps wait
	batched    vec.Batched // the Source, if its environments step together in one call; else nil
	failed     []error     // of each row in this round
	unrecorded []bool      // rows whose step was taken and not recorded

	halves    []*half       // empty if Config.Halves is 1
	inRound   bool          // the first half has begun the next round
	firstHalf int64         // the first half's steps in this round
	busy      time.Duration // how long the halves' pools had computed, up to the latest round

	run loop

	// Loops over rows, made once: a closure that is written at the call is allocated every round.
	stepFunc, loopFunc func(worker, i int) error
	isIdle             func(i int) bool
}

func (g *Group) prepareSteps() error {
	g.failed, g.unrecorded = make([]error, g.Envs), make([]bool, g.Envs)
	g.stepFunc = func(_, i int) error {
		g.stepInRound(i, true)
		return nil
	}
	g.loopFunc, g.isIdle = g.runLoop, g.idle
	if g.Source == nil {
		return nil
	}
	g.waits = g.Source.Spec().Waits
	if b, ok := g.Source.(vec.Batched); ok && b.Batched() {
		g.batched = b
	}
	if g.Halves > 1 {
		return g.makeHalves()
	}
	return nil
}

// Round chooses an action for every environment of the Source, all by Joint, and takes a step in
// each; t is the number of the first step. Rows that failed or wait for their reset take none.
//
// With two halves, anotherFollows promises that another Round follows at once with the same Acting.
// The first half may then begin its steps of the next round before this round is over (InRound).
func (g *Group) Round(t int64, c policy.Chooser, anotherFollows bool) (Ran, error) {
	if len(g.halves) > 0 {
		return g.alternate(t, c, anotherFollows)
	}
	began := time.Now()
	n := g.Steps()
	if _, err := g.chooseRows(0, g.Envs, t, c, true); err != nil {
		return Ran{}, err
	}
	chosen, pool := time.Now(), g.Source.Pool()
	before := pool.Busy()
	g.made.Store(0)
	g.stepBatch(0, g.Envs)
	err := g.recordRest(0, g.Envs, pool.Do(g.Envs, g.stepFunc))
	ran := Ran{Asked: int64(n), Taken: g.made.Load(), Acting: chosen.Sub(began), Stepping: time.Since(chosen)}
	if !g.waits {
		ran.Cores = ran.Stepping + pool.Busy() - before
	}
	return ran, err
}

// stepBatch takes the chosen actions of rows first to end-1 in one call, if the Source can. stepOne
// then completes each of these steps.
func (g *Group) stepBatch(first, end int) {
	if g.batched != nil {
		g.batched.StepBatch(first, end, g.isIdle, g.actions, g.rows)
	}
}

// stepInRound steps environment i, unless the row is idle. With record it also records the step.
// Steps that wait are recorded by the caller, because their threads hold no core. With a Normalizer
// the caller records after the round's last step, because the statistics need all of them.
func (g *Group) stepInRound(i int, record bool) {
	if g.failed[i], g.unrecorded[i] = nil, false; g.idle(i) {
		return
	}
	g.failed[i] = g.stepOne(i)
	if g.unrecorded[i] = g.waits || !record || g.Normalizer != nil; !g.unrecorded[i] {
		g.failed[i] = g.recordStep(i, int64(i), g.failed[i])
	}
}

// recordRest records the steps of rows first to end-1 that stepInRound did not record. The caller
// holds a core, and recording takes too little time to be shared. It returns err, or the error of
// the first row that failed.
func (g *Group) recordRest(first, end int, err error) error {
	g.normalizeSteps(first, end)
	for i := first; i < end; i++ {
		if g.unrecorded[i] {
			g.failed[i] = g.recordStep(i, int64(i), g.failed[i])
		}
		if err == nil {
			err = g.failed[i]
		}
	}
	return err
}

// stepOne takes the chosen action in environment i of the Source.
func (g *Group) stepOne(i int) error {
	return g.Source.StepOne(i, vec.Action{Discrete: g.steps[i].Action, Box: g.boxes[i]}, g.rows)
}

// wasTaken reports whether a step for which stepOne returned err was taken.
func wasTaken(err error) bool {
	var failure *vec.Failure
	if errors.As(err, &failure) {
		return failure.Rows[0].Stepped // only the reset after the step failed
	}
	return err == nil
}

// recordStep records the step of environment i, for which stepOne returned err. at is the step's
// number from the start of the Round or Run.
func (g *Group) recordStep(i int, at int64, err error) error {
	if wasTaken(err) {
		err = errors.Join(err, g.record(i, at, err == nil))
	}
	if err != nil {
		g.broken[i] = true
	}
	return err
}

// ---- two halves

// half is rows first to end-1.
type half struct {
	g          *Group
	first, end int
	pool       *threads.Pool // its own: both halves may step concurrently
	step       func(worker, k int) error
	// record says that the sink is in the round of the half's steps, so that the thread that takes
	// a step records it. The caller, who computes actions meanwhile, then does not fetch what
	// another core wrote.
	record atomic.Bool
	// Where the half steps in one call, the first thread makes the call under mu, and the others
	// wait for it.
	mu     sync.Mutex
	called bool
}

// makeHalves makes the two halves. Where steps wait, each row has a thread.
func (g *Group) makeHalves() error {
	middle := (g.Envs + 1) / 2
	g.halves = []*half{{g: g, end: middle}, {g: g, first: middle, end: g.Envs}}
	for _, h := range g.halves {
		n, err := h.end-h.first, error(nil)
		if g.waits {
			h.pool, err = threads.NewWaiting(min(n, threads.Max), g.Cores)
		} else {
			h.pool, err = threads.NewPool(g.Source.Pool().Threads(), g.Cores)
		}
		if err != nil {
			return err
		}
		h.step = func(_, k int) error {
			h.stepBatch()
			g.stepInRound(h.first+k, h.record.Load())
			return nil
		}
	}
	return nil
}

// begin chooses the half's actions and begins their steps; t is the number of the first. It returns
// how many they are. With early they belong to the next round, which the sink is not in yet.
func (h *half) begin(t int64, c policy.Chooser, early bool) (steps int64, err error) {
	if steps, err = h.g.chooseRows(h.first, h.end, t, c, true); err == nil {
		h.record.Store(!early)
		h.called = false
		h.pool.Start(h.end-h.first, h.step)
	}
	return steps, err
}

func (h *half) stepBatch() {
	if h.g.batched == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.called {
		h.called = true
		h.g.stepBatch(h.first, h.end)
	}
}

// finish waits for the steps and records those that were taken early. The sink is now in their
// round.
func (h *half) finish() error { return h.g.recordRest(h.first, h.end, h.pool.Wait()) }

// alternate is Round with two halves. The first half may have begun the round.
func (g *Group) alternate(t int64, c policy.Chooser, anotherFollows bool) (ran Ran, err error) {
	began := time.Now()
	first, second := g.halves[0], g.halves[1]
	begin := func(h *half, t int64, early bool) (int64, error) {
		began := time.Now()
		defer func() { ran.Acting += time.Since(began) }()
		return h.begin(t, c, early)
	}
	ran.Asked = int64(g.Steps())
	g.made.Store(0)
	if g.inRound {
		first.record.Store(true)
	} else if g.firstHalf, err = begin(first, t, false); err != nil {
		return ran, err
	}
	g.inRound = false
	_, err = begin(second, t+g.firstHalf, false)
	stepping := err == nil
	if failed := first.finish(); failed != nil {
		err = failed
	}
	if anotherFollows && err == nil {
		if g.firstHalf, err = begin(first, t+ran.Asked, true); err == nil {
			g.inRound = true
		}
	}
	if stepping {
		if failed := second.finish(); err == nil {
			err = failed
		}
	}
	ran.Taken, ran.Stepping = g.made.Load(), time.Since(began)-ran.Acting
	busy := first.pool.Busy() + second.pool.Busy()
	ran.Cores, g.busy = busy-g.busy, busy
	return ran, err
}

// InRound reports whether a round has begun that the next Round completes. The caller must call
// Round then, also after an error.
func (g *Group) InRound() bool { return g.inRound }

// ---- without lockstep

// loop is the Run in progress.
type loop struct {
	t       int64 // number of the first step
	phase   int   // the row of that step
	chooser policy.Chooser
	over    func() bool
	begins  func(steps int64)
	// Nanoseconds, added over the threads: computing outputs, and the rest (where steps wait, also
	// the wait for a core).
	acting, stepping atomic.Int64

	mu       sync.Mutex
	n        int64 // steps of the loop, all rows together
	furthest int64 // the furthest step that has begun
	round    int64 // steps up to the end of the furthest round that has begun
}

// roundEnd returns the first end of a round after step k of the loop.
func (l *loop) roundEnd(k, rows int64) int64 {
	at := k + 1 + int64(l.phase)
	return (at+rows-1)/rows*rows - int64(l.phase)
}

// admit reports whether step k belongs to the loop. When over returns true, the loop ends with the
// furthest round that has begun, or with its first round. All rows take their steps up to that end,
// so the result does not depend on the speed of threads.
func (l *loop) admit(k, rows int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil && l.over() {
		l.over = nil
		l.n = min(l.n, l.roundEnd(max(l.furthest, 0), rows))
	}
	if k >= l.n {
		return false
	}
	l.furthest = max(l.furthest, k)
	if end := min(l.n, l.roundEnd(k, rows)); end > l.round {
		l.round = end
		l.begins(end)
	}
	return true
}

// Run takes n steps, the first of them in row phase and with number t, then one of each row in
// turn. Each row takes its share without waiting for the other rows and computes its own outputs.
// over is called before every step; if it returns true, the loop ends with a round. begins is
// called, by one goroutine at a time, when all steps up to the next end of a round are certain.
func (g *Group) Run(t int64, phase int, n int64, c policy.Chooser, over func() bool, begins func(steps int64)) (Ran, error) {
	if g.Normalizer != nil {
		return Ran{}, errors.New("actor: a Normalizer needs steps in lockstep")
	}
	l := &g.run
	l.t, l.phase, l.n, l.furthest, l.round = t, phase, n, -1, 0
	l.chooser, l.over, l.begins = c, over, begins
	l.acting.Store(0)
	l.stepping.Store(0)
	g.made.Store(0)
	err := g.Source.Pool().Do(g.Envs, g.loopFunc)
	ran := Ran{Asked: l.n, Taken: g.made.Load(), Acting: time.Duration(l.acting.Load()), Stepping: time.Duration(l.stepping.Load())}
	if !g.waits {
		ran.Cores = ran.Stepping
	}
	return ran, err
}

// runLoop takes row i's steps of the loop.
func (g *Group) runLoop(worker, i int) error {
	l, w := &g.run, int64(g.Envs)
	first := int64(i - l.phase)
	if first < 0 {
		first += w
	}
	if !l.admit(first, w) { // common where few steps lie between two updates: not worth a core
		return nil
	}
	g.acquireCore()
	defer g.releaseCore()
	began, acting := time.Now(), time.Duration(0)
	defer func() {
		l.acting.Add(int64(acting))
		l.stepping.Add(int64(time.Since(began) - acting))
	}()
	for k := first; ; {
		took, err := g.chooseAlone(worker, i, l.t+k)
		if acting += took; err != nil {
			return err
		}
		if err := g.recordStep(i, k, g.stepWithoutCore(i)); err != nil {
			return err
		}
		if k += w; !l.admit(k, w) {
			return nil
		}
	}
}

// acquireCore and releaseCore are for the threads of a pool whose steps wait: these threads hold no
// core by themselves. Elsewhere they do nothing.

func (g *Group) acquireCore() {
	if g.waits && g.Cores != nil {
		g.Cores.Acquire()
	}
}

func (g *Group) releaseCore() {
	if g.waits && g.Cores != nil {
		g.Cores.Release(1)
	}
}

// stepWithoutCore is stepOne on such a thread.
func (g *Group) stepWithoutCore(i int) error {
	g.releaseCore()
	defer g.acquireCore()
	return g.stepOne(i)
}
