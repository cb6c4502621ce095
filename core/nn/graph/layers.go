package graph

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The ops of a layer: y = f(x·w + b) forward, and backward, from dy,
//
//	dz = dy where y > 0   after a rectifier; dy (1 - y²) after a tanh
//	dw = dz ⊗ x           WeightGradOp computes all three in one pass
//	db = Σ dz             its second output, an OutputOf
//	dx = dz·w             its third output, unless x is the observation
//
// The same ops serve convolutions and dense layers. norm.go has the ops of a normalisation, which
// applies the activation of the layer below it.

// LayerOp has the inputs x, w, b.
type LayerOp struct {
	op
	Layer *nn.Layer
	Y     *tensor.Dense
}

func (g *Graph) layer(l *nn.Layer, x, w, b *G.Node) (*G.Node, *tensor.Dense, error) {
	shape := tensor.Shape{l.Rows(g.Rows), l.Out}
	if c := l.Conv; c != nil {
		shape = tensor.Shape{g.Rows, c.OutC, c.OutH(), c.OutW()} // on a CPU the channels may be last
	}
	o := &LayerOp{op: newOp(l.Name, shape, x, w, b), Layer: l}
	o.Y = o.output()
	n, err := G.ApplyOp(o, x, w, b)
	return n, o.Y, err
}

func (o *LayerOp) DiffWRT(int) []bool { return []bool{o.Layer.From >= 0, true, true} }

func (o *LayerOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	x, w, b := in[0], in[1], in[2]
	wg := &WeightGradOp{op: newOp(o.name+".weight'", w.Shape(), x, w, y, dy), Layer: o.Layer}
	wg.DW = wg.output()
	dw, err := G.ApplyOp(wg, x, w, y, dy)
	if err != nil {
		return nil, err
	}
	bias := &OutputOf{op: newOp(o.name+".bias'", b.Shape(), dw), Flat: true}
	bias.Value = bias.output()
	wg.DB = bias.Value
	db, err := G.ApplyOp(bias, dw)
	if err != nil || o.Layer.From < 0 {
		return G.Nodes{nil, dw, db}, err
	}
	input := &OutputOf{op: newOp(o.name+".input'", x.Shape(), dw)}
	input.Value = input.output()
	wg.DX = input.Value
	dx, err := G.ApplyOp(input, dw)
	return G.Nodes{dx, dw, db}, err
}

// WeightGradOp has the inputs x, w, y, dy. It also computes the gradients of the bias and of x.
type WeightGradOp struct {
	op
	Layer      *nn.Layer
	DW, DB, DX *tensor.Dense // DX: nil where x is the observation
}

func (o *WeightGradOp) flat() *tensor.Dense { return o.DW }

// OutputOf has the input dw. The op of dw writes Value.
type OutputOf struct {
	op
	Value *tensor.Dense
	Flat  bool // Value is the gradient of a parameter: a part of the flat gradient
}

func (o *OutputOf) flat() *tensor.Dense { return o.Value }

// SumOp has the inputs x and y of one shape. It replaces Gorgonia's addition, which allocates its
// output in every run.
type SumOp struct {
	op
	Sum *tensor.Dense
}

// newSum returns the op of n as a SumOp, or nil if it is not an addition. Gorgonia inserts an
// addition where several nodes read the same node, because their gradients add up.
func newSum(n *G.Node, x, y *G.Node) *SumOp {
	if n.Dtype() != tensor.Float32 || n.Dims() == 0 || !x.Shape().Eq(n.Shape()) || !y.Shape().Eq(n.Shape()) {
		return nil
	}
	if o, ok := n.Op().(interface{ IsBinary() bool }); !ok || !o.IsBinary() {
		return nil
	}
	g, shape := G.NewGraph(), G.WithShape(n.Shape()...)
	a := G.NewTensor(g, tensor.Float32, n.Dims(), shape, G.WithName("a"))
	b := G.NewTensor(g, tensor.Float32, n.Dims(), shape, G.WithName("b"))
	if add, err := G.Add(a, b); err != nil || add.Op().Hashcode() != n.Op().Hashcode() {
		return nil
	}
	o := &SumOp{op: newOp(n.Name()+".sum", n.Shape(), x, y)}
	o.Sum = o.output()
	return o
}

// ConvertOp turns an observation of bytes into floats for a dense layer. No gradient flows into an
// observation.
type ConvertOp struct {
	op
	Scale float32
	Width int // numbers of an observation
	Y     *tensor.Dense
}

func (g *Graph) convert(name string, x *G.Node, scale float32) (*G.Node, error) {
	o := &ConvertOp{op: newOp(name, x.Shape(), x), Scale: scale, Width: x.Shape().TotalSize() / g.Rows}
	o.Y = o.output()
	return G.ApplyOp(o, x)
}

func (o *ConvertOp) DiffWRT(int) []bool { return []bool{false} }

func (o *ConvertOp) SymDiff(G.Nodes, *G.Node, *G.Node) (G.Nodes, error) {
	return nil, errNotDifferentiable(o.name)
}

func errNotDifferentiable(name string) error { return fmt.Errorf("%s: not differentiable", name) }
