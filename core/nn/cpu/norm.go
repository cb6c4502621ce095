package cpu

import (
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
)

// normRun computes a normalisation.
type normRun struct {
	*graph.NormOp
	on         *state
	l          *layer
	statistics []float32 // for the gradient; nil: the graph has none
}

func newNormRun(op *graph.NormOp, s *state) *normRun {
	o := &normRun{NormOp: op, on: s, l: s.layers[op.Layer]}
	allocate(o.Y)
	if s.learns {
		o.statistics = make([]float32, 2*s.most*o.l.norm.Groups())
		s.statistics[op] = o.statistics
	}
	s.needScratch(o.l.workspace(s.most, s.team))
	return o
}

func (o *normRun) Do(in ...G.Value) (G.Value, error) {
	s, y := o.on, o.Y.Float32s()
	kernel.NormForward(s.team, y, o.statistics, floats(in[0]), floats(in[1]), floats(in[2]), s.rows, o.l.norm, s.scratch)
	if o.l.Activation == nn.Tanh {
		y = y[:s.rows*o.l.Out]
		kernel.Tanh(y, y)
	}
	return o.Y, nil
}

// normGradRun computes the gradients of a normalisation.
type normGradRun struct {
	*graph.NormGradOp
	on         *state
	l          *layer
	statistics []float32 // those of the normRun
	dz         []float32 // gradient before a tanh; nil without a tanh
}

func newNormGradRun(op *graph.NormGradOp, s *state) *normGradRun {
	o := &normGradRun{NormGradOp: op, on: s, l: s.layers[op.Forward.Layer], statistics: s.statistics[op.Forward]}
	if o.l.Activation == nn.Tanh {
		o.dz = make([]float32, s.most*o.l.Out)
	}
	return o
}

func (o *normGradRun) Do(in ...G.Value) (G.Value, error) {
	x, scale, y, dy := floats(in[0]), floats(in[1]), floats(in[2]), floats(in[3])
	s := o.on
	if o.dz != nil {
		n := s.rows * o.l.Out
		kernel.TanhBackward(o.dz, y[:n], dy[:n])
		dy = o.dz
	}
	kernel.NormBackward(s.team, o.DScale.Float32s(), o.DBias.Float32s(), o.DX.Float32s(), o.statistics, x, y, dy, scale,
		s.rows, o.l.norm, s.scratch)
	return o.DScale, nil
}
