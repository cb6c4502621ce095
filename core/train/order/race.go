package order

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// quantum is how long a learner in a race keeps its core while another one waits for a core.
const quantum = time.Millisecond

// race is the schedule without turns. Learners use no lock in common but those of the shards.
type race struct {
	*Turns
	locks []shardLock
	// number counts the visits. A visit takes its number under the lock of its shard, so the numbers
	// of a shard's visits have the order of those visits.
	number atomic.Int64
	steps  atomic.Int64 // T
	// admitted is T plus the steps of the rounds in progress, so that a slice takes no round too
	// many. With Varies these are not known, and admitted is T.
	admitted atomic.Int64
	failed   atomic.Bool
	arrivals int64
	locked   atomic.Int64 // nanoseconds waited for locks
	pushed   []int64      // how often a learner has pushed to all shards (Config.Barrier)
	seated   []time.Time  // when a learner got its core
	record   recorder
}

// shardLock keeps the locks of two shards off the same cache line.
type shardLock struct {
	sync.Mutex
	_ [64]byte
}

func newRace(t *Turns) *race {
	n := t.cfg.Learners
	return &race{Turns: t, locks: make([]shardLock, t.cfg.Shards), pushed: make([]int64, n), seated: make([]time.Time, n),
		record: newRecorder(t.cfg.Fingerprint, Shape{t.cfg.Learners, t.cfg.Shards, t.cfg.Steps, t.cfg.Barrier})}
}

func (r *race) begin() {
	r.failed.Store(false)
	r.admitted.Store(r.steps.Load())
	for k := range r.learners {
		l := &r.learners[k]
		l.log.clear()
		r.pushed[k] = int64(l.index)
		if l.then == PushAndPull && l.done >= r.cfg.Shards {
			r.pushed[k]++
		}
	}
}

func (r *race) setSteps(steps int64) {
	r.steps.Store(steps)
	if !r.cfg.Unrecorded {
		r.record.stop(steps, steps, r.sinces(), true)
	}
}

func (r *race) sinces() []int64 {
	list := make([]int64, len(r.learners))
	for k := range r.learners {
		list[k] = r.learners[k].since
	}
	return list
}

// end records the slice. Only visits that were numbered in the slice are in the logs.
func (r *race) end() {
	r.visits = r.number.Load()
	if r.cfg.Unrecorded {
		return
	}
	began := time.Now()
	r.record.merge(r.learners, int(r.visits-r.record.visits))
	steps := r.steps.Load()
	if !r.cfg.Together { // the host's rounds end where they end
		until := r.until
		if steps < until && (r.cutShort || r.failure != nil) {
			until = steps + 1
		} else if slices.ContainsFunc(r.learners, func(l learner) bool { return l.resting }) {
			until = min(until, steps)
		}
		r.record.stop(until, steps, r.sinces(), false)
	}
	r.times.Recording += time.Since(began)
}

func (r *race) plan(l *learner, n int, s Visits) {
	l.rest, l.then, l.done = n, s, 0
	l.visits = slices.Grow(l.visits[:0], s.count(r.cfg.Shards))[:s.count(r.cfg.Shards)]
}

func (r *race) round(k int) (ok bool, err error) {
	if r.interrupt != nil {
		if err := r.interrupt.Err(time.Now()); err != nil {
			r.Wake()
			return false, err
		}
	}
	l := &r.learners[k]
	if r.failed.Load() || !r.admit() {
		r.mu.Lock()
		r.endFor(k)
		r.mu.Unlock()
		return false, nil
	}
	r.yield(k)
	l.rest--
	l.since++
	l.inRound = true
	return true, nil
}

// admit reports whether another round belongs to the slice.
func (r *race) admit() bool {
	if r.cfg.Varies {
		return r.steps.Load() < r.until
	}
	for {
		steps := r.admitted.Load()
		if steps >= r.until {
			return false
		}
		if r.admitted.CompareAndSwap(steps, steps+int64(r.cfg.Steps)) {
			return true
		}
	}
}

func (r *race) took(l *learner, steps int) {
	r.steps.Add(int64(steps))
	if !r.cfg.Varies {
		l.short += int64(r.cfg.Steps - steps)
	}
}

// arrive puts learner k at the end of the queue for a core.
func (r *race) arrive(k int) {
	r.arrivals++
	r.learners[k].arrived = r.arrivals
}

// yield gives learner k's core to a learner that waits for one, after a quantum.
func (r *race) yield(k int) {
	if r.cores.length.Load() == 0 {
		return
	}
	switch now := time.Now(); {
	case r.seated[k].IsZero():
		r.seated[k] = now
		return
	case now.Sub(r.seated[k]) < quantum:
		return
	}
	r.mu.Lock()
	r.arrive(k)
	r.give(k)
	passed := r.takeBack()
	r.mu.Unlock()
	r.release(passed)
	waited := r.receive(k)
	r.mu.Lock()
	r.times.Cores += waited
	r.mu.Unlock()
	r.seated[k] = time.Now()
}

func (r *race) visit(k int, do func(Visit) error) (ok bool, err error) {
	l := &r.learners[k]
	for l.done < len(l.visits) {
		if r.cfg.Barrier && l.done == r.cfg.Shards {
			if ok, err := r.waitForPushes(k); !ok {
				return false, err
			}
		}
		v := r.nextVisit(l)
		number, ok, err := r.visitShard(&v, do)
		if err != nil {
			return false, err
		}
		if !ok {
			r.mu.Lock()
			r.endFor(k)
			r.mu.Unlock()
			return false, nil
		}
		if !r.cfg.Unrecorded {
			l.log.add(number, l, v)
		}
		l.since, l.end = 0, visitAt(number)
		l.done++
		if r.cfg.Barrier && l.done == r.cfg.Shards {
			r.mu.Lock()
			r.pushed[k]++
			r.moved(k)
			r.mu.Unlock()
		}
	}
	l.finish()
	return true, nil
}

// visitShard makes a visit, unless a learner has failed, and returns its number. It sets v.Steps of
// a pull of shard 0.
func (r *race) visitShard(v *Visit, do func(Visit) error) (number int64, ok bool, err error) {
	lock := &r.locks[v.Shard]
	if !lock.TryLock() {
		began := time.Now()
		lock.Lock()
		r.locked.Add(int64(time.Since(began)))
	}
	defer lock.Unlock()
	if r.failed.Load() {
		return 0, false, nil
	}
	defer func() {
		if !ok { // an error or a panic: no visit follows it
			r.fail()
		}
	}()
	if !v.Push && v.Shard == 0 {
		v.Steps = r.steps.Load()
	}
	if err := do(*v); err != nil {
		return 0, false, err
	}
	return r.number.Add(1) - 1, true, nil
}

// waitForPushes waits until every learner has pushed as often as learner k.
func (r *race) waitForPushes(k int) (ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.ask(k, wantPushes)
	return v == granted && err == nil, err
}

func (r *race) answerPushes(k int) (v verdict, on int) {
	v = granted
	for j := range r.learners {
		if r.pushed[j] >= r.pushed[k] {
			continue
		}
		if r.learners[j].ended {
			return refused, -1
		}
		v, on = waiting, j
	}
	return v, on
}

// fail refuses every visit and round that has not begun.
func (r *race) fail() { r.failed.Store(true) }
