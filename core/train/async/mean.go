package async

import (
	"fmt"
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train/order"
)

// This file is rule mean (Stooke & Abbeel 2018, 4.2). A learner gives a contribution to every
// round, and learners pull when all of them have pushed (order.Config.Barrier). Nothing moves at a
// push: the contribution stays in the learner's flight and gradient. The first pull of a round
// combines them.
//
// Where advantages are normalised, a round of moments comes before each round of gradients, so that
// all learners use the same mean and deviation.

// contribution is what a learner gives to the round in progress.
type contribution string

const (
	noContribution contribution = ""
	moments        contribution = "moments"
	gradient       contribution = "gradient"
)

// given is the part of a flight with rule mean.
type given struct {
	// Round is what the learner has planned to give; it has given it if visits are due.
	Round contribution `json:"round,omitempty"`
	// Absent says that it gives nothing to this minibatch: it had no step for it.
	Absent bool `json:"absent,omitempty"`
	// Agreed says that Moments are those of all learners.
	Agreed   bool            `json:"agreed,omitempty"`
	Moments  rollout.Moments `json:"moments"`
	Rows     float64         `json:"rows"`
	Combined bool            `json:"combined,omitempty"`
}

// valid reports whether a learner can have given this.
func (g *given) valid(j *joint) bool {
	if j == nil {
		return *g == given{}
	}
	return g.Rows >= 0 && g.Rows <= nn.MaxRows && (g.Round == noContribution || g.Round == gradient || g.Round == moments && j.shares)
}

// joint combines the contributions of all learners.
type joint struct {
	*param.Mean
	learners []*learner
	shares   bool // moments
	summed   bool // the loss is a sum over rows

	mu  sync.Mutex // of a combination: pulls of different shards may be made at the same time
	all []param.Contribution
}

// combine combines the contributions of the round in which learner k pulls, unless an earlier pull
// of the round has done it.
func (j *joint) combine(k int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	own := &j.learners[k].link.flight
	if own.Combined {
		return nil
	}
	if own.Round == moments {
		var sum rollout.Moments
		for _, l := range j.learners {
			sum = sum.Plus(l.link.flight.Moments)
		}
		for _, l := range j.learners {
			l.link.flight.Moments, l.link.flight.Combined = sum, true
		}
		return nil
	}
	j.all = j.all[:0]
	for _, l := range j.learners {
		f := &l.link.flight
		j.all = append(j.all, param.Contribution{Grad: l.link.grad, Rows: f.Rows, Summed: j.summed, Rate: f.Rate})
	}
	if _, err := j.Combine(j.all); err != nil {
		return err
	}
	for _, l := range j.learners {
		l.link.flight.Combined = true
	}
	return nil
}

// contribute makes the visits due that push the latest gradient, or a contribution.
func (k *link) contribute() { k.flight.Due, k.flight.Alone, k.flight.Combined = true, false, false }

// beginRound plans the contribution to the next minibatch. If the minibatch before had no step, the
// learner contributes nothing to that one first.
func (k *link) beginRound() error {
	if k.flight.Agreed && !k.flight.Absent {
		return nil // the minibatch begins again
	}
	k.contributeNothing()
	if err := k.visit(); err != nil {
		return err
	}
	k.flight.Round = k.joint.first()
	return k.l.m.turns.Plan(k.l.k, 0, order.PushAndPull)
}

// first is the first contribution to a minibatch.
func (j *joint) first() contribution {
	if j.shares {
		return moments
	}
	return gradient
}

// planShort plans the contribution of a learner whose leg is over but that has no update yet,
// because its rounds had fewer steps than it expected. The other learners wait for the
// contribution.
func (k *link) planShort() {
	if left, visits := k.l.m.turns.Leg(k.l.k); visits && left == 0 && k.flight.Round == noContribution {
		k.flight.Round = k.joint.first()
	}
}

// contributeNothing contributes nothing to the round that was planned, if nothing was given.
func (k *link) contributeNothing() {
	if f := &k.flight; f.Round != noContribution && !f.Due && !(f.Agreed && !f.Absent) {
		f.Absent, f.Moments, f.Rows = true, rollout.Moments{}, 0
		k.contribute()
	}
}

// rounded is a learner whose updates come after a number of rounds. Where the host steps the
// environments, the windows of all learners become full together, also one whose rows only reset
// their environments. Its learner then contributes nothing to each minibatch of the others.
type rounded interface{ UpdateEmpty() }

// paced is a learner whose updates have one minibatch each, and come after a number of its own
// steps.
type paced interface {
	// DueUpdates is the number of updates that the learner's steps ask for and that are not done.
	DueUpdates() int64
	// HoldUpdates lets at most n further updates be due, until the next call.
	HoldUpdates(n int64)
}

// pace lets every learner do as many updates before the host's next round as the learner with the
// fewest. The host steps the environments of all learners together, and a row that only resets its
// environment is no step. So an update may be due for some learners a round earlier than for
// others. It waits for them.
func (j *joint) pace() {
	rounds := make([]int64, len(j.learners)) // that begin before the host's next round, and those before
	for k, l := range j.learners {
		p, ok := l.Learner.(paced)
		if !ok {
			return
		}
		rounds[k] = l.link.begun() + p.DueUpdates()
	}
	for _, l := range j.learners {
		l.Learner.(paced).HoldUpdates(max(0, slices.Min(rounds)-l.link.begun()))
	}
}

// begun is the number of rounds of gradients to which the learner has given its own, or nothing.
// Moments are no gradient, but a learner that has given no moments gives no gradient either.
func (k *link) begun() int64 {
	if f := &k.flight; f.Due && (f.Round == gradient || f.Absent) {
		return k.flight.Rounds + 1
	}
	return k.flight.Rounds
}

// overRound goes on after the visits of a round.
func (k *link) overRound() error {
	f := &k.flight
	if f.Round != moments {
		f.given = given{}
		f.Rounds++
		return nil
	}
	f.Round, f.Agreed = gradient, true
	if f.Absent {
		k.contribute()
	}
	return k.l.m.turns.Plan(k.l.k, 0, order.PushAndPull)
}

// shareMoments returns the moments of all learners' advantages.
func (k *link) shareMoments(own rollout.Moments) (rollout.Moments, error) {
	f := &k.flight
	if !f.Agreed {
		if !own.Finite() {
			return own, &nn.NotFinite{What: "mean of the advantages", Value: own.Mean + own.Squares}
		}
		f.Moments = own
		k.contribute()
		if err := k.visit(); err != nil {
			return own, err
		}
	}
	return f.Moments, nil
}

// stepper counts the rows of minibatches.
type stepper struct {
	nn.Stepper
	link   *link
	weight int // the column of weights
}

func (d *device) stepper(c nn.StepperConfig, s nn.Stepper) (nn.Stepper, error) {
	for i, column := range c.Loss.Columns(&c.Net) {
		if column.Name == "weight" {
			return &stepper{s, d.link, i}, nil
		}
	}
	return nil, fmt.Errorf("loss: %T has no column of weights", c.Loss)
}

func (s *stepper) count(b *nn.Batch) {
	s.link.rows = 0
	for _, w := range b.Columns[s.weight] {
		s.link.rows += float64(w)
	}
}

func (s *stepper) Learn(p *nn.Params, b nn.Batch, r *nn.Report) error {
	s.count(&b)
	return s.Stepper.Learn(p, b, r)
}

func (s *stepper) Update(p *nn.Params, b nn.Batch, lr float64, r *nn.Report) error {
	s.count(&b)
	return s.Stepper.Update(p, b, lr, r)
}
