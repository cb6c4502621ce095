package ga3c

import (
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// This file is V-trace (Espeholt et al. 2018), which the paper does not have: it corrects for the
// lag k between the parameters that chose an action and those that learn from it.

// compare computes the ratios pi(a|s; theta_t) / pi(a|s; theta_t-k) of the batch's steps. out has
// the outputs of their observations by theta_t.
func (t *trainer) compare(out nn.Outputs) error {
	b, d := t.batch, t.distribution
	ints, floats, masks := d.Action.Ints(), d.Action.Floats(), len(b.Masks)/len(b.Rewards)
	row := policy.BatchRow{Outputs: out, LogStds: t.version.LogStd()}
	for k := range t.rows {
		var mask []byte
		if masks > 0 {
			mask = b.Masks[k*masks : (k+1)*masks]
		}
		row.Index = k
		now, err := d.LogProb(&row, mask, b.Actions[k*ints:(k+1)*ints], b.Continuous[k*floats:(k+1)*floats])
		if err != nil {
			return err
		}
		t.ratios[k] = rollout.LogRatio(now, b.Columns[onpolicy.ColumnLogProb][k])
	}
	kernel.Exp(t.ratios[:t.rows], t.ratios[:t.rows])
	return nil
}
