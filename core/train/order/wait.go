package order

import (
	"sync/atomic"
	"time"

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
	granted verdict = iota
	refused         // the slice ends first
	stopped         // the Interrupt is raised
	waiting         // for another learner
)

// wait is the state of a learner that waits. A learner that waits for another learner is in the
// other one's list, and is looked at again when the other one moves. So one move wakes only those
// whose turn has come.
type wait struct {
	want    want
	verdict verdict
	waiter  int           // the first of the list of learners that wait for this one; -1: none
	sibling int           // the next one in the list in which this learner is
	blocked bool          // in a list
	wake    chan struct{} // of capacity 1: the learner has a core, or its turn at Config.Cores
	began   time.Time     // the wait for the turn
	ready   time.Time     // the wait for a core
	arrived int64         // in a race, the place in the queue for a core
}

// Times are the times of all learners together.
type Times struct {
	Turns time.Duration // waited for the turn, without a core
	Cores time.Duration // waited for a core after that, and after Enter
	Locks time.Duration // waited for the lock of a shard, with a core
	// Recording is the time in which a race was encoded, at the ends of slices.
	Recording time.Duration
}

// ask waits for the answer to a want of learner k. Afterwards ended says whether the want was
// refused. The error is that of the Interrupt, or of a record that is over.
func (t *Turns) ask(k int, w want) error {
	l := &t.learners[k]
	if err := t.raised(); err != nil {
		t.stop(err)
		return err
	}
	if l.ended {
		return nil
	}
	l.want = w
	v, on := t.answer(k)
	if v == waiting {
		t.watch(k, on)
		l.began = time.Now()
		t.takeBack()
		t.mu.Unlock()
		t.release()
		waited := t.receive(k)
		t.mu.Lock()
		t.times.Cores += waited
		v = l.verdict
	}
	switch v {
	case stopped:
		return t.stopped
	case refused:
		t.endFor(k)
		return nil
	}
	return t.exhausted(k)
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
		} else {
			t.resume(k, v)
		}
		k = next
	}
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

// coreQueue bounds the number of learners that use Config.Cores, so that the order in which they get
// a core is that of their next events. threads.Budget alone would serve them in the order in which
// they came.
type coreQueue struct {
	free   int
	queue  []int
	length atomic.Int32 // of queue, for a race
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
		t.learners[k].wake <- struct{}{}
		return
	}
	q.queue = append(q.queue, k)
	q.length.Store(int32(len(q.queue)))
}

// takeBack takes back the core of a learner and gives it to the first of the queue.
func (t *Turns) takeBack() {
	q := &t.cores
	if len(q.queue) == 0 {
		q.free++
		return
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
	t.learners[k].wake <- struct{}{}
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
	if t.cores.budget != nil {
		t.cores.budget.Acquire()
	}
	return time.Since(l.ready)
}

// release releases the core that takeBack has taken back.
func (t *Turns) release() {
	if t.cores.budget != nil {
		t.cores.budget.Release(1)
	}
}
