package order

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/rng"
)

// saved is part "turns": what Turns knows, between two slices.
type saved struct {
	Schedule Schedule       `json:"schedule"`
	Shape    Shape          `json:"shape"`
	Steps    int64          `json:"steps"` // T
	Resets   int64          `json:"resets,omitempty"`
	Visits   int64          `json:"visits"`
	Learners []savedLearner `json:"learners"`
}

// savedLearner has the fields of a learner. Stream is nil where nothing is drawn.
type savedLearner struct {
	Stream []byte  `json:"stream,omitempty"`
	Ends   []int64 `json:"ends"`
	Taken  int     `json:"taken"`
	Made   []int64 `json:"made"`
	Then   Visits  `json:"sequence"`
	Visits []int64 `json:"visits"`
	Done   int     `json:"done"`
	Pulls  []int64 `json:"pulls"` // of a learner that waits for the pushes of the others
	End    int64   `json:"end"`
	Since  int64   `json:"since"`
	Index  int     `json:"index"`
	Rest   int     `json:"rest"`
}

const maxPart = 256 << 20 // bytes

// Parts lists the parts of a checkpoint: the state, and the order of a race or of a repeated order,
// which ReadOrder also reads. They are read in this order.
func (t *Turns) Parts() []checkpoint.Part {
	staged := new(saved)
	state := checkpoint.JSON("turns.json", maxPart, func() (saved, error) { return t.save(), nil }, func(s saved) (func(), error) {
		*staged = s
		if t.otherSchedule(&s) {
			return nil, nil // state.Read returns the error
		}
		if err := t.checkSaved(&s); err != nil {
			return nil, err
		}
		return func() { t.adopt(&s) }, nil
	})
	read := state.Read
	state.Read = func(r io.Reader, n int64) (func(), error) {
		adopt, err := read(r, n)
		if err == nil && t.otherSchedule(staged) { // not an error of the JSON, which would call the file damaged
			return nil, fmt.Errorf("schedule: the checkpoint has %q, this trainer has %q, must be equal where experience is loaded", staged.Schedule, t.cfg.Schedule)
		}
		return adopt, err
	}
	if t.cfg.Schedule == Virtual {
		return []checkpoint.Part{state}
	}
	order := checkpoint.Part{Name: orderPart, Version: 1,
		Write: func(w io.Writer) error { _, err := w.Write(t.Order()); return err },
		Read: func(r io.Reader, n int64) (func(), error) {
			o, err := readOrder(r, n)
			if err == nil {
				if err = o.fits(&t.cfg); err == nil {
					err = o.agrees(t, staged)
				}
			}
			if err != nil {
				return nil, checkpoint.Damaged(err)
			}
			return func() {
				if t.race != nil {
					t.race.record = o.writing.continued(t.cfg.Fingerprint.Continued(o.Fingerprint))
				} else {
					t.cfg.Order = o
				}
			}, nil
		},
	}
	return []checkpoint.Part{state, order}
}

// Order returns the file of the order: of a race so far, or the one that is repeated. A virtual
// order has none. No slice is in progress.
func (t *Turns) Order() []byte {
	switch {
	case t.race != nil:
		return t.race.record.file()
	case t.cfg.Order != nil:
		return bytes.Clone(t.cfg.Order.data)
	}
	return nil
}

func (t *Turns) shape() Shape {
	return Shape{t.cfg.Learners, t.cfg.Shards, t.cfg.Steps, t.cfg.Barrier}
}

func (t *Turns) save() saved {
	s := saved{Schedule: t.cfg.Schedule, Shape: t.shape(), Steps: t.Steps(), Resets: t.resets, Visits: t.visits}
	for k := range t.learners {
		l := &t.learners[k]
		e := savedLearner{
			Ends: list(l.ends), Taken: l.taken, Made: list(l.made), Then: l.then, Done: l.done,
			Visits: []int64{}, Pulls: []int64{}, End: l.end, Since: l.since, Index: l.index, Rest: l.rest,
		}
		if t.race == nil {
			e.Visits = list(l.visits)
		} else if l.done == len(l.visits) {
			e.Then = NoVisit
		}
		if l.joined {
			e.Pulls = list(l.pulls)
		}
		if d, ok := t.pace.(*drawn); ok {
			e.Stream, _ = d.streams[k].MarshalBinary() // which cannot fail
		}
		s.Learners = append(s.Learners, e)
	}
	return s
}

