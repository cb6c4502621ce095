package onpolicy

import (
	"errors"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
)

// Step is one update of Theta from a minibatch: Learn, then Apply, which a device may do in one
// launch. A minibatch may refer to rows of the window (nn.Batch.Rows).
func (r *Run) Step(b nn.Batch) error {
	if err := r.upload(&b); err != nil {
		return err
	}
	return r.applied(r.learned(b, r.Stepper.Update(r.Theta, b, r.rate(), &r.Report)))
}

// Learn computes the gradient of a minibatch and fills in Report.
func (r *Run) Learn(b nn.Batch) error { return r.learned(b, r.Gradient(b)) }

// Apply takes a step of the optimiser along the gradient of the latest Learn. If the loss or the
// norm is not finite it takes none, and the error wraps fault.ErrNotFinite.
func (r *Run) Apply() error { return r.applied(r.Stepper.Step(r.Theta, r.rate(), &r.Report)) }

// NormalizeAdvantages shifts and scales the advantages of a minibatch to mean 0 and standard
// deviation 1, where several learners share an update those of all learners (train.Learner). After
// train.ErrInterrupted the minibatch begins again.
func (r *Run) NormalizeAdvantages(advantages, weights []float32) error {
	moments := rollout.MomentsOf(advantages, weights)
	if r.share != nil {
		var err error
		if moments, err = r.share(moments); errors.Is(err, fault.ErrNotFinite) {
			return train.AtUpdate(err, r.Clock.Steps, r.Clock.Updates+1)
		} else if err != nil {
			return err
		}
	}
	moments.Normalize(advantages, weights)
	return nil
}

// rate is the learning rate now.
func (r *Run) rate() float64 { return r.Clock.Rate.At(r.Clock.Now()) }

// learned ends a Learn, or the Learn of a Step. A loss that is not finite is reported, too.
func (r *Run) learned(b nn.Batch, err error) error {
	if err == nil || errors.Is(err, fault.ErrNotFinite) {
		r.reported = true
		if b.Rows != nil {
			r.units.LookRows(r.Stepper, r.Clock.Steps, r.observations(), b.Rows)
		} else {
			r.units.Look(r.Stepper, r.Clock.Steps, b.Obs)
		}
	}
	return err
}

// applied ends an Apply, or the Apply of a Step.
func (r *Run) applied(err error) error {
	if err != nil {
		return train.AtUpdate(err, r.Clock.Steps, r.Clock.Updates+1)
	}
	r.Clock.Updates++
	r.Monitor.Updates.Store(r.Clock.Updates)
	if !r.updated {
		r.updated = true
		r.Monitor.FirstUpdate("learning_rate", r.Clock.Rate, r.Clock.Now())
		for _, s := range r.cfg.Schedules {
			if s.Learns {
				r.Monitor.FirstUpdate(s.Name, r.Clock.Schedules[s.Name], r.Clock.Now())
			}
		}
	}
	return nil
}
