package ppo

import (
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/rollout"
)

// This file is Algorithm 1 of Schulman et al. 2017 where it is not acting. doc.go lists its
// symbols and closes what it leaves open. The loop is onpolicy.Run's:
//
//	for iteration = 1, 2, ... do                                  Advance
//	  for actor = 1, 2, ..., N do
//	    Run policy pi_theta_old in environment for T time steps   choose, Actors.Round
//	    Compute advantage estimates A_1, ..., A_T                 Update(0)
//	  end for
//	  Optimize surrogate L wrt theta, with K epochs
//	    and minibatch size M <= N T                               Update(0), Update(1), ...
//	  theta_old <- theta                                          Rollout.Next
//	end for

// Update is minibatch k of an update, counted through its epochs.
func (p *PPO) Update(k int) (done bool, err error) {
	if k == 0 {
		// Compute advantage estimates A_1, ..., A_T
		if err := p.Rollout.Finish(p.cfg.Gamma, p.cfg.GAELambda, p.Values); err != nil {
			return false, err
		}
		p.latest.begin(rollout.ExplainedVariance(p.Rollout.Batch()))
	}
	if k%p.perEpoch == 0 {
		p.Clock.Epochs++
	}
	p.shuffle(p.Clock.Epochs)
	endsEpoch := k%p.perEpoch == p.perEpoch-1
	if !p.gather(k % p.perEpoch) {
		return endsEpoch && p.moved(epoch), nil // no step is left for it
	}
	if p.cfg.NormalizeAdvantage {
		rollout.Normalize(p.batch.Columns[columnAdvantage], p.batch.Columns[columnWeight])
	}
	// Optimize surrogate L wrt theta
	if err := p.Learn(p.learner, p.batch); err != nil {
		return false, err
	}
	p.latest.add(p.Report.Loss, p.Report.Parts)
	if p.moved(minibatch) {
		return true, nil // and takes no step
	}
	if err := p.Apply(p.cfg.MaxGradNorm); err != nil {
		return false, err
	}
	p.latest.norm = p.Report.Norm
	return endsEpoch && p.moved(epoch), nil
}

// moved reports whether target_kl, where it is looked at here, says that the policy has
// moved far enough from the one that acted.
func (p *PPO) moved(here string) bool {
	limit := p.cfg.TargetKL
	if here == minibatch {
		limit *= 1.5
	}
	return p.cfg.TargetKLCheck == here && p.latest.divergence > limit // NaN: there is none
}

// shuffle fills in order with the rollout's steps, as the e-th epoch takes them.
func (p *PPO) shuffle(e int64) {
	if p.shuffled == e {
		return
	}
	p.shuffled, p.order = e, p.order[:0]
	for k, w := range p.Rollout.Batch().Weights {
		if w != 0 {
			p.order = append(p.order, int32(k))
		}
	}
	r := rng.New(uint64(p.cfg.Seed), "minibatches", int(e))
	for k := len(p.order) - 1; k > 0; k-- {
		other := r.Intn(k + 1)
		p.order[k], p.order[other] = p.order[other], p.order[k]
	}
}

// gather fills in the batch with minibatch m of an epoch. Rows beyond its steps have weight
// 0; it reports whether there is any step.
func (p *PPO) gather(m int) bool {
	size := len(p.batch.Actions)
	steps := p.order[min(m*size, len(p.order)):min((m+1)*size, len(p.order))]
	from, to := p.Rollout.Batch(), &p.batch
	obs, actions := len(to.Obs)/size, len(to.Masks)/size
	clip, clipVf := float32(p.at(clipRange)), float32(p.at(clipRangeVf))
	for i := range size {
		if i >= len(steps) {
			clear(to.Obs[i*obs : (i+1)*obs])
			to.Actions[i] = 0
			for _, c := range to.Columns {
				c[i] = 0
			}
			continue
		}
		k := int(steps[i])
		copy(to.Obs[i*obs:(i+1)*obs], from.Obs[k*obs:])
		if actions > 0 {
			copy(to.Masks[i*actions:(i+1)*actions], from.Masks[k*actions:])
		}
		to.Actions[i] = from.Actions[k]
		for c, v := range [columns]float32{
			columnAdvantage: from.Advantages[k], columnReturn: from.Returns[k], columnWeight: 1,
			columnLogProb: from.Columns[p.logProb][k], columnClip: clip,
			columnOldValue: from.Columns[p.value][k], columnClipVf: clipVf,
		} {
			to.Columns[c][i] = v
		}
	}
	return len(steps) > 0
}
