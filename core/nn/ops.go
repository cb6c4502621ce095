package nn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The ops of a layer: y = f(x·w + b) forward, and backward, from dy,
//
//	dz = dy where y > 0   behind a rectifier; dy (1 - y²) behind a tanh
//	dw = dz ⊗ x           weightGrad computes all of these in one pass;
//	db = Σ dz             outputOf hands out the second
//	dx = dz·w             and the third, unless x is the observation
//
// Each exists once, for convolutions and dense layers alike. norm.go has the ops of
// a normalisation, which takes over the activation of the layer below it.

// layerOp has the inputs x, w, b.
type layerOp struct {
	base
	g      *graph
	l      *layer
	y      *tensor.Dense
	packed packed
}

func (g *graph) layer(l *layer, x, w, b *G.Node) (*G.Node, error) {
	op := &layerOp{g: g, l: l}
	shape := tensor.Shape{g.capacity, l.out}
	if c := l.conv; c != nil {
		shape = tensor.Shape{g.capacity, c.OutC, c.OutH(), c.OutW()} // or with the channels last: see Conv
	}
	op.base = newBase(l.name, shape, x, w, b)
	op.y = op.output()
	return G.ApplyOp(op, x, w, b)
}

func (o *layerOp) allocate() {
	allocate(o.y)
	if c := o.l.conv; c != nil {
		o.packed.data = make([]float32, c.PackLen())
	} else if o.g.packs(o.l) {
		o.packed.data = make([]float32, o.l.in*o.l.out)
	}
	o.g.needScratch(o.l.workspace(o.g.capacity, o.g.team))
}

func (o *layerOp) Do(in ...G.Value) (G.Value, error) {
	x, w, b, y := in[0].(*tensor.Dense), floats(in[1]), floats(in[2]), o.y.Float32s()
	g, c := o.g, o.l.conv
	if c == nil {
		if o.packDense(w) {
			kernel.DenseForwardPacked(g.team, y, x.Float32s(), o.packed.data, b, g.rows, o.l.dense, g.scratch)
		} else {
			kernel.DenseForward(g.team, y, x.Float32s(), w, b, g.rows, o.l.dense, g.scratch)
		}
		if o.l.act == tanh {
			y = y[:g.rows*o.l.out]
			kernel.Tanh(y, y)
		}
		return o.y, nil
	}
	if x.Dtype() == tensor.Uint8 {
		o.pack(w, g.spec.obsScale())
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
	if isa := kernel.ISA(); o.g.source.id == 0 || o.packed.source != o.g.source || o.packed.isa != isa {
		kernel.ConvPack(o.g.team, o.packed.data, w, scale, o.l.conv, o.g.scratch)
		o.packed.source, o.packed.isa = o.g.source, isa
	}
}

// packDense reports whether packed holds the weights of a dense layer. Packing pays
// from the second run with the same ones on: the first reads them as they are.
func (o *layerOp) packDense(w []float32) bool {
	if o.packed.data == nil || o.g.source.id == 0 {
		return false
	}
	if isa := kernel.ISA(); o.packed.source != o.g.source || o.packed.isa != isa {
		o.packed.source, o.packed.isa, o.packed.made = o.g.source, isa, false
		return false
	}
	if !o.packed.made {
		kernel.DensePack(o.g.team, o.packed.data, w, o.l.dense)
		o.packed.made = true
	}
	return true
}

func (o *layerOp) DiffWRT(int) []bool { return []bool{o.l.from >= 0, true, true} }

func (o *layerOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	x, w, b := in[0], in[1], in[2]
	wg := &weightGradOp{base: newBase(o.name+".weight'", w.Shape(), x, w, y, dy), g: o.g, l: o.l}
	wg.dw = wg.output()
	dw, err := G.ApplyOp(wg, x, w, y, dy)
	if err != nil {
		return nil, err
	}
	bias := &outputOf{base: newBase(o.name+".bias'", b.Shape(), dw)}
	bias.value, bias.flat = bias.output(), true
	wg.db = bias.value
	db, err := G.ApplyOp(bias, dw)
	if err != nil || o.l.from < 0 {
		return G.Nodes{nil, dw, db}, err
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
	dw, db, dx *tensor.Dense // dx: nil where x is the observation
	dz         []float32     // before a tanh; nil elsewhere
	packed     []float32     // a convolution's weights
}

func (o *weightGradOp) allocate() {
	if o.l.act == tanh {
		o.dz = make([]float32, o.g.capacity*o.l.out)
	}
	if o.dx != nil && o.l.conv != nil {
		o.packed = make([]float32, o.l.conv.PackBackLen())
	}
}

func (o *weightGradOp) Do(in ...G.Value) (G.Value, error) {
	x, w, y, dy := in[0].(*tensor.Dense), floats(in[1]), floats(in[2]), floats(in[3])
	dw, db, g, c := o.dw.Float32s(), o.db.Float32s(), o.g, o.l.conv
	var dx []float32
	if o.dx != nil {
		dx = o.dx.Float32s()
	}
	if o.dz != nil {
		n := g.rows * o.l.out
		kernel.TanhBackward(o.dz, y[:n], dy[:n])
		dy = o.dz
	}
	switch {
	case c == nil:
		kernel.DenseBackward(g.team, dw, db, dx, x.Float32s(), w, y, dy, g.rows, o.l.dense, g.scratch)
	case x.Dtype() == tensor.Uint8:
		kernel.ConvBackwardU8(g.team, dw, db, x.Uint8s(), g.spec.obsScale(), y, dy, g.rows, c, g.scratch)
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
	flat  bool // the gradient of a parameter
}

func (o *outputOf) allocate() {
	if !o.flat {
		allocate(o.value)
	}
}

func (o *outputOf) Do(...G.Value) (G.Value, error)   { return o.value, nil }
func (o *outputOf) parameterGradient() *tensor.Dense { return o.value }

// packed is a layer's weights in the kernels' form.
type packed struct {
	data   []float32
	source source // what data was made of
	isa    string // and by which path
	made   bool   // of a dense layer: data is made; else source is that of the run before
}

// sumOp has the inputs x and y of one shape, and adds them up. It takes the place
// of Gorgonia's addition, which would allocate its output in every run.
type sumOp struct {
	base
	sum *tensor.Dense
}

// newSum returns n's op as a sumOp, or nil if it is not the addition that Gorgonia
// puts where the gradients of several users of a node come together.
func newSum(n *G.Node, x, y *G.Node) *sumOp {
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
	o := &sumOp{base: newBase(n.Name()+".sum", n.Shape(), x, y)}
	o.sum = o.output()
	return o
}

func (o *sumOp) allocate() { allocate(o.sum) }

func (o *sumOp) Do(in ...G.Value) (G.Value, error) {
	sum := o.sum.Float32s()
	copy(sum, floats(in[0]))
	kernel.Add(sum, floats(in[1]))
	return o.sum, nil
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

func (o *convertOp) allocate() { allocate(o.y) }

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