// list is a copy that JSON writes as a list.
func list(from []int64) []int64 { return append([]int64{}, from...) }

func (t *Turns) adopt(s *saved) {
	t.visits, t.resets, t.base, t.joined = s.Visits, s.Resets, 0, 0
	for k := range s.Learners {
		e, l := &s.Learners[k], &t.learners[k]
		*l = learner{
			ends: e.Ends, taken: e.Taken, made: e.Made, then: e.Then, visits: e.Visits, done: e.Done,
			pulls: e.Pulls, joined: len(e.Pulls) > 0, end: e.End, since: e.Since, index: e.Index, rest: e.Rest, wait: l.wait,
		}
		if l.joined {
			t.joined++
		}
		if t.race != nil && (l.rest > 0 || l.done > 0 || l.then != NoVisit) {
			l.visits = make([]int64, l.then.count(t.cfg.Shards))
		}
		if d, ok := t.pace.(*drawn); ok {
			d.streams[k] = new(rng.Stream)
			d.streams[k].UnmarshalBinary(e.Stream) // whose length has been checked
		}
	}
	if t.race != nil {
		t.race.steps.Store(s.Steps)
		t.race.number.Store(s.Visits)
	} else { // T counts the rounds that are in no list
		t.base = s.Steps - t.steps()
	}
}

// otherSchedule reports whether a state is of a run with another schedule.
func (t *Turns) otherSchedule(s *saved) bool {
	return s.Schedule != t.cfg.Schedule && slices.Contains([]Schedule{Virtual, Race, Recorded}, s.Schedule)
}

// checkSaved refuses a state that no run of this configuration has.
func (t *Turns) checkSaved(s *saved) error {
	switch {
	case s.Schedule != t.cfg.Schedule:
		return fmt.Errorf("schedule: %q, must be %q", s.Schedule, t.cfg.Schedule)
	case s.Shape != t.shape() || len(s.Learners) != t.cfg.Learners:
		return fmt.Errorf("order: the checkpoint has %d learners, %d shards and %d environments a learner, this trainer has %d, %d and %d, and the same rule", s.Shape.Learners, s.Shape.Shards, s.Shape.Steps, t.cfg.Learners, t.cfg.Shards, t.cfg.Steps)
	case s.Steps < 0 || s.Steps > maxCount || s.Resets < 0 || s.Resets > maxCount || s.Visits < 0 || s.Visits > maxVisits:
		return fmt.Errorf("order: %d steps, %d resets, %d visits", s.Steps, s.Resets, s.Visits)
	}
	joined := 0
	for k := range s.Learners {
		e := &s.Learners[k]
		if err := t.checkLearner(e); err != nil {
			return fmt.Errorf("order: learner %d: %w", k, err)
		}
		if len(e.Pulls) > 0 {
			joined++
		}
	}
	if joined == t.cfg.Learners {
		return errors.New("order: all learners wait for one another")
	}
	return nil
}

