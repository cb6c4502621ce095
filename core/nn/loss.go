package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Loss says how the errors of a batch become one number. The error of row i is
// d = Q(s_i, a_i) - target_i.
type Loss struct {
	// Kind is "huber" (d²/2 where |d| < 1, else |d| - 1/2: PyTorch's
	// smooth_l1_loss; its gradient is the error clipped to ±1 of Mnih et al.
	// 2015) or "squared" (d², without a half: PyTorch's mse_loss).
	Kind string
	// Reduction over the batch: "mean" (PyTorch, Keras) or "sum" (Mnih et al.).
	Reduction string
}

func (l Loss) check() error {
	if l.Kind != "huber" && l.Kind != "squared" {
		return fmt.Errorf("loss.kind: %q, must be \"huber\" or \"squared\"", l.Kind)
	}
	if l.Reduction != "mean" && l.Reduction != "sum" {
		return fmt.Errorf("loss.reduction: %q, must be \"mean\" or \"sum\"", l.Reduction)
	}
	return nil
}

// of returns the loss of one error and its derivative, both before the reduction.
func (l Loss) of(d float32) (loss, slope float32) {
	switch {
	case l.Kind == "squared":
		return d * d, 2 * d
	case d >= 1:
		return d - 0.5, 1
	case d <= -1:
		return -d - 0.5, -1
	}
	return 0.5 * d * d, d // NaN comes here, and stays
}

// weight is what the reduction multiplies each row by.
func (l Loss) weight(rows int) float32 {
	if l.Reduction == "mean" {
		return 1 / float32(rows)
	}
	return 1
}

// targetOp has the inputs rewards [n], discounts [n] and q [n, actions] of the
// target network at the next observation. Its output is
// rewards + discounts * max over actions of q. No gradient flows through it.
type targetOp struct {
	base
	g       *graph
	actions int
	y       *tensor.Dense
}

func (g *graph) tdTarget(rewards, discounts, q *G.Node) (*G.Node, error) {
	op := &targetOp{base: newBase("td_target", tensor.Shape{g.capacity}, rewards, discounts, q), g: g, actions: q.Shape()[1]}
	op.y = op.output()
	return G.ApplyOp(op, rewards, discounts, q)
}

func (o *targetOp) DiffWRT(int) []bool { return []bool{false, false, false} }

func (o *targetOp) SymDiff(G.Nodes, *G.Node, *G.Node) (G.Nodes, error) {
	return nil, fmt.Errorf("%s: not differentiable", o.name)
}

func (o *targetOp) Do(in ...G.Value) (G.Value, error) {
	r, discount, q, y := floats(in[0]), floats(in[1]), floats(in[2]), o.y.Float32s()
	for i := range o.g.rows {
		row := q[i*o.actions : (i+1)*o.actions]
		best := row[0]
		for _, v := range row[1:] {
			best = max(best, v) // NaN if either is
		}
		y[i] = r[i] + float32(discount[i]*best) // the conversion forbids a fused multiply-add
	}
	return o.y, nil
}

// lossOp has the inputs q [n, actions], actions [n] (int32) and targets [n]. Its
// output is the scalar loss.
type lossOp struct {
	base
	g    *graph
	loss Loss
	out  *G.F32
}

func (g *graph) tdLoss(loss Loss, q, actions, targets *G.Node) (*G.Node, *lossOp, error) {
	op := &lossOp{base: newBase("td_loss", nil, q, actions, targets), g: g, loss: loss, out: G.NewF32(0)}
	n, err := G.ApplyOp(op, q, actions, targets)
	return n, op, err
}

func (o *lossOp) DiffWRT(int) []bool { return []bool{true, false, false} }

func (o *lossOp) SymDiff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	op := &lossGradOp{base: newBase("td_loss'", in[0].Shape(), in[0], in[1], in[2], grad), of: o}
	op.dq = op.output()
	dq, err := G.ApplyOp(op, in[0], in[1], in[2], grad)
	return G.Nodes{dq, nil, nil}, err
}

func (o *lossOp) Do(in ...G.Value) (G.Value, error) {
	q, a, y := floats(in[0]), in[1].(*tensor.Dense).Int32s(), floats(in[2])
	width := len(q) / o.g.capacity
	var sum float64
	for i := range o.g.rows {
		l, _ := o.loss.of(q[i*width+int(a[i])] - y[i])
		sum += float64(l)
	}
	*o.out = G.F32(sum * float64(o.loss.weight(o.g.rows)))
	return o.out, nil
}

// lossGradOp has the inputs of lossOp and the scalar gradient of its output.
type lossGradOp struct {
	base
	of *lossOp
	dq *tensor.Dense
}

func (o *lossGradOp) Do(in ...G.Value) (G.Value, error) {
	g, loss := o.of.g, o.of.loss
	q, a, y, dq := floats(in[0]), in[1].(*tensor.Dense).Int32s(), floats(in[2]), o.dq.Float32s()
	scale := loss.weight(g.rows) * float32(*in[3].(*G.F32))
	width := len(q) / g.capacity
	clear(dq)
	for i := range g.rows {
		at := i*width + int(a[i])
		_, slope := loss.of(q[at] - y[i])
		dq[at] = slope * scale
	}
	return o.dq, nil
}
