package ga3c

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
)

// phase is what an agent is in the middle of.
type phase int

const (
	absent    phase = iota // its environment must be reset
	queued                 // it waits for an action, in the prediction queue
	moving                 // a predictor has taken it; its step ends later
	blocked                // its segment waits to get into the training queue, or must be learned from
	resetting              // the host's next observation only resets its environment
	chosen                 // it has an action, and the host has not stepped its environment
	parked                 // it is not active, and has finished its segment
)

// agent is one environment and its policy requests.
type agent struct {
	phase phase
	due   int64 // while it moves: when its step ends
	task  *task
	made  bool // the environment has taken the step
	// launched is the number of the step among all that predictors have taken, since the trainer was
	// made.
	launched int64
}

// launch is a step that a predictor has taken and that has not been reported.
type launch struct {
	agent    int
	over     bool // its event has been processed
	episodes []actor.Episode
}

// slice processes events until T has reached `until`, the Interrupt is raised or a computation
// fails. What begins follows from the events before: idle trainers and predictors take what waits
// as soon as the events of an instant have been processed (take). T counts the steps that
// predictors have taken, so a slice ends after a batch.
func (m *GA3C) slice(until int64, interrupt *train.Interrupt, more func() bool) error {
	if m.recorder != nil {
		m.recorder.halted = false
	}
	for !interrupt.Raised(time.Now()) {
		if r, ok := m.pace.(*recorded); ok && r.halts() {
			return r.ended()
		}
		for m.take() {
			if m.clock.Steps >= until {
				return nil
			}
		}
		if !more() {
			return nil
		}
		if err := m.instant(); err != nil {
			return err
		}
	}
	if m.recorder != nil {
		m.recorder.halted = true
	}
	return interrupt.Err(time.Now())
}

// always is the `more` of slices that only T ends.
func always() bool { return true }

// instant processes the events that come next, those of one instant.
func (m *GA3C) instant() error {
	list, at, err := m.pace.next(m.instants[:0])
	m.instants = list
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("ga3c: no computation is in progress, and none can begin")
	}
	m.now = max(m.now, at)
	for n, e := range list {
		err := m.process(e)
		if last := err != nil || n == len(list)-1; m.recorder != nil {
			m.recorder.add(e, last, m.active)
		}
		if err != nil {
			m.pace.unread(list[n+1:], at)
			return err
		}
	}
	return nil
}

// process processes one event.
func (m *GA3C) process(e event) error {
	switch e.kind {
	case stepped:
		a := &m.agents[e.k]
		if a.phase != moving {
			return m.differs("agent %d takes no step", e.k)
		}
		return m.endStep(e.k)
	case predicted:
		p := m.predictors[e.k]
		if !p.busy {
			return m.differs("predictor %d has no batch", e.k)
		}
		if err := m.tasks.wait(p.task); err != nil {
			return err // drain frees the predictor
		}
		p.busy = false
		m.measured("predict", len(p.batch), p.task, 0)
		return nil
	case tuned:
		m.tune()
		return nil
	default:
		t := m.trainers[e.k]
		if !t.busy {
			return m.differs("trainer %d has no batch", e.k)
		}
		return m.apply(t)
	}
}

// differs is the error of a recorded event that the run does not have.
func (m *GA3C) differs(format string, args ...any) error {
	return fmt.Errorf("order: "+format+": the settings or the calls differ from those of the recorded run", args...)
}

// take begins one computation: the gradient of an idle trainer, or the prediction of an idle
// predictor. It reports whether there was one.
func (m *GA3C) take() bool {
	if m.err != nil {
		return false
	}
	for _, t := range m.trainers[:m.active.Trainers] {
		if !t.busy && m.enough() {
			m.err = m.train(t)
			return true
		}
	}
	if m.requests.Len() == 0 {
		return false
	}
	for _, p := range m.predictors[:m.active.Predictors] {
		if !p.busy {
			m.predict(p)
			return true
		}
	}
	return false
}

// enough reports whether a trainer takes segments: the queue has min_training_batch steps, or no
// agent can move before an update. Where the host steps, agents move together: only one that is
// blocked needs an update to do so.
func (m *GA3C) enough() bool {
	if m.segments.Enough(m.cfg.MinTrainingBatch) {
		return true
	}
	if m.pushed && len(m.waiting) == 0 {
		return false
	}
	if m.segments.Len() == 0 || m.requests.Len() > 0 || m.moves > 0 {
		return false
	}
	for _, t := range m.trainers {
		if t.busy {
			return false
		}
	}
	return true
}

