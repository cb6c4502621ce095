package a2c

import "github.com/paceline-rl/paceline/core/rollout"

// This file is A2C with V-trace and the batching of Dalton et al. 2020, "Accelerating Reinforcement
// Learning through GPU Atari Emulation" (CuLE), section 5.2. The rollout is a window of the latest
// n_steps rounds, and the environments are in vtrace_groups groups. From the first full window on,
// after every vtrace_steps rounds, one group learns from its part of the window; the groups take
// turns. Older parameters chose most of the window's actions, so V-trace weighs them. A GPU has the
// window's observations: after vtrace_steps rounds the new ones are uploaded, and a group's
// minibatch refers to their rows (nn.Batch.Rows).

// updateGroup is one minibatch of a group's part of the window.
func (a *A2C) updateGroup() error {
	b := &a.vtrace.Batch
	group := int((a.Clock.Rollouts - 1) % int64(a.cfg.VTraceGroups))
	first := group * (a.cfg.NumEnvs / a.cfg.VTraceGroups)
	advantages, returns, weights := b.Columns[columnAdvantage], b.Columns[columnReturn], b.Columns[columnWeight]
	if !a.vtrace.Gather(first, weights) {
		return nil
	}
	if err := a.vtrace.Target(first, weights, advantages, returns); err != nil {
		return err
	}
	a.explained = rollout.ExplainedVarianceOf(returns, a.vtrace.Values, weights)
	if a.cfg.NormalizeAdvantage {
		if err := a.NormalizeAdvantages(advantages, weights); err != nil {
			return err
		}
	}
	return a.Step(*b)
}
