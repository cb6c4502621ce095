package rollout

import (
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
)

// VTrace holds the constants of V-trace (Espeholt et al. 2018, "IMPALA", section 4.1).
type VTrace struct {
	Gamma, Lambda float64 // 0 to 1
	// Rho and C bound the ratios of the learner's probabilities to those of the policy that acted:
	// Rho in the temporal differences, C in the trace. They are at least 0.
	Rho, C float64
	// LogProb is the index of the column with the logarithm of the action's probability under the
	// policy that acted. Probabilities below 1e-5 count as 1e-5.
	LogProb int
}

// minLogProb is log 1e-5; see VTrace.LogProb.
const minLogProb = -11.512925464970229

// Gather copies the rows of environments first to first+n-1 of a full rollout, round by round: row
// t*n + k is the step of environment first+k in round t. It does not copy observations: rows gets
// their indices in Obs. actions, continuous and masks are as in a Batch.
func (r *Rollout) Gather(first, n int, rows, actions []int32, continuous []float32, masks []byte, weights []float32) {
	d := &r.data
	for t := range r.round {
		k := r.row(t, first)
		for i := range n {
			rows[t*n+i] = int32(k + i)
		}
		copy(actions[t*n*r.ints:(t+1)*n*r.ints], d.Actions[k*r.ints:])
		copy(continuous[t*n*r.floats:(t+1)*n*r.floats], d.Continuous[k*r.floats:])
		copy(weights[t*n:(t+1)*n], d.Weights[k:])
		if m := r.cfg.maskBytes(); m > 0 {
			copy(masks[t*n*m:(t+1)*n*m], d.Masks[k*m:])
		}
	}
}

// Target computes the value targets and the policy's advantages of the rows that Gather copies. V
// and pi are the value and the policy of the parameters that learn, mu is the policy that acted.
// For step t, with ratio(t) = pi(a|s) / mu(a|s):
//
//	delta(t)     = min(Rho, ratio(t)) (r(t) + gamma V(t+1) - V(t))
//	return(t)    = V(t) + delta(t) + gamma lambda min(C, ratio(t)) (return(t+1) - V(t+1))
//	advantage(t) = min(Rho, ratio(t)) (r(t) + gamma return(t+1) - V(t))
//
// Ends cut the trace as in Finish, and so does the end of the window. V after an end is 0 or V of
// the true last observation, V after the window is V of the pending observation. value is as in
// Finish, with the parameters that learn. logPi and values are log pi(a|s) and V of the rows.
// Target overwrites logPi. Holes get 0.
func (v VTrace) Target(r *Rollout, first, n int, value func(obs []byte, rows int) ([]float32, error), logPi, values, advantages, returns []float32) error {
	if !r.Full() {
		return fmt.Errorf("rollout: %d rounds are over, must be %d", r.round, r.cfg.Horizon)
	}
	if err := r.evaluatePending(first, n, value); err != nil {
		return err
	}
	if err := r.evaluateCuts(first, n, value); err != nil {
		return err
	}
	mu := r.data.Columns[v.LogProb]
	for t := range r.round {
		for k := range n {
			logPi[t*n+k] = LogRatio(logPi[t*n+k], mu[r.row(t, first+k)])
		}
	}
	kernel.Exp(logPi, logPi)
	for k := range n {
		v.trace(r, first+k, k, n, logPi, values, advantages, returns)
	}
	return nil
}

// LogRatio returns log(pi(a|s) / mu(a|s)) of the logarithms; see VTrace.LogProb.
func LogRatio(logPi, logMu float32) float32 { return logPi - max(logMu, minLogProb) }

// Step computes the row of a step, in the order from the last one to the first. next is V(t+1), and
// after return(t+1) - V(t+1). It returns return(t) - V(t) as well.
func (v *VTrace) Step(reward, value, ratio float32, next, after float64) (advantage, ret float32, own float64) {
	r, x, w := float64(reward), float64(value), float64(ratio)
	rho, c := math.Min(v.Rho, w), math.Min(v.C, w)
	delta := float64(rho * (r + float64(v.Gamma*next) - x))
	advantage = float32(rho * (r + float64(v.Gamma*(next+after)) - x))
	own = delta + float64(v.Gamma*v.Lambda*c*after)
	return advantage, float32(x + own), own
}

// trace computes the rows of environment i from the last to the first. They are rows t*n + k of the
// slices.
func (v VTrace) trace(r *Rollout, i, k, n int, ratios, values, advantages, returns []float32) {
	e, d := &r.envs[i], &r.data
	next, after := 0.0, 0.0 // V(t+1), return(t+1) - V(t+1)
	if e.pending {
		next = float64(r.pendingValues[i])
	}
	cut := len(e.cuts)
	for t := r.round - 1; t >= 0; t-- {
		from, at := r.row(t, i), t*n+k
		if d.Weights[from] == 0 {
			advantages[at], returns[at] = 0, 0
			continue
		}
		switch end := d.Ends[from]; {
		case end&(env.Terminated|env.Lost) != 0:
			next, after = 0, 0
		case end&env.Truncated != 0:
			cut--
			next, after = float64(e.cutValues[cut]), 0
		}
		advantages[at], returns[at], after = v.Step(d.Rewards[from], values[at], ratios[at], next, after)
		next = float64(values[at])
	}
}