// predict makes a predictor take the agents that wait, up to prediction_batch_max, with the latest
// version of the parameters. Their steps begin when their actions are known.
func (m *GA3C) predict(p *predictor) {
	m.sums.requests += int64(m.requests.Len())
	p.batch = m.requests.Take(min(m.cfg.PredictionBatchMax, cap(p.batch)), p.batch[:0])
	n := len(p.batch)
	p.busy, p.due, p.version = true, m.pace.prediction(p.k, n, m.now), m.versions.read()
	p.first = m.clock.Steps
	t := &task{run: p.run, event: event{predicted, p.k}}
	for _, i := range p.batch {
		a := &m.agents[i]
		a.phase, a.made, a.due, a.task = moving, false, m.pace.step(i, p.due), nil
		if m.pushed {
			a.phase = chosen
			continue
		}
		m.moves++
		a.launched = m.launched
		m.launched++
		m.launches = append(m.launches, launch{agent: i})
		m.pace.begins(event{stepped, i}, a.due)
		at := m.clock.Steps
		a.task = &task{waits: m.waits, event: event{stepped, i}, run: func() (err error) {
			if t.err != nil {
				return t.err
			}
			a.made, err = m.group.StepRow(i, at)
			return err
		}}
		t.next = append(t.next, a.task)
		m.clock.Steps++
	}
	m.sums.predictions++
	m.sums.predicted += int64(n)
	p.task = t
	m.pace.begins(t.event, p.due)
	m.tasks.add(t)
}

// train makes a trainer take segments, with the latest version of the parameters.
func (m *GA3C) train(t *trainer) error {
	m.sums.segments += int64(m.segments.Len())
	m.segments.Take(m.cfg.MinTrainingBatch, t.batch)
	t.rows, t.busy = t.batch.Rows, true
	t.learner = t.learners[slices.IndexFunc(t.learners, func(l learner) bool { return l.rows >= t.rows })]
	t.version = m.versions.read()
	t.updates = append(t.updates[:0], t.batch.Updates[:t.rows]...)
	t.envs = t.envs[:0]
	for _, s := range t.batch.Segments {
		t.envs = append(t.envs, s.Env)
	}
	t.due = m.pace.update(t.k, t.rows, m.now)
	t.task = &task{run: t.run, event: event{updated, t.k}}
	m.pace.begins(t.task.event, t.due)
	m.tasks.add(t.task)
	if !m.cfg.WaitForUpdate {
		return m.admit()
	}
	return nil
}

// admit lets agents go on whose segments have got into the training queue, in the order of the
// queue.
func (m *GA3C) admit() error {
	for len(m.waiting) > 0 && m.segments.Inside(m.waiting[0]) {
		i := m.waiting[0]
		m.waiting = m.waiting[:copy(m.waiting, m.waiting[1:])]
		if err := m.ready(i); err != nil {
			return err
		}
	}
	return nil
}

// request makes an agent join the prediction queue.
func (m *GA3C) request(i int) {
	m.agents[i].phase = queued
	m.requests.Join(i)
}

// endStep processes the end of agent i's step: its segment, if it has ended, joins the training
// queue.
func (m *GA3C) endStep(i int) error {
	a := &m.agents[i]
	err := m.tasks.wait(a.task)
	m.measured("step", 1, a.task, 0)
	a.phase = absent
	m.moves--
	m.reportStep(i)
	a.task = nil
	if err != nil {
		if !a.made {
			m.clock.Steps--
		}
		return err
	}
	return m.ready(i)
}

// ready makes an agent that has an observation and no action go on.
func (m *GA3C) ready(i int) error {
	ended := m.segments.Ended(i)
	if ended && m.segments.Inside(i) {
		if err := m.segments.Join(i); err != nil {
			return err
		}
	}
	switch {
	case !m.segments.Inside(i) || ended && m.cfg.WaitForUpdate:
		m.agents[i].phase = blocked
		m.waiting = append(m.waiting, i)
	case i >= m.active.Agents && m.segments.Empty(i):
		m.agents[i].phase = parked
	case m.pushed && m.group.Idle(i):
		m.agents[i].phase = resetting
	default:
		m.request(i)
	}
	return nil
}

