package nn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The ops of a layer: y = relu(x·w + b) forward, and backward, from dy,
//
//	dz = dy where y > 0      reluGrad, only behind a rectifier
//	dw = dz ⊗ x, db = Σ dz   weightGrad computes both in one kernel call,
//	                         biasGrad hands out the second
//	dx = dz·w                inputGrad, unless x is the observation
//
// Each exists once, for convolutions and dense layers alike.

// layerOp has the inputs x, w, b.
type layerOp struct {
	base
	g     *graph
	l     *layer
	first bool // x is the observation
	bytes bool // x is uint8
	y     *tensor.Dense
}

// pixelScale is what convolutions multiply bytes by.
const pixelScale = 1.0 / 255

func (g *graph) layer(prefix string, l *layer, first bool, x, w, b *G.Node) (*G.Node, error) {
	shape := tensor.Shape{g.capacity, l.out}
	if c := l.conv; c != nil {
		shape = tensor.Shape{g.capacity, c.OutC, c.OutH(), c.OutW()}
		g.needScratch(c.Workspace())
	} else {
		g.needScratch(kernel.DenseWorkspace(g.capacity, l.in, l.out))
	}
	op := &layerOp{base: newBase(prefix+l.name, shape, x, w, b), g: g, l: l, first: first, bytes: x.Dtype() == tensor.Uint8}
	op.y = op.output()
	return G.ApplyOp(op, x, w, b)
}

func (o *layerOp) Do(in ...G.Value) (G.Value, error) {
	y, w, b := o.y.Float32s(), floats(in[1]), floats(in[2])
	switch x := in[0].(*tensor.Dense); {
	case o.l.conv == nil:
		kernel.DenseForward(y, x.Float32s(), w, b, o.g.rows, o.l.in, o.l.out, o.l.relu)
	case o.bytes:
		kernel.ConvForwardU8(y, x.Uint8s(), pixelScale, w, b, o.g.rows, *o.l.conv, o.g.scratch)
	default:
		kernel.ConvForward(y, x.Float32s(), w, b, o.g.rows, *o.l.conv, o.g.scratch)
	}
	return o.y, nil
}

func (o *layerOp) DiffWRT(int) []bool { return []bool{!o.first, true, true} }

func (o *layerOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	x, w := in[0], in[1]
	dz := dy
	if o.l.relu {
		op := &reluGradOp{base: newBase(o.name+".relu'", y.Shape(), y, dy), g: o.g, width: o.l.out}
		if above, ok := dy.Op().(*inputGradOp); ok {
			op.dz = above.dx // nobody else reads it: work in place
		} else {
			op.dz = op.output()
		}
		var err error
		if dz, err = G.ApplyOp(op, y, dy); err != nil {
			return nil, err
		}
	}
	wg := &weightGradOp{base: newBase(o.name+".weight'", w.Shape(), x, dz), of: o}
	wg.dw = wg.output()
	dw, err := G.ApplyOp(wg, x, dz)
	if err != nil {
		return nil, err
	}
	bg := &biasGradOp{base: newBase(o.name+".bias'", in[2].Shape(), dw)}
	bg.db = bg.output()
	wg.db = bg.db
	db, err := G.ApplyOp(bg, dw)
	if err != nil || o.first {
		return G.Nodes{nil, dw, db}, err
	}
	xg := &inputGradOp{base: newBase(o.name+".input'", x.Shape(), w, dz), of: o}
	xg.dx = xg.output()
	dx, err := G.ApplyOp(xg, w, dz)
	return G.Nodes{dx, dw, db}, err
}

// reluGradOp has the inputs y, dy.
type reluGradOp struct {
	base
	g     *graph
	width int
	dz    *tensor.Dense
}

func (o *reluGradOp) Do(in ...G.Value) (G.Value, error) {
	kernel.ReLUGrad(o.dz.Float32s()[:o.g.rows*o.width], floats(in[0]), floats(in[1]))
	return o.dz, nil
}

// weightGradOp has the inputs x, dz. It computes the gradient of the bias too.
type weightGradOp struct {
	base
	of     *layerOp
	dw, db *tensor.Dense
}

func (o *weightGradOp) Do(in ...G.Value) (G.Value, error) {
	g, l := o.of.g, o.of.l
	dw, db, dz := o.dw.Float32s(), o.db.Float32s(), floats(in[1])
	switch x := in[0].(*tensor.Dense); {
	case l.conv == nil:
		kernel.DenseGradW(dw, db, x.Float32s(), dz, g.rows, l.in, l.out, g.scratch)
	case o.of.bytes:
		kernel.ConvGradWU8(dw, db, x.Uint8s(), pixelScale, dz, g.rows, *l.conv, g.scratch)
	default:
		kernel.ConvGradW(dw, db, x.Float32s(), dz, g.rows, *l.conv, g.scratch)
	}
	return o.dw, nil
}

// parameterGradient lets the owner of a flat gradient put the output there.
func (o *weightGradOp) parameterGradient() *tensor.Dense { return o.dw }

// biasGradOp has the input dw, whose op has written db by then.
type biasGradOp struct {
	base
	db *tensor.Dense
}

func (o *biasGradOp) Do(...G.Value) (G.Value, error)   { return o.db, nil }
func (o *biasGradOp) parameterGradient() *tensor.Dense { return o.db }

// inputGradOp has the inputs w, dz.
type inputGradOp struct {
	base
	of *layerOp
	dx *tensor.Dense
}

func (o *inputGradOp) Do(in ...G.Value) (G.Value, error) {
	g, l := o.of.g, o.of.l
	if l.conv == nil {
		kernel.DenseGradX(o.dx.Float32s(), floats(in[0]), floats(in[1]), g.rows, l.in, l.out, g.scratch)
	} else {
		kernel.ConvGradX(o.dx.Float32s(), floats(in[0]), floats(in[1]), g.rows, *l.conv, g.scratch)
	}
	return o.dx, nil
}

// convertOp turns an observation of bytes into floats for a dense layer. No
// gradient flows into an observation.
type convertOp struct {
	base
	g     *graph
	scale float32
	width int
	y     *tensor.Dense
}

func (g *graph) convert(name string, x *G.Node, scale float32) (*G.Node, error) {
	op := &convertOp{base: newBase(name, x.Shape(), x), g: g, scale: scale, width: x.Shape().TotalSize() / g.capacity}
	op.y = op.output()
	return G.ApplyOp(op, x)
}

func (o *convertOp) DiffWRT(int) []bool { return []bool{false} }

func (o *convertOp) SymDiff(G.Nodes, *G.Node, *G.Node) (G.Nodes, error) {
	return nil, fmt.Errorf("%s: not differentiable", o.name)
}

func (o *convertOp) Do(in ...G.Value) (G.Value, error) {
	n := o.g.rows * o.width
	x, y := in[0].(*tensor.Dense).Uint8s()[:n], o.y.Float32s()[:n]
	for i, v := range x {
		y[i] = float32(v) * o.scale
	}
	return o.y, nil
}
