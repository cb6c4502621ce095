package cpu

import (
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func supportOf(h *nn.Head) kernel.Support {
	return kernel.Support{Atoms: h.Atoms, Min: h.Min, Max: h.Max}
}

// meansRun computes the means of distributions.
type meansRun struct {
	*graph.MeansOp
	on *state
}

func newMeansRun(op *graph.MeansOp, s *state) meansRun {
	allocate(op.Y)
	return meansRun{op, s}
}

func (o meansRun) Do(in ...G.Value) (G.Value, error) {
	h := &o.Head
	if y := o.Y.Float32s()[:o.on.rows*h.Out]; h.Atoms > 0 {
		kernel.CategoricalMeans(y, floats(in[0]), supportOf(h))
	} else {
		kernel.QuantileMeans(y, floats(in[0]), h.Out, h.Points())
	}
	return o.Y, nil
}

// distributionRun computes the loss of a distribution and its gradient.
type distributionRun struct {
	*graph.DistributionOp
	on    *state
	batch kernel.DistributionBatch
	out   *G.F32
}

func (o *distributionRun) Do(in ...G.Value) (G.Value, error) {
	b := &o.batch
	*b = kernel.DistributionBatch{X: floats(in[0]), Actions: in[1].(*tensor.Dense).Int32s(), Targets: floats(in[2]), Width: o.Head.Out, Points: o.Head.Points()}
	rest := in[3:]
	if l, ok := o.Loss.(nn.ImplicitHuber); ok {
		b.Taus, b.Goals, rest = floats(rest[0]), l.Targets, rest[1:]
	}
	if len(rest) > 0 {
		b.Weights = floats(rest[0])
	}
	defer func() { b.Actions, b.Targets, b.Weights, b.Taus = nil, nil, nil, nil }() // the caller's memory
	if err := graph.CheckActions(b.Actions, b.Width); err != nil {
		return nil, err
	}
	d, perRow := o.D.Float32s(), o.on.perRow
	switch l := o.Loss.(type) {
	case nn.CrossEntropy:
		*o.out = G.F32(kernel.CategoricalLoss(d, perRow, b, float32(l.LeastProb), l.Divergence, share(l.Reduction, len(b.Actions))))
	case nn.QuantileHuber:
		*o.out = G.F32(kernel.QuantileLoss(d, perRow, b, float32(l.Kappa), share(l.Reduction, len(b.Actions))))
	case nn.ImplicitHuber:
		*o.out = G.F32(kernel.QuantileLoss(d, perRow, b, float32(l.Kappa), share(l.Reduction, len(b.Actions))))
	}
	return o.out, nil
}

// share returns the factor of the sum over rows.
func share(reduction string, rows int) float32 {
	if reduction == "mean" {
		return 1 / float32(rows)
	}
	return 1
}
