package graph

import (
	"github.com/paceline-rl/paceline/core/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// DuelOp has the inputs value [n, Head.Points()] and advantage [n, Head.Width()], the outputs of
// the streams of a dueling head.
type DuelOp struct {
	op
	Head nn.Head
	Y    *tensor.Dense // [n, Head.Width()]
}

func (g *Graph) duel(h *nn.Head, value, advantage *G.Node) (*G.Node, *tensor.Dense, error) {
	o := &DuelOp{op: newOp(h.Name+".duel", advantage.Shape(), value, advantage), Head: *h}
	o.Y = o.output()
	n, err := G.ApplyOp(o, value, advantage)
	return n, o.Y, err
}

func (o *DuelOp) DiffWRT(int) []bool { return []bool{true, true} }

func (o *DuelOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	grad := &DuelGradOp{op: newOp(o.name+".advantage'", in[1].Shape(), dy), Head: o.Head}
	grad.DAdvantage = grad.output()
	dadvantage, err := G.ApplyOp(grad, dy)
	if err != nil {
		return nil, err
	}
	value := &OutputOf{op: newOp(o.name+".value'", in[0].Shape(), dadvantage)}
	value.Value = value.output()
	grad.DValue = value.Value
	dvalue, err := G.ApplyOp(value, dadvantage)
	return G.Nodes{dvalue, dadvantage}, err
}

// DuelGradOp has the input dy. It computes the gradients of both streams.
type DuelGradOp struct {
	op
	Head               nn.Head
	DValue, DAdvantage *tensor.Dense
}

// SameOp has the input x, which is its output. Its gradient is a RescaledOp.
type SameOp struct{ op }

// rescale returns x with a gradient that is multiplied by the root of 1/2.
func (g *Graph) rescale(name string, x *G.Node) (*G.Node, error) {
	return G.ApplyOp(&SameOp{newOp(name+".rescaled", x.Shape(), x)}, x)
}

func (o *SameOp) DiffWRT(int) []bool { return []bool{true} }

func (o *SameOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	of := &RescaledOp{op: newOp(o.name+"'", in[0].Shape(), dy)}
	of.DX = of.output()
	dx, err := G.ApplyOp(of, dy)
	return G.Nodes{dx}, err
}

// RescaledOp has the input dy. Its output is dy times the root of 1/2.
type RescaledOp struct {
	op
	DX *tensor.Dense
}
