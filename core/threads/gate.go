package threads

import "sync/atomic"

// A gate admits helpers to the current job and wakes the caller when all have left. Its state is
// one word:
//
//	bits 0-11   number of helpers inside
//	bits 12-23  slots: number of helpers that may still enter; the gate is open if there is one
//	bit 24      the caller sleeps until the last helper leaves
//	bit 25      closed for good
//	bit 26      slots may be added to the current job
//	bits 32-63  the job's number
//
// A helper that wakes late finds the gate shut, or open with the number of another job. So the
// caller waits only for the helpers inside, not for helpers that have not woken yet. A helper that
// is awake takes a slot, whether it was woken for this job or still spins after the last one.
// Therefore the slots bound the number of helpers, not the number of wake-ups.
type gate struct {
	word  atomic.Uint64
	empty chan struct{} // of capacity 1: the last helper that leaves wakes the caller
}

const (
	gateInside  = gateSlot - 1
	gateSlot    = 1 << 12
	gateOpen    = gateAwaited - gateSlot // the bits of the slots
	gateAwaited = 1 << 24
	gateClosed  = 1 << 25
	gateMore    = 1 << 26
	gateJob     = 1 << 32
)

// spins is the number of checks before a thread sleeps. They take 1 to 3 microseconds, about as
// long as waking a thread.
const spins = 1500

// The threads of NewStepping then spin with pauses, because waking a thread takes tens of
// microseconds if the processor of a virtual machine sleeps. During a pause the core serves its
// other hardware thread. On processors on which a PAUSE takes 25 nanoseconds, a helper spins for 45
// microseconds, longer than a Python script spends between two steps. The caller spins for 270
// microseconds for the last helper, longer than most environments take for a step. On other
// processors a PAUSE takes longer.
const (
	pauseLength  = 30
	helperPauses = 60
	callerPauses = 360
)

// Linger spins until a word is no longer what it was, for tens of microseconds at most. A goroutine
// calls it before it sleeps where another one is likely to need its thread soon.
func Linger(word *atomic.Uint64, was uint64) {
	for range helperPauses {
		if pause(pauseLength); word.Load() != was {
			return
		}
	}
}

// open starts the next job with 0 to Max-1 slots. more is gateMore if add may add slots, else 0.
// The gate is shut and no helper is inside.
func (g *gate) open(slots int, more uint64) {
	g.word.Store(g.word.Load()&^(gateJob-1) + gateJob + uint64(slots)*gateSlot + more)
}

// add adds a slot to the current job. It returns false if the job admits no more slots or already
// has limit helpers and slots.
func (g *gate) add(limit int) bool {
	for {
		w := g.word.Load()
		if w&gateMore == 0 || int(w&gateInside+w&gateOpen/gateSlot) >= limit {
			return false
		}
		if g.word.CompareAndSwap(w, w+gateSlot) {
			return true
		}
	}
}

// shut closes the current job to further helpers and returns the number of unused slots.
func (g *gate) shut() int {
	return int(g.word.And(^uint64(gateOpen|gateMore)) & gateOpen / gateSlot)
}

// await returns when no helper is inside. The gate is shut.
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

// close makes all helpers exit. The gate is shut and no helper is inside.
func (g *gate) close() { g.word.Or(gateClosed) }

func (g *gate) closed() bool { return g.word.Load()&gateClosed != 0 }

// hasWork reports whether a helper must look at the gate: it is closed, or open with a job other
// than last.
func (g *gate) hasWork(last uint64) bool {
	w := g.word.Load()
	return w&gateClosed != 0 || w&gateOpen != 0 && w/gateJob != last
}

// enter takes a slot of the current job, unless that is job last, and returns its number.
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

func (g *gate) leave() {
	if w := g.word.Add(^uint64(0)); w&gateAwaited != 0 && w&gateInside == 0 {
		g.empty <- struct{}{}
	}
}

// A worker is the sleep state of one helper.
type worker struct {
	asleep atomic.Bool
	token  chan struct{} // of capacity 1; the thread that turns asleep off sends it
	_      [48]byte      // keeps the flags of two workers off the same cache line
}

// wake wakes the worker if it sleeps.
func (w *worker) wake() (slept bool) {
	if slept = w.asleep.CompareAndSwap(true, false); slept {
		w.token <- struct{}{}
	}
	return slept
}

// wait returns when the gate has work. It spins first and then sleeps.
func (w *worker) wait(g *gate, last uint64, pauses int) {
	for range spins {
		if g.hasWork(last) {
			return
		}
	}
	for range pauses {
		if pause(pauseLength); g.hasWork(last) {
			return
		}
	}
	w.asleep.Store(true)
	// A job that was opened before asleep was set has not woken this worker.
	if g.hasWork(last) && w.asleep.CompareAndSwap(true, false) {
		return
	}
	<-w.token
}