func (t *Turns) checkLearner(e *savedLearner) error {
	virtual, race := t.cfg.Schedule == Virtual, t.race != nil
	visits := e.Then.count(t.cfg.Shards)
	if len(e.Visits) == 0 && e.Done == 0 && e.Taken == len(e.Ends) && !race {
		visits = 0 // the leg is over
	}
	switch {
	case e.Then > PushAndPull || t.cfg.Barrier && e.Then == PullAll:
		return fmt.Errorf("a leg of kind %d", e.Then)
	case virtual != (len(e.Stream) == rng.StateSize) || !virtual && e.Stream != nil:
		return fmt.Errorf("a random stream of %d bytes", len(e.Stream))
	case e.Taken < 0 || e.Taken > len(e.Ends) || e.Since < 0 || e.Since > maxCount || e.Index < 0 || e.Index > maxVisits || e.Rest < 0 || e.Rest > maxCount:
		return fmt.Errorf("%d of %d rounds taken, %d left, %d since the latest visit, %d legs", e.Taken, len(e.Ends), e.Rest, e.Since, e.Index)
	case race && (len(e.Ends) > 0 || len(e.Visits) > 0 || e.End < 0 || e.End > maxVisits*visitUnit) || !race && e.Rest > 0:
		return fmt.Errorf("%d rounds, %d visits and %d rounds left with schedule %q", len(e.Ends), len(e.Visits), e.Rest, t.cfg.Schedule)
	case !race && len(e.Visits) != visits || e.Done < 0 || e.Done > 0 && (e.Done >= visits || e.Taken < len(e.Ends) || e.Rest > 0):
		return fmt.Errorf("%d visits of %d are done, %d rounds of %d are taken", e.Done, visits, e.Taken, len(e.Ends))
	case len(e.Pulls) > 0 && (!t.cfg.Barrier || !virtual || len(e.Pulls) != t.cfg.Shards || visits == 0 || e.Done > t.cfg.Shards):
		return fmt.Errorf("%d pulls wait for the other learners", len(e.Pulls))
	}
	return t.checkTimes(e)
}

// checkTimes refuses times that do not ascend, and counts of steps that do not belong to them.
func (t *Turns) checkTimes(e *savedLearner) error {
	if t.race != nil {
		return nil
	}
	least, record := int64(0), t.cfg.Schedule == Recorded
	for i, at := range slices.Concat(e.Ends, e.Visits) {
		open := at == never && (record || len(e.Pulls) > 0 && i >= len(e.Ends)+t.cfg.Shards)
		if at < least || at == least && !record || at > 2*latest && !open {
			return fmt.Errorf("event %d is at time %d after %d", i, at, least)
		}
		if len(e.Pulls) > 0 && i >= len(e.Ends)+t.cfg.Shards && at != never {
			return fmt.Errorf("event %d is at time %d, must be open", i, at)
		}
		if least = at; at == never {
			least-- // others at that time may follow
		}
	}
	if e.End > 2*latest && e.End != never || e.End < least || e.End == never && !record && len(e.Pulls) == 0 {
		return fmt.Errorf("a leg that ends at time %d, its last event at %d", e.End, least)
	}
	for _, d := range e.Pulls {
		if d < 1 || d > latest {
			return fmt.Errorf("a pull of %d nanoseconds", d)
		}
	}
	if !t.cfg.Varies && len(e.Made) > 0 || t.cfg.Varies && len(e.Made) != e.Taken {
		return fmt.Errorf("steps of %d rounds, of which %d are taken", len(e.Made), e.Taken)
	}
	before := int64(0)
	for _, sum := range e.Made {
		if sum < before || sum > before+int64(t.cfg.Steps) {
			return fmt.Errorf("a round of %d steps, must be 0 to %d", sum-before, t.cfg.Steps)
		}
		before = sum
	}
	return nil
}

// agrees refuses an order that does not belong to a saved state.
func (o *Order) agrees(t *Turns, s *saved) error {
	if t.race == nil {
		for k := range s.Learners {
			if n := len(o.tracks[k].legs); s.Learners[k].Index > n {
				return fmt.Errorf("learner %d has made %d legs, must be at most the %d of the order", k, s.Learners[k].Index, n)
			}
		}
		return nil
	}
	if t.cfg.Unrecorded {
		return nil
	}
	if o.visits != s.Visits {
		return fmt.Errorf("the order has %d visits, must be the %d of the run", o.visits, s.Visits)
	}
	for k := range s.Learners {
		at, e := o.writing.places[k], &s.Learners[k]
		if at.done != e.Done || at.done > 0 && at.all != e.Then.count(t.cfg.Shards) {
			return fmt.Errorf("learner %d has made %d visits of its leg, must be the %d of %d of the order", k, e.Done, at.done, at.all)
		}
	}
	return nil
}
