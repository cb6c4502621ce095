package order

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
)

// replay is the pace of a recorded order. Visit g has the time (g+1)*visitUnit.
type replay struct{ *Turns }

// begin returns the time of the next stop at which T first reached until in the recorded run: a
// slice that ends there has the events of the recorded one. A slice that was interrupted there,
// with visits left, has another stop after it, which has these visits. Where T was set back, T
// reaches the same until several times. Only stops after as many resets as this run had count.
func (r *replay) begin(until int64) int64 {
	end := int64(never)
	for _, s := range r.cfg.Order.stops[r.stopsPassed():] {
		if s.resets == r.resets && s.until <= until && until <= s.steps {
			end = s.time
		} else if end != never {
			break
		}
	}
	return end
}

// stopsPassed returns how many stops come before the next event of every learner.
func (r *replay) stopsPassed() int {
	now, stops := r.oldest(), r.cfg.Order.stops
	return sort.Search(len(stops), func(i int) bool { return stops[i].time >= now })
}

func (r *replay) draw(int, int, Visits) {}

// legVisits returns the visits of learner k's record that end its leg, the time of the visit before
// them, and that of the first one, or never.
func (r *replay) legVisits(k, index int) (s legVisits, from, to int64) {
	t := &r.cfg.Order.tracks[k]
	if n := len(t.legs); index < n {
		s = t.legs[index]
		to = visitAt(t.numbers[s.first])
	} else {
		s, to = legVisits{rounds: t.rounds, first: len(t.numbers)}, never
		if n > 0 {
			s.before = t.legs[n-1].before + t.legs[n-1].rounds
		}
	}
	if s.first > 0 {
		from = visitAt(t.numbers[s.first-1])
	}
	return s, from, to
}

func visitAt(number int64) int64 { return (number + 1) * visitUnit }

func (r *replay) place(k, n int, s Visits) error {
	l, t := &r.learners[k], &r.cfg.Order.tracks[k]
	recorded, from, to := r.legVisits(k, l.index)
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
	l.then, l.visits, l.done = s, l.visits[:0], 0
	for i := range s.count(r.cfg.Shards) {
		switch {
		case recorded.all != s.count(r.cfg.Shards): // these visits are dropped, or an error
			at = to
		case i < recorded.visits:
			at = visitAt(t.numbers[recorded.first+i])
		default:
			at = never
		}
		l.visits = append(l.visits, at)
	}
	l.end = max(l.end, at)
	return nil
}

// rewind takes the end of learner k's leg back to its last event that was not dropped: what follows
// comes before the next recorded visit, too.
func (r *replay) rewind(k int) {
	l := &r.learners[k]
	switch n := len(l.ends); {
	case l.done > 0:
		l.end = l.visits[l.done-1]
	case n > 0:
		l.end = l.ends[n-1]
	default:
		_, l.end, _ = r.legVisits(k, l.index)
	}
}

// share returns length*part/of, without overflow. part is less than of.
func share(length, part, of int64) int64 {
	high, low := bits.Mul64(uint64(length), uint64(part))
	q, _ := bits.Div64(high, low, uint64(of))
	return int64(q)
}

// most counts the rounds of the record.
func (r *replay) most(k int, before int64) (rounds int64) {
	l, t := &r.learners[k], &r.cfg.Order.tracks[k]
	index := l.index
	s, from, _ := r.legVisits(k, index)
	if l.done == 0 { // rounds before the visits of the leg, if they are dropped, or before the next leg
		if n := len(l.ends); n > 0 {
			from = max(from, l.ends[n-1])
		}
		if from < before {
			rounds = max(0, s.rounds-l.since-int64(l.left()))
		}
	}
	if l.end >= before {
		return rounds
	}
	// The legs that may have rounds before that time are those that begin before it.
	index++
	n := sort.Search(max(0, len(t.legs)+1-index), func(i int) bool {
		_, from, _ := r.legVisits(k, index+i)
		return from >= before
	})
	if n > 0 {
		last, _, _ := r.legVisits(k, index+n-1)
		rounds += last.before + last.rounds - s.before - s.rounds
	}
	return rounds
}

func (r *replay) next(k int) int64 {
	l := &r.learners[k]
	index := l.index
	if l.done < len(l.visits) {
		index++
	}
	_, _, to := r.legVisits(k, index)
	return to
}

// agrees refuses visits that the record does not have there.
func (r *replay) agrees(k int) error {
	l := &r.learners[k]
	s, _, to := r.legVisits(k, l.index)
	switch {
	case l.done > 0 || to == never && s.rounds <= l.since:
		return nil
	case s.rounds != l.since:
		return fmt.Errorf("order: learner %d visits after %d rounds, the recorded order has %d before its visit %d: the settings or the calls differ from those of the recorded run", k, l.since, s.rounds, s.first)
	case s.all != len(l.visits):
		return fmt.Errorf("order: learner %d makes %d visits after its visit %d, the recorded order has %d: the settings or the calls differ from those of the recorded run", k, len(l.visits), s.first, s.all)
	}
	return nil
}

// stepsAt returns the recorded T of the visits of learner k's leg.
func (r *replay) stepsAt(k int) int64 {
	s, _, _ := r.legVisits(k, r.learners[k].index)
	return s.steps
}

// Follows returns an error if the recorded order has not begun and begins at another T than the
// run: a checkpoint of another step was loaded, without experience.
func (t *Turns) Follows() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.cfg.Order
	if o == nil || t.visits > 0 {
		return nil
	}
	for k := range t.learners {
		if l := &t.learners[k]; l.since > 0 || l.index > 0 {
			return nil
		}
	}
	first, steps := int64(0), t.steps()
	for _, s := range o.stops {
		if s.at > 0 || steps == first || slices.ContainsFunc(s.rounds, func(n int64) bool { return n > 0 }) {
			break
		}
		first = s.steps // T was set before the first round
	}
	if steps == 0 || steps == first {
		return nil
	}
	return BeginsElsewhere(first, steps)
}

// BeginsElsewhere is the error of a recorded order that begins at another T than the run.
func BeginsElsewhere(first, steps int64) error {
	return fmt.Errorf("order: begins at step %d, the run is at step %d: must be a checkpoint with the experience of the run, or another schedule", first, steps)
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
