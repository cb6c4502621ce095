package cpu

import (
	"math"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
)

// duelRun computes the numbers of a dueling head from its streams.
type duelRun struct {
	*graph.DuelOp
	on *state
}

func newDuelRun(op *graph.DuelOp, s *state) duelRun {
	allocate(op.Y)
	return duelRun{op, s}
}

func (o duelRun) Do(in ...G.Value) (G.Value, error) {
	h := &o.Head
	kernel.Duel(o.Y.Float32s()[:o.on.rows*h.Width()], floats(in[0]), floats(in[1]), h.Out, h.Points(), h.Atoms > 0)
	return o.Y, nil
}

// duelGradRun computes the gradients of both streams.
type duelGradRun struct {
	*graph.DuelGradOp
	on *state
}

func newDuelGradRun(op *graph.DuelGradOp, s *state) duelGradRun {
	allocate(op.DAdvantage)
	return duelGradRun{op, s}
}

func (o duelGradRun) Do(in ...G.Value) (G.Value, error) {
	h := &o.Head
	kernel.DuelBackward(o.DValue.Float32s(), o.DAdvantage.Float32s(), floats(in[0])[:o.on.rows*h.Width()], h.Out, h.Points(), h.Atoms > 0)
	return o.DAdvantage, nil
}

// sameRun returns its input.
type sameRun struct{ *graph.SameOp }

func (o sameRun) Do(in ...G.Value) (G.Value, error) { return in[0], nil }

// rescaledRun multiplies a gradient by the root of 1/2.
type rescaledRun struct {
	*graph.RescaledOp
	on *state
}

func newRescaledRun(op *graph.RescaledOp, s *state) rescaledRun {
	allocate(op.DX)
	return rescaledRun{op, s}
}

func (o rescaledRun) Do(in ...G.Value) (G.Value, error) {
	dx, dy := o.DX.Float32s(), floats(in[0])
	for i, v := range dy[:len(dx)] {
		dx[i] = v * float32(math.Sqrt2/2)
	}
	return o.DX, nil
}
