package train

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// Learner is a Method of which an asynchronous method runs several, each on its own environments
// (core/train/async).
type Learner interface {
	Method
	Pushed
	Stepped
	// SetOtherSteps says how many steps other learners have taken, as known now. Schedules follow the
	// sum of these and the learner's own.
	SetOtherSteps(steps int64)
	// BeforeUpdates makes f come before every gradient, on the goroutine that computes it. An error of
	// f ends the call; the next one that updates calls f again.
	BeforeUpdates(f func() error)
	// ShareMoments makes f come before advantages are normalised, with their moments. f returns the
	// moments by which they are normalised. After train.ErrInterrupted the learner calls f again, with
	// the same moments.
	ShareMoments(f func(own rollout.Moments) (rollout.Moments, error))
	// Statistics are those by which the learner normalises, or nil.
	Statistics() *normalize.Normalizer
	// Round takes a round of its environments. No update is due.
	Round() error
	// Discard discards the rounds that no update has learned from.
	Discard() error
	// CheckUse returns the error with which Act refuses the rows.
	CheckUse(rows *vec.Rows) error
	// CheckRows returns the error with which Observe refuses the rows.
	CheckRows(rows *vec.Rows) error
	// RoundsToUpdate returns how many rounds the learner takes before its next update. 0: an update is
	// due.
	RoundsToUpdate() int
}

// Rolling is a Learner that learns from rollouts.
type Rolling interface {
	// InRollout reports whether its rollout has a round, or an update in progress.
	InRollout() bool
}

// SeveralRollouts is a Method whose learners have rollouts of their own.
type SeveralRollouts interface {
	// Unfinished returns the number of learners whose rollout has begun and whose update is not done.
	Unfinished() int
}

// InRollout reports whether a learner must go on to the end of a rollout.
func InRollout(l Learner) bool {
	r, ok := l.(Rolling)
	return ok && r.InRollout()
}

// Replica returns the Setup of learner k of a number of learners of a method, which share the
// environments of s equally. values are settings, of which the method's own are taken by name. d
// and pool belong to the learner alone; ended gets its episodes. The caller closes the Source, if
// it is not nil, after the learner. shares is what Common.SharesMoments returns then.
func (s *Setup) Replica(method string, values map[string]string, k, learners int, shares bool, d nn.Device, pool *threads.Pool, ended func(Episode)) (*Setup, *Definition, error) {
	def, err := lookup(method)
	if err != nil {
		return nil, nil, err
	}
	n := s.Common.NumEnvs / learners
	cfg := def.Settings.Defaults()
	for i := range def.Settings.Len() {
		own, err := def.Settings.At(i)
		if err != nil {
			return nil, nil, err
		}
		if value, ok := values[own.Name]; ok {
			if err := cfg.Set(own.Name, value); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := cfg.Set("num_envs", strconv.Itoa(n)); err != nil {
		return nil, nil, err
	}
	if s.initial == nil {
		s.initial = new(initial)
	}
	to := *s
	to.Config, to.cfg = cfg.Struct().(Settings), &Config{cfg, def}
	to.Config.common().sharesMoments = shares
	if _, err := to.Config.Resolve(); err != nil { // the run's own Resolve has given the notices
		return nil, nil, err
	}
	to.Common, to.Device, to.Pool, to.Learners, to.FirstEnv = to.Config.common(), d, pool, learners, k*n
	to.Monitor = s.Monitor.learner(d, ended)
	if s.Source != nil {
		v, ok := s.Source.(*vec.Vec)
		if !ok {
			return nil, nil, fmt.Errorf("learners: %d, cannot share environments of a %T", learners, s.Source)
		}
		if to.Source, err = v.Part(k*n, n, pool); err != nil {
			return nil, nil, err
		}
	}
	return &to, def, nil
}

// learner returns a Monitor for one of several learners.
func (m *Monitor) learner(d nn.Device, ended func(Episode)) *Monitor {
	to := newMonitor(1)
	to.ended, to.use.device = ended, d
	return to
}

// Resume begins to measure the time of a learner in a call.
func (m *Monitor) Resume() {
	m.env, m.act, m.wait = 0, 0, 0
	m.start()
}

// Take adds the times and notices of a learner's Monitor since its Resume, when the learner has
// stopped.
func (m *Monitor) Take(from *Monitor) {
	m.env += from.env
	m.act += from.act
	m.train.Add(from.train.Swap(0))
	for a := range from.use.spent {
		m.use.add(Activity(a), time.Duration(from.use.spent[a].Swap(0)))
	}
	for _, notice := range from.notices {
		if !slices.Contains(m.notices, notice) {
			m.notices = append(m.notices, notice)
		}
	}
	from.notices = nil
	for _, f := range from.firsts {
		m.FirstUpdate(f.name, f.rate, f.step)
	}
	from.firsts = nil
}
