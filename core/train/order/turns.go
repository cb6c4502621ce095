package order

import (
	"fmt"
	"math"
	"time"

	"github.com/paceline-rl/paceline/core/threads"
)

// Schedule says who decides the order of the visits: see the package documentation.
type Schedule string

const (
	Virtual  Schedule = "virtual"
	Race     Schedule = "race"
	Recorded Schedule = "recorded"
)

// Visits says which visits end a leg.
type Visits uint8

const (
	NoVisit     Visits = iota // another leg follows at once
	PullAll                   // a pull of each shard
	PushAndPull               // a gradient, a push to each shard, then a pull of each shard
)

// count returns the number of visits.
func (s Visits) count(shards int) int { return int(s) * shards }

// Limits of a Config.
const (
	MaxLearners = 1024
	MaxShards   = 1 << 12
	maxSteps    = 1 << 20 // of a round
)

// Config is the configuration of Turns.
type Config struct {
	Schedule Schedule
	Learners int // 1 to MaxLearners
	Shards   int // 1 to MaxShards
	// Steps is the number of steps in a round of one learner: its environments.
	Steps int
	// Varies says that a round may have fewer steps, because rows may only reset. T at a pull then
	// waits until the rounds before the pull have really ended.
	Varies bool
	// Barrier says that the pulls of PushAndPull begin when every learner has pushed, and that every
	// leg with visits is a PushAndPull.
	Barrier bool
	// Together says that the host takes the rounds: see Turns.Together.
	Together bool
	// Seed and Latency determine a virtual order.
	Seed    uint64
	Latency *Latency
	// Order is the order to repeat; Recorded only. Its Fingerprint must be that of the run.
	Order       *Order
	Fingerprint Fingerprint
	// Unrecorded says that a race is not recorded.
	Unrecorded bool
	// Cores are the cores of the learners; nil: as many as there are learners.
	Cores *threads.Budget
	// Waits says that learners may release their cores during a round (env.Spec.Waits). Then any
	// number of them may be in a round.
	Waits bool
}

// Bytes is the memory of New and of one leg of every learner with a number of rounds.
func (c *Config) Bytes(rounds int) int64 {
	visits := 2 * c.Shards
	return int64(c.Learners) * int64(1024+8*c.Shards+8*4*(rounds+visits))
}

func (c *Config) check() error {
	switch {
	case c.Schedule != Virtual && c.Schedule != Race && c.Schedule != Recorded:
		return fmt.Errorf("schedule: %q, must be %q, %q or %q", c.Schedule, Virtual, Race, Recorded)
	case c.Learners < 1 || c.Learners > MaxLearners:
		return fmt.Errorf("learners: %d, must be 1 to %d", c.Learners, MaxLearners)
	case c.Shards < 1 || c.Shards > MaxShards:
		return fmt.Errorf("shards: %d, must be 1 to %d", c.Shards, MaxShards)
	case c.Steps < 1 || c.Steps > maxSteps:
		return fmt.Errorf("steps of a round: %d, must be 1 to %d", c.Steps, maxSteps)
	case c.Schedule == Virtual && (c.Latency == nil || c.Latency.missing()):
		return fmt.Errorf("latency: a duration is missing, all must be given with schedule %q", Virtual)
	case (c.Schedule == Recorded) != (c.Order != nil):
		return fmt.Errorf("order: must be given with schedule %q, and only then", Recorded)
	case c.Order != nil:
		return c.Order.fits(c)
	}
	return nil
}

// Interrupt ends a slice early. *train.Interrupt is one.
type Interrupt interface {
	// Err returns the error with which a call must return at a time, or nil.
	Err(now time.Time) error
	// Deadline returns a time at which Err may change by itself, or the zero time.
	Deadline() time.Time
}

// never is the time of an event that no event follows.
const never = math.MaxInt64

// Turns decides when a learner may take a round and visit a shard. A call of Begin or End, and of
// methods without a learner, has no call of a learner in progress. Between Begin and End each
// learner calls, on its own goroutine and for itself only,
//
//	Enter, then Plan, Round, Took and Visits in the order of its legs, or Fail, then Leave.
//
// A false ok of Round or Visits, or an error, ends the learner's slice. In the next slice the
// learner continues where it was. Its next call is then again a Plan with what is left of the leg,
// which changes nothing.
type Turns struct {
	cfg  Config
	pace pace  // of virtual and recorded order
	race *race // nil in other schedules

	mu       threads.Mutex // of all fields below and of the learners
	learners []learner
	next     []int64 // see nextVisits
	ready    []int   // learners whose turn to visit has come, and for which no core is free
	base     int64   // T before the rounds that the learners count
	resets   int64   // how often SetSteps has set T back
	drawn    int64   // at least T after all rounds that are known
	latest   int64   // the time of the latest event, in a virtual order
	until    int64
	cut      int64 // the slice's end, where it is known; never: the first round whose T is until
	joined   int   // learners whose pulls wait for the pushes of the others (Config.Barrier)

	interrupt Interrupt
	timer     *time.Timer
	open      bool  // between Begin and End
	stopped   error // of the Interrupt, once it is raised
	cutShort  bool  // a learner has left because of it
	failure   error
	failedAt  eventTime

	cores  coreQueue
	visits int64 // done
	times  Times
}

