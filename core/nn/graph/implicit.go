package graph

import (
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// sources makes the inputs of layers.
type sources struct {
	*Graph
	obs       *G.Node
	converted *G.Node               // obs as floats, for dense layers; convolutions read bytes
	layers    []*G.Node             // outputs of the layers
	products  map[int]*G.Node       // with the outputs of layers that multiply, by their index
	rescaled  map[*nn.Layer]*G.Node // inputs whose gradient is rescaled, by the layer below
}

func (s *sources) of(l *nn.Layer) (x *G.Node, err error) {
	switch {
	case l.Cosines:
		return s.cosinesOf(l)
	case l.From < 0:
		return s.observation(l)
	}
	x = s.layers[l.From]
	if l.By > 0 {
		if x = s.products[l.By]; x == nil {
			if x, err = s.modulate(l, s.layers[l.From], s.layers[l.By]); err != nil {
				return nil, err
			}
			s.products[l.By] = x
		}
	}
	if !l.Rescaled {
		return x, nil
	}
	below := &s.Layers[l.From]
	if s.rescaled[below] == nil {
		s.rescaled[below], err = s.rescale(below.Name, x)
	}
	return s.rescaled[below], err
}

func (s *sources) observation(l *nn.Layer) (*G.Node, error) {
	if l.Conv != nil || s.Spec.Obs.DType != env.Uint8 {
		return s.obs, nil
	}
	var err error
	if s.converted == nil {
		s.converted, err = s.convert("convert", s.obs, s.Spec.ObsScale())
	}
	return s.converted, err
}

// CosinesOp has the input taus [n, Taus]. No gradient flows into it.
type CosinesOp struct {
	op
	Cosines int
	Y       *tensor.Dense // [n Taus, Cosines]
}

func (s *sources) cosinesOf(l *nn.Layer) (*G.Node, error) {
	s.taus, s.Taus = s.leaf("taus", tensor.Float32, s.Rows, l.Taus)
	o := &CosinesOp{op: newOp("cosines", tensor.Shape{l.Rows(s.Rows), l.In}, s.taus), Cosines: l.In}
	o.Y = o.output()
	return G.ApplyOp(o, s.taus)
}

func (o *CosinesOp) DiffWRT(int) []bool { return []bool{false} }

func (o *CosinesOp) SymDiff(G.Nodes, *G.Node, *G.Node) (G.Nodes, error) {
	return nil, errNotDifferentiable(o.name)
}

// ModulateOp has the inputs x [n, Width] and by [n Taus, Width]. Its output is the product of each
// row of x with its rows of by.
type ModulateOp struct {
	op
	Taus, Width int
	Y           *tensor.Dense // [n Taus, Width]
}

func (g *Graph) modulate(l *nn.Layer, x, by *G.Node) (*G.Node, error) {
	o := &ModulateOp{op: newOp(g.Layers[l.By].Name+".product", by.Shape(), x, by), Taus: l.Taus, Width: l.In}
	o.Y = o.output()
	return G.ApplyOp(o, x, by)
}

func (o *ModulateOp) DiffWRT(int) []bool { return []bool{true, true} }

func (o *ModulateOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	x, by := in[0], in[1]
	grad := &ModulateGradOp{op: newOp(o.name+".by'", by.Shape(), x, by, dy), Forward: o}
	grad.DBy = grad.output()
	dby, err := G.ApplyOp(grad, x, by, dy)
	if err != nil {
		return nil, err
	}
	input := &OutputOf{op: newOp(o.name+".input'", x.Shape(), dby)}
	input.Value = input.output()
	grad.DX = input.Value
	dx, err := G.ApplyOp(input, dby)
	return G.Nodes{dx, dby}, err
}

// ModulateGradOp has the inputs x, by, dy. It also computes the gradient of x.
type ModulateGradOp struct {
	op
	Forward *ModulateOp
	DBy, DX *tensor.Dense
}
