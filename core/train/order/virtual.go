package order

import "github.com/paceline-rl/paceline/core/rng"

// stream is the name of the learners' random streams.
const stream = "latency"

// drawn is the pace of a virtual order. The draws of a leg have the order of its events: for each
// round its step and its forward pass, then the gradients, the pushes and the pulls. The duration
// of a push or a pull is that of all shards together, so each visit takes its share.
type drawn struct {
	*Turns
	streams   []*rng.Stream
	durations [][]int64 // scratch, of each learner
	// leastRound is the least duration of a round, and leastVisit that of the shortest way from the
	// end of a leg to a visit.
	leastRound, leastVisit int64
}

func newDrawn(t *Turns) *drawn {
	d := &drawn{Turns: t, streams: make([]*rng.Stream, t.cfg.Learners), durations: make([][]int64, t.cfg.Learners)}
	for k := range d.streams {
		d.streams[k] = rng.New(t.cfg.Seed, stream, k)
	}
	m := t.cfg.Latency
	d.leastRound = m.Step.least() + m.Forward.least()
	d.leastVisit = m.Gradient.least() + d.share(m.Push.least())
	if !t.cfg.Barrier {
		d.leastVisit = min(d.leastVisit, d.share(m.Pull.least()))
	}
	return d
}

// share is the part of a duration that one shard takes.
func (d *drawn) share(all int64) int64 { return max(1, all/int64(d.cfg.Shards)) }

func (d *drawn) draw(k, n int, s Visits) {
	m, r, list := d.cfg.Latency, d.streams[k], d.durations[k][:0]
	for range n {
		step := m.Step.draw(r)
		list = append(list, step+m.Forward.draw(r))
	}
	if s == PushAndPull {
		gradients := int64(0)
		for range 1 + d.learners[k].computed {
			gradients += m.Gradient.draw(r)
		}
		d.learners[k].computed = 0
		list = append(list, gradients)
		for range d.cfg.Shards {
			list = append(list, d.share(m.Push.draw(r)))
		}
	}
	if s != NoVisit {
		for range d.cfg.Shards {
			list = append(list, d.share(m.Pull.draw(r)))
		}
	}
	d.durations[k] = list
}

func (d *drawn) place(k, n int, s Visits) error {
	l, list := &d.learners[k], d.durations[k]
	at := l.end
	for _, duration := range list[:n] {
		at += duration
		l.ends = append(l.ends, at)
	}
	list = list[n:]
	l.then, l.visits, l.done = s, l.visits[:0], 0
	if s == PushAndPull {
		at += list[0]
		list = list[1:]
		for _, duration := range list[:d.cfg.Shards] {
			at += duration
			l.visits = append(l.visits, at)
		}
		list = list[d.cfg.Shards:]
		if d.cfg.Barrier {
			d.join(l, list)
			return nil
		}
	}
	for _, duration := range list {
		at += duration
		l.visits = append(l.visits, at)
	}
	l.end = at
	return nil
}

// join leaves the times of a learner's pulls open until every learner has planned its pushes.
func (d *drawn) join(l *learner, pulls []int64) {
	l.pulls = append(l.pulls[:0], pulls...)
	for range pulls {
		l.visits = append(l.visits, never)
	}
	l.joined, l.end = true, never
	if d.Turns.joined++; d.Turns.joined < d.cfg.Learners {
		return
	}
	start := int64(0)
	for k := range d.learners {
		start = max(start, d.learners[k].visits[d.cfg.Shards-1])
	}
	d.Turns.joined = 0
	for k := range d.learners {
		l := &d.learners[k]
		at := start
		for i, duration := range l.pulls {
			at += duration
			l.visits[d.cfg.Shards+i] = at
		}
		l.joined, l.end = false, at
	}
	for k := range d.learners {
		d.setNext(k)
		d.moved(k)
	}
}

func (d *drawn) most(k int, before int64) int64 {
	if l := &d.learners[k]; l.end < before {
		return (before - l.end) / d.leastRound
	}
	return 0
}

// undrawn returns a rough bound of the steps in the rounds before a time that are not drawn.
func (d *drawn) undrawn(before int64) int64 {
	earliest := before
	for k := range d.learners {
		earliest = min(earliest, d.learners[k].end)
	}
	rounds := (before - earliest) / d.leastRound
	steps := int64(d.cfg.Learners * d.cfg.Steps)
	return min(rounds, boundless/steps) * steps
}

func (d *drawn) next(k int) int64 {
	if end := d.learners[k].end; end != never {
		return end + d.leastVisit
	}
	return never
}

func (d *drawn) begin(int64) int64 { return never }
