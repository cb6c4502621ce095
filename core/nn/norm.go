package nn

import (
	"cmp"

	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Values of Trunk.Norm.
const (
	normChannels = "layer_channels"
	normAll      = "layer_all"
)

// normalised returns a layer of the trunk without its activation, and the
// normalisation behind it with that activation.
func (t *Trunk) normalised(l layer) (plain, norm layer) {
	eps := 1e-6
	if t.Norm == normAll {
		eps = 1e-5
	}
	n := &kernel.Norm{Channels: l.out, Positions: 1, All: t.Norm == normAll, Eps: float32(cmp.Or(t.NormEps, eps)), ReLU: l.act == relu}
	if c := l.conv; c != nil {
		c.Linear = true
		n.Channels, n.Positions, n.Planar = c.OutC, c.OutH()*c.OutW(), c.PlanarOut
	}
	norm = layer{name: normName(l.name), norm: n, in: l.out, out: l.out, act: l.act}
	if c := l.conv; c != nil && n.All {
		norm.normShape = []int{c.OutC, c.OutH(), c.OutW()}
	}
	l.act = linear
	return l, norm
}

// biasShape is that of a layer's bias, and of a normalisation's scale.
func (l *layer) biasShape() []int {
	if l.normShape != nil {
		return l.normShape
	}
	return []int{l.units()}
}

// normOp has the inputs x, scale, bias.
type normOp struct {
	base
	g          *graph
	l          *layer
	y          *tensor.Dense
	statistics []float32 // for the gradient; nil where there is none
}

func (g *graph) norm(l *layer, x, scale, bias *G.Node) (*G.Node, error) {
	op := &normOp{base: newBase(l.name, x.Shape(), x, scale, bias), g: g, l: l}
	op.y = op.output()
	return G.ApplyOp(op, x, scale, bias)
}

func (o *normOp) allocate() {
	allocate(o.y)
	g, l := o.g, o.l
	if g.learns {
		o.statistics = make([]float32, 2*g.capacity*l.norm.Groups())
	}
	g.needScratch(l.workspace(g.capacity, g.team))
}

func (o *normOp) Do(in ...G.Value) (G.Value, error) {
	g, y := o.g, o.y.Float32s()
	kernel.NormForward(g.team, y, o.statistics, floats(in[0]), floats(in[1]), floats(in[2]), g.rows, o.l.norm, g.scratch)
	if o.l.act == tanh {
		y = y[:g.rows*o.l.out]
		kernel.Tanh(y, y)
	}
	return o.y, nil
}

func (o *normOp) DiffWRT(int) []bool { return []bool{true, true, true} }

func (o *normOp) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	x, scale, bias := in[0], in[1], in[2]
	grad := &normGradOp{base: newBase(o.name+".weight'", scale.Shape(), x, scale, y, dy), forward: o}
	grad.dscale = grad.output()
	dscale, err := G.ApplyOp(grad, x, scale, y, dy)
	if err != nil {
		return nil, err
	}
	forBias := &outputOf{base: newBase(o.name+".bias'", bias.Shape(), dscale)}
	forBias.value, forBias.flat = forBias.output(), true
	forInput := &outputOf{base: newBase(o.name+".input'", x.Shape(), dscale)}
	forInput.value = forInput.output()
	grad.dbias, grad.dx = forBias.value, forInput.value
	dbias, err := G.ApplyOp(forBias, dscale)
	if err != nil {
		return nil, err
	}
	dx, err := G.ApplyOp(forInput, dscale)
	return G.Nodes{dx, dscale, dbias}, err
}

// normGradOp has the inputs x, scale, y, dy. It computes the gradients of the bias
// and of x, too.
type normGradOp struct {
	base
	forward           *normOp
	dscale, dbias, dx *tensor.Dense
	dz                []float32 // before a tanh; nil elsewhere
}

func (o *normGradOp) allocate() {
	if o.forward.l.act == tanh {
		o.dz = make([]float32, o.forward.g.capacity*o.forward.l.out)
	}
}

func (o *normGradOp) Do(in ...G.Value) (G.Value, error) {
	x, scale, y, dy := floats(in[0]), floats(in[1]), floats(in[2]), floats(in[3])
	g, l := o.forward.g, o.forward.l
	if o.dz != nil {
		n := g.rows * l.out
		kernel.TanhBackward(o.dz, y[:n], dy[:n])
		dy = o.dz
	}
	kernel.NormBackward(g.team, o.dscale.Float32s(), o.dbias.Float32s(), o.dx.Float32s(), o.forward.statistics, x, y, dy, scale,
		g.rows, l.norm, g.scratch)
	return o.dscale, nil
}

// parameterGradient lets the owner of a flat gradient put the output there.
func (o *normGradOp) parameterGradient() *tensor.Dense { return o.dscale }