// reportStep reports the steps whose events have been processed, agent i's included, in the order
// in which predictors took them.
func (m *GA3C) reportStep(i int) {
	first := m.launched - int64(len(m.launches))
	k := m.agents[i].launched - first
	if m.pushed || k < 0 { // the host steps, or it was reported at the end of a slice
		return
	}
	m.finish(&m.launches[k])
	n := 0
	for n < len(m.launches) && m.launches[n].over {
		m.publish(&m.launches[n])
		n++
	}
	m.launches = m.launches[:copy(m.launches, m.launches[n:])]
	if done := m.clock.Steps - int64(m.moves); done > m.monitor.Steps.Load() { // for readers while the slice runs
		m.monitor.Steps.Store(done)
	}
}

// finish takes the episode that a step has ended, if it has ended one.
func (m *GA3C) finish(l *launch) {
	l.over = true
	m.group.TakeFinishedRow(l.agent, func(e actor.Episode) { l.episodes = append(l.episodes, e) })
}

func (m *GA3C) publish(l *launch) {
	for _, e := range l.episodes {
		m.monitor.Ended(train.Episode{Return: e.Return, Length: e.Length})
	}
}

// drain ends a slice: it waits for all computations. Steps and episodes of agents whose event comes
// later are reported, too. A step or a prediction that failed is reported now: err, or the error of
// the first one.
func (m *GA3C) drain(err error) error {
	m.tasks.drain()
	for k := range m.launches {
		if l := &m.launches[k]; !l.over {
			m.finish(l)
		}
		m.publish(&m.launches[k])
	}
	m.launches = m.launches[:0]
	failed := false
	fails := func(t *task) bool {
		if t == nil || t.err == nil {
			return false
		}
		if err == nil || errors.Is(err, train.ErrInterrupted) {
			err = t.err
		}
		failed = true
		return true
	}
	for i := range m.agents {
		a := &m.agents[i]
		if a.phase != moving || !fails(a.task) {
			continue
		}
		if !a.made {
			m.clock.Steps--
		}
		a.phase, a.task = absent, nil
		m.moves--
	}
	for _, p := range m.predictors {
		if p.busy && fails(p.task) {
			m.unpredicted(p)
		}
	}
	if failed {
		m.replan()
	}
	m.measure()
	m.monitor.Steps.Store(m.clock.Steps)
	return err
}

// unpredicted ends a prediction that failed. Where the host steps, its agents ask again; elsewhere
// their steps have failed with it. The error of an environment, such as an action that is not
// finite, does not end training.
func (m *GA3C) unpredicted(p *predictor) {
	var of *env.Error
	if !errors.As(p.task.err, &of) {
		m.err = p.task.err
	}
	for _, i := range p.batch {
		if m.agents[i].phase == chosen {
			m.request(i)
		}
	}
	p.busy, p.task = false, nil
}

// replan tells the pace all computations that are in progress, when others are than it knows.
func (m *GA3C) replan() {
	m.pace.forget()
	for _, t := range m.trainers {
		if t.busy {
			m.pace.restored(event{updated, t.k}, t.due)
		}
	}
	for i := range m.agents {
		if a := &m.agents[i]; a.phase == moving {
			m.pace.restored(event{stepped, i}, a.due)
		}
	}
	for _, p := range m.predictors {
		if p.busy {
			m.pace.restored(event{predicted, p.k}, p.due)
		}
	}
	if m.tuner != nil && m.tuner.Due > 0 {
		m.pace.restored(event{kind: tuned}, m.tuner.Due)
	}
}

// release lets agents go on that wait until their segments have been learned from, in the order of
// the segments.
func (m *GA3C) release(envs []int) error {
	for _, i := range envs {
		if m.agents[i].phase != blocked {
			continue
		}
		m.waiting = slices.DeleteFunc(m.waiting, func(j int) bool { return j == i })
		if err := m.ready(i); err != nil {
			return err
		}
	}
	return nil
}

// tune processes the tuner's event. A recorded order says which counts follow.
func (m *GA3C) tune() {
	if r, ok := m.pace.(*recorded); ok {
		m.activate(r.tuned)
		return
	}
	active := m.tuner.next(m.now, m.clock.Updates, m.active)
	m.pace.begins(event{kind: tuned}, m.tuner.Due)
	m.activate(active)
}

// activate sets the numbers of active predictors, trainers and agents. Agents that were not active
// go on.
func (m *GA3C) activate(c counts) {
	m.active = c
	for i := range m.agents[:c.Agents] {
		if m.agents[i].phase == parked {
			m.request(i)
		}
	}
}
