package cpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// learner is an nn.Learner.
type learner struct {
	graph   *graph.Learner
	machine *machine
	forward *machine    // computes the heads alone
	rest    *machine    // computes all that comes after forward
	outputs [][]float32 // of the heads
	taus    *taus       // of Outputs; nil: no head has taus
	obsRows rowSet
}

func (d *device) Learner(s nn.Spec, rows int, loss nn.Loss) (nn.Learner, error) {
	return d.learner(s, rows, loss)
}

func (d *device) learner(s nn.Spec, rows int, loss nn.Loss) (*learner, error) {
	g, err := graph.NewLearner(s, rows, loss)
	if err != nil {
		return nil, err
	}
	m, err := newMachine(&g.Graph, d.team)
	if err != nil {
		return nil, err
	}
	m.parts = make([]float64, g.Parts)
	return &learner{
		graph: g, machine: m, forward: m.part(g.Forward), rest: m.without(g.Forward), outputs: memoryOf(g.Heads), taus: newTaus(&g.Graph),
	}, nil
}

func (l *learner) Layout() *nn.Layout { return l.graph.Layout }

func (l *learner) Gradient(p *nn.Params, b nn.Batch, grad []float32, r *nn.Report) error {
	g, m := l.graph, l.machine
	if err := g.CheckBatch(p, &b, l.obsRows.rows); err != nil {
		return err
	}
	if len(grad) != g.Layout.Size {
		return fmt.Errorf("grad: %d floats, must be %d", len(grad), g.Layout.Size)
	}
	if err := g.CheckReport(r); err != nil {
		return err
	}
	m.bind(&g.Graph, p, l.observations(&b))
	l.setActions(b.Actions, b.Continuous, b.Masks)
	for i, c := range b.Columns {
		g.Columns[i].Raw = graph.BytesOf(c)
	}
	for i, part := range g.Layout.Params {
		if i >= len(g.Grads) { // sigmas
			clear(grad[part.Offset : part.Offset+part.Size])
			continue
		}
		g.Grads[i].Raw = graph.BytesOf(grad[part.Offset : part.Offset+part.Size])
	}
	m.perRow = r.Rows
	defer l.release()
	if b.Complete != nil {
		if err := l.forward.RunAll(); err != nil {
			return err
		}
		if err := b.Complete(nn.Outputs{Rows: g.Rows, Values: l.outputs}); err != nil {
			return err
		}
		m = l.rest
	}
	if err := m.RunAll(); err != nil {
		return err
	}
	r.Loss, r.Norm = graph.Scalar(m.values[g.Cost]), 0
	r.Parts = append(r.Parts[:0], m.parts...)
	return nil
}

func (l *learner) Outputs(p *nn.Params, b nn.Batch) (nn.Outputs, error) {
	if err := l.graph.CheckInputs(p, &b, l.obsRows.rows); err != nil {
		return nn.Outputs{}, err
	}
	l.forward.bind(&l.graph.Graph, p, l.observations(&b))
	if l.taus != nil {
		l.taus.use(l.taus.middle)
	}
	defer release(&l.graph.Graph)
	if err := l.forward.RunAll(); err != nil {
		return nn.Outputs{}, err
	}
	return nn.Outputs{Rows: l.graph.Rows, Values: l.outputs}, nil
}

// release clears the leaves that Gradient has set.
func (l *learner) release() {
	release(&l.graph.Graph)
	l.setActions(nil, nil, nil)
	l.machine.perRow = nil
	for _, t := range l.graph.Columns {
		t.Raw = nil
	}
	for _, t := range l.graph.Grads {
		t.Raw = nil
	}
}

// setActions sets the leaves of the actions, those that the graph has, and the masks.
func (l *learner) setActions(actions []int32, continuous []float32, masks []byte) {
	if t := l.graph.Actions; t != nil {
		t.Raw = graph.BytesOf(actions)
	}
	if t := l.graph.Continuous; t != nil {
		t.Raw = graph.BytesOf(continuous)
	}
	l.machine.masks = masks
}

func (l *learner) Look(a *nn.Activity) {
	k := 0
	for _, h := range l.graph.Hidden {
		if h.Layer.Activation == nn.ReLU {
			graph.Look(a.Layers[k].Alive, h.Layer, h.Y.Float32s(), l.graph.Rows, l.machine.layers[h.Layer].planar())
			k++
		}
	}
	a.Flat = true
	for i, values := range l.outputs {
		a.Flat = a.Flat && graph.Constant(values, l.graph.Spec.Heads[i].Out)
	}
}