// eventTime is the place of an event in the order.
type eventTime struct {
	time    int64
	learner int
}

func (a eventTime) before(b eventTime) bool {
	return a.time < b.time || a.time == b.time && a.learner < b.learner
}

// learner is what Turns knows of a learner.
type learner struct {
	// The times of rounds. The first `taken` of them have been taken; the others are drawn. Rounds
	// that no learner's next event can precede are only counted: first is the number of their steps.
	ends  []int64
	taken int
	first int64
	// made has, with Varies, the steps of the rounds of ends that have ended, each with those before
	// it.
	made []int64
	rest int // rounds of the leg that are left, in a race
	// short counts the steps that rounds lacked without Varies, because environments failed. T
	// changes by them at the next Begin.
	short   int64
	inRound bool

	// The visits of the leg: `done` of them are done.
	then   Visits
	visits []int64
	done   int
	pulls  []int64 // durations, while the times of the pulls depend on other learners (joined)
	joined bool
	// end is the time of the leg's last event. Everything up to it is known. In a race it is the time
	// that the latest visit has in the record.
	end int64
	// since counts rounds since the latest visit, and index the record's legs before this one.
	since int64
	index int
	steps int64 // T at the pull of shard 0 whose turn it is

	computed int // see Computed

	// Of the slice.
	inside  bool // all events of the leg are before the slice's end
	ended   bool
	resting bool // has no further event (Rest), or makes no further visit (Config.Together)

	wait
	log visitLog
}

// left returns the number of rounds of the leg that are not taken.
func (l *learner) left() int { return len(l.ends) - l.taken + l.rest }

// pending returns the time of the learner's next known event, or the end of its last leg.
func (l *learner) pending() int64 {
	switch {
	case l.left() > 0:
		return l.ends[l.taken]
	case l.done < len(l.visits):
		return l.visits[l.done]
	}
	return l.end
}

// pace gives the events of a leg their times.
type pace interface {
	// draw draws the durations of a leg with n further rounds, without the lock.
	draw(k, n int, s Visits)
	// place appends the times of n rounds and replaces the visits, all after learner.end.
	place(k, n int, s Visits) error
	// most returns how many rounds learner k can end after learner.end and before a time.
	most(k int, before int64) int64
	// next returns a time before which learner k, whose leg is over, does not visit.
	next(k int) int64
	// begin begins a slice, and returns its end if it is known, or never.
	begin(until int64) int64
}

// Unrecord sets Config.Unrecorded before the first Begin.
func (t *Turns) Unrecord() { t.cfg.Unrecorded = true }

// New returns the Turns of a run that has not begun.
func New(cfg Config) (*Turns, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t := &Turns{cfg: cfg, learners: make([]learner, cfg.Learners), next: make([]int64, cfg.Learners*cfg.Shards)}
	for k := range t.learners {
		t.learners[k].wait = wait{waiter: -1, wake: make(chan struct{}, 1)}
	}
	t.cores.init(&cfg)
	switch cfg.Schedule {
	case Virtual:
		t.pace = newDrawn(t)
	case Recorded:
		t.pace = &replay{Turns: t}
	default:
		t.race = newRace(t)
	}
	return t, nil
}

// Begin begins a slice that ends just before the first round with T at or past until, or when the
// Interrupt is raised.
func (t *Turns) Begin(until int64, interrupt Interrupt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open {
		panic("order: Begin inside a slice")
	}
	t.open, t.until, t.interrupt, t.stopped, t.cutShort, t.failure = true, until, interrupt, nil, false, nil
	for k := range t.learners {
		l := &t.learners[k]
		t.base -= l.short
		l.short, l.inside, l.ended, l.resting = 0, false, false, false
	}
	if t.pace != nil {
		t.shift()
		t.cut = t.pace.begin(until)
		t.drawn = t.base
		for k := range t.learners {
			l := &t.learners[k]
			_, most := t.stepsOf(l, len(l.ends))
			t.drawn += most
			t.setNext(k)
		}
	} else {
		t.race.begin()
	}
	if interrupt != nil {
		if at := interrupt.Deadline(); !at.IsZero() {
			t.timer = time.AfterFunc(time.Until(at), t.Wake)
		}
	}
}

// End ends a slice after all learners have left. It returns the failure that comes first in the
// order, or the error of an Interrupt that has ended the slice early, or nil.
func (t *Turns) End() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		panic("order: End outside a slice")
	}
	t.open, t.interrupt = false, nil
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.race != nil {
		t.race.end()
	}
	t.postpone()
	switch {
	case t.failure != nil:
		return t.failure
	case t.cutShort:
		return t.stopped
	}
	return nil
}

