package kernel

import (
	"cmp"
	"fmt"
)

// A head of a distributional Q-network computes several numbers for each of `width` actions:
//
//   - the logits of a categorical distribution (Bellemare et al. 2017), [action, atom]
//   - quantiles (Dabney et al. 2018), [quantile, action]

// MaxAtoms bounds the atoms of a Support.
const MaxAtoms = 1024

// Support is the numbers that a categorical distribution may take: Atoms of them, 2 to MaxAtoms, at
// equal distances from Min to Max.
type Support struct {
	Atoms    int
	Min, Max float64
}

// step returns the distance of two atoms.
func (s Support) step() float64 { return (s.Max - s.Min) / float64(s.Atoms-1) }

func (s Support) check() {
	if s.Atoms < 2 || s.Atoms > MaxAtoms || !(s.Min < s.Max) {
		panic(fmt.Sprintf("kernel: support: %d atoms from %v to %v, must be 2 to %d from a number to a larger one", s.Atoms, s.Min, s.Max, MaxAtoms))
	}
}

// CategoricalMeans overwrites means with the means of the softmaxes of logits,
// [len(means), s.Atoms]. Sums are in float64, in the order of the atoms.
func CategoricalMeans(means, logits []float32, s Support) {
	s.check()
	atLeast("logits", len(logits), len(means)*s.Atoms)
	current.Load().categoricalMeans(means, logits, s)
}

// Project overwrites targets, [n, s.Atoms] with n = len(actions), with the distributions of
// rewards[i] + discounts[i]*Z projected on the support. Z has the distribution of action actions[i]
// in logits, [n, width, s.Atoms]. A probability is divided between the two atoms around its number,
// and numbers outside of the support count as its ends (Bellemare et al. 2017, algorithm 1).
func Project(targets, logits []float32, actions []int32, rewards, discounts []float32, width int, s Support) {
	s.check()
	n := len(actions)
	atLeast("targets", len(targets), n*s.Atoms)
	atLeast("logits", len(logits), n*width*s.Atoms)
	atLeast("rewards", len(rewards), n)
	atLeast("discounts", len(discounts), n)
	checkActions(actions, width)
	current.Load().project(targets, logits, actions, rewards, discounts, width, s)
}

// DistributionBatch is the input of CategoricalLoss and QuantileLoss: n = len(Actions) rows.
type DistributionBatch struct {
	X       []float32 // [n, Width, Points] logits, or [n, Points, Width] quantiles
	Actions []int32   // 0 to Width-1
	Targets []float32 // [n, Goals]: probabilities, or quantiles
	Weights []float32 // [n]; nil: 1 each. A row of weight 0 is ignored, NaN included
	Taus    []float32 // [n, Points]: the quantiles' probabilities; nil: (j + 1/2)/Points. Only for QuantileLoss
	Width   int       // actions
	Points  int       // atoms or quantiles
	Goals   int       // 0: Points; others only for QuantileLoss
}

func (b *DistributionBatch) goals() int { return cmp.Or(b.Goals, b.Points) }

func (b *DistributionBatch) check(dx, perRow []float32) {
	n := len(b.Actions)
	if b.Points < 1 || b.Points > MaxAtoms {
		panic(fmt.Sprintf("kernel: points: %d, must be 1 to %d", b.Points, MaxAtoms))
	}
	atLeast("dx", len(dx), n*b.Width*b.Points)
	atLeast("x", len(b.X), n*b.Width*b.Points)
	atLeast("targets", len(b.Targets), n*b.goals())
	if b.Taus != nil {
		atLeast("taus", len(b.Taus), n*b.Points)
	}
	if b.Weights != nil {
		atLeast("weights", len(b.Weights), n)
	}
	if perRow != nil {
		atLeast("per_row", len(perRow), n)
	}
	checkActions(b.Actions, b.Width)
}

// CategoricalLoss returns the cross-entropy of a batch and overwrites dx with its gradient. Row i
// has the loss
//
//	-sum over k of targets[i, k] * log(max(p[k], least))
//
// where p is the softmax of the logits of actions[i]; a probability below least has no gradient,
// and in the sums a denormal target counts as 0. A row's loss is multiplied by its weight. The
// result is the sum in float64, times weight. perRow, if not nil, gets the rows' losses without
// weights or, with divergence, these minus the entropies of the targets: the Kullback-Leibler
// divergences. dx must not be an input.
func CategoricalLoss(dx, perRow []float32, b *DistributionBatch, least float32, divergence bool, weight float32) float64 {
	b.check(dx, perRow)
	return current.Load().categoricalLoss(dx, perRow, b, least, divergence, weight)
}

// QuantileLoss returns the quantile Huber loss of a batch (Dabney et al. 2018) and overwrites dx
// with its gradient. With b.Points quantiles x[j] of action actions[i] and n = b.Goals targets, row
// i has the loss
//
//	1/n * sum over j and k of |tau[j] - (u < 0)| * huber(u) / kappa
//
// with u = targets[i, k] - x[j], tau[j] = b.Taus[i, j], and huber(u) = u*u/2 where |u| <= kappa,
// kappa*(|u| - kappa/2) elsewhere. A row's loss is multiplied by its weight. The result is the sum
// in float64, times weight. perRow, if not nil, gets the rows' losses without weights. dx must not
// be an input.
func QuantileLoss(dx, perRow []float32, b *DistributionBatch, kappa, weight float32) float64 {
	b.check(dx, perRow)
	if !(kappa > 0) {
		panic(fmt.Sprintf("kernel: kappa: %v, must be above 0", kappa))
	}
	return current.Load().quantileLoss(dx, perRow, b, kappa, weight)
}

// QuantileMeans overwrites means, [n, width], with the means of the quantiles x, [n, quantiles,
// width]. Sums are in float64, in the order of the quantiles.
func QuantileMeans(means, x []float32, width, quantiles int) {
	atLeast("x", len(x), len(means)*quantiles)
	const most = 16 // actions whose sums overlap
	for ; len(means) >= width; means, x = means[width:], x[quantiles*width:] {
		for first := 0; first < width; first += most {
			to := means[first:min(first+most, width)]
			var sums [most]float64
			for k := range quantiles {
				for a, v := range x[k*width+first:][:len(to)] {
					sums[a] += float64(v)
				}
			}
			for a := range to {
				to[a] = float32(sums[a] / float64(quantiles))
			}
		}
	}
}

// QuantileTargets overwrites targets, [n, quantiles] with n = len(actions), with
// rewards[i] + discounts[i]*x for the quantiles x of action actions[i], rounded twice. x is
// [n, quantiles, width].
func QuantileTargets(targets, x []float32, actions []int32, rewards, discounts []float32, width, quantiles int) {
	n := len(actions)
	atLeast("targets", len(targets), n*quantiles)
	atLeast("x", len(x), n*quantiles*width)
	atLeast("rewards", len(rewards), n)
	atLeast("discounts", len(discounts), n)
	checkActions(actions, width)
	for i, a := range actions {
		for k := range quantiles {
			at := i*quantiles + k
			targets[at] = rewards[i] + float32(discounts[i]*x[at*width+int(a)])
		}
	}
}
