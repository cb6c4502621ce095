package actor

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
)

// loop is what Run was asked for.
type loop struct {
	t       int64 // t at the loop's first step
	phase   int   // the row of that step
	chooser policy.Chooser
	over    func() bool
	begins  func(steps int64)
	// Nanoseconds, added over the threads: computing outputs, and the rest (where steps
	// wait, for a core, too).
	acting, stepping atomic.Int64

	mu       sync.Mutex
	n        int64 // steps of the loop, all rows together
	furthest int64 // the furthest step that has begun
	round    int64 // steps up to the end of the furthest round that has begun
}

// roundEnd returns the first end of a round past step k of the loop.
func (l *loop) roundEnd(k, rows int64) int64 {
	at := k + 1 + int64(l.phase)
	return (at+rows-1)/rows*rows - int64(l.phase)
}

// admit reports whether step k belongs to the loop. When over says so, the loop
// ends with the furthest round that has begun, or with its first: all rows take
// their steps up to there, so that nothing of the result depends on who was faster.
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

// aloneRow computes the outputs of one row when they are asked for.
type aloneRow struct {
	g        *Group
	net      nn.Network
	i        int
	computed bool
	outputs  nn.Outputs
	took     time.Duration
}

// at turns to row i.
func (r *aloneRow) at(i int) { r.i, r.computed = i, false }

func (r *aloneRow) Head(k int) ([]float32, error) {
	if !r.computed {
		began := time.Now()
		var err error
		if r.outputs, err = r.net.Forward(r.g.Acting, r.g.row(r.g.rows.Obs, r.i), 1); err != nil {
			return nil, err
		}
		r.took += time.Since(began)
		r.computed = true
	}
	return r.outputs.Row(k, 0), nil
}

// Ran says what a Round or a Run came to.
type Ran struct {
	Steps int64 // of the loop: n, or fewer where it was over before
	Made  int64 // of these, those that no failure prevented
	// Times, added over the threads: computing outputs, and the rest.
	Acting, Stepping time.Duration
	// Cores is what the steps took of cores: none, where they wait.
	Cores time.Duration
}

// Run takes n steps, the first of them in row phase and the one that t counts,
// then one of each row in turn: each row takes its share without waiting for the
// others and computes its own outputs. When over, which is asked ahead of every
// step, says so, it ends with a round. begins is called, by one goroutine at a
// time, when steps up to the next end of a round are sure to be taken.
func (g *Group) Run(t int64, phase int, n int64, c policy.Chooser, over func() bool, begins func(steps int64)) (Ran, error) {
	l := &g.run
	l.t, l.phase, l.n, l.furthest, l.round = t, phase, n, -1, 0
	l.chooser, l.over, l.begins = c, over, begins
	l.acting.Store(0)
	l.stepping.Store(0)
	g.made.Store(0)
	err := g.Source.Pool().Do(len(g.actions), g.runAlone)
	ran := Ran{Steps: l.n, Made: g.made.Load(), Acting: time.Duration(l.acting.Load()), Stepping: time.Duration(l.stepping.Load())}
	if !g.waits {
		ran.Cores = ran.Stepping
	}
	return ran, err
}

func (g *Group) runRow(worker, i int) error {
	l, w := &g.run, int64(len(g.actions))
	first := int64(i - l.phase)
	if first < 0 {
		first += w
	}
	if !l.admit(first, w) { // often, where few steps lie between two updates: not worth a core
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
		if err := g.stepped(i, k, g.stepWithoutCore(i)); err != nil {
			return err
		}
		if k += w; !l.admit(k, w) {
			return nil
		}
	}
}

// chooseAlone chooses row i's action for the step that t counts. took is the time that its
// outputs took.
func (g *Group) chooseAlone(worker, i int, t int64) (took time.Duration, err error) {
	var row *aloneRow
	if g.waits { // there are more threads than networks, but not with a core
		row = <-g.unused
		defer func() { g.unused <- row }()
	} else {
		row = &g.alone[worker]
	}
	row.at(i)
	row.took = 0
	err = g.choose(t, i, g.run.chooser, row)
	return row.took, err
}

// acquireCore and releaseCore are for the threads of a pool that hold no core by
// themselves, as their steps wait. Elsewhere they do nothing.

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