// Rest says that learner k, whose leg is over or has no event yet, has no further event in this
// slice: its run has ended before those of the other learners. It comes after Begin, and before a
// Plan whose rounds the others must not count. The learner plans its next leg and leaves. In a
// virtual order that leg begins after the last event of the others, except with Config.Barrier,
// where the learners end together.
func (t *Turns) Rest(k int) {
	t.mu.Lock()
	defer t.unlock()
	l := &t.learners[k]
	l.resting = true
	if t.race == nil {
		t.setNext(k)
		t.moved(k)
		t.help()
	}
}

// postpone moves the legs of learners that rest behind all events that have happened.
func (t *Turns) postpone() {
	if _, virtual := t.pace.(*drawn); !virtual || t.cfg.Barrier || t.cfg.Together {
		return
	}
	for k := range t.learners {
		l := &t.learners[k]
		if !l.resting || l.left() == 0 {
			continue
		}
		if by := t.latest + 1 - l.ends[l.taken]; by > 0 {
			shiftBack(l.ends[l.taken:], -by)
			shiftBack(l.visits, -by)
			l.end += by
		}
	}
}

// Steps returns T: the steps of all rounds taken, also of those that come late in the order.
func (t *Turns) Steps() int64 {
	if t.race != nil {
		return t.race.steps.Load()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.steps()
}

func (t *Turns) steps() int64 {
	sum := t.base
	for k := range t.learners {
		l := &t.learners[k]
		least, _ := t.stepsOf(l, l.taken)
		sum += least - l.short
	}
	return sum
}

// SetSteps overwrites T, between two slices.
func (t *Turns) SetSteps(steps int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.race != nil {
		t.race.setSteps(steps)
		return
	}
	now := t.steps()
	if steps < now {
		t.resets++
	}
	t.base += steps - now
}

// KeepStop says, between two slices, that what follows depends on where the latest slice has ended:
// a run begins or ends there. The record of a race keeps that place for every learner.
func (t *Turns) KeepStop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.race != nil {
		t.race.record.kept = true
	}
}

// Forget discards the visits of every learner's leg that are not done, between two slices: what
// they were to push is lost. A method calls it when a checkpoint without experience is loaded and,
// with Config.Barrier, when a run resets the steps or the environments or goes on after a loss that
// was not finite. The rounds of a leg that are left are discarded, too. In a virtual order the time
// of both passes.
func (t *Turns) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.learners {
		l := &t.learners[k]
		if l.joined {
			l.joined, l.end = false, l.visits[t.cfg.Shards-1]
			t.joined--
		}
		begun := l.done > 0
		l.ends = l.ends[:l.taken]
		t.drop(k)
		if begun {
			if t.race != nil && !t.cfg.Unrecorded {
				t.race.record.forget(k)
			}
			l.index++
		}
	}
	if t.race == nil {
		return
	}
	most := 0 // pushes that are forgotten are not waited for
	for k := range t.learners {
		most = max(most, t.learners[k].index)
	}
	for k := range t.learners {
		t.learners[k].index = most
	}
}

// finish ends a leg whose visits are done.
func (l *learner) finish() {
	l.visits, l.done, l.inside = l.visits[:0], 0, false
	l.index++
}

// Together counts a round of every learner, which the host took, with steps in all. All learners
// have then got to the same time. With Config.Together the host takes all rounds, between slices.
// The learners have no rounds of their own, and a slice is the visits that are due after a round. A
// learner that leaves makes no further visit in the slice.
func (t *Turns) Together(steps int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	latest := int64(0)
	for k := range t.learners {
		l := &t.learners[k]
		if l.done < len(l.visits) {
			return fmt.Errorf("round: learner %d has visits left, must finish them first", k)
		}
		if l.end != never {
			latest = max(latest, l.end)
		}
	}
	for k := range t.learners {
		l := &t.learners[k]
		if t.race == nil {
			l.end = max(l.end, latest)
		}
		l.since++
	}
	if t.race != nil {
		t.race.steps.Add(steps)
	}
	t.base += steps
	return nil
}

// Stats are counts and times since New.
type Stats struct {
	Visits int64
	Bytes  int // of the order that a race has recorded
	Times
}

// Stats may be called at any time.
func (t *Turns) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Visits: t.visits, Times: t.times}
	if t.race != nil {
		s.Visits, s.Bytes = t.race.number.Load(), len(t.race.record.data)-t.race.record.header
		s.Locks = time.Duration(t.race.locked.Load())
	}
	return s
}

// At returns the time of the round that learner k takes or has taken last. In a race and in a
// recorded order it is that of the learner's latest visit and the number of rounds since. With
// Config.Together it is that of the learner's latest visit in any schedule.
func (t *Turns) At(k int) int64 {
	l := &t.learners[k]
	if t.race != nil {
		return l.end + min(l.since, visitUnit-1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.pace.(*replay); ok {
		_, from, _ := r.legVisits(k, l.index)
		return from + min(l.since, visitUnit-1)
	}
	if l.taken == 0 {
		return l.end
	}
	return l.ends[l.taken-1]
}
