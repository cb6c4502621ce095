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
// Each exists once, for convolutions and dense layers alike. Their loops are cut
// into parts that the threads of the graph's pool share. Sums over a batch are cut
// by the shapes alone; what no sum crosses may be cut by the number of threads.

// layerOp has the inputs x, w, b.
type layerOp struct {
	base
	g      *graph
	l      *layer
	dense  *kernel.Dense // or l.conv
	first  bool          // x is the observation
	y      *tensor.Dense
	packed packed
	in     [3]*tensor.Dense // of the run in progress
	do     func(worker, part int) error
	doPack func(worker, part int) error
}

// pixelScale is what convolutions multiply bytes by.
const pixelScale = 1.0 / 255

func (g *graph) layer(prefix string, l *layer, p kernel.Precision, first bool, x, w, b *G.Node) (*G.Node, error) {
	shape := tensor.Shape{g.capacity, l.out}
	dense := &kernel.Dense{In: l.in, Out: l.out, ReLU: l.relu, Precision: p}
	if c := l.conv; c != nil {
		shape = tensor.Shape{g.capacity, c.OutC, c.OutH(), c.OutW()} // or with the channels last: see Conv
		g.needScratch(c.Workspace())
	} else {
		g.needScratch(dense.Workspace(g.capacity))
	}
	op := &layerOp{base: newBase(prefix+l.name, shape, x, w, b), g: g, l: l, dense: dense, first: first}
	op.y = op.output()
	op.do = op.forwardDense
	if l.conv != nil {
		op.do, op.doPack = op.forwardConv, op.packPart
		op.packed.data = make([]float32, l.conv.PackLen())
	}
	return G.ApplyOp(op, x, w, b)
}

func (o *layerOp) Do(in ...G.Value) (G.Value, error) {
	for i, v := range in {
		o.in[i] = v.(*tensor.Dense)
	}
	parts := denseParts(o.g.rows, o.l, o.l.out)
	if o.l.conv != nil {
		parts = (o.g.rows + o.g.rowsAPart() - 1) / o.g.rowsAPart()
		if err := o.pack(); err != nil {
			return nil, err
		}
	}
	return o.y, o.g.share(parts, o.do)
}

// pack brings the weights into the form that the convolution reads, unless they
// are those of the run before: acting uses the same ones many times.
func (o *layerOp) pack() error {
	if o.packed.of(o.in[1].Float32s()) {
		return nil
	}
	if err := o.g.share(packParts(o.l.conv), o.doPack); err != nil {
		return err
	}
	o.packed.note(o.in[1].Float32s())
	return nil
}

func (o *layerOp) packPart(worker, part int) error {
	scale := float32(1)
	if o.in[0].Dtype() == tensor.Uint8 {
		scale = pixelScale
	}
	from, to := packRange(o.l.conv, part)
	kernel.ConvPack(o.packed.data, o.in[1].Float32s(), scale, o.l.conv, from, to, o.g.scratch(worker))
	return nil
}

func (o *layerOp) forwardConv(worker, part int) error {
	c, rows := o.l.conv, o.g.rowsAPart()
	first := part * rows
	rows = min(rows, o.g.rows-first)
	y, b := o.y.Float32s()[first*c.OutLen():], o.in[2].Float32s()
	if x := o.in[0]; x.Dtype() == tensor.Uint8 {
		kernel.ConvForwardU8(y, x.Uint8s()[first*c.InLen():], o.packed.data, b, rows, c, o.g.scratch(worker))
	} else {
		kernel.ConvForward(y, x.Float32s()[first*c.InLen():], o.packed.data, b, rows, c, o.g.scratch(worker))
	}
	return nil
}

