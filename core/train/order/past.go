package order

import "slices"

// latest is the time after which all times are shifted back at the next Begin, 36 years. Times
// overflow after 292 years.
const latest = 1 << 60

// boundless is more steps than any run has.
const boundless = 1 << 52

// past is what is known of the rounds before an event, of all learners, whether they are taken or
// not.
type past struct {
	least, most int64 // T at the event
	// last is the latest of the rounds that are known, and lastTaken says whether it is taken, or
	// there is none.
	last      eventTime
	lastTaken bool
	// hidden says that some learner may have rounds before the event that are not known.
	hidden bool
	// on is a learner that must move before least and most can meet; -1: they have met. It has not
	// ended, unless all such learners have.
	on   int
	dead bool // some learner of that kind has ended
}

// past returns what is known of the rounds before an event of learner k at a time, of which its own
// rounds are the first `own` ones.
func (t *Turns) past(at int64, k, own int) past {
	p := past{least: t.base, most: t.base, last: eventTime{-1, -1}, lastTaken: true, on: -1}
	for j := range t.learners {
		l := &t.learners[j]
		n := own
		if j != k {
			if n = l.before(at, j < k); l.resting {
				n = min(n, l.taken)
			}
		}
		least, most := t.stepsOf(l, n)
		uncertain := least != most
		if j != k && !l.resting {
			if rounds := t.pace.most(j, at); rounds > 0 {
				most += min(rounds, boundless/int64(t.cfg.Steps)) * int64(t.cfg.Steps)
				p.hidden, uncertain = true, true
			}
		}
		p.least += least
		p.most += most
		if n > 0 {
			if e := (eventTime{l.ends[n-1], j}); p.last.before(e) {
				p.last, p.lastTaken = e, n <= l.taken
			}
		}
		if uncertain {
			p.dead = p.dead || l.ended
			if p.on < 0 || t.learners[p.on].ended {
				p.on = j
			}
		}
	}
	return p
}

