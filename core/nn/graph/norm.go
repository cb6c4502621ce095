package graph

import (
	"github.com/paceline-rl/paceline/core/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// NormOp has the inputs x, scale, bias.
type NormOp struct {
	op
	Layer *nn.Layer
	Y     *tensor.Dense
}

func (g *Graph) norm(l *nn.Layer, x, scale, bias *G.Node) (*G.Node, *tensor.Dense, error) {
	o := &NormOp{op: newOp(l.Name, x.Shape(), x, scale, bias), Layer: l}
	o.Y = o.output()
	n, err := G.ApplyOp(o, x, scale, bias)
	return n, o.Y, err
}

func (o *NormOp) DiffWRT(int) []bool { return []bool{true, true, true} }

func (o *NormOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	x, scale, bias := in[0], in[1], in[2]
	grad := &NormGradOp{op: newOp(o.name+".weight'", scale.Shape(), x, scale, y, dy), Forward: o}
	grad.DScale = grad.output()
	dscale, err := G.ApplyOp(grad, x, scale, y, dy)
	if err != nil {
		return nil, err
	}
	forBias := &OutputOf{op: newOp(o.name+".bias'", bias.Shape(), dscale), Flat: true}
	forBias.Value = forBias.output()
	forInput := &OutputOf{op: newOp(o.name+".input'", x.Shape(), dscale)}
	forInput.Value = forInput.output()
	grad.DBias, grad.DX = forBias.Value, forInput.Value
	dbias, err := G.ApplyOp(forBias, dscale)
	if err != nil {
		return nil, err
	}
	dx, err := G.ApplyOp(forInput, dscale)
	return G.Nodes{dx, dscale, dbias}, err
}

// NormGradOp has the inputs x, scale, y, dy. It also computes the gradients of the bias and of x.
type NormGradOp struct {
	op
	Forward           *NormOp
	DScale, DBias, DX *tensor.Dense
}

func (o *NormGradOp) flat() *tensor.Dense { return o.DScale }
