package offpolicy

import (
	"bytes"
	"encoding/json"
)

// SavedClock is the clock's part of a checkpoint.
type SavedClock = savedClock

// SavedClock returns what a checkpoint of the run would hold.
func (r *Run) SavedClock() (s SavedClock, err error) {
	var b bytes.Buffer
	if err := r.clockPart(new(bool)).Write(&b); err != nil {
		return s, err
	}
	return s, json.Unmarshal(b.Bytes(), &s)
}

// Check refuses counts that no run of a number of environments has.
func (s *SavedClock) Check(envs int) error { return s.check(envs, false, false) }

// LoadedBy changes the counts as a load does, in a run with other periods.
func (s *SavedClock) LoadedBy(concurrent bool, p Periods) {
	s.Clock.changePeriods(s.UpdatesDue, s.Periods, &Config{Concurrent: concurrent, Periods: p})
	s.Periods = p
}
