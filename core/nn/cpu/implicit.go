package cpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// cosinesRun computes the cosines of taus.
type cosinesRun struct {
	*graph.CosinesOp
	on *state
}

func newCosinesRun(op *graph.CosinesOp, s *state) cosinesRun {
	allocate(op.Y)
	return cosinesRun{op, s}
}

func (o cosinesRun) Do(in ...G.Value) (G.Value, error) {
	taus := floats(in[0])
	kernel.Cosines(o.Y.Float32s(), taus[:o.on.rows*(len(taus)/o.on.most)], o.Cosines)
	return o.Y, nil
}

// modulateRun multiplies features by the embeddings of taus.
type modulateRun struct {
	*graph.ModulateOp
	on *state
}

func newModulateRun(op *graph.ModulateOp, s *state) modulateRun {
	allocate(op.Y)
	return modulateRun{op, s}
}

func (o modulateRun) Do(in ...G.Value) (G.Value, error) {
	kernel.Modulate(o.on.team, o.Y.Float32s(), floats(in[0]), floats(in[1]), o.on.rows, o.Taus, o.Width)
	return o.Y, nil
}

// modulateGradRun computes the gradients of both factors.
type modulateGradRun struct {
	*graph.ModulateGradOp
	on *state
}

func newModulateGradRun(op *graph.ModulateGradOp, s *state) modulateGradRun {
	allocate(op.DBy)
	return modulateGradRun{op, s}
}

func (o modulateGradRun) Do(in ...G.Value) (G.Value, error) {
	of := o.Forward
	kernel.ModulateBackward(o.on.team, o.DBy.Float32s(), o.DX.Float32s(), floats(in[0]), floats(in[1]), floats(in[2]), o.on.rows, of.Taus, of.Width)
	return o.DBy, nil
}

// taus are those of the rows of a graph.
type taus struct {
	leaf          *tensor.Dense
	width         int
	middle, drawn []float32 // [rows, width]
}

// newTaus returns nil for a graph without taus.
func newTaus(g *graph.Graph) *taus {
	if g.Taus == nil {
		return nil
	}
	n := g.Taus.Shape().TotalSize()
	t := &taus{leaf: g.Taus, width: n / g.Rows, middle: make([]float32, n), drawn: make([]float32, n)}
	for i := range g.Rows {
		nn.MiddleTaus(t.middle[i*t.width : (i+1)*t.width])
	}
	return t
}

// use makes the next run compute quantiles at some taus, middle or drawn.
func (t *taus) use(numbers []float32) { t.leaf.Raw = graph.BytesOf(numbers) }

// draw draws the taus from number first on of all rows, n of each, for an update.
func (t *taus) draw(use int, key uint64, first, n int) {
	for i := range len(t.drawn) / t.width {
		nn.DrawTaus(t.drawn[i*t.width+first:][:n], use, key, i)
	}
	t.use(t.drawn)
}

// tauNetwork is an nn.TauNetwork.
type tauNetwork struct{ *network }

func (n tauNetwork) ForwardAt(p *nn.Params, obs []byte, rows int, keys []uint64) (nn.Outputs, error) {
	if len(keys) != rows || rows > n.graph.Rows {
		return nn.Outputs{}, fmt.Errorf("keys: %d, must be one for each of %d rows, at most %d", len(keys), rows, n.graph.Rows)
	}
	t := n.taus
	for i, key := range keys {
		nn.DrawTaus(t.drawn[i*t.width:][:t.width], nn.ActingTaus, key, 0)
	}
	t.use(t.drawn)
	return n.forward(p, obs, rows)
}

// implicitTargets computes the columns "target" and "taus" of nn.ImplicitHuber. With nn.Munchausen
// it computes the quantiles and means at the next observations, and the column "taus".
type implicitTargets struct {
	nn.Implicit
	choosing []float32   // [rows, Choosing, Out]: the quantiles whose means choose
	means    [][]float32 // one of [rows, Out]
}

func newImplicitTargets(of nn.Implicit, rows, out int) *implicitTargets {
	return &implicitTargets{of, make([]float32, rows*of.Choosing*out), [][]float32{make([]float32, rows*out)}}
}

// forward computes the quantiles of the target, and returns the means that choose the actions.
func (t *implicitTargets) forward(s *qStepper, theta, target *nn.Params, x *experience.Transitions) (nn.Outputs, error) {
	rows, out := len(s.best), s.head.Out
	s.target.taus.draw(nn.TargetTaus, x.Key, 0, t.Taus)
	if t.Double {
		s.online.taus.draw(nn.ChoosingTaus, x.Key, 0, t.Choosing)
		if _, err := s.target.forward(target, x.NextObs, rows); err != nil {
			return nn.Outputs{}, err
		}
		return s.online.forward(theta, x.NextObs, rows)
	}
	s.target.taus.draw(nn.ChoosingTaus, x.Key, t.Taus, t.Choosing)
	if _, err := s.target.forward(target, x.NextObs, rows); err != nil {
		return nn.Outputs{}, err
	}
	size := t.Choosing * out
	for i := range rows {
		copy(t.choosing[i*size:(i+1)*size], s.target.points[0][i*(t.Taus+t.Choosing)*out+t.Taus*out:])
	}
	kernel.QuantileMeans(t.means[0], t.choosing, out, t.Choosing)
	return nn.Outputs{Rows: rows, Values: t.means}, nil
}

// columns fills in the columns, with the actions in best.
func (t *implicitTargets) columns(s *qStepper, x *experience.Transitions) {
	target, width := s.batch.Columns[0], s.target.taus.width*s.head.Out
	for i, a := range s.best {
		for k := range t.Taus {
			target[i*t.Taus+k] = x.Rewards[i] + float32(x.Discounts[i]*s.target.points[0][i*width+k*s.head.Out+int(a)])
		}
	}
	s.drawLearned(x.Key)
}

// drawLearned fills in the column "taus".
func (s *qStepper) drawLearned(key uint64) {
	taus := s.batch.Columns[1]
	n := len(taus) / len(s.best)
	for i := range s.best {
		nn.DrawTaus(taus[i*n:(i+1)*n], nn.OnlineTaus, key, i)
	}
}
