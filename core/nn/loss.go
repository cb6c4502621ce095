package nn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
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

// weight is what the reduction multiplies each row by.
func (l Loss) weight(rows int) float32 {
	if l.Reduction == "mean" {
		return 1 / float32(rows)
	}
	return 1
}

// lossOp has the inputs q and next, both [n, actions] (next: the target network's
// at the next observations), actions [n] (int32), rewards [n] and discounts [n].
// Its output is the scalar loss; it computes the gradient for q in the same pass.
// No gradient flows through the target.
type lossOp struct {
	base
	g    *graph
	loss Loss
	out  *G.F32
	dq   *tensor.Dense
}

func (g *graph) tdLoss(name string, loss Loss, q, next, actions, rewards, discounts *G.Node) (*G.Node, *lossOp, error) {
	op := &lossOp{base: newBase(name, nil, q, next, actions, rewards, discounts), g: g, loss: loss, out: G.NewF32(0)}
	n, err := G.ApplyOp(op, q, next, actions, rewards, discounts)
	return n, op, err
}

func (o *lossOp) DiffWRT(int) []bool { return []bool{true, false, false, false, false} }

func (o *lossOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	op := &lossGradOp{base: newBase(o.name+"'", in[0].Shape(), loss, grad)}
	op.dq = op.output()
	o.dq = op.dq
	dq, err := G.ApplyOp(op, loss, grad)
	return G.Nodes{dq, nil, nil, nil, nil}, err
}

func (o *lossOp) Do(in ...G.Value) (G.Value, error) {
	*o.out = G.F32(kernel.TDLoss(o.dq.Float32s(), floats(in[0]), floats(in[1]), in[2].(*tensor.Dense).Int32s(), floats(in[3]), floats(in[4]),
		in[0].Shape()[1], o.loss.Kind == "squared", o.loss.weight(o.g.rows)))
	return o.out, nil
}

// lossGradOp has the inputs loss, whose op has written dq by then, and the scalar
// gradient of that output.
type lossGradOp struct {
	base
	dq *tensor.Dense
}

func (o *lossGradOp) Do(in ...G.Value) (G.Value, error) {
	if by := float32(*in[1].(*G.F32)); by != 1 {
		kernel.Scale(nil, o.dq.Float32s(), by)
	}
	return o.dq, nil
}
