package dqn

import (
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// This file is Algorithm 1 of the paper, line for line where the paper has a line. doc.go lists its
// symbols and closes what it leaves open. Package offpolicy has what stands between the lines: when
// updates are released and waited for, and how steps are taken.

// Advance takes steps until `until` are counted or the Interrupt is raised. Where the host steps
// the environments, one pass of its loop is Act, the host's step, Observe.
func (d *DQN) Advance(until int64, interrupt *train.Interrupt) error {
	if err := d.Samplers.Repair(); err != nil {
		return err
	}
	// A round that has begun is completed, also after an Interrupt: the halves or samplers of a round
	// must take equally many steps. After a failed step, only a round that the first half has begun is
	// left to complete. The first error of a step is returned.
	var failed error
	for d.InRound() || failed == nil && d.Clock.Steps() < until {
		if !d.InRound() && interrupt.Raised(d.Monitor.Mark()) {
			return nil
		}
		if err := d.betweenRounds(interrupt); err != nil {
			return err
		}
		if err := d.steps(until, interrupt, failed == nil); failed == nil {
			failed = err
		}
	}
	return failed
}

// steps takes a round, or, where samplers are not synchronised, the steps up to the next meeting.
func (d *DQN) steps(until int64, interrupt *train.Interrupt, anotherFollows bool) error {
	switch {
	case !d.Clock.Warm: // Prepopulate replay memory D with N experiences collected randomly
		return d.RandomRound(d.uniform)
	case d.cfg.Synchronized: // for t = 1, 2, ...
		// In one minibatch, compute Q-values Q(s(j), .) for each sampler thread
		// Asynchronously dispatch i-th sampler thread for one step, for every i
		return d.JointRound(d.explore, until, interrupt, anotherFollows)
	}
	return d.StepAlone(d.explore, until, interrupt)
}

// Round implements train.Learner: a round of one of several learners, whose updates are done.
func (d *DQN) Round() error {
	if err := d.Samplers.Repair(); err != nil {
		return err
	}
	if err := d.betweenRounds(nil); err != nil {
		return err
	}
	return d.steps(0, nil, false)
}

// betweenRounds runs before every round. It ends the warm-up, and begins the next window if the
// window is over. If training is not concurrent, it does the updates that are due. It makes room
// for a round in the replay memory.
func (d *DQN) betweenRounds(interrupt *train.Interrupt) error {
	d.EndWarmup()
	d.Report()
	if d.Clock.Warm {
		if !d.cfg.concurrent() {
			// Every experience enters D before the next update, and the updates that are due are
			// done before the next Q-values.
			if err := d.CatchUp(interrupt); err != nil {
				return err
			}
			if d.AtRoundEnd() {
				d.updateTarget()
			}
		}
		// if t mod C = 1 then
		if d.WindowIsOver() {
			if err := d.boundary(interrupt); err != nil {
				return err
			}
		}
	}
	if d.Clock.Warm {
		d.Perturb()
	}
	return d.Reserve(interrupt)
}

// boundary ends a window and begins the next one.
func (d *DQN) boundary(interrupt *train.Interrupt) error {
	// Wait for trainer thread and all sampler threads to finish their tasks
	if err := d.EndWindow(interrupt); err != nil {
		return err
	}
	// Flush all sampler threads' temporary buffers to D
	d.Flush()
	// Update target network parameters: theta-minus <- theta
	d.updateTarget()
	// Asynchronously dispatch trainer thread for C / F minibatches sampled from D:
	// updates are released as they become due, at the start of each round.
	return d.BeginWindow()
}

// updateTarget updates theta-minus if t, or with clock updates the number of updates of theta, has
// reached a multiple of C since the last time, by as many steps of tau as there were multiples. At
// t = 0 it is a copy.
func (d *DQN) updateTarget() {
	passed := d.Elapsed() / d.cfg.targetInterval()
	steps := passed - d.Clock.TargetMultiple
	switch {
	case steps <= 0:
		return
	case d.cfg.Tau == 1 || d.Clock.TargetMultiple < 0:
		d.ThetaMinus.CopyFrom(d.Theta)
	default:
		d.Device.Average(d.ThetaMinus, d.Theta, 1-kernel.Power(1-d.cfg.Tau, steps))
	}
	d.Clock.TargetMultiple = passed
}

// UpdateOf implements train.Decoupled: the update of a learner whose minibatches come from other
// replay memories.
func (d *DQN) UpdateOf(batch *train.Transitions, errors []float32) error {
	if err := d.CheckUpdateOf(); err != nil {
		return err
	}
	d.TakeApplied()
	d.updateTarget()
	d.Perturb()
	return d.Run.UpdateOf(batch, errors)
}

// Act is the first half of a round where the host steps the environments. Observe of package
// offpolicy is the second half.
func (d *DQN) Act(rows *vec.Rows, interrupt *train.Interrupt) (vec.Actions, error) {
	if err := d.Samplers.Use(rows, d.Clock.Steps()); err != nil {
		return vec.Actions{}, err
	}
	if err := d.betweenRounds(interrupt); err != nil {
		return vec.Actions{}, err
	}
	if !d.Clock.Warm {
		return d.Choose(d.uniform)
	}
	return d.Choose(d.explore)
}
