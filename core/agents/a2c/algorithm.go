package a2c

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// This file is Algorithm S3 of Mnih et al. 2016, line for line where it has a line,
// with all actor-learner threads in step. doc.go lists its symbols and closes what it
// leaves open.

// Advance takes steps until so many are taken or p is over. Where the host steps the
// environments, one pass of its loop is Act, the host's step, Observe.
func (a *A2C) Advance(until int64, p *train.Pause) error {
	if err := a.actors.Repair(); err != nil {
		return err
	}
	for a.clock.Steps < until { // until T > T_max
		if p.Over(a.host.Mark()) {
			return nil
		}
		if err := a.betweenRounds(); err != nil { // t - t_start == t_max
			return err
		}
		// Perform a_t according to policy pi(a_t | s_t; theta): one minibatch for all W
		if err := a.actors.Choose(a.clock.Steps, a.softmax, true); err != nil {
			return err
		}
		a.host.Lap(&a.host.Act)
		// Receive reward r_t and new state s_t+1
		n, err := a.actors.Round()
		a.host.Lap(&a.host.Env)
		if err := errors.Join(err, a.endRound(n)); err != nil {
			return err
		}
	}
	return nil
}

// Act is the first half of a round where the host steps the environments.
func (a *A2C) Act(rows *vec.Rows, _ *train.Pause) ([]int32, error) {
	if err := a.actors.Use(rows, a.clock.Steps); err != nil {
		return nil, err
	}
	if err := a.betweenRounds(); err != nil {
		return nil, err
	}
	err := a.actors.Choose(a.clock.Steps, a.softmax, true)
	a.host.Lap(&a.host.Act)
	return a.actors.Actions(), err
}

// Observe is the second half: all rows are taken, or none.
func (a *A2C) Observe(rows *vec.Rows, _ *train.Pause) error {
	n, err := a.actors.Observe(rows, a.clock.Steps, nil)
	if err != nil {
		return err
	}
	return a.endRound(n)
}

// endRound counts a round of n steps. Environments that took none in it, because
// they were reset or failed, leave a hole in the rollout.
func (a *A2C) endRound(n int64) error {
	a.clock.Steps += n // T <- T + 1
	a.host.Count(a.clock.Steps, a.actors)
	return a.rollout.EndRound()
}

// betweenRounds does the update that is due when the rollout is full.
func (a *A2C) betweenRounds() error {
	if a.err != nil || !a.rollout.Full() {
		return a.err
	}
	began := time.Now()
	if a.rollout.Steps() > 0 {
		a.err = a.update()
	}
	a.host.Train.Add(int64(time.Since(began)))
	var rest time.Duration
	a.host.Lap(&rest)
	if a.err != nil {
		return a.err
	}
	// t_start = t, get state s_t
	return a.rollout.Next()
}

// update is one minibatch of n_steps * num_envs rows.
func (a *A2C) update() error {
	// R = 0 for terminal s_t, V(s_t, theta_v) for non-terminal: bootstrap from last state
	// for i in t - 1, ..., t_start do: R <- r_i + gamma R
	if err := a.rollout.Finish(a.cfg.Gamma, a.cfg.GAELambda, a.values); err != nil {
		return err
	}
	rows := a.rollout.Batch()
	if a.cfg.NormalizeAdvantage {
		rollout.Normalize(rows.Advantages, rows.Weights)
	}
	// Accumulate gradients d theta: grad log pi(a_i | s_i; theta) (R - V(s_i; theta_v)) + beta grad H
	// Accumulate gradients d theta_v: d (R - V(s_i; theta_v))^2 / d theta_v
	b := &a.batch
	b.Obs, b.Actions = rows.Obs, rows.Actions
	b.Columns[columnAdvantage], b.Columns[columnReturn], b.Columns[columnWeight] = rows.Advantages, rows.Returns, rows.Weights
	if err := a.learner.Gradient(a.theta, *b, a.gradient, &a.report); err != nil {
		return err
	}
	// The gradient is clipped before the step that it is for.
	most := a.cfg.MaxGradNorm
	if most == 0 {
		most = math.Inf(1)
	}
	a.gradNorm = a.optimizer.ClipGradNorm(a.gradient, most)
	if loss, norm := a.report.Loss, a.gradNorm; loss-loss != 0 || norm-norm != 0 {
		return fmt.Errorf("loss: %v, gradient norm: %v at step %d (update %d), %w; a lower learning_rate or smaller rewards may help",
			loss, norm, a.clock.Steps, a.clock.Updates+1, fault.ErrNotFinite)
	}
	// Perform update of theta using d theta and of theta_v using d theta_v
	if err := a.optimizer.Apply(a.theta, a.gradient, a.clock.Rate.At(a.clock.Steps)); err != nil {
		return err
	}
	a.clock.Updates++
	a.host.Updates.Store(a.clock.Updates)
	return nil
}

// values is V of observations by the parameters that act.
func (a *A2C) values(obs []byte, rows int) ([]float32, error) {
	out, err := a.network.Forward(a.theta, obs, rows)
	if err != nil {
		return nil, err
	}
	return out.Values[headV], nil
}
