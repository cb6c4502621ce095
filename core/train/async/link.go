package async

import (
	"errors"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/order"
)

// device is the device of a learner. Its steppers take their steps through the learner's link.
type device struct {
	nn.Device
	link *link
}

func (d *device) Stepper(c nn.StepperConfig) (nn.Stepper, error) {
	c.External = d.link
	s, err := d.Device.Stepper(c)
	if err != nil || d.link.l.m.cfg.Rule != param.RuleMean {
		return s, err
	}
	return d.stepper(c, s)
}

func (d *device) QStepper(c nn.StepperConfig, target nn.Target) (nn.QStepper, error) {
	c.External, d.link.rows = d.link, float64(c.Rows)
	if admit := c.Admit; admit != nil {
		c.Admit = func(r *nn.Report) bool {
			admitted := admit(r)
			if !admitted {
				d.link.drop()
			}
			return admitted
		}
	}
	return d.Device.QStepper(c, target)
}

func (d *device) Another(n int, budget *threads.Budget) (nn.Device, error) {
	other, err := d.Device.Another(n, budget)
	return &device{other, d.link}, err
}

// link is the nn.Optimizer of a learner. A step only says what to push: the gradient, which stays
// where it is until the learner's next one. Then visit pushes it to the store's shards and pulls
// the parameters that the learner goes on with, as far as the slice of the run allows.
type link struct {
	l      *learner
	local  *param.Local     // with rule multi_step_adam
	period int64            // local steps between two pushes
	joint  *joint           // with rule mean
	share  *normalize.Share // nil: nothing is normalised

	grad   []float32
	rows   float64  // of the latest minibatch, with rule mean
	seen   []uint64 // the version of every shard of the learner's parameters
	lags   lags
	flight flight
}

// flight is what the learner must do at the store before it reads its parameters again.
type flight struct {
	Step  int64 `json:"step"`  // the learner's steps so far
	Due   bool  `json:"due"`   // visits are due
	Alone bool  `json:"alone"` // no gradient is pushed: the visits are pulls, or empty pushes and pulls
	// Last says that they end an update. Statistics are shared in these visits and in pulls alone:
	// environments that reset during an update add rows at a time that depends on interrupts.
	Last   bool    `json:"last,omitempty"`
	Factor float32 `json:"factor"`
	Rate   float64 `json:"rate"`
	Steps  int64   `json:"steps"` // T at the pull of shard 0
	Lag    uint64  `json:"lag"`
	// Rounds counts rounds of gradients that are over, with rule mean.
	Rounds int64 `json:"rounds,omitempty"`
	given
}

func (k *link) Step() int64        { return k.flight.Step }
func (k *link) SetStep(step int64) { k.flight.Step = step }
func (k *link) State() []nn.Tensor { return nil }

func (k *link) ApplyRange(*nn.Params, int, []float32, float32, float64, int64) error {
	return errors.New("optimizer: a learner takes steps of all parameters")
}

func (k *link) Apply(p *nn.Params, grad []float32, factor float32, lr float64) error {
	f := &k.flight
	f.Step++
	if k.local != nil {
		f.Due, f.Alone = k.local.Pending()+1 >= k.period, false
		return k.local.Step(p, grad, factor, lr)
	}
	k.grad, f.Factor, f.Rate = grad, factor, lr
	if k.joint != nil {
		f.Rows, f.Agreed = k.rows, false
	}
	k.contribute()
	return nil
}

// drop makes the visits due that a step without a gradient has: the pushes that were planned push
// nothing.
func (k *link) drop() { k.flight.Due, k.flight.Alone = true, true }

// endUpdate ends an update. It plans a push of the steps that are left. If the latest minibatch
// took no step and nothing is left, the visits share statistics alone.
func (k *link) endUpdate() error {
	f := &k.flight
	f.Last = true
	switch {
	case k.joint != nil:
		k.contributeNothing()
	case f.Due:
	case k.local != nil && k.local.Pending() > 0:
		f.Due, f.Alone = true, false
		return k.plan(int(k.local.Pending()) - 1)
	case k.share != nil:
		f.Due, f.Alone = true, true
		return k.plan(0)
	}
	return nil
}

// plan plans a push, before which some gradients were computed that are not pushed one by one.
func (k *link) plan(gradients int) error {
	if _, planned := k.l.m.turns.Leg(k.l.k); !planned {
		k.l.m.turns.Computed(k.l.k, gradients)
	}
	return k.l.m.turns.Plan(k.l.k, 0, order.PushAndPull)
}

// begin is called before every gradient. It ends the visits of the step before, and plans those of
// the next one, if it has any.
func (k *link) begin() error {
	if err := k.visit(); err != nil {
		return err
	}
	k.flight.Last = false
	if k.l.m.before != nil {
		k.l.m.before()
	}
	if k.joint != nil {
		return k.beginRound()
	}
	switch {
	case k.local == nil:
		return k.plan(0)
	case k.local.Pending()+1 >= k.period:
		return k.plan(int(k.local.Pending()))
	}
	return nil
}

// visit makes the visits that are due. It returns train.ErrInterrupted if the slice ends before
// they are made.
func (k *link) visit() error {
	f, p := &k.flight, k.l.theta
	for f.Due {
		ok, err := k.l.m.turns.Visits(k.l.k, k.l.measureVisits(func(v order.Visit) error {
			if v.Push {
				return k.push(v.Shard, p)
			}
			return k.pull(v, p)
		}))
		switch {
		case err != nil:
			return err
		case !ok:
			return train.ErrInterrupted
		}
		f.Due = false
		if !f.Alone && k.joint == nil {
			k.lags.add(f.Lag)
		}
		k.l.setTotal(f.Steps)
		if k.joint != nil {
			if err := k.overRound(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *link) push(shard int, p *nn.Params) error {
	f := &k.flight
	if shard == 0 {
		f.Lag = 0
		if k.share != nil && f.Last {
			k.share.Push(k.l.m.shared)
		}
	}
	if f.Alone || k.joint != nil {
		return nil
	}
	version, err := k.l.m.store.Push(shard, param.Push{
		Grad: k.grad, Factor: f.Factor, Rate: f.Rate, Seen: k.seen[shard], Step: f.Step, To: p, Local: k.local,
	})
	var stale *param.Stale
	switch {
	case errors.As(err, &stale): // the store counts it
		f.Lag = max(f.Lag, stale.Lag)
	case err != nil:
		return err
	default:
		f.Lag = max(f.Lag, version-1-k.seen[shard])
	}
	k.seen[shard] = version
	return nil
}

// lags are those of a learner's pushes since it was made, each the most of all shards.
type lags struct{ sum, pushes, most uint64 }

func (l *lags) add(lag uint64) {
	l.sum += lag
	l.pushes++
	l.most = max(l.most, lag)
}

// pull copies a shard, unless the push has given it to the learner.
func (k *link) pull(v order.Visit, p *nn.Params) error {
	if v.Shard == 0 {
		k.flight.Steps = v.Steps
		if f := &k.flight; k.share != nil && (f.Last || f.Alone) {
			k.share.Pull(k.l.m.shared)
		}
	}
	if k.joint != nil {
		if err := k.joint.combine(k.l.k); err != nil {
			return err
		}
	}
	if k.flight.Alone || k.joint != nil || k.l.m.store.Rule().Name == param.RuleGradient {
		k.seen[v.Shard] = k.l.m.store.Pull(v.Shard, p)
	}
	return nil
}
