package a2c

import (
	"slices"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// This file is A2C with V-trace and the batching of Dalton et al. 2020, "Accelerating Reinforcement
// Learning through GPU Atari Emulation" (CuLE), section 5.2. The rollout is a window of the latest
// n_steps rounds, and the environments are in vtrace_groups groups. From the first full window on,
// after every vtrace_steps rounds, one group learns from its part of the window; the groups take
// turns. Older parameters chose most of the window's actions, so V-trace weighs them. A GPU has the
// window's observations: after vtrace_steps rounds the new ones are uploaded, and a group's
// minibatch refers to their rows (nn.Batch.Rows).

// vtrace is the memory of updates with V-trace.
type vtrace struct {
	constants     rollout.VTrace
	envs          int // of a group
	logPi, values []float32
}

func (c *Config) newVTrace() *vtrace {
	w := &vtrace{envs: c.NumEnvs / c.VTraceGroups}
	w.constants = rollout.VTrace{Gamma: c.Gamma, Lambda: c.GAELambda, Rho: c.VTraceRho, C: c.VTraceC, LogProb: onpolicy.ColumnLogProb}
	rows := c.NSteps * w.envs
	w.logPi, w.values = make([]float32, rows), make([]float32, rows)
	return w
}

// updateGroup is one minibatch of a group's part of the window.
func (a *A2C) updateGroup() error {
	w, b := a.vtrace, &a.batch
	group := int((a.Clock.Rollouts - 1) % int64(a.cfg.VTraceGroups))
	weights := b.Columns[columnWeight]
	a.Rollout.Gather(group*w.envs, w.envs, b.Rows, b.Actions, b.Continuous, b.Masks, weights)
	if !slices.Contains(weights, 1) { // no step
		return nil
	}
	if err := a.evaluate(b); err != nil {
		return err
	}
	advantages, returns := b.Columns[columnAdvantage], b.Columns[columnReturn]
	if err := w.constants.Target(a.Rollout, group*w.envs, w.envs, a.Values, w.logPi, w.values, advantages, returns); err != nil {
		return err
	}
	a.explained = rollout.ExplainedVarianceOf(returns, w.values, weights)
	if a.cfg.NormalizeAdvantage {
		if err := a.NormalizeAdvantages(advantages, weights); err != nil {
			return err
		}
	}
	return a.Step(*b)
}

// evaluate computes log pi(a|s) and V of the rows of b by the current parameters.
func (a *A2C) evaluate(b *nn.Batch) error {
	out, err := a.Outputs(*b)
	if err != nil {
		return err
	}
	w, spec := a.vtrace, &a.distribution.Action
	ints, floats, masks := spec.Ints(), spec.Floats(), len(b.Masks)/len(w.logPi)
	row := policy.BatchRow{Outputs: out, LogStds: a.Theta.LogStd()}
	copy(w.values, out.Values[onpolicy.HeadV])
	for k, weight := range b.Columns[columnWeight] {
		if weight == 0 {
			w.logPi[k] = 0 // no step: the mask may forbid the action
			continue
		}
		var mask []byte
		if masks > 0 {
			mask = b.Masks[k*masks : (k+1)*masks]
		}
		row.Index = k
		if w.logPi[k], err = a.distribution.LogProb(&row, mask, b.Actions[k*ints:(k+1)*ints], b.Continuous[k*floats:(k+1)*floats]); err != nil {
			return err
		}
	}
	return nil
}
