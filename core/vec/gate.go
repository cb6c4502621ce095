package vec

import "sync/atomic"

// A gate lets helpers into the current job and tells the caller when all are
// out again. It is one word:
//
//	bits 0-15   how many helpers are inside
//	bit 16      open: helpers may go in
//	bit 17      the caller sleeps until the last one leaves
//	bit 18      closed for good
//	bits 32-63  the job's number
//
// A helper that wakes late finds the gate shut, or open with another job's
// number, and so never touches a job that has returned: the caller need not
// wait for helpers to wake, only for those that went in.
type gate struct {
	word  atomic.Uint64
	empty chan struct{} // room for one: the last helper out wakes the caller
}

const (
	gateInside  = 1<<16 - 1
	gateOpen    = 1 << 16
	gateAwaited = 1 << 17
	gateClosed  = 1 << 18
	gateJob     = 1 << 32
)

// spins is how often a thread looks again before it sleeps: 1 to 3
// microseconds, about what being woken costs.
const spins = 1500

// open begins the next job. The gate is shut and nobody is inside.
func (g *gate) open() {
	g.word.Store(g.word.Load()&^(gateJob-1) + gateJob | gateOpen)
}

// shut lets nobody else in and returns when nobody is inside.
func (g *gate) shut() {
	g.word.And(^uint64(gateOpen))
	for range spins {
		if g.word.Load()&gateInside == 0 {
			return
		}
	}
	if g.word.Or(gateAwaited)&gateInside != 0 {
		<-g.empty
	}
	g.word.And(^uint64(gateAwaited))
}

// close sends all helpers home. The gate is shut and nobody is inside.
func (g *gate) close() { g.word.Or(gateClosed) }

func (g *gate) closed() bool { return g.word.Load()&gateClosed != 0 }

// news tells whether there is anything to do for a helper whose last job was
// the numbered one.
func (g *gate) news(last uint64) bool {
	w := g.word.Load()
	return w&gateClosed != 0 || w&gateOpen != 0 && w/gateJob != last
}

// enter goes in if there is a job other than the last one, and returns its
// number.
func (g *gate) enter(last uint64) (job uint64, in bool) {
	for {
		w := g.word.Load()
		if w&gateOpen == 0 || w/gateJob == last {
			return last, false
		}
		if g.word.CompareAndSwap(w, w+1) {
			return w / gateJob, true
		}
	}
}

// leave goes out.
func (g *gate) leave() {
	if w := g.word.Add(^uint64(0)); w&gateAwaited != 0 && w&gateInside == 0 {
		g.empty <- struct{}{}
	}
}

// A worker is the place where one helper sleeps.
type worker struct {
	asleep atomic.Bool
	token  chan struct{} // room for one; sent by whoever turns asleep off
	_      [48]byte      // neighbours' flags are not on the same cache line
}

// wake brings the worker back if it sleeps.
func (w *worker) wake() {
	if w.asleep.CompareAndSwap(true, false) {
		w.token <- struct{}{}
	}
}

// wait returns when there is news: soon after, if it comes within a few
// microseconds, and when woken otherwise.
func (w *worker) wait(g *gate, last uint64) {
	for range spins {
		if g.news(last) {
			return
		}
	}
	w.asleep.Store(true)
	// The job that was posted before asleep was seen woke nobody.
	if g.news(last) && w.asleep.CompareAndSwap(true, false) {
		return
	}
	<-w.token
}
