package nn

import (
	"bytes"
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The ops of a layer: y = relu(x·w + b) forward, and backward, from dy,
//
//	dz = dy where y > 0   only behind a rectifier
//	dw = dz ⊗ x           weightGrad computes all of these in one pass;
//	db = Σ dz             outputOf hands out the second
//	dx = dz·w             and the third, unless x is the observation
//
// Each exists once, for convolutions and dense layers alike.

// layerOp has the inputs x, w, b.
type layerOp struct {
	base
	g      *graph
	l      *layer
	dense  *kernel.Dense // or l.conv
	first  bool          // x is the observation
	y      *tensor.Dense
	packed packed
}

// pixelScale is what convolutions multiply bytes by.
const pixelScale = 1.0 / 255

func (g *graph) layer(prefix string, l *layer, p kernel.Precision, first bool, x, w, b *G.Node) (*G.Node, error) {
	shape := tensor.Shape{g.capacity, l.out}
	dense := &kernel.Dense{In: l.in, Out: l.out, ReLU: l.relu, Precision: p}
	if c := l.conv; c != nil {
		shape = tensor.Shape{g.capacity, c.OutC, c.OutH(), c.OutW()} // or with the channels last: see Conv
		g.needScratch(c.Workspace(g.capacity, g.team))
	} else {
		g.needScratch(dense.Workspace(g.capacity, g.team))
	}
	op := &layerOp{base: newBase(prefix+l.name, shape, x, w, b), g: g, l: l, dense: dense, first: first}
	op.y = op.output()
	if l.conv != nil {
		op.packed.data = make([]float32, l.conv.PackLen())
	}
	return G.ApplyOp(op, x, w, b)
}

func (o *layerOp) Do(in ...G.Value) (G.Value, error) {
	x, w, b, y := in[0].(*tensor.Dense), floats(in[1]), floats(in[2]), o.y.Float32s()
	g, c := o.g, o.l.conv
	if c == nil {
		kernel.DenseForward(g.team, y, x.Float32s(), w, b, g.rows, o.dense, g.scratch)
		return o.y, nil
	}
	if x.Dtype() == tensor.Uint8 {
		o.pack(w, pixelScale)
		kernel.ConvForwardU8(g.team, y, x.Uint8s(), o.packed.data, b, g.rows, c, g.scratch)
	} else {
		o.pack(w, 1)
		kernel.ConvForward(g.team, y, x.Float32s(), o.packed.data, b, g.rows, c, g.scratch)
	}
	return o.y, nil
}

// pack brings the weights into the form that the convolution reads, unless they
// are those of the run before: acting uses the same ones many times.
func (o *layerOp) pack(w []float32, scale float32) {
	if !o.packed.of(w) {
		kernel.ConvPack(o.g.team, o.packed.data, w, scale, o.l.conv, o.g.scratch)
		o.packed.note(w)
	}
}

func (o *layerOp) DiffWRT(int) []bool { return []bool{!o.first, true, true} }

func (o *layerOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	x, w, b := in[0], in[1], in[2]
	wg := &weightGradOp{base: newBase(o.name+".weight'", w.Shape(), x, w, y, dy), g: o.g, l: o.l, dense: o.dense}
	wg.dw = wg.output()
	dw, err := G.ApplyOp(wg, x, w, y, dy)
	if err != nil {
		return nil, err
	}
	bias := &outputOf{base: newBase(o.name+".bias'", b.Shape(), dw)}
	bias.value = bias.output()
	wg.db = bias.value
	db, err := G.ApplyOp(bias, dw)
	if err != nil || o.first {
		return G.Nodes{nil, dw, db}, err
	}
	if o.l.conv != nil {
		wg.packed = make([]float32, o.l.conv.PackBackLen())
	}
	input := &outputOf{base: newBase(o.name+".input'", x.Shape(), dw)}
	input.value = input.output()
	wg.dx = input.value
	dx, err := G.ApplyOp(input, dw)
	return G.Nodes{dx, dw, db}, err
}

// weightGradOp has the inputs x, w, y, dy. It computes the gradients of the bias
// and of x, too.
type weightGradOp struct {
	base
	g          *graph
	l          *layer
	dense      *kernel.Dense // or l.conv
	dw, db, dx *tensor.Dense // dx: nil where x is the observation
	packed     []float32     // a convolution's weights
}

func (o *weightGradOp) Do(in ...G.Value) (G.Value, error) {
	x, w, y, dy := in[0].(*tensor.Dense), floats(in[1]), floats(in[2]), floats(in[3])
	dw, db, g, c := o.dw.Float32s(), o.db.Float32s(), o.g, o.l.conv
	var dx []float32
	if o.dx != nil {
		dx = o.dx.Float32s()
	}
	switch {
	case c == nil:
		kernel.DenseBackward(g.team, dw, db, dx, x.Float32s(), w, y, dy, g.rows, o.dense, g.scratch)
	case x.Dtype() == tensor.Uint8:
		kernel.ConvBackwardU8(g.team, dw, db, x.Uint8s(), pixelScale, y, dy, g.rows, c, g.scratch)
	default:
		kernel.ConvPackBack(g.team, o.packed, w, c, g.scratch)
		kernel.ConvBackward(g.team, dw, db, dx, x.Float32s(), o.packed, y, dy, g.rows, c, g.scratch)
	}
	return o.dw, nil
}

// parameterGradient lets the owner of a flat gradient put the output there.
func (o *weightGradOp) parameterGradient() *tensor.Dense { return o.dw }

// outputOf has the input dw, whose op has written value by then.
type outputOf struct {
	base
	value *tensor.Dense
}

func (o *outputOf) Do(...G.Value) (G.Value, error)   { return o.value, nil }
func (o *outputOf) parameterGradient() *tensor.Dense { return o.value }

// packed is a convolution's weights in the kernels' form, and which ones.
type packed struct {
	data    []float32
	weights []byte // what data was made of
	isa     string // and by which path
}

// of reports whether data was made of w.
func (p *packed) of(w []float32) bool {
	return p.isa == kernel.ISA() && bytes.Equal(p.weights, bytesOf(w))
}

// note says that data was made of w.
func (p *packed) note(w []float32) {
	p.weights, p.isa = append(p.weights[:0], bytesOf(w)...), kernel.ISA()
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
