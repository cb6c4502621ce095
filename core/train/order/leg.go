package order

import "fmt"

// Visit is a visit of a learner to a shard.
type Visit struct {
	Shard int
	Push  bool // false: a pull
	// Steps is T, at a pull of shard 0.
	Steps int64
}

// Plan says that learner k next takes n rounds and then visits as s says. If the learner has such a
// leg, with n rounds left, nothing changes, so a learner may call Plan before every round. A leg
// without visits, or whose visits were forgotten, may be followed by further rounds before it is
// over.
func (t *Turns) Plan(k, n int, s Visits) error {
	l := &t.learners[k]
	left, visiting := l.left(), len(l.visits) > 0
	over := left == 0 && !visiting
	switch {
	case !over && left == n && l.then == s:
		return nil
	case n < left || visiting:
		return fmt.Errorf("order: learner %d plans %d rounds and %d visits, must first end its leg, which has %d rounds and %d visits left", k, n, s.count(t.cfg.Shards), left, len(l.visits)-l.done)
	case t.cfg.Together && n > 0:
		return fmt.Errorf("order: learner %d plans %d rounds, must be 0 because the host takes the rounds", k, n)
	case over && n == 0 && s == NoVisit:
		return nil
	case t.cfg.Barrier && s == PullAll:
		return fmt.Errorf("order: learner %d plans pulls alone, must push, too, because the pulls wait for all learners", k)
	}
	if t.race != nil {
		t.race.plan(l, n, s)
		return nil
	}
	t.pace.draw(k, n-left, s)
	t.mu.Lock()
	defer t.unlock()
	t.drawn += int64(n-left) * int64(t.cfg.Steps)
	if err := t.pace.place(k, n-left, s); err != nil {
		return err
	}
	if l.taken >= trimmed {
		t.trim(l)
	}
	t.setNext(k)
	l.inside = t.legInside(k)
	t.moved(k)
	t.help()
	return nil
}

// Leg returns how many rounds of learner k's leg are left, and whether visits end it.
func (t *Turns) Leg(k int) (rounds int, visits bool) {
	l := &t.learners[k]
	return l.left(), l.done < len(l.visits)
}

// Computed says that learner k has computed a number of gradients since its latest leg that it does
// not push one by one. In a virtual order their time is part of the next leg with a push, which is
// planned before the slice ends.
func (t *Turns) Computed(k, gradients int) { t.learners[k].computed += gradients }

// Replan is Plan for a learner that may have no use for the visits of its leg, of which none is
// done: it had nothing to push, or its rollout was discarded. The visits are then dropped, and in a
// virtual order their time passes. The rounds of the leg that are left become the first ones of the
// next leg. With Config.Barrier nothing is dropped, because the other learners wait for the pushes.
func (t *Turns) Replan(k, n int, s Visits) error {
	l := &t.learners[k]
	if len(l.visits) > 0 && l.done == 0 && (l.left() != n || l.then != s) && !t.cfg.Barrier {
		t.mu.Lock()
		t.drop(k)
		if t.race == nil {
			t.setNext(k)
			t.moved(k)
			t.help()
		}
		t.mu.Unlock()
	}
	return t.Plan(k, n, s)
}

// drop drops the visits of learner k's leg that are left.
func (t *Turns) drop(k int) {
	l := &t.learners[k]
	if r, ok := t.pace.(*replay); ok {
		r.rewind(k)
	}
	l.then, l.visits, l.done, l.rest = NoVisit, l.visits[:0], 0, 0
}

