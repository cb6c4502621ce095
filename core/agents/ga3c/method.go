package ga3c

import (
	"crypto/sha256"
	"errors"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/order"
	"github.com/paceline-rl/paceline/core/vec"
)

// Begin implements train.Method.
func (m *GA3C) Begin(total int64, flags train.Flags) error {
	if flags&train.ResetTimesteps != 0 {
		m.forgive()
	}
	if flags&train.ResetEnvs != 0 {
		if err := m.restart(); err != nil {
			return err
		}
	}
	if flags&train.ResetTimesteps != 0 {
		m.clock.Steps = 0
	}
	m.setEnd(m.clock.Steps + total)
	m.updated = false
	m.sums = newSums(m.now)
	m.monitor.Steps.Store(m.clock.Steps)
	return nil
}

// restart begins new episodes in all environments. What the agents were in the middle of is
// forgotten; segments in progress end as truncations.
func (m *GA3C) restart() error {
	for i := range m.agents {
		m.leave(i)
	}
	m.moves = 0
	m.replan()
	if err := m.group.Reset(); err != nil {
		return err
	}
	return m.enter(func(int) bool { return true })
}

// leave takes agent i out of everything that it waits for.
func (m *GA3C) leave(i int) {
	a := &m.agents[i]
	switch a.phase {
	case queued:
		m.requests.Remove(i)
	case blocked:
		m.waiting = slices.DeleteFunc(m.waiting, func(j int) bool { return j == i })
	case moving:
		m.moves--
	}
	a.phase, a.task = absent, nil
}

// enter makes agents go on whose environments have begun new episodes.
func (m *GA3C) enter(which func(i int) bool) error {
	for i := range m.agents {
		if which(i) {
			if err := m.ready(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// repair begins new episodes in environments that failed.
func (m *GA3C) repair() error {
	var failed []int
	for i := range m.agents {
		if m.group.Failed(i) || m.agents[i].phase == absent && !m.pushed {
			failed = append(failed, i)
			m.leave(i)
		}
	}
	if failed == nil {
		return nil
	}
	m.replan()
	if err := m.group.Repair(); err != nil {
		return err
	}
	return m.enter(func(i int) bool { return slices.Contains(failed, i) })
}

// Advance implements train.Method.
func (m *GA3C) Advance(until int64, interrupt *train.Interrupt) error {
	if m.err != nil {
		return m.err
	}
	if err := m.follows(); err != nil {
		return err
	}
	if err := m.repair(); err != nil {
		return err
	}
	if m.clock.Steps >= until {
		return nil
	}
	if m.tuner != nil && m.tuner.Due == 0 && m.cfg.Schedule != string(order.Recorded) {
		m.activate(m.tuner.begin(m.now))
		m.pace.begins(event{kind: tuned}, m.tuner.Due)
	}
	m.group.ClearLatest()
	err := m.drain(m.slice(until, interrupt, always))
	if errors.Is(err, train.ErrInterrupted) {
		return nil
	}
	return err
}

// Settle implements train.Method. Updates come when their events come, so none is due.
func (m *GA3C) Settle(*train.Interrupt) error { return m.err }

// Failed implements train.Method.
func (m *GA3C) Failed() error { return m.err }

// forgive lets training continue after a loss that is not finite, because the parameters or the run
// are others now. All segments, those in progress included, and all gradients are discarded.
func (m *GA3C) forgive() {
	if !errors.Is(m.err, fault.ErrNotFinite) {
		return
	}
	m.segments.Discard()
	for _, t := range m.trainers {
		t.busy, t.task = false, nil
	}
	m.replan()
	m.err = m.release(slices.Clone(m.waiting))
}

// Sets is theta.
func (m *GA3C) Sets() []nn.Set {
	return []nn.Set{{Name: set, Params: m.versions.now.Params, Writable: true}}
}

// Wrote implements train.Method.
func (m *GA3C) Wrote(string) { m.forgive() }

// Policy is theta, with actions as the agents take them.
func (m *GA3C) Policy() policy.Spec { return m.policy }

// Latest implements train.Stepped: of each environment, the step that it took in the latest slice.
func (m *GA3C) Latest() (*vec.Rows, vec.Actions) { return m.group.Latest() }

// Digests implements train.Digested: the segments as a checkpoint holds them.
func (m *GA3C) Digests() []train.Digest {
	return []train.Digest{{Name: "segments", Sum: func() (sum [32]byte) {
		h := sha256.New()
		if m.segments.Save(h) != nil {
			return sum
		}
		return [32]byte(h.Sum(nil))
	}}}
}

// Act is the first half of a round where the host steps the environments: events are processed
// until every agent has its action.
func (m *GA3C) Act(rows *vec.Rows, interrupt *train.Interrupt) (vec.Actions, error) {
	if m.err != nil {
		return vec.Actions{}, m.err
	}
	if err := m.follows(); err != nil {
		return vec.Actions{}, err
	}
	if err := m.group.Use(rows, m.clock.Steps); err != nil {
		return vec.Actions{}, err
	}
	if err := m.drain(m.slice(math.MaxInt64, interrupt, m.lacksActions)); err != nil {
		return vec.Actions{}, err
	}
	for i := range m.agents {
		if m.agents[i].phase == resetting {
			m.group.SkipRow(i)
		}
	}
	return m.group.Actions(), nil
}

// lacksActions reports whether an agent has no action yet.
func (m *GA3C) lacksActions() bool {
	return slices.ContainsFunc(m.agents, func(a agent) bool { return a.phase != chosen && a.phase != resetting })
}

// Observe is the second half. It records all rows, or none. The agents' steps end at their times,
// or now, if that is later.
func (m *GA3C) Observe(rows *vec.Rows, _ *train.Interrupt) error {
	made, err := m.group.Observe(rows, m.clock.Steps, nil)
	if err != nil {
		return err
	}
	m.monitor.Add(made, m.group)
	m.clock.Steps += made
	for i := range m.agents {
		a := &m.agents[i]
		if a.phase == resetting {
			a.due = m.now
		}
		a.phase, a.due = moving, max(a.due, m.now)
		m.moves++
		m.pace.restored(event{stepped, i}, a.due)
	}
	return nil
}
