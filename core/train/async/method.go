package async

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/order"
	"github.com/paceline-rl/paceline/core/vec"
)

// Method is a train.Method of several learners around a store. Methods embed it.
type Method struct {
	cfg      Config
	learners []*learner
	store    *param.Store
	turns    *order.Turns
	joint    *joint            // with rule mean
	shared   *normalize.Shared // nil: nothing is normalised
	center   *nn.Params
	set      string // its name
	monitor  *train.Monitor
	cores    *threads.Budget
	episodes episodes
	envs     int
	pushed   bool         // the host steps the environments
	rows     *vec.Rows    // of Latest; nil where the host steps
	actions  vec.Actions  // of Act and Latest
	cut      bool         // an Interrupt or a failure ended the latest slice
	ending   bool         // learners begin no rollout in this slice
	before   func()       // of the tests
	measure  DurationFunc // of benchmarks; nil: nothing is measured
	err      error        // what ended training
}

// Begin implements train.Method.
func (m *Method) Begin(total int64, flags train.Flags) error {
	m.turns.KeepStop() // environments, rates and rollouts change there
	if flags&train.ResetTimesteps != 0 {
		m.episodes.flush(m.monitor, endOfTime)
		m.turns.SetSteps(0)
		if err := m.forgive(); err != nil {
			return err
		}
	}
	if flags != 0 && m.joint != nil {
		// Learners do not drop legs by themselves. If an update is due, some learners may have given
		// more of its minibatches than others, and would stay ahead.
		due := slices.ContainsFunc(m.learners, func(l *learner) bool { return l.RoundsToUpdate() == 0 })
		m.forget()
		if due {
			if err := m.discard(); err != nil {
				return err
			}
		}
	}
	for _, l := range m.learners {
		if flags&train.ResetTimesteps != 0 {
			l.steps, l.others, l.link.flight.Steps = 0, 0, 0
		}
		l.SetOtherSteps(m.turns.Steps() - l.steps) // for the end of the schedules
		if err := l.Learner.Begin(total, flags); err != nil {
			return l.nameLearner(err)
		}
		l.SetOtherSteps(l.others)
	}
	m.monitor.Steps.Store(m.turns.Steps())
	return nil
}

// Advance implements train.Method: a slice of the run.
func (m *Method) Advance(until int64, interrupt *train.Interrupt) error {
	if err := m.turns.Follows(); err != nil {
		return err
	}
	for _, l := range m.learners {
		l.stepped = false
	}
	m.end(interrupt)
	before := m.events()
	err := m.slice(until, interrupt, func(l *learner) error { return l.run(interrupt) })
	switch {
	case errors.Is(err, train.ErrInterrupted):
		return nil
	case err == nil && m.ending && m.cfg.Schedule == string(order.Recorded) && m.events() == before:
		if n := m.Unfinished(); n > 0 { // none of them will have a turn
			return fmt.Errorf("order: %d learners are in a rollout at the end of the run, and the record has no step of theirs: the settings or the calls differ from those of the recorded run", n)
		}
	}
	return err
}

// events grows with every step and every visit.
func (m *Method) events() int64 { return m.turns.Steps() + m.turns.Stats().Visits }

// end prepares a slice at the end of the run, in which rollouts end and none begins. With rule mean
// a learner begins a rollout that another one has begun, because they update together. Learners
// without rollouts go on.
func (m *Method) end(interrupt *train.Interrupt) {
	m.ending = m.rolling() && interrupt.Ends(m.turns.Steps())
	if m.ending {
		m.turns.KeepStop()
	}
	for _, l := range m.learners {
		l.behind = m.ending && m.joint != nil && !train.InRollout(l.Learner) && slices.ContainsFunc(m.learners, func(other *learner) bool {
			own, begun := l.link.begun(), other.link.begun()
			return own < begun || own == begun && train.InRollout(other.Learner)
		})
	}
}

// rolling reports whether learners learn from rollouts.
func (m *Method) rolling() bool {
	_, ok := m.learners[0].Learner.(train.Rolling)
	return ok
}

