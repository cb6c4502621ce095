package graph

import (
	"github.com/paceline-rl/paceline/core/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// means adds the outputs of the heads: of distributions, their means.
func (g *Graph) means() error {
	for i, n := range g.heads {
		h, y := &g.Spec.Heads[i], g.Points[i]
		if h.Points() > 1 {
			o := &MeansOp{op: newOp(h.Name+".means", tensor.Shape{g.Rows, h.Out}, n), Head: *h}
			o.Y = o.output()
			var err error
			if n, err = G.ApplyOp(o, n); err != nil {
				return err
			}
			y = o.Y
		}
		g.outputs, g.Heads = append(g.outputs, n), append(g.Heads, y)
	}
	return nil
}

// MeansOp has the input points [n, Head.Width()].
type MeansOp struct {
	op
	Head nn.Head
	Y    *tensor.Dense // [n, Head.Out]
}

// DistributionOp has the inputs points [n, Head.Width()], actions [n] (int32), targets [n,
// numbers of a target], taus [n, Head.Taus] for a head with taus, and, where the loss has
// Importance, weights [n]. Its output is the scalar loss;
// the same pass computes the gradient of the points.
type DistributionOp struct {
	op
	Loss nn.Loss // nn.CrossEntropy, nn.QuantileHuber or nn.ImplicitHuber
	Head nn.Head
	D    *tensor.Dense
}

// distribution adds a loss of a distribution.
func (l *Learner) distribution(loss nn.Loss, actions *G.Node, columns G.Nodes) (*G.Node, error) {
	q := l.Spec.Head("q")
	inputs := append(G.Nodes{l.heads[q], actions}, columns...)
	return G.ApplyOp(&DistributionOp{op: newOp("distribution_loss", nil, inputs...), Loss: loss, Head: l.Spec.Heads[q]}, inputs...)
}

func (o *DistributionOp) DiffWRT(inputs int) []bool {
	return append([]bool{true}, make([]bool, inputs-1)...)
}

func (o *DistributionOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	of := newLossGradient(o.name+".points'", in[0], loss, grad)
	o.D = of.Value
	d, err := G.ApplyOp(of, loss, grad)
	return append(G.Nodes{d}, make(G.Nodes, len(in)-1)...), err
}
