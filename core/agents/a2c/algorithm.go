package a2c

import "github.com/paceline-rl/paceline/core/rollout"

// This file is Algorithm S3 of Mnih et al. 2016, line for line where it has a line, with all
// actor-learner threads in lockstep. doc.go lists its symbols and closes what it leaves open. The
// loop is onpolicy.Run's:
//
//	repeat
//	  t_start = t, get state s_t                      Window.Next
//	  repeat
//	    Perform a_t according to pi(a_t | s_t; theta)   Window.Round: one minibatch for all W
//	    Receive reward r_t and new state s_t+1          Window.Round
//	    T <- T + 1                                      Run.count
//	  until terminal s_t or t - t_start == t_max      Window.Full
//	  the rest                                        Update
//	until T > T_max                                   Run.Advance

// Update is one minibatch of n_steps * num_envs rows; with V-trace see vtrace.go.
func (a *A2C) Update(int) (done bool, err error) {
	if a.vtrace != nil {
		return true, a.updateGroup()
	}
	// R = 0 for terminal s_t, V(s_t, theta_v) for non-terminal: bootstrap from last state
	// for i in t - 1, ..., t_start do: R <- r_i + gamma R
	if err := a.Finish(a.cfg.Gamma, a.cfg.GAELambda); err != nil {
		return false, err
	}
	rows := a.Rollout.Batch()
	a.explained = rollout.ExplainedVariance(rows)
	if a.cfg.NormalizeAdvantage {
		if err := a.NormalizeAdvantages(rows.Advantages, rows.Weights); err != nil {
			return false, err
		}
	}
	// Accumulate gradients d theta: grad log pi(a_i | s_i; theta) (R - V(s_i; theta_v))
	//   + beta grad H
	// Accumulate gradients d theta_v: d (R - V(s_i; theta_v))^2 / d theta_v
	b := &a.batch
	b.Obs, b.Actions, b.Continuous, b.Masks = rows.Obs, rows.Actions, rows.Continuous, rows.Masks
	b.Columns[columnAdvantage], b.Columns[columnReturn], b.Columns[columnWeight] = rows.Advantages, rows.Returns, rows.Weights
	// The gradient's norm is clipped first.
	// Perform update of theta using d theta and of theta_v using d theta_v
	return true, a.Step(*b)
}