// Unfinished implements train.SeveralRollouts.
func (m *Method) Unfinished() (n int) {
	if !m.rolling() {
		return 0
	}
	for _, l := range m.learners {
		if l.link.flight.Due || train.InRollout(l.Learner) {
			n++
		}
	}
	return n
}

// Settle implements train.Method: what comes before the next round in order. After a slice that was
// cut some learners are ahead: the others take the rounds that they lack, until T stays the same.
// A slice that was cut in the ending is continued as such.
func (m *Method) Settle(interrupt *train.Interrupt) error {
	if m.turns.Follows() != nil {
		return m.Failed() // nothing is due
	}
	if m.pushed && m.joint != nil {
		m.joint.pace()
	}
	m.ending = m.ending && m.cut
	for {
		until := m.turns.Steps()
		err := m.slice(until, interrupt, func(l *learner) error {
			if !m.pushed {
				return l.run(interrupt)
			}
			if err := l.visits(interrupt); err != nil {
				return err
			}
			// An update that failed has planned visits. After a reset of the steps it is no longer due.
			return m.turns.Replan(l.k, 0, order.NoVisit)
		})
		if err != nil || m.turns.Steps() == until {
			return err
		}
	}
}

// slice lets all learners do their parts of a slice, each on a goroutine.
func (m *Method) slice(until int64, interrupt *train.Interrupt, part func(*learner) error) error {
	if err := m.Failed(); err != nil {
		return err
	}
	for _, l := range m.learners {
		l.now.Store(0)
	}
	m.cores.Release(1) // Turns gives the cores to learners
	m.turns.Begin(until, interrupt)
	for _, l := range m.learners {
		if rounds, _ := m.turns.Leg(l.k); rounds > 0 && l.rests() {
			m.turns.Rest(l.k) // before another learner can count these rounds
		}
	}
	var wait sync.WaitGroup
	for _, l := range m.learners {
		wait.Go(func() {
			m.turns.Enter(l.k)
			l.monitor.Resume()
			err := guarded(func() error { return part(l) })
			cut := errors.Is(err, train.ErrInterrupted)
			if err != nil && !cut {
				m.turns.Fail(l.k, l.nameLearner(err))
			}
			m.turns.Leave(l.k, cut)
		})
	}
	wait.Wait()
	err := m.turns.End()
	m.cores.Acquire()
	for _, l := range m.learners {
		m.monitor.Take(l.monitor)
		if m.err == nil && l.Learner.Failed() != nil {
			m.err = err
		}
	}
	m.publish()
	m.cut = err != nil
	before := int64(endOfTime)
	if m.cut {
		for _, l := range m.learners {
			before = min(before, m.turns.At(l.k))
		}
	}
	m.episodes.flush(m.monitor, before)
	m.monitor.Lap(train.Waiting)
	return err
}

// reached is a time that all learners have reached.
func (m *Method) reached() int64 {
	least := int64(endOfTime)
	for _, l := range m.learners {
		least = min(least, l.now.Load())
	}
	return least
}

// publish reports the counts.
func (m *Method) publish() {
	m.monitor.Steps.Store(m.turns.Steps())
	m.monitor.Updates.Store(int64(m.store.Counts().Updates))
}

// due is the number of updates that the latest call should have made. Those that the order puts
// after the next round are not due.
func (m *Method) due() int64 {
	done, due := int64(m.store.Counts().Updates), int64(0)
	for _, l := range m.learners {
		if f := &l.link.flight; m.cut && (f.Due && !f.Alone || l.RoundsToUpdate() == 0) {
			due++
		}
	}
	if m.joint != nil {
		due = min(due, 1)
	}
	return done + due
}

// Workers returns the methods of the learners.
func (m *Method) Workers() (list []train.Learner) {
	for _, l := range m.learners {
		list = append(list, l.Learner)
	}
	return list
}