func (o *layerOp) forwardDense(worker, part int) error {
	from, to := denseRange(part, denseParts(o.g.rows, o.l, o.l.out), o.l.out)
	kernel.DenseForward(o.y.Float32s(), o.in[0].Float32s(), o.in[1].Float32s(), o.in[2].Float32s(),
		o.g.rows, o.dense, from, to, o.g.scratch(worker))
	return nil
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
	wg.do = wg.backwardDense
	if c := o.l.conv; c != nil {
		wg.do, wg.doPack = wg.backwardConv, wg.packPart
		wg.sums = make([]float32, (o.g.capacity-1)/kernel.ConvBlock*(c.WeightLen()+c.OutC))
		wg.packed = make([]float32, c.PackBackLen())
	}
	db, err := G.ApplyOp(bias, dw)
	if err != nil || o.first {
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
	dense      *kernel.Dense // or l.conv
	dw, db, dx *tensor.Dense // dx: nil where x is the observation
	packed     []float32     // a convolution's weights
	sums       []float32     // weight and bias gradients of a convolution's blocks but the first
	in         [4]*tensor.Dense
	do         func(worker, part int) error
	doPack     func(worker, part int) error
}

func (o *weightGradOp) Do(in ...G.Value) (G.Value, error) {
	for i, v := range in {
		o.in[i] = v.(*tensor.Dense)
	}
	c := o.l.conv
	if c == nil {
		return o.dw, o.g.share(denseParts(o.g.rows, o.l, o.l.in), o.do)
	}
	if o.dx != nil {
		if err := o.g.share(packParts(c), o.doPack); err != nil {
			return nil, err
		}
	}
	blocks := (o.g.rows + kernel.ConvBlock - 1) / kernel.ConvBlock
	if err := o.g.share(blocks, o.do); err != nil {
		return nil, err
	}
	for i := 1; i < blocks; i++ {
		dw, db := o.block(i)
		kernel.Add(o.dw.Float32s(), dw)
		kernel.Add(o.db.Float32s(), db)
	}
	return o.dw, nil
}

func (o *weightGradOp) packPart(worker, part int) error {
	from, to := packRange(o.l.conv, part)
	kernel.ConvPackBack(o.packed, o.in[1].Float32s(), o.l.conv, from, to, o.g.scratch(worker))
	return nil
}

// block is where block i of a batch sums up its gradients.
func (o *weightGradOp) block(i int) (dw, db []float32) {
	if i == 0 {
		return o.dw.Float32s(), o.db.Float32s()
	}
	w, size := o.l.conv.WeightLen(), o.l.conv.WeightLen()+o.l.conv.OutC
	s := o.sums[(i-1)*size : i*size]
	return s[:w], s[w:]
}

func (o *weightGradOp) backwardConv(worker, part int) error {
	c, first := o.l.conv, part*kernel.ConvBlock
	rows := min(kernel.ConvBlock, o.g.rows-first)
	dw, db := o.block(part)
	y, dy := o.in[2].Float32s()[first*c.OutLen():], o.in[3].Float32s()[first*c.OutLen():]
	if x := o.in[0]; x.Dtype() == tensor.Uint8 {
		kernel.ConvBackwardU8(dw, db, x.Uint8s()[first*c.InLen():], pixelScale, y, dy, rows, c, o.g.scratch(worker))
		return nil
	}
	kernel.ConvBackward(dw, db, o.dx.Float32s()[first*c.InLen():], o.in[0].Float32s()[first*c.InLen():],
		o.packed, y, dy, rows, c, o.g.scratch(worker))
	return nil
}

func (o *weightGradOp) backwardDense(worker, part int) error {
	var dx []float32
	if o.dx != nil {
		dx = o.dx.Float32s()
	}
	from, to := denseRange(part, denseParts(o.g.rows, o.l, o.l.in), o.l.in)
	kernel.DenseBackward(o.dw.Float32s(), o.db.Float32s(), dx, o.in[0].Float32s(), o.in[1].Float32s(),
		o.in[2].Float32s(), o.in[3].Float32s(), o.g.rows, o.dense, from, to, o.g.scratch(worker))
	return nil
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

// packParts is how many parts the packing of a convolution's weights is cut into.
func packParts(c *kernel.Conv) int { return (c.OutC + kernel.PackPart - 1) / kernel.PackPart }

func packRange(c *kernel.Conv, part int) (from, to int) {
	return part * kernel.PackPart, min((part+1)*kernel.PackPart, c.OutC)
}

// denseParts is how many parts the outputs or inputs of a dense layer are cut
// into: several where they take longer than waking a thread.
func denseParts(rows int, l *layer, width int) int {
	if rows*l.in*l.out < 1<<18 {
		return 1
	}
	return min(8, (width+panel-1)/panel)
}

// panel is the columns that the kernels work on together, at most.
const panel = 32

// denseRange is part i of parts, at whole panels.
func denseRange(i, parts, width int) (from, to int) {
	panels := (width + panel - 1) / panel
	return panels * i / parts * panel, min(width, panels*(i+1)/parts*panel)
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
