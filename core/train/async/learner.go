package async

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/order"
	"github.com/paceline-rl/paceline/core/vec"
)

// learner is one of the learners: a method of its own environments, whose updates go through its
// link. One goroutine at a time uses it.
type learner struct {
	train.Learner
	m        *Method
	k        int
	first, n int // its environments
	theta    *nn.Params
	monitor  *train.Monitor
	link     *link

	steps   int64        // its steps, of those that T counts
	others  int64        // steps of other learners, as of the latest pull
	stepped bool         // it has taken a round in the latest slice
	behind  bool         // it must begin a rollout although the run ends
	taken   int64        // rounds since the latest update or pull
	rounds  int64        // since the learner was made
	now     atomic.Int64 // no later episode of the slice ends before this time

	device nn.Device
	pool   *threads.Pool
	source *vec.Vec // nil where the host steps
}

// newLearner makes learner k. s is the Setup of all learners.
func newLearner(m *Method, s *train.Setup, c *Config, k int) (l *learner, err error) {
	l = &learner{m: m, k: k, n: s.Common.NumEnvs / c.Learners, link: &link{}}
	l.first, l.link.l = k*l.n, l
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.pool, err = threads.NewPool(1, s.Cores); err != nil {
		return l, err
	}
	if l.device, err = s.Device.Another(1, s.Cores); err != nil {
		return l, err
	}
	setup, def, err := s.Replica(c.Worker, c.Values, k, c.Learners, c.Shares(), &device{l.device, l.link}, l.pool, func(e train.Episode) { m.episodes.add(m.turns.At(k), k, e) })
	if err != nil {
		return l, err
	}
	l.source, _ = setup.Source.(*vec.Vec)
	l.monitor = setup.Monitor
	method, err := def.New(setup)
	if err != nil {
		return l, err
	}
	var ok bool
	if l.Learner, ok = method.(train.Learner); !ok {
		return l, errors.Join(fmt.Errorf("worker: %s, must be a train.Learner", c.Worker), method.Close())
	}
	l.theta = l.Sets()[0].Params
	l.BeforeUpdates(l.link.begin)
	if c.Shares() {
		l.ShareMoments(l.link.shareMoments)
	}
	return l, nil
}

func (l *learner) close() (err error) {
	if l.Learner != nil {
		err = l.Learner.Close()
	}
	if l.source != nil {
		err = errors.Join(err, l.source.Close())
	}
	if l.pool != nil {
		l.pool.Close()
	}
	if l.device != nil {
		l.device.Close()
	}
	return err
}

// run takes the learner's part of a slice.
func (l *learner) run(interrupt *train.Interrupt) error {
	for {
		if err := l.visits(interrupt); err != nil {
			return err
		}
		rests := l.rests()
		if rests { // before other learners can see the rounds of its next leg
			l.m.turns.Rest(l.k)
		}
		n, then := l.leg()
		if err := l.m.turns.Replan(l.k, n, then); err != nil || rests {
			return err
		}
		if ok, err := l.m.turns.Round(l.k); !ok || err != nil {
			return err
		}
		before := l.monitor.Steps.Load()
		acted, stepped := l.monitor.Spent()
		err := l.Learner.Round()
		l.measureRound(acted, stepped)
		steps := l.monitor.Steps.Load() - before
		l.count(steps)
		l.behind = false
		l.m.turns.Took(l.k, int(steps))
		if err != nil {
			return err
		}
		if l.rounds++; l.rounds%reporting == 0 {
			l.now.Store(l.m.turns.At(l.k))
			l.m.episodes.flush(l.m.monitor, l.m.reached())
		}
	}
}

// rests reports whether the learner takes no further round in the slice, because the run ends.
func (l *learner) rests() bool { return l.m.ending && !l.behind && !train.InRollout(l.Learner) }

// reporting is the number of rounds of a learner after which episodes are reported.
const reporting = 64

// visits does what comes before the next round: the visits to the store that are due, and the
// update.
func (l *learner) visits(interrupt *train.Interrupt) error {
	for {
		if l.link.joint != nil && l.RoundsToUpdate() > 0 {
			l.link.planShort()
			l.link.contributeNothing()
		}
		if err := l.link.visit(); err != nil {
			return err
		}
		switch period := int64(l.m.cfg.PullPeriod); {
		case l.RoundsToUpdate() == 0:
			began := time.Now()
			if err := l.Settle(interrupt); err != nil {
				return err
			}
			l.measureGradient(began)
			l.taken = 0
			if err := l.link.endUpdate(); err != nil {
				return err
			}
		case period > 0 && l.taken == period:
			l.taken = 0
			l.link.flight.Due, l.link.flight.Alone = true, true
			if err := l.m.turns.Plan(l.k, 0, order.PullAll); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// longestLeg is the largest number of rounds that are planned at once, because a virtual order
// draws the time of each of them. An update may be 2^40 rounds away.
const longestLeg = 1 << 16

// leg returns how many rounds the learner takes before it visits the store, and why it does.
func (l *learner) leg() (rounds int, then order.Visits) {
	if l.link.joint != nil {
		if left, visits := l.m.turns.Leg(l.k); visits { // see link.planShort
			return left, order.PushAndPull
		}
	}
	rounds = l.RoundsToUpdate()
	if period := l.m.cfg.PullPeriod; period > 0 && period-int(l.taken) < rounds {
		return period - int(l.taken), order.PullAll
	}
	if left, _ := l.m.turns.Leg(l.k); rounds > max(left, longestLeg) {
		return longestLeg, order.NoVisit // planned again before every round
	}
	if l.link.period > 1 { // whether the first gradient of the update is pushed is seen then
		return rounds, order.NoVisit
	}
	return rounds, order.PushAndPull
}

// count counts the steps of a round.
func (l *learner) count(steps int64) {
	l.steps += steps
	l.taken++
	l.stepped = true
}

// setTotal tells the learner's schedules what a pull has read: T.
func (l *learner) setTotal(steps int64) {
	l.others = steps - l.steps
	l.SetOtherSteps(l.others)
}

// nameLearner names the learner in an error of its own, and the environment and the step by their
// numbers in the run. An error of a slice that has ended is none.
func (l *learner) nameLearner(err error) error {
	if err == nil || errors.Is(err, train.ErrInterrupted) {
		return nil
	}
	var row *actor.Refused
	if errors.As(err, &row) {
		row.Step = l.m.turns.Steps()
	}
	var failed *vec.Failure
	var one *env.Error
	switch {
	case errors.As(err, &failed):
		for _, row := range failed.Rows {
			row.Err.Index += l.first
		}
	case errors.As(err, &one):
		one.Index += l.first
	case l.m.cfg.Learners > 1:
		err = fmt.Errorf("learner %d: %w", l.k, err)
	}
	return err
}