// before returns how many of the learner's known rounds end before an event of another learner at a
// time. ties says that a round of the same time does.
func (l *learner) before(at int64, ties bool) int {
	if !ties {
		at--
	}
	low, high := 0, len(l.ends) // the rounds before low end at `at` or before, those from high on later
	for low < high {
		if middle := (low + high) / 2; l.ends[middle] <= at {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// stepsOf returns bounds of the steps in the first n rounds of a learner's ends and those before
// them.
func (t *Turns) stepsOf(l *learner, n int) (least, most int64) {
	steps := int64(t.cfg.Steps)
	if !t.cfg.Varies {
		sum := l.first + int64(n)*steps
		return sum, sum
	}
	known := min(n, len(l.made))
	least = l.first
	if known > 0 {
		least += l.made[known-1]
	}
	return least, least + int64(n-known)*steps
}

// legInside reports whether all events of learner k's leg are certain to be before the slice's end.
func (t *Turns) legInside(k int) bool {
	l := &t.learners[k]
	switch {
	case t.cfg.Together:
		return true
	case l.end == never:
		return false
	case t.cut != never:
		return l.end < t.cut
	}
	if d, ok := t.pace.(*drawn); ok && t.drawn+d.undrawn(l.end) < t.until {
		return true // as most often
	}
	return t.past(l.end, k, len(l.ends)).most < t.until
}

// answer returns the verdict on what learner k wants, and the learner for which it must wait.
func (t *Turns) answer(k int) (verdict, int) {
	switch t.learners[k].want {
	case wantRound:
		return t.answerRound(k)
	case wantPushes:
		return t.race.answerPushes(k)
	}
	return t.answerVisit(k)
}

// answerRound: a round is taken if T before it is below until.
func (t *Turns) answerRound(k int) (verdict, int) {
	l := &t.learners[k]
	at := l.ends[l.taken]
	switch {
	case l.inside:
		return granted, -1
	case t.cut != never:
		return t.cutAt(at), -1
	}
	p := t.past(at, k, l.taken)
	switch {
	case p.most < t.until:
		return granted, -1
	case p.least >= t.until:
		return refused, -1
	case p.on < 0: // only after the end of a record
		return granted, -1
	}
	return t.waitFor(p.on)
}

func (t *Turns) cutAt(at int64) verdict {
	if at < t.cut {
		return granted
	}
	return refused
}

// waitFor is the verdict where learner j must move first.
func (t *Turns) waitFor(j int) (verdict, int) {
	if t.learners[j].ended {
		return refused, -1
	}
	return waiting, j
}

// answerVisit: a visit is made if it is before the slice's end, after every earlier visit to its
// shard, and T is known where it is read.
func (t *Turns) answerVisit(k int) (verdict, int) {
	l := &t.learners[k]
	at, v := l.visits[l.done], t.nextVisit(l)
	if l.joined && at == never {
		return t.waitForPushes()
	}
	if l.done == 0 && !l.inside {
		l.inside = t.legInside(k)
	}
	if !l.inside {
		if answer, on := t.insideSlice(k, at); answer != granted {
			return answer, on
		}
	}
	if answer, on := t.inTurn(k, at, v.Shard); answer != granted {
		return answer, on
	}
	if v.Push || v.Shard > 0 {
		return granted, -1
	}
	if r, ok := t.pace.(*replay); ok {
		l.steps = r.stepsAt(k)
		return granted, -1
	}
	p := t.past(at, k, len(l.ends))
	switch {
	case p.dead:
		return refused, -1
	case p.on >= 0:
		return waiting, p.on
	}
	l.steps = max(0, p.least)
	return granted, -1
}

// waitForPushes is the verdict on a pull whose time is not known before all learners have planned
// their pushes.
func (t *Turns) waitForPushes() (v verdict, on int) {
	on = -1
	for j := range t.learners {
		if l := &t.learners[j]; !l.joined && l.ended {
			return refused, -1
		} else if !l.joined {
			on = j
		}
	}
	return waiting, on
}

// insideSlice is the verdict on whether a visit is before the slice's end: whether the last round
// before it is taken.
func (t *Turns) insideSlice(k int, at int64) (verdict, int) {
	if t.cut != never {
		return t.cutAt(at), -1
	}
	p := t.past(at, k, len(t.learners[k].ends))
	if p.most < t.until {
		return granted, -1
	}
	if at == never && p.least >= t.until { // after the end of a record
		return refused, -1
	}
	steps := int64(t.cfg.Steps)
	// T before the last round. The steps of that round are in least if they are known in advance.
	least := p.least
	if !t.cfg.Varies {
		least -= steps
	}
	switch {
	case !p.lastTaken && least >= t.until:
		return refused, -1
	case !p.hidden && (p.lastTaken || p.most-steps < t.until):
		return granted, -1
	case p.on < 0:
		return granted, -1
	}
	return t.waitFor(p.on)
}

// inTurn is the verdict on whether every earlier visit to a shard has been made. The learner to
// wait for is the last one before, after whose visit no other wait is likely.
func (t *Turns) inTurn(k int, at int64, shard int) (verdict, int) {
	last, on := int64(-1), -1
	for j, time := range t.nextVisits(shard) {
		if time > at || time == at && j >= k || j == k {
			continue
		}
		if t.learners[j].ended {
			return refused, -1
		}
		if time >= last {
			last, on = time, j
		}
	}
	if on >= 0 {
		return waiting, on
	}
	return granted, -1
}

// nextVisits returns the times of the learners' next visits to a shard, or times before them.
func (t *Turns) nextVisits(shard int) []int64 {
	n := t.cfg.Learners
	return t.next[shard*n : (shard+1)*n]
}

// setNext brings nextVisits up to date after learner k's leg has changed.
func (t *Turns) setNext(k int) {
	l := &t.learners[k]
	after := int64(never)
	if !l.resting {
		after = t.pace.next(k)
	}
	for shard := range t.cfg.Shards {
		t.setNextOf(k, shard, after)
	}
}

// setNextOf does so for one shard. after is a time before the first visit after the leg.
func (t *Turns) setNextOf(k, shard int, after int64) {
	l, time := &t.learners[k], after
	for i := shard; i < len(l.visits) && !l.resting; i += t.cfg.Shards {
		if i >= l.done {
			time = l.visits[i]
			break
		}
	}
	t.nextVisits(shard)[k] = time
}

// blocks reports whether learner k is certain to wait for learner j still.
func (t *Turns) blocks(j, k int) bool {
	l := &t.learners[k]
	if l.want != wantVisit || l.done == len(l.visits) || l.visits[l.done] == never {
		return false
	}
	other := eventTime{t.nextVisits(l.done % t.cfg.Shards)[j], j}
	return other.before(eventTime{l.visits[l.done], k})
}

// oldest returns a time that no learner's next event precedes.
func (t *Turns) oldest() int64 {
	low := int64(never)
	for k := range t.learners {
		low = min(low, t.learners[k].pending())
	}
	return low
}

// trimmed is the number of rounds from which on trim looks at a learner.
var trimmed = 64

// trim turns a learner's rounds that no next event can precede into a count.
func (t *Turns) trim(l *learner) {
	low, most := t.oldest(), l.taken
	if t.cfg.Varies {
		most = len(l.made)
	}
	n := 0
	for n < most && l.ends[n] < low {
		n++
	}
	if n == 0 {
		return
	}
	first, _ := t.stepsOf(l, n)
	if t.cfg.Varies {
		sum := l.made[n-1]
		l.made = slices.Delete(l.made, 0, n)
		for i := range l.made {
			l.made[i] -= sum
		}
	}
	l.first = first
	l.ends = slices.Delete(l.ends, 0, n)
	l.taken -= n
}

// shift subtracts the time of the oldest event from all times, where one of them is large.
func (t *Turns) shift() {
	if _, virtual := t.pace.(*drawn); !virtual {
		return // the times of a record are absolute
	}
	large := false
	for k := range t.learners {
		end := t.learners[k].end
		large = large || end > latest && end != never
	}
	if !large {
		return
	}
	low := t.oldest()
	for k := range t.learners {
		t.trim(&t.learners[k])
	}
	for k := range t.learners {
		l := &t.learners[k]
		shiftBack(l.ends, low)
		shiftBack(l.visits, low)
		if l.end != never {
			l.end -= low
		}
		t.setNext(k)
	}
	t.failedAt.time -= low
	t.latest -= low
}

func shiftBack(times []int64, by int64) {
	for i := range times {
		if times[i] != never {
			times[i] -= by
		}
	}
}