// forget discards what learners have not pushed. A learner that loses local steps, or the pulls of
// a round with rule mean, continues with the store's parameters.
func (m *Method) forget() {
	m.turns.Forget()
	for _, l := range m.learners {
		k := l.link
		lost := k.joint != nil && k.flight.Due
		k.flight.Due, k.flight.Rounds, k.flight.given = false, 0, given{}
		if k.local != nil && k.local.Pending() > 0 {
			k.local.Forget()
			lost = true
		}
		if !lost {
			continue
		}
		for shard := range k.seen {
			k.seen[shard] = m.store.Pull(shard, l.theta)
		}
	}
}

// guarded turns a panic into an error.
func guarded(do func() error) (err error) {
	defer fault.Recover(&err)
	return do()
}

// Failed implements train.Method. What was added or loaded may have let all learners go on.
func (m *Method) Failed() error {
	if !slices.ContainsFunc(m.learners, func(l *learner) bool { return l.Learner.Failed() != nil }) {
		m.err = nil
	}
	return m.err
}

// Sets is the store's parameters.
func (m *Method) Sets() []nn.Set { return []nn.Set{{Name: m.set, Params: m.center, Writable: true}} }

// Wrote implements train.Method: all learners go on with what was written.
func (m *Method) Wrote(string) {
	for _, l := range m.learners {
		l.theta.CopyFrom(m.center)
		l.Learner.Wrote(m.set)
	}
	m.err = m.forgive()
}

// forgive lets training continue after a loss that is not finite. With rule mean all learners had
// the parameters of that loss, so all rollouts are discarded.
func (m *Method) forgive() error {
	failed := m.err
	m.err = nil
	if m.joint == nil || !errors.Is(failed, fault.ErrNotFinite) {
		return nil
	}
	m.forget()
	return m.discard()
}

// discard discards the rollouts of all learners.
func (m *Method) discard() error {
	for _, l := range m.learners {
		if err := l.Discard(); err != nil {
			return l.nameLearner(err)
		}
	}
	return nil
}

// Policy is the store's parameters and statistics, which act as a learner's do.
func (m *Method) Policy() policy.Spec {
	p := m.learners[0].Policy()
	if p.Normalizer != nil {
		p.Normalizer = m.shared.Obs
	}
	return p
}

// Wake implements train.Background.
func (m *Method) Wake() { m.turns.Wake() }

// Halt implements train.Background: no update is in progress between two calls.
func (m *Method) Halt() {}

// Act implements train.Pushed. Updates that are due come first, in order.
func (m *Method) Act(rows *vec.Rows, interrupt *train.Interrupt) (vec.Actions, error) {
	if err := m.turns.Follows(); err != nil {
		return vec.Actions{}, err
	}
	if err := m.Settle(interrupt); err != nil {
		return vec.Actions{}, err
	}
	// All learners choose, or none does, because a choice draws random numbers.
	for _, l := range m.learners {
		if err := l.CheckUse(rows.Part(l.first, l.n)); err != nil {
			return vec.Actions{}, l.nameLearner(err)
		}
	}
	for _, l := range m.learners {
		chosen, err := l.Learner.Act(rows.Part(l.first, l.n), nil)
		if err != nil {
			return vec.Actions{}, l.nameLearner(err)
		}
		to := m.actions.Part(l.first, l.n, m.envs)
		copy(to.Discrete, chosen.Discrete)
		copy(to.Box, chosen.Box)
	}
	return m.actions, nil
}

// Observe implements train.Pushed: a round of every learner.
func (m *Method) Observe(rows *vec.Rows, interrupt *train.Interrupt) error {
	for _, l := range m.learners {
		if err := l.CheckRows(rows.Part(l.first, l.n)); err != nil {
			return l.nameLearner(err)
		}
	}
	sum := int64(0)
	for _, l := range m.learners {
		before := l.monitor.Steps.Load()
		if err := l.Learner.Observe(rows.Part(l.first, l.n), interrupt); err != nil {
			return l.nameLearner(err)
		}
		steps := l.monitor.Steps.Load() - before
		l.count(steps)
		sum += steps
	}
	if err := m.turns.Together(sum); err != nil {
		return err
	}
	m.episodes.flush(m.monitor, endOfTime)
	m.monitor.Steps.Store(m.turns.Steps())
	return nil
}

