package order

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/threads"
)

// want says what a learner waits for.
type want uint8

const (
	wantRound want = iota
	wantVisit
	wantPushes // of the other learners, in a race with Config.Barrier
)

// verdict is the answer to a want.
type verdict uint8

const (
	granted  verdict = iota
	finished         // other learners have made the visits that were left
	failed           // other learners have made visits, and one has failed
	refused          // the slice ends first
	stopped          // the Interrupt is raised
	waiting          // for another learner
)

// wait is the state of a learner that waits. A learner that waits for another learner is in the
// other one's list, and is looked at again when the other one moves. So one move wakes only those
// whose turn has come.
type wait struct {
	want    want
	verdict verdict
	do      func(Visit) error // the learner's visits, which others may make while it waits
	err     error             // of such a visit
	waiter  int               // the first of the list of learners that wait for this one; -1: none
	sibling int               // the next one in the list in which this learner is
	passed  bool              // the core comes from another learner
	blocked bool              // in a list
	wake    chan struct{}     // of capacity 1: the learner has a core, or its turn at Config.Cores
	began   time.Time         // the wait for the turn
	ready   time.Time         // the wait for a core
	arrived int64             // in a race, the place in the queue for a core
}

// Times are the times of all learners together.
type Times struct {
	Turns time.Duration // waited for the turn, without a core
	Cores time.Duration // waited for a core after that, and after Enter
	Locks time.Duration // waited for the lock of a shard, with a core
	// Recording is the time in which a race was encoded, at the ends of slices.
	Recording time.Duration
}

// ask waits for the answer to a want of learner k. A refusal ends the slice for the learner. The
// error is that of the Interrupt, of a visit that another learner made, or of a record that is
// over.
func (t *Turns) ask(k int, w want) (verdict, error) {
	l := &t.learners[k]
	if err := t.raised(); err != nil {
		t.stop(err)
		return stopped, err
	}
	if l.ended {
		return refused, nil
	}
	l.want = w
	v, on := t.answer(k)
	if v == waiting && len(t.ready) > 0 {
		if t.help(); t.stopped != nil {
			return stopped, t.stopped
		}
		v, on = t.answer(k)
	}
	if v == waiting {
		t.watch(k, on)
		l.began = time.Now()
		passed := t.takeBack()
		given := t.cores.given.Load()
		t.mu.Unlock()
		if t.release(passed); !passed {
			threads.Linger(&t.cores.given, given)
		}
		waited := t.receive(k)
		t.mu.Lock()
		t.times.Cores += waited
		v = l.verdict
	}
	switch v {
	case stopped:
		return v, t.stopped
	case failed:
		return v, l.err
	case refused:
		t.endFor(k)
	case granted:
		return v, t.exhausted(k)
	}
	return v, nil
}

// watch adds learner k to the list of learner on.
func (t *Turns) watch(k, on int) {
	l, other := &t.learners[k], &t.learners[on]
	l.blocked = true
	l.sibling, other.waiter = other.waiter, k
}

// moved looks at the learners that wait for learner j, which has moved.
func (t *Turns) moved(j int) {
	l := &t.learners[j]
	k := l.waiter
	l.waiter = -1
	for k >= 0 {
		w := &t.learners[k]
		next := w.sibling
		if !l.ended && t.blocks(j, k) {
			t.watch(k, j)
		} else if v, on := t.answer(k); v == waiting {
			t.watch(k, on)
		} else if v == granted && w.want == wantVisit && t.cores.free == 0 {
			w.blocked = false
			t.ready = append(t.ready, k)
		} else {
			t.resume(k, v)
		}
		k = next
	}
}

// help makes the visits of learners whose turn has come while no core was free for them. A learner
// that waits is then woken once for all its visits, and not for each of them.
func (t *Turns) help() {
	for len(t.ready) > 0 {
		k := t.ready[0]
		t.ready = append(t.ready[:0], t.ready[1:]...)
		if t.cores.free > 0 || t.stopped != nil {
			t.resume(k, granted)
		} else if v := t.visitFor(k); v != waiting {
			t.resume(k, v)
		}
	}
}

// flush gives the learners that help would help to the queue for a core.
func (t *Turns) flush() {
	ready := t.ready
	t.ready = t.ready[:0]
	for _, k := range ready {
		t.resume(k, granted)
	}
}

