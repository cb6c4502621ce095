package threads

import "sync/atomic"

// A gate lets helpers into the current job and wakes the caller when all are
// out again. It is one word:
//
//	bits 0-11   how many helpers are inside
//	bits 12-23  free slots: how many more may go in; open if there is any
//	bit 24      the caller sleeps until the last one leaves
//	bit 25      closed for good
//	bit 26      slots may be added to the current job
//	bits 32-63  the job's number
//
// A helper that wakes late finds the gate shut, or open with another job's
// number, and so never touches a job that has returned: the caller need not
// wait for helpers to wake, only for those that went in. Whoever is awake takes
// a slot, woken for this job or still spinning since the last one; so the
// slots bound the helpers, not how many are woken.
type gate struct {
	word  atomic.Uint64
	empty chan struct{} // of capacity 1: the last helper out wakes the caller
}

const (
	gateInside  = gateSlot - 1
	gateSlot    = 1 << 12
	gateOpen    = gateAwaited - gateSlot // any slot
	gateAwaited = 1 << 24
	gateClosed  = 1 << 25
	gateMore    = 1 << 26
	gateJob     = 1 << 32
)

// spins is how often a thread checks again before it sleeps: 1 to 3
// microseconds, about what being woken costs.
const spins = 1500

// The threads of NewStepping spin longer after that, with pauses that leave the core to
// its other thread, as being woken takes tens of microseconds where a virtual machine's
// processor has gone to sleep. A helper spins for 45 of them (where a pause takes 25
// nanoseconds; others take more), more than a script in Python lets pass between two steps;
// the caller, for the last helper, 270, more than most environments take for one.
const (
	pauseLength  = 30
	helperPauses = 60
	callerPauses = 360
)

// open starts the next job, for 0 to Max-1 helpers; with more as gateMore, others may be
// let in later. The gate is shut and nobody is inside.
func (g *gate) open(slots int, more uint64) {
	g.word.Store(g.word.Load()&^(gateJob-1) + gateJob + uint64(slots)*gateSlot + more)
}

// add lets one helper more into the current job, if it may be and there are fewer than most.
func (g *gate) add(most int) bool {
	for {
		w := g.word.Load()
		if w&gateMore == 0 || int(w&gateInside+w&gateOpen/gateSlot) >= most {
			return false
		}
		if g.word.CompareAndSwap(w, w+gateSlot) {
			return true
		}
	}
}

// shut lets nobody else in and returns how many slots were left.
func (g *gate) shut() int {
	return int(g.word.And(^uint64(gateOpen|gateMore)) & gateOpen / gateSlot)
}

// await returns when nobody is inside. The gate is shut.
func (g *gate) await(pauses int) {
	for range spins {
		if g.word.Load()&gateInside == 0 {
			return
		}
	}
	for range pauses {
		if pause(pauseLength); g.word.Load()&gateInside == 0 {
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

// news reports whether there is anything to do for a helper whose last job was
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
		if g.word.CompareAndSwap(w, w+1-gateSlot) {
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

// A worker is where one helper sleeps.
type worker struct {
	asleep atomic.Bool
	token  chan struct{} // of capacity 1; sent by whoever turns asleep off
	_      [48]byte      // neighbours' flags are not on the same cache line
}

// wake brings the worker back if it sleeps.
func (w *worker) wake() (slept bool) {
	if slept = w.asleep.CompareAndSwap(true, false); slept {
		w.token <- struct{}{}
	}
	return slept
}

// wait returns when there is news: soon after, if it comes within a few
// microseconds, and when woken otherwise.
func (w *worker) wait(g *gate, last uint64, pauses int) {
	for range spins {
		if g.news(last) {
			return
		}
	}
	for range pauses {
		if pause(pauseLength); g.news(last) {
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
