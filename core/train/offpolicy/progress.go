package offpolicy

import (
	"errors"
	"sync"

	"github.com/paceline-rl/paceline/core/train"
)

// progress counts updates for two threads: the main thread releases updates and waits for them, and
// the thread that does updates counts them.
//
//   - Update u may begin when u <= released and err is nil. Updates begin in the order of their
//     numbers.
//   - Only the thread that does updates changes done, except set, which runs while no update is in
//     progress.
//   - released falls only in Halt, forgive and set.
//   - After an error no update begins, until forgive or set.
//
// Methods whose names begin with "locked" are called with mu held.
type progress struct {
	monitor *train.Monitor

	mu       sync.Mutex
	changed  *sync.Cond // broadcast when released rises, an update ends or closing is set, and by wake
	released int64      // the number of the latest update that may begin
	done     int64      // the number of the latest update that is done
	running  bool       // updates are in progress
	closing  bool       // the trainer thread is to end
	err      error      // what ended the updates
	losses   losses
	dropped  int64 // gradients that outliers has dropped
}

func (g *progress) init(h *train.Monitor) {
	g.monitor = h
	g.changed = sync.NewCond(&g.mu)
}

// lockedIdle reports whether no update may begin.
func (g *progress) lockedIdle() bool { return g.err != nil || g.done >= g.released }

func (g *progress) lockedRelease(u int64) {
	if u > g.released {
		g.released = u
		g.changed.Broadcast()
	}
}

// Release lets updates up to number u begin. It returns the error that ended the updates.
func (g *progress) Release(u int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lockedRelease(u)
	return g.err
}

// Failed returns the error that ended the updates.
func (g *progress) Failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Done returns how many updates are done.
func (g *progress) Done() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}

// wake makes a wait in progress check its Interrupt.
func (g *progress) wake() {
	g.mu.Lock()
	g.changed.Broadcast()
	g.mu.Unlock()
}

// forgive lets updates continue after an error of this kind, because its cause is gone: the
// parameters, the experience or the run are others now. Other errors stay.
func (g *progress) forgive(kind error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if errors.Is(g.err, kind) {
		g.err = nil
		g.released = g.done
	}
}

// fail ends the updates.
func (g *progress) fail(err error) {
	g.mu.Lock()
	g.err = err
	g.mu.Unlock()
}

// set sets the number of updates that are done, and of dropped gradients, after a load. No update
// is in progress.
func (g *progress) set(u, dropped int64) {
	g.mu.Lock()
	g.done, g.released, g.dropped, g.err, g.losses.n = u, u, dropped, nil, 0
	g.mu.Unlock()
	g.monitor.Updates.Store(u)
}

// quit makes the trainer thread end after the update in progress.
func (g *progress) quit() {
	g.mu.Lock()
	g.closing = true
	g.changed.Broadcast()
	g.mu.Unlock()
}

// meanLoss is the mean of the latest losses; NaN before the first.
func (g *progress) meanLoss() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.losses.mean()
}

// droppedGradients is how many gradients were dropped by the updates that are done.
func (g *progress) droppedGradients() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dropped
}

// losses keeps the latest 100 losses.
type losses struct {
	latest [100]float32
	n      int64 // losses ever added
}

func (l *losses) add(loss float32) {
	l.latest[l.n%int64(len(l.latest))] = loss
	l.n++
}

func (l *losses) mean() float64 {
	n := min(l.n, int64(len(l.latest)))
	sum := 0.0
	for _, loss := range l.latest[:n] {
		sum += float64(loss)
	}
	return sum / float64(n)
}
