package nn

import (
	"errors"
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// learner is a Learner on the CPU.
type learner struct {
	names   []string // of the columns
	graph   *graph
	machine *machine
	forward *machine    // the part of it that computes the heads
	outputs [][]float32 // of the heads

	actions *tensor.Dense
	masks   []byte // of the batch at hand
	columns []*tensor.Dense
	grads   []*tensor.Dense // in layout order
	cost    int             // its place in the machine
	kept    kept
	parts   []float64 // of the latest run
}

func (d *cpu) Learner(s Spec, rows int, loss Loss) (Learner, error) {
	building.Lock()
	defer building.Unlock()
	l := &learner{graph: newGraph(rows, d.team), parts: make([]float64, len(loss.Parts()))}
	l.graph.learns = true
	cost, err := l.build(s, loss)
	if err != nil {
		return nil, err
	}
	if l.machine, err = newMachine(l.graph.ExprGraph); err != nil {
		return nil, err
	}
	l.cost, l.forward = l.machine.index(cost), l.machine.part(l.graph.heads)
	for _, h := range l.graph.heads {
		l.outputs = append(l.outputs, h.Op().(*layerOp).y.Float32s())
	}
	return l, nil
}

// build adds the network, the loss and its gradient for the parameters.
func (l *learner) build(s Spec, loss Loss) (cost *G.Node, err error) {
	g := l.graph
	if err := g.build(s); err != nil {
		return nil, err
	}
	in := &Inputs{Heads: g.heads, Masks: &l.masks, Parts: l.parts, spec: &g.spec}
	in.Actions, l.actions = g.leaf("actions", tensor.Int32, g.capacity)
	for _, c := range loss.Columns() {
		n, t := g.leaf("column."+c.Name, tensor.Float32, g.capacity)
		in.Columns, l.columns, l.names = append(in.Columns, n), append(l.columns, t), append(l.names, c.Name)
	}
	if cost, err = loss.Build(in); err != nil {
		return nil, err
	}
	grads, err := G.Grad(cost, g.params...)
	if err != nil {
		return nil, err
	}
	for i, n := range grads {
		// A parameter used by more than one layer would have a sum here, which
		// would need a buffer of its own.
		op, ok := n.Op().(interface{ parameterGradient() *tensor.Dense })
		if !ok {
			return nil, fmt.Errorf("nn: the gradient of %s is %v, not an op that writes into the flat gradient", l.graph.layout.Params[i].Name, n.Op())
		}
		l.grads = append(l.grads, op.parameterGradient())
	}
	return cost, nil
}

func (l *learner) Layout() *Layout { return l.graph.layout }

func (l *learner) Gradient(p *Params, b Batch, grad []float32, r *Report) error {
	if err := l.check(p, &b); err != nil {
		return err
	}
	if len(grad) != l.graph.layout.Size {
		return fmt.Errorf("grad: %d floats, must be %d", len(grad), l.graph.layout.Size)
	}
	l.graph.bind(p, l.observations(&b))
	l.actions.Raw, l.masks = bytesOf(b.Actions), b.Masks
	for i, c := range b.Columns {
		l.columns[i].Raw = bytesOf(c)
	}
	for i, part := range l.graph.layout.Params {
		l.grads[i].Raw = bytesOf(grad[part.Offset : part.Offset+part.Size])
	}
	defer l.release()
	if err := l.machine.RunAll(); err != nil {
		return err
	}
	r.Loss, r.Norm = scalar(l.machine.values[l.cost]), 0
	r.Parts = append(r.Parts[:0], l.parts...)
	return nil
}

func (l *learner) Outputs(p *Params, b Batch) (Outputs, error) {
	if err := l.checkInputs(p, &b); err != nil {
		return Outputs{}, err
	}
	l.graph.bind(p, l.observations(&b))
	defer l.graph.release()
	if err := l.forward.RunAll(); err != nil {
		return Outputs{}, err
	}
	return Outputs{Rows: l.graph.capacity, Values: l.outputs}, nil
}

func (l *learner) release() {
	l.graph.release()
	l.actions.Raw, l.masks = nil, nil
	for _, t := range l.columns {
		t.Raw = nil
	}
	for _, t := range l.grads {
		t.Raw = nil
	}
}

// checkInputs checks what the outputs depend on.
func (l *learner) checkInputs(p *Params, b *Batch) error {
	if err := l.graph.layout.checkParams("parameters", p); err != nil {
		return err
	}
	return l.checkObs(b)
}

func (l *learner) check(p *Params, b *Batch) error {
	n := l.graph.capacity
	if err := l.checkInputs(p, b); err != nil {
		return err
	}
	if len(b.Actions) != n {
		return fmt.Errorf("batch.actions: %d, must be %d", len(b.Actions), n)
	}
	if len(b.Columns) != len(l.columns) {
		return fmt.Errorf("batch.columns: %d, must be %d: %v", len(b.Columns), len(l.columns), l.names)
	}
	for i, c := range b.Columns {
		if len(c) != n {
			return fmt.Errorf("batch.columns[%d] (%s): %d numbers, must be %d", i, l.names[i], len(c), n)
		}
	}
	if b.Masks != nil {
		i := l.graph.spec.Head("pi")
		if i < 0 {
			return errors.New("batch.masks: set, must be nil for a loss without a head \"pi\"")
		}
		if want := n * l.graph.spec.Heads[i].Out; len(b.Masks) != want {
			return fmt.Errorf("batch.masks: %d bytes, must be %d", len(b.Masks), want)
		}
	}
	return nil
}

// scalar returns a number that an op of one output computed.
func scalar(v G.Value) float64 {
	switch x := v.(type) {
	case *G.F32:
		return float64(*x)
	case *G.F64:
		return float64(*x)
	}
	return float64(v.Data().(float32))
}