// Latest implements train.Stepped: the latest round of every learner.
func (m *Method) Latest() (*vec.Rows, vec.Actions) {
	for _, l := range m.learners {
		rows, actions := l.Learner.Latest()
		part := m.rows.Part(l.first, l.n)
		part.Copy(rows)
		if !l.stepped { // as rows that only wait
			clear(part.Rewards)
			clear(part.Ends)
		}
		to := m.actions.Part(l.first, l.n, m.envs)
		copy(to.Discrete, actions.Discrete)
		copy(to.Box, actions.Box)
	}
	return m.rows, m.actions
}

// Order implements train.Ordered.
func (m *Method) Order() []byte { return m.turns.Order() }

// Digests implements train.Digested: the experience of all learners, and the parameter sets that
// each learner has besides the store's. The sets of a single learner are its own.
func (m *Method) Digests() []train.Digest {
	var list []train.Digest
	for i, d := range m.learners[0].digests() {
		if len(m.learners) == 1 {
			list = append(list, d)
			continue
		}
		list = append(list, train.Digest{Name: d.Name, Sum: func() [32]byte {
			h := sha256.New()
			for _, l := range m.learners {
				sum := l.digests()[i].Sum()
				h.Write(sum[:])
			}
			return [32]byte(h.Sum(nil))
		}})
	}
	return list
}

func (l *learner) digests() (list []train.Digest) {
	if d, ok := l.Learner.(train.Digested); ok {
		list = d.Digests()
	}
	for _, s := range l.Sets()[1:] {
		list = append(list, train.Digest{Name: s.Name, Sum: func() [32]byte { return train.SumFloats(s.Params.Host()) }})
	}
	return list
}

// Metrics reports those of learner 0, and what the order and the store count.
func (m *Method) Metrics(to *train.Metrics) {
	m.learners[0].Learner.Metrics(to)
	to.Due(m.due())
	counts, times, all := m.store.Counts(), m.turns.Stats(), lags{}
	for _, l := range m.learners {
		all.sum += l.link.lags.sum
		all.pushes += l.link.lags.pushes
		all.most = max(all.most, l.link.lags.most)
	}
	lag := math.NaN()
	if all.pushes > 0 {
		lag = float64(all.sum) / float64(all.pushes)
	}
	to.Add("async/pushes", "", "gradients that were applied to the store", float64(counts.Updates))
	to.Add("async/pulls", "", "pulls of all parameters", float64(counts.Pulls))
	to.Add("async/lag", "updates", "updates of other learners between a learner's pull and its push, mean over all pushes since the model was made or loaded", lag)
	to.Add("async/lag_most", "updates", "the largest of these", float64(all.most))
	to.Add("async/refused", "", "pushes of a shard that were refused because of max_staleness", float64(counts.Refused))
	to.Add("async/unfinished", "", "learners whose rollout has begun and is not learned from", float64(m.Unfinished()))
	to.Add("async/order_bytes", "bytes", "the order that was recorded", float64(times.Bytes))
	to.Add("async/wait_turn", "seconds", "learners waited for their turn, without a core, added over the learners", times.Turns.Seconds())
	to.Add("async/wait_core", "seconds", "learners waited for a core", times.Cores.Seconds())
	to.Add("async/wait_lock", "seconds", "learners waited for the lock of a shard, with a core", times.Locks.Seconds())
	to.Add("async/recording", "seconds", "time to record the order", times.Recording.Seconds())
}

// HookGradients makes every learner call before on its goroutine before it computes a gradient, for
// the tests of methods.
func (m *Method) HookGradients(before func()) { m.before = before }

// Close closes the learners.
func (m *Method) Close() error {
	var errs []error
	for _, l := range m.learners {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
