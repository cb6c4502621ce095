package onpolicy

import (
	"errors"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Advance takes steps until `until` are counted or the Interrupt is raised. Where the host steps the
// environments, one pass of its loop is Act, the host's step, Observe.
func (r *Run) Advance(until int64, interrupt *train.Interrupt) error {
	if err := r.Actors.Repair(); err != nil {
		return err
	}
	var failed error
	for r.Actors.InRound() || failed == nil && r.Clock.Steps < until {
		if !r.Actors.InRound() && interrupt.Raised(r.Host.Mark()) {
			return nil
		}
		if err := r.Settle(interrupt); err != nil {
			return err
		}
		n := int64(r.Actors.Steps())
		more := failed == nil && r.Clock.Steps+n < until && r.Rollout.Left() > 1 && !interrupt.Raised(r.Host.Mark())
		ran, err := r.Actors.Round(r.Clock.Steps, r.cfg.Chooser, more)
		r.Host.Ran(ran)
		if err := errors.Join(err, r.endRound(ran.Made)); failed == nil {
			failed = err
		}
	}
	return failed
}

// Act is the first half of a round where the host steps the environments.
func (r *Run) Act(rows *vec.Rows, interrupt *train.Interrupt) ([]int32, error) {
	if err := r.Settle(interrupt); err != nil {
		return nil, err
	}
	if err := r.Actors.Use(rows, r.Clock.Steps); err != nil {
		return nil, err
	}
	// One forward pass for all.
	err := r.Actors.Choose(r.Clock.Steps, r.cfg.Chooser, true)
	r.Host.Lap(train.Acting)
	return r.Actors.Actions(), err
}

// Observe is the second half: all rows are taken, or none.
func (r *Run) Observe(rows *vec.Rows, _ *train.Interrupt) error {
	n, err := r.Actors.Observe(rows, r.Clock.Steps, nil)
	if err != nil {
		return err
	}
	return r.endRound(n)
}

// endRound counts a round of n steps. Environments that took none in it, because
// they were reset or failed, leave a hole in the rollout.
func (r *Run) endRound(n int64) error {
	r.Clock.Steps += n
	r.Host.Add(n, r.Actors)
	err := r.Rollout.EndRound()
	if r.Rollout.Full() {
		r.Clock.Rollouts++
		r.method.Filled()
	}
	return err
}

// Filled leaves nothing out; methods that do have one of their own.
func (r *Run) Filled() {}

// Divergence is 0, and Resume does nothing: the minibatches of most methods do not depend on what
// those before them have come to.
func (r *Run) Divergence() float64 { return 0 }
func (r *Run) Resume(float64)      {}

// due reports whether an update is due.
func (r *Run) due() bool { return r.Rollout.Full() && r.Rollout.Steps() > 0 }

// Settle leaves Theta to the caller, after the update of a rollout that is full. It does
// at least one minibatch, so that a host that calls with a short limit gets on. Beside the
// update environments are reset whose episodes ended in the rollout, where they were not at once.
// A reset that failed is reported also where the update is to go on in the next call.
func (r *Run) Settle(interrupt *train.Interrupt) (err error) {
	if r.err != nil || !r.Rollout.Full() {
		return r.err
	}
	resets, err := r.Actors.StartResets()
	if err != nil {
		return err
	}
	if resets {
		defer func() {
			if failed := r.Actors.FinishResets(); failed != nil && errors.Is(err, train.ErrInterrupted) {
				err = failed // the Trainer looks for nothing else in an ErrInterrupted
			} else {
				err = errors.Join(err, failed)
			}
		}()
	}
	for done := !r.due(); !done; {
		done, r.err = r.method.Update(r.minibatch)
		r.minibatch++
		done = done || r.minibatch == r.cfg.Minibatches
		now := r.Host.Lap(train.Learning)
		if r.err != nil {
			r.minibatch = 0
			return r.err
		}
		if err := interrupt.Err(now); err != nil && !done {
			return err
		}
	}
	return r.next()
}

// next gives up what the rollout does not keep.
func (r *Run) next() error {
	r.minibatch = 0
	if err := r.backUp(); err != nil {
		return err
	}
	if r.cfg.Slide > 0 {
		return r.Rollout.Drop(r.cfg.Slide)
	}
	return r.Rollout.Next()
}

// Step is one update of Theta from a minibatch: Learn, then Apply, which a device may do in one
// launch. A minibatch may name rows of Run.observations (nn.Batch.Rows).
func (r *Run) Step(b nn.Batch) error {
	if err := r.keep(&b); err != nil {
		return err
	}
	return r.stepped(r.learned(b, r.Stepper.Update(r.Theta, b, r.rate(), &r.Report)))
}

// Learn computes the gradient of a minibatch and fills in Report.
func (r *Run) Learn(b nn.Batch) error {
	if err := r.keep(&b); err != nil {
		return err
	}
	return r.learned(b, r.Stepper.Learn(r.Theta, b, &r.Report))
}

// Outputs is what the network computes of a minibatch by Theta; see nn.Learner.
func (r *Run) Outputs(b nn.Batch) (nn.Outputs, error) {
	if err := r.keep(&b); err != nil {
		return nn.Outputs{}, err
	}
	return r.Stepper.Outputs(r.Theta, b)
}

// observations are those that minibatches name rows of: the rollout's or, where it is a window
// that moves on, those of its ring (rollout.Rollout.Obs).
func (r *Run) observations() []byte {
	if r.cfg.Slide > 0 {
		return r.Rollout.Obs()
	}
	return r.Rollout.Batch().Obs
}

// keep brings the rollout's observations to where Stepper computes, once for all minibatches that
// name rows of it: it does not change before it is given up, unless by a load. Of a window that has
// moved on, only the rounds are brought there that it did not have before.
func (r *Run) keep(b *nn.Batch) (err error) {
	now := kept{r.Clock.Rollouts, r.loads}
	if b.Rows == nil || r.kept == now {
		return nil
	}
	if r.cfg.Slide > 0 && r.kept.rollouts > 0 && r.kept.loads == now.loads {
		rounds := min(int64(r.cfg.Slide)*(now.rollouts-r.kept.rollouts), int64(r.cfg.Horizon))
		err = r.Stepper.Refresh(r.Rollout.Newest(int(rounds)))
	} else {
		err = r.Stepper.Keep(r.observations())
	}
	if err == nil {
		r.kept = now
	}
	return err
}

// kept says which rollout was kept: the number of it, since so many loads of a checkpoint. Zero:
// none was.
type kept struct {
	rollouts int64
	loads    int
}

// Apply takes a step of the optimiser along that gradient. Where loss or norm is not finite
// it is not taken, and the error wraps fault.ErrNotFinite.
func (r *Run) Apply() error { return r.stepped(r.Stepper.Step(r.Theta, r.rate(), &r.Report)) }

// rate is the learning rate now.
func (r *Run) rate() float64 { return r.Clock.Rate.At(r.Clock.Steps) }

// learned ends a Learn, or that part of an Update. A loss that is not finite is reported, too.
func (r *Run) learned(b nn.Batch, err error) error {
	if err == nil || errors.Is(err, fault.ErrNotFinite) {
		r.reported = true
		if b.Rows != nil {
			r.units.LookRows(r.Stepper, r.Clock.Steps, r.observations(), b.Rows)
		} else {
			r.units.Look(r.Stepper, r.Clock.Steps, b.Obs, len(b.Actions))
		}
	}
	return err
}

// stepped ends a Step, or that part of an Update.
func (r *Run) stepped(err error) error {
	if err != nil {
		return train.AtUpdate(err, r.Clock.Steps, r.Clock.Updates+1)
	}
	r.Clock.Updates++
	r.Host.Updates.Store(r.Clock.Updates)
	if !r.updated {
		r.updated = true
		r.Host.FirstUpdate("learning_rate", r.Clock.Rate, r.Clock.Steps)
		for _, s := range r.cfg.Schedules {
			if s.Learns {
				r.Host.FirstUpdate(s.Name, r.Clock.Schedules[s.Name], r.Clock.Steps)
			}
		}
	}
	return nil
}
