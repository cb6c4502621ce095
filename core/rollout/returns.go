package rollout

import (
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
)

// Finish computes Advantages and Returns of a full rollout by generalised advantage estimation
// (Schulman et al. 2016). gamma and lambda are 0 to 1. For step t of an environment with reward
// r(t) and the recorded value V(t) of its observation:
//
//	delta(t)     = r(t) + gamma * V(t+1) - V(t)
//	advantage(t) = delta(t) + gamma * lambda * advantage(t+1)
//	return(t)    = advantage(t) + V(t)
//
// An end belongs to the step that returned it. If step t ended the episode, advantage(t+1) is 0,
// and V(t+1) is 0 (terminated, lost) or V of the true last observation (truncated). At the end of
// the rollout, V(t+1) is V of the pending observation. With lambda = 1, return(t) is the n-step
// return of A3C with n up to Horizon. With lambda = 0 it is the one-step return.
//
// value returns V of rows observations, 1 to Envs. Finish calls value for the pending observations
// first, then for those of truncations, and uses each result before the next call. The caller
// chooses the parameters that value uses. A2C uses the parameters that acted, as the value column
// does. Finish returns an error of value and then leaves the rows unchanged.
//
// The recursion is in float64 and each result is rounded once. For any horizon the results are the
// float32 nearest to the definition, up to an error of 1e-15.
func (r *Rollout) Finish(gamma, lambda float64, value func(obs []byte, rows int) ([]float32, error)) error {
	switch {
	case !(gamma >= 0 && gamma <= 1):
		return fmt.Errorf("gamma: %g, must be 0 to 1", gamma)
	case !(lambda >= 0 && lambda <= 1):
		return fmt.Errorf("gae_lambda: %g, must be 0 to 1", lambda)
	case !r.Full():
		return fmt.Errorf("rollout: %d rounds are over, must be %d", r.round, r.cfg.Horizon)
	}
	if err := r.evaluatePending(0, r.cfg.Envs, value); err != nil {
		return err
	}
	if err := r.evaluateCuts(0, r.cfg.Envs, value); err != nil {
		return err
	}
	for i := range r.envs {
		r.trace(i, gamma, lambda)
	}
	return nil
}

// evaluatePending computes V of the pending observations of n environments, if one of their
// segments has a step in this rollout. The observations are contiguous: one forward pass needs no
// copy.
func (r *Rollout) evaluatePending(first, n int, value func([]byte, int) ([]float32, error)) error {
	needed := false
	for i := first; i < first+n; i++ {
		e := &r.envs[i]
		needed = needed || e.pending && e.newest >= 0
	}
	if !needed {
		return nil
	}
	at := r.row(r.round, first) * r.size
	v, err := valuesOf(value, r.data.Obs[at:at+n*r.size], n)
	copy(r.pendingValues[first:], v)
	return err
}

// evaluateCuts computes V of the last observations of the truncated segments of n environments, up
// to Envs of them in a forward pass.
func (r *Rollout) evaluateCuts(first, n int, value func([]byte, int) ([]float32, error)) error {
	r.cutTargets = r.cutTargets[:0]
	for i := first; i < first+n; i++ {
		e := &r.envs[i]
		for k := range e.cuts {
			if r.cutRows == nil {
				r.cutRows = make([]byte, r.cfg.Envs*r.size)
			}
			copy(r.cutRows[len(r.cutTargets)*r.size:], e.cutObs[k*r.size:(k+1)*r.size])
			if r.cutTargets = append(r.cutTargets, &e.cutValues[k]); len(r.cutTargets) == r.cfg.Envs {
				if err := r.forwardCuts(value); err != nil {
					return err
				}
			}
		}
	}
	if len(r.cutTargets) == 0 {
		return nil
	}
	return r.forwardCuts(value)
}

// forwardCuts computes the values of cutRows in one forward pass and stores them.
func (r *Rollout) forwardCuts(value func([]byte, int) ([]float32, error)) error {
	v, err := valuesOf(value, r.cutRows[:len(r.cutTargets)*r.size], len(r.cutTargets))
	for k := range v {
		*r.cutTargets[k] = v[k]
	}
	r.cutTargets = r.cutTargets[:0]
	return err
}

func valuesOf(value func([]byte, int) ([]float32, error), obs []byte, rows int) ([]float32, error) {
	v, err := value(obs, rows)
	if err == nil && len(v) != rows {
		err = fmt.Errorf("rollout: %d values of %d observations", len(v), rows)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// trace computes the rows of environment i from the last to the first. The conversions of products
// keep compilers from fusing them into the sums, which would change bits between processors.
func (r *Rollout) trace(i int, gamma, lambda float64) {
	e, d := &r.envs[i], &r.data
	values := d.Columns[r.value]
	next, after := 0.0, 0.0 // V(t+1), advantage(t+1)
	if e.pending {
		next = float64(r.pendingValues[i])
	}
	cut := len(e.cuts)
	for t := r.cfg.Horizon - 1; t >= 0; t-- {
		k := r.row(t, i)
		if d.Weights[k] == 0 {
			d.Advantages[k], d.Returns[k] = 0, 0
			continue
		}
		switch end := d.Ends[k]; {
		case end&(env.Terminated|env.Lost) != 0:
			next, after = 0, 0
		case end&env.Truncated != 0:
			cut--
			next, after = float64(e.cutValues[cut]), 0
		}
		v := float64(values[k])
		delta := float64(d.Rewards[k]) + float64(gamma*next) - v
		after = delta + float64(gamma*lambda*after)
		d.Advantages[k], d.Returns[k] = float32(after), float32(after+v)
		next = v
	}
}

// ExplainedVariance returns the part of the returns' variance that the values explain, at most 1: 1
// - Var(return - value) / Var(return) over the rows of weight 1. It returns NaN if all returns are
// equal. It must be called before Moments.Normalize.
func ExplainedVariance(b *Batch) float64 {
	return explained(b.Returns, b.Advantages, b.Weights)
}

// ExplainedVarianceOf is ExplainedVariance of values that are not in a Batch.
func ExplainedVarianceOf(returns, values, weights []float32) float64 {
	errors := make([]float32, len(returns))
	for k, r := range returns {
		errors[k] = r - values[k]
	}
	return explained(returns, errors, weights)
}

func explained(returns, errors, weights []float32) float64 {
	total := MomentsOf(returns, weights).Squares
	if total == 0 {
		return math.NaN()
	}
	return 1 - MomentsOf(errors, weights).Squares/total
}
