package order

import "github.com/paceline-rl/paceline/core/rng"

// naive is a virtual order on one thread: it makes the least event of all learners, again and
// again.
type naive struct {
	*world
	latency *Latency
	barrier bool
	streams []*rng.Stream
	legs    [][]event // the events of each learner's leg that are left
	clocks  []int64   // the time of each learner's latest event
	waits   []bool    // with barrier: the learner's pulls wait until every learner has pushed
	total   int64     // T
}

// event is a round, or a visit that may be the last of its leg.
type event struct {
	time  int64
	round bool
	visit Visit
	last  bool
}

func newNaive(w *world, seed uint64, m *Latency, barrier bool) *naive {
	n := &naive{world: w, latency: m, barrier: barrier, legs: make([][]event, w.k), clocks: make([]int64, w.k), waits: make([]bool, w.k)}
	for k := range w.k {
		n.streams = append(n.streams, rng.New(seed, "latency", k))
	}
	return n
}

// plan draws the events of learner k's next leg.
func (n *naive) plan(k int) {
	rounds, s := n.learners[k].next(&n.programme)
	r, m := n.streams[k], n.latency
	at := n.clocks[k]
	var list []event
	for range rounds {
		at += m.Step.draw(r)
		at += m.Forward.draw(r)
		list = append(list, event{time: at, round: true})
	}
	if s == PushAndPull {
		at += m.Gradient.draw(r)
		for shard := range n.shards {
			at += max(1, m.Push.draw(r)/int64(n.shards))
			list = append(list, event{time: at, visit: Visit{Shard: shard, Push: true}})
		}
	}
	if s != NoVisit {
		for shard := range n.shards {
			at += max(1, m.Pull.draw(r)/int64(n.shards))
			list = append(list, event{time: at, visit: Visit{Shard: shard}, last: shard == n.shards-1})
		}
	}
	n.legs[k], n.waits[k] = list, n.barrier
}

// run makes all events before the first round whose T is at least until.
func (n *naive) run(until int64) {
	for {
		best := -1
		for k := range n.legs {
			if len(n.legs[k]) == 0 {
				n.plan(k)
			}
			if n.pulls(k) && n.waits[k] {
				continue
			}
			if best < 0 || n.legs[k][0].time < n.legs[best][0].time {
				best = k
			}
		}
		if best < 0 {
			n.release()
			continue
		}
		if n.legs[best][0].round && n.total >= until {
			return
		}
		n.do(best)
	}
}

// do makes learner k's next event.
func (n *naive) do(k int) {
	e, l := n.legs[k][0], &n.learners[k]
	if e.round {
		n.total += int64(l.take(&n.programme, n.steps, n.varies))
	} else {
		gradient := uint64(0)
		if e.visit.Push {
			gradient = l.gradient()
		}
		e.visit.Steps = n.total
		n.visit(k, e.visit, gradient)
		if e.last {
			l.visited(&n.programme)
		}
	}
	n.clocks[k], n.legs[k] = e.time, n.legs[k][1:]
	if e.round && l.skips { // the time of the visits passes
		n.clocks[k], n.legs[k] = n.legs[k][len(n.legs[k])-1].time, nil
	}
}

// pulls reports whether learner k has pushed and pulls next.
func (n *naive) pulls(k int) bool {
	e := n.legs[k][0]
	return !e.round && !e.visit.Push && e.visit.Shard == 0
}

// release lets the pulls of all learners begin at the time of the latest push.
func (n *naive) release() {
	start := int64(0)
	for k := range n.clocks {
		start = max(start, n.clocks[k])
	}
	for k, leg := range n.legs {
		if !n.waits[k] {
			continue
		}
		for i := range leg {
			leg[i].time += start - n.clocks[k]
		}
		n.waits[k] = false
	}
}
