package order

import (
	"fmt"
	"math/bits"
	"sort"
)

// replay is the pace of a recorded order. Visit g has the time (g+1)*visitUnit.
type replay struct{ *Turns }

// begin returns the time of the next stop at which T first reached until in the recorded run: a slice
// that ends there has the events of the recorded one.
func (r *replay) begin(until int64) int64 {
	for _, s := range r.cfg.Order.stops[r.stopsPassed():] {
		if s.until <= until && until <= s.steps {
			return s.time
		}
	}
	return never
}

// stopsPassed returns how many stops come before the next event of every learner.
func (r *replay) stopsPassed() int {
	now, stops := r.oldest(), r.cfg.Order.stops
	return sort.Search(len(stops), func(i int) bool { return stops[i].time >= now })
}

func (r *replay) draw(int, int, Sequence) {}

// sequence returns the visits of learner k's record that end its leg, the time of the visit before
// them, and that of the first one, or never.
func (r *replay) sequence(k, index int) (s sequence, from, to int64) {
	t := &r.cfg.Order.tracks[k]
	if n := len(t.sequences); index < n {
		s = t.sequences[index]
		to = visitAt(t.numbers[s.first])
	} else {
		s, to = sequence{rounds: t.rounds, first: len(t.numbers)}, never
		if n > 0 {
			s.before = t.sequences[n-1].before + t.sequences[n-1].rounds
		}
	}
	if s.first > 0 {
		from = visitAt(t.numbers[s.first-1])
	}
	return s, from, to
}

func visitAt(number int64) int64 { return (number + 1) * visitUnit }

func (r *replay) place(k, n int, s Sequence) error {
	l, t := &r.learners[k], &r.cfg.Order.tracks[k]
	recorded, from, to := r.sequence(k, l.index)
	if s != NoVisit && to != never && recorded.all != s.visits(r.cfg.Shards) {
		return fmt.Errorf("order: learner %d plans %d visits after its visit %d, the recorded order has %d: the settings differ from those of the recorded run", k, s.visits(r.cfg.Shards), recorded.first, recorded.all)
	}
	next := l.since + int64(l.left())
	stops := r.cfg.Order.stops
	i := sort.Search(len(stops), func(i int) bool { return stops[i].time > from })
	total := max(recorded.rounds, next+int64(n))
	if to == never {
		total = recorded.rounds
	}
	done := int64(0) // rounds before time from
	at := l.end
	for ; n > 0; n-- {
		for i < len(stops) && stops[i].time < to && stops[i].rounds[k] <= next {
			done, from = max(done, stops[i].rounds[k]), stops[i].time
			i++
		}
		until, end := total, to
		if i < len(stops) && stops[i].time < to {
			until, end = stops[i].rounds[k], stops[i].time
		}
		switch {
		case end == never || next >= until: // after the end of the record
			at = end
		default:
			at = max(at, from+share(end-from, next-done+1, until-done+1))
		}
		l.ends = append(l.ends, at)
		next++
	}
	l.sequence, l.visits, l.done = s, l.visits[:0], 0
	for i := range s.visits(r.cfg.Shards) {
		at = never
		if i < recorded.visits {
			at = visitAt(t.numbers[recorded.first+i])
		}
		l.visits = append(l.visits, at)
	}
	l.end = max(l.end, at)
	return nil
}

// share returns length*part/of, without overflow. part is less than of.
func share(length, part, of int64) int64 {
	high, low := bits.Mul64(uint64(length), uint64(part))
	q, _ := bits.Div64(high, low, uint64(of))
	return int64(q)
}

// most counts the rounds of the record.
func (r *replay) most(k int, before int64) int64 {
	l, t := &r.learners[k], &r.cfg.Order.tracks[k]
	if l.end >= before {
		return 0
	}
	// The sequences that may have rounds before that time are those that begin before it.
	index := l.index
	known := l.since + int64(l.left()) // rounds of that sequence which are drawn or taken
	if l.done < len(l.visits) {
		index, known = index+1, 0
	}
	begins := func(i int) bool { // whether sequence index+i does not
		_, from, _ := r.sequence(k, index+i)
		return from >= before
	}
	n := sort.Search(max(0, len(t.sequences)+1-index), begins)
	if n == 0 {
		return 0
	}
	first, _, _ := r.sequence(k, index)
	last, _, _ := r.sequence(k, index+n-1)
	return max(0, last.before+last.rounds-first.before-known)
}

func (r *replay) next(k int) int64 {
	l := &r.learners[k]
	index := l.index
	if l.done < len(l.visits) {
		index++
	}
	_, _, to := r.sequence(k, index)
	return to
}

// agrees refuses a visit that the record does not have after as many rounds.
func (r *replay) agrees(k int) error {
	l := &r.learners[k]
	if l.done > 0 {
		return nil
	}
	if s, _, _ := r.sequence(k, l.index); s.rounds != l.since {
		return fmt.Errorf("order: learner %d visits after %d rounds, the recorded order has %d before its visit %d: the settings differ from those of the recorded run", k, l.since, s.rounds, s.first)
	}
	return nil
}

// stepsAt returns the recorded T of a visit.
func (r *replay) stepsAt(k int, v Visit) int64 {
	if v.Push || v.Shard > 0 {
		return 0
	}
	s, _, _ := r.sequence(k, r.learners[k].index)
	return s.steps
}

// exhausted returns an error if the next event of learner k is after the end of the record.
func (t *Turns) exhausted(k int) error {
	o := t.cfg.Order
	if o == nil || t.learners[k].pending() != never {
		return nil
	}
	steps := int64(0)
	if n := len(o.stops); n > 0 {
		steps = o.stops[n-1].steps
	}
	return fmt.Errorf("order: ends at step %d, after %d visits; learner %d has more rounds or visits than were recorded", steps, o.visits, k)
}
