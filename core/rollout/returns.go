package rollout

import (
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
)

// Finish computes Advantages and Returns of a full rollout, by generalised
// advantage estimation (Schulman et al. 2016) with discount gamma and lambda,
// each 0 to 1. For step t of an environment, whose reward is r(t) and whose
// observation has the recorded value V(t):
//
//	delta(t)     = r(t) + gamma * V(t+1) - V(t)
//	advantage(t) = delta(t) + gamma * lambda * advantage(t+1)
//	return(t)    = advantage(t) + V(t)
//
// An end belongs to the step that it came with: at one, advantage(t+1) is 0 and
// V(t+1) is 0 (terminated, lost) or V of the true last observation (truncated).
// At the rollout's end it is V of the pending observation. lambda = 1 makes
// return(t) the n-step return of A3C, with n up to Horizon; lambda = 0 the
// one-step return.
//
// value returns V of 1 to Envs observations at once, rows of obs; it is called as
// often as needed, with the pending observations first and then those of
// truncations, and its result is used before the next call. Whose values these
// are is the caller's choice; A2C's are those of the parameters that acted, which
// a row's own value column has, too. An error of value is returned, and nothing
// has changed.
//
// The recursion is in float64 and each result is rounded once, so that these are
// the nearest float32 to what the definition gives, up to an error of 1e-15, for
// any horizon.
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

// evaluatePending fills in V of the observations that unfinished segments of n environments go
// on from. They are one round of the ring, so one pass over all of it copies nothing.
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
	copy(r.ahead[first:], v)
	return err
}

// evaluateCuts fills in V of the last observations of truncated segments of n environments,
// Envs of them in a pass.
func (r *Rollout) evaluateCuts(first, n int, value func([]byte, int) ([]float32, error)) error {
	r.cutTo = r.cutTo[:0]
	for i := first; i < first+n; i++ {
		e := &r.envs[i]
		for k := range e.cuts {
			if r.cutRows == nil {
				r.cutRows = make([]byte, r.cfg.Envs*r.size)
			}
			copy(r.cutRows[len(r.cutTo)*r.size:], e.cutObs[k*r.size:(k+1)*r.size])
			if r.cutTo = append(r.cutTo, &e.cutValues[k]); len(r.cutTo) == r.cfg.Envs {
				if err := r.passCuts(value); err != nil {
					return err
				}
			}
		}
	}
	if len(r.cutTo) == 0 {
		return nil
	}
	return r.passCuts(value)
}

// passCuts is one forward pass over what cutRows holds.
func (r *Rollout) passCuts(value func([]byte, int) ([]float32, error)) error {
	v, err := valuesOf(value, r.cutRows[:len(r.cutTo)*r.size], len(r.cutTo))
	for k := range v {
		*r.cutTo[k] = v[k]
	}
	r.cutTo = r.cutTo[:0]
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

// trace works backward through environment i's rows. The conversions of products
// keep compilers from fusing them into the sums, which would change bits between
// processors.
func (r *Rollout) trace(i int, gamma, lambda float64) {
	e, d := &r.envs[i], &r.data
	values := d.Columns[r.value]
	next, after := 0.0, 0.0 // V(t+1), advantage(t+1)
	if e.pending {
		next = float64(r.ahead[i])
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

// Normalize shifts and scales the advantages of weight 1 to mean 0 and standard
// deviation 1, as Stable-Baselines3's A2C does: (a - mean) / (std + 1e-8), with the
// unbiased estimate of the standard deviation (PyTorch's std). Rows of weight 0
// neither count nor change. Fewer than two rows have no deviation and stay as they
// are. Sums are float64, over the rows in order. The two slices are as long as each
// other.
func Normalize(advantages, weights []float32) {
	n, mean, squares := spread(advantages, weights)
	if n < 2 {
		return
	}
	scale := math.Sqrt(squares/(n-1)) + 1e-8
	for k, a := range advantages {
		if weights[k] != 0 {
			advantages[k] = float32((float64(a) - mean) / scale)
		}
	}
}

// spread returns the number of rows of weight 1, their mean and the sum of their squared
// distances from it.
func spread(values, weights []float32) (n, mean, squares float64) {
	sum := 0.0
	for k, v := range values {
		if weights[k] != 0 {
			n++
			sum += float64(v)
		}
	}
	mean = sum / n
	for k, v := range values {
		if weights[k] != 0 {
			d := float64(v) - mean
			squares += float64(d * d)
		}
	}
	return n, mean, squares
}

// ExplainedVariance returns which part of the returns' variance the values explain, 1 at
// best: 1 - Var(return - value) / Var(return) over rows of weight 1, before Normalize. NaN:
// all returns are the same.
func ExplainedVariance(b *Batch) float64 {
	return explained(b.Returns, b.Advantages, b.Weights)
}

// Explained is ExplainedVariance of values that come apart from a Batch.
func Explained(returns, values, weights []float32) float64 {
	left := make([]float32, len(returns))
	for k, r := range returns {
		left[k] = r - values[k]
	}
	return explained(returns, left, weights)
}

func explained(returns, errors, weights []float32) float64 {
	_, _, all := spread(returns, weights)
	_, _, left := spread(errors, weights)
	if all == 0 {
		return math.NaN()
	}
	return 1 - left/all
}