// Round waits until it is known whether the next round of learner k belongs to the slice, and
// counts it if it does. The learner then takes the round and calls Took. After false the learner
// leaves.
func (t *Turns) Round(k int) (ok bool, err error) {
	l := &t.learners[k]
	switch {
	case l.inRound:
		panic(fmt.Sprintf("order: Round of learner %d inside a round", k))
	case l.short > 0:
		panic(fmt.Sprintf("order: learner %d lacked %d steps in a round that did not fail, must set Varies", k, l.short))
	case l.left() == 0:
		panic(fmt.Sprintf("order: Round of learner %d without a Plan", k))
	}
	if t.race != nil {
		return t.race.round(k)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, err := t.ask(k, wantRound); v != granted || err != nil {
		return false, err
	}
	t.latest = max(t.latest, l.ends[l.taken])
	l.taken++
	l.since++
	l.inRound = true
	return true, nil
}

// Took ends the round of learner k, which had a number of steps. Without Config.Varies only a round
// that failed may have less than Config.Steps; Fail must follow.
func (t *Turns) Took(k, steps int) {
	l := &t.learners[k]
	if !l.inRound || steps < 0 || steps > t.cfg.Steps {
		panic(fmt.Sprintf("order: Took of learner %d: %d steps, must be 0 to %d after a Round", k, steps, t.cfg.Steps))
	}
	l.inRound = false
	if t.race != nil {
		t.race.took(l, steps)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took(k, steps)
}

func (t *Turns) took(k, steps int) {
	l := &t.learners[k]
	if !t.cfg.Varies {
		l.short += int64(t.cfg.Steps - steps)
		return
	}
	sum := int64(steps)
	if n := len(l.made); n > 0 {
		sum += l.made[n-1]
	}
	l.made = append(l.made, sum)
	t.moved(k)
	t.help()
}

// Visits makes the visits of learner k's leg that are left, and calls do for each of them in its
// turn. It returns false if the slice ends before the visits do; the next slice continues them. A
// visit whose do returned an error is not done; Fail must follow. While learner k waits, another
// learner may call do for it, on another goroutine.
func (t *Turns) Visits(k int, do func(Visit) error) (ok bool, err error) {
	l := &t.learners[k]
	switch {
	case l.inRound || l.left() > 0:
		panic(fmt.Sprintf("order: Visits of learner %d before its rounds", k))
	case l.done == len(l.visits):
		panic(fmt.Sprintf("order: Visits of learner %d without a Plan", k))
	}
	if t.race != nil {
		return t.race.visit(k, do)
	}
	t.mu.Lock()
	defer t.unlock()
	if r, ok := t.pace.(*replay); ok { // before a wait, because other learners may wait for the difference
		if err := r.agrees(k); err != nil {
			return false, err
		}
	}
	l.do = do
	defer t.help() // before the lock is released
	for {
		if v, err := t.ask(k, wantVisit); v != granted || err != nil {
			return v == finished, err
		}
		if err := t.unlocked(t.nextVisit(l), do); err != nil {
			return false, err
		}
		if t.visited(k) {
			return true, nil
		}
	}
}

// visited counts a visit of learner k, and reports whether it was the last one of its leg.
func (t *Turns) visited(k int) (last bool) {
	l := &t.learners[k]
	shard := l.done % t.cfg.Shards
	t.latest = max(t.latest, l.visits[l.done])
	l.done++
	l.since = 0
	t.visits++
	if last = l.done == len(l.visits); last {
		l.finish()
		t.setNext(k)
	} else {
		t.setNextOf(k, shard, t.pace.next(k))
	}
	t.moved(k)
	return last
}

// unlocked calls do without the lock, which is held afterwards even if do panics.
func (t *Turns) unlocked(v Visit, do func(Visit) error) error {
	t.mu.Unlock()
	defer t.mu.Lock()
	return do(v)
}

// nextVisit returns the visit that the learner's leg has next. T is right if it is the visit's
// turn.
func (t *Turns) nextVisit(l *learner) Visit {
	v := Visit{Shard: l.done % t.cfg.Shards, Push: l.then == PushAndPull && l.done < t.cfg.Shards}
	if !v.Push && v.Shard == 0 {
		v.Steps = l.steps
	}
	return v
}

// Fail ends the slice because learner k has failed: see the package documentation.
func (t *Turns) Fail(k int, err error) {
	l := &t.learners[k]
	if l.inRound {
		t.Took(k, 0)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := eventTime{0, k}
	switch {
	case t.race != nil:
		at.time = never // the first failure counts
		t.race.fail()
	case l.done < len(l.visits):
		at.time = l.visits[l.done]
	default:
		at.time = l.end
	}
	if t.failure == nil || at.before(t.failedAt) {
		t.failure, t.failedAt = err, at
	}
	t.endFor(k)
}

// endFor ends the slice for learner k.
func (t *Turns) endFor(k int) {
	t.learners[k].ended = true
	t.moved(k)
	t.flush()
}

// Enter begins learner k's part of a slice, and waits for a core.
func (t *Turns) Enter(k int) {
	t.mu.Lock()
	if t.race != nil {
		t.race.arrive(k)
	}
	t.give(k)
	t.mu.Unlock()
	waited := t.receive(k)
	t.mu.Lock()
	t.times.Cores += waited
	t.mu.Unlock()
}

// Leave ends learner k's part of a slice, and releases its core. cut: the learner has found out by
// itself that the Interrupt is raised, and has not done all of its part.
func (t *Turns) Leave(k int, cut bool) {
	t.mu.Lock()
	if l := &t.learners[k]; !l.ended && !l.resting { // neither refused nor failed
		done := !cut && l.done == len(l.visits)
		if err := t.raised(); err != nil {
			t.stop(err)
			t.cutShort = t.cutShort || !t.cfg.Together || !done
		}
		l.resting = t.cfg.Together && done
		if l.resting && t.race == nil {
			t.setNext(k)
		}
	}
	t.endFor(k)
	passed := t.takeBack()
	t.mu.Unlock()
	t.release(passed)
}

// Wake ends the waits of a slice whose Interrupt is raised. Any goroutine may call it.
func (t *Turns) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.raised(); err != nil {
		t.stop(err)
	}
}
