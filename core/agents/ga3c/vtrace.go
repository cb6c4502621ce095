package ga3c

import (
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// This file is V-trace (Espeholt et al. 2018), which the paper does not have: it corrects for the lag k
// between the parameters that chose an action and those that learn from it.

// compare computes the ratios pi(a|s; theta_t) / pi(a|s; theta_t-k) of n steps of the batch, from a
// step on. out has the outputs of their observations by theta_t.
func (t *trainer) compare(out nn.Outputs, first, n int, ratios []float32) error {
	b, d := t.batch, t.distribution
	ints, floats, masks := d.Action.Ints(), d.Action.Floats(), len(b.Masks)/len(b.Rewards)
	row := policy.BatchRow{Outputs: out, LogStds: t.version.LogStd()}
	for k := first; k < first+n; k++ {
		var mask []byte
		if masks > 0 {
			mask = b.Masks[k*masks : (k+1)*masks]
		}
		row.Index = k - first
		now, err := d.LogProb(&row, mask, b.Actions[k*ints:(k+1)*ints], b.Continuous[k*floats:(k+1)*floats])
		if err != nil {
			return err
		}
		ratios[k] = rollout.LogRatio(now, b.Columns[onpolicy.ColumnLogProb][k])
	}
	kernel.Exp(ratios[first:first+n], ratios[first:first+n])
	return nil
}