// visitFor makes visits of a learner that waits and whose turn it is, and returns the verdict with
// which its wait ends, or waiting.
func (t *Turns) visitFor(k int) verdict {
	l := &t.learners[k]
	for {
		if l.err = t.exhausted(k); l.err == nil {
			l.err = t.unlocked(t.nextVisit(l), l.guarded)
		}
		if l.err != nil {
			return failed
		}
		if t.visited(k) {
			return finished
		}
		if t.stopped != nil {
			return stopped
		}
		if v, on := t.answer(k); v == waiting {
			t.watch(k, on)
			return v
		} else if v != granted {
			return v
		}
	}
}

// guarded makes a visit on the goroutine of another learner. A panic is an error of this learner.
func (l *learner) guarded(v Visit) (err error) {
	defer fault.Recover(&err)
	return l.do(v)
}

// resume ends the wait of learner k, which is in no list.
func (t *Turns) resume(k int, v verdict) {
	l := &t.learners[k]
	l.blocked, l.verdict = false, v
	t.times.Turns += time.Since(l.began)
	t.give(k)
}

// raised returns the error of the Interrupt.
func (t *Turns) raised() error {
	if t.stopped == nil && t.interrupt != nil {
		return t.interrupt.Err(time.Now())
	}
	return t.stopped
}

// stop ends every wait.
func (t *Turns) stop(err error) {
	if t.stopped != nil {
		return
	}
	t.stopped = err
	for k := range t.learners {
		t.learners[k].waiter = -1
	}
	for k := range t.learners {
		if t.learners[k].blocked {
			t.resume(k, stopped)
		}
	}
}

// coreQueue bounds the number of learners that use Config.Cores, so that the order in which they
// get a core is that of their next events. threads.Budget alone would serve them in the order in
// which they came.
type coreQueue struct {
	free   int
	woken  bool // a learner has got a free core since the latest unlock
	queue  []int
	length atomic.Int32 // of queue, for a race
	// given counts the free cores that learners have got. A learner that waits beside a free core
	// spins until it changes, so that a thread is awake for the learner that gets the core.
	given  atomic.Uint64
	budget *threads.Budget
}

func (q *coreQueue) init(c *Config) {
	q.free, q.budget = c.Learners, c.Cores
	if c.Cores != nil && !c.Waits {
		q.free = min(c.Learners, c.Cores.Cores())
	}
}

// give gives learner k a core, or queues it.
func (t *Turns) give(k int) {
	q := &t.cores
	t.learners[k].ready = time.Now()
	if q.free > 0 {
		q.free--
		q.woken = true
		q.given.Add(1)
		t.learners[k].wake <- struct{}{}
		return
	}
	q.queue = append(q.queue, k)
	q.length.Store(int32(len(q.queue)))
}

// takeBack takes back the core of a learner, and passes it to the first of the queue, if there is
// one.
func (t *Turns) takeBack() (passed bool) {
	q := &t.cores
	if len(q.queue) == 0 {
		q.free++
		t.flush()
		return false
	}
	best := 0
	for i := range q.queue {
		if t.priority(q.queue[i]).before(t.priority(q.queue[best])) {
			best = i
		}
	}
	k := q.queue[best]
	q.queue = append(q.queue[:best], q.queue[best+1:]...)
	q.length.Store(int32(len(q.queue)))
	t.learners[k].passed = true
	t.learners[k].wake <- struct{}{}
	return true
}

func (t *Turns) priority(k int) eventTime {
	if t.race != nil {
		return eventTime{t.learners[k].arrived, k}
	}
	return eventTime{t.learners[k].pending(), k}
}

// receive waits for the core that give gives, and returns how long that took.
func (t *Turns) receive(k int) time.Duration {
	l := &t.learners[k]
	<-l.wake
	if t.cores.budget != nil && !l.passed {
		t.cores.budget.Acquire()
	}
	l.passed = false
	return time.Since(l.ready)
}

// release releases the core that takeBack has taken back and not passed on.
func (t *Turns) release(passed bool) {
	if t.cores.budget != nil && !passed {
		t.cores.budget.Release(1)
	}
}

// unlock releases the lock. A learner that has got a free core runs on this thread then, and the
// caller on another one. Go's scheduler would let the learner wait some 20 microseconds before an
// idle thread takes it.
func (t *Turns) unlock() {
	woken := t.cores.woken
	t.cores.woken = false
	t.mu.Unlock()
	if woken {
		runtime.Gosched()
	}
}
