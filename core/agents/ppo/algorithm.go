package ppo

import (
	"errors"
	"math"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// This file is Algorithm 1 of Schulman et al. 2017 where it is not acting. doc.go lists its
// symbols and closes what it leaves open. The loop is onpolicy.Run's:
//
//	for iteration = 1, 2, ... do                                  Run.Advance
//	  for actor = 1, 2, ..., N do
//	    Run policy pi_theta_old in environment for T time steps   Worker.Fill
//	    Compute advantage estimates A_1, ..., A_T                 Update(0)
//	  end for
//	  Optimize surrogate L wrt theta, with K epochs
//	    and minibatch size M <= N T                               Update(0), Update(1), ...
//	  theta_old <- theta                                          Window.Next
//	end for

// Update is minibatch k of an update. k counts through all epochs.
func (p *PPO) Update(k int) (done bool, err error) {
	if k == 0 {
		// Compute advantage estimates A_1, ..., A_T
		explained, err := p.advantages()
		if err != nil {
			return false, err
		}
		p.latest.begin(explained)
	}
	k %= p.perEpoch
	if k == 0 {
		p.minibatches.Begin()
	}
	endsEpoch := k == p.perEpoch-1
	if !p.minibatches.Gather(k, p.columns) {
		return endsEpoch && p.exceedsKL(onpolicy.AtEpoch), nil // no step is left for this minibatch
	}
	batch := p.minibatches.Batch
	if p.cfg.NormalizeAdvantage {
		if err := p.NormalizeAdvantages(batch.Columns[columnAdvantage], batch.Columns[columnWeight]); err != nil {
			if k == 0 {
				p.minibatches.Rewind()
			}
			return false, err
		}
	}
	// Optimize surrogate L wrt theta
	if ended, err := p.optimize(batch); ended || err != nil {
		return ended, err
	}
	p.latest.norm = p.Report.Norm
	return endsEpoch && p.exceedsKL(onpolicy.AtEpoch), nil
}

// advantages computes the advantages and returns of the rollout, and what part of the returns the
// values explain.
func (p *PPO) advantages() (explained float64, err error) {
	to := p.Rollout.Batch()
	if p.vtrace == nil {
		err = p.Finish(p.cfg.Gamma, p.cfg.GAELambda)
		return rollout.ExplainedVariance(to), err
	}
	b := &p.vtrace.Batch
	advantages, returns, weights := b.Columns[columnAdvantage], b.Columns[columnReturn], b.Columns[columnWeight]
	p.vtrace.Gather(0, weights)
	if err := p.vtrace.Target(0, weights, advantages, returns); err != nil {
		return 0, err
	}
	for i, row := range b.Rows {
		to.Advantages[row], to.Returns[row] = advantages[i], returns[i]
	}
	return rollout.ExplainedVarianceOf(returns, p.vtrace.Values, weights), nil
}

// optimize takes a step along the gradient of a minibatch. If target_kl is checked between the two,
// it may end the update instead.
func (p *PPO) optimize(b nn.Batch) (ended bool, err error) {
	if !p.checksKL(onpolicy.AtMinibatch) {
		if err = p.Step(b); err == nil || errors.Is(err, fault.ErrNotFinite) {
			p.latest.add(p.Report.Parts, p.Clock.Epochs)
		}
		return false, err
	}
	if err := p.Learn(b); err != nil {
		return false, err
	}
	p.latest.add(p.Report.Parts, p.Clock.Epochs)
	if p.exceedsKL(onpolicy.AtMinibatch) {
		return true, nil
	}
	return false, p.Apply()
}

// checksKL reports whether target_kl is checked in a place: AtMinibatch or AtEpoch.
func (p *PPO) checksKL(place string) bool {
	return p.cfg.TargetKLCheck == place && !math.IsNaN(p.cfg.TargetKL)
}

// exceedsKL reports whether target_kl is checked in a place, and the policy has moved further than
// that from the policy that acted.
func (p *PPO) exceedsKL(place string) bool {
	limit := p.cfg.TargetKL
	if place == onpolicy.AtMinibatch {
		limit *= 1.5
	}
	return p.checksKL(place) && p.latest.divergence > limit
}

// columns are those of a row of the rollout, except its weight.
func (p *PPO) columns(row int, to []float32) {
	b := p.Rollout.Batch()
	to[columnAdvantage], to[columnReturn] = b.Advantages[row], b.Returns[row]
	to[columnLogProb], to[columnClip] = b.Columns[onpolicy.ColumnLogProb][row], float32(p.at(onpolicy.ClipRange))
	to[columnOldValue], to[columnClipVf] = b.Columns[onpolicy.ColumnValue][row], float32(p.at(onpolicy.ClipRangeVf))
}
