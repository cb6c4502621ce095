package nn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// TD is the loss of Q-learning, on a head "q". The error of row i is
// d = Q(s_i, a_i) - target_i.
type TD struct {
	// Kind is "huber" (d²/2 where |d| < 1, else |d| - 1/2: PyTorch's
	// smooth_l1_loss; its gradient is the error clipped to ±1 of Mnih et al.
	// 2015) or "squared" (d², without a half: PyTorch's mse_loss).
	Kind string
	// Reduction over the batch: "mean" (PyTorch, Keras) or "sum" (Mnih et al.).
	Reduction string
}

// TDTargets overwrites targets with the column of TD: rewards[i] + discounts[i] *
// the largest of row i of next, the outputs of the target network's head "q" at the
// next observations, in float32, rounded twice. A discount is gamma, or 0 where the
// transition terminated; the values must be finite even there: 0 times NaN is NaN.
// All have as many rows as rewards.
func TDTargets(targets, next, rewards, discounts []float32) error {
	n := len(rewards)
	if n == 0 || len(targets) != n || len(discounts) != n || len(next) == 0 || len(next)%n != 0 {
		return fmt.Errorf("targets: %d, of %d values, %d rewards and %d discounts, must be a row each", len(targets), len(next), n, len(discounts))
	}
	kernel.TDTargets(targets, next, rewards, discounts, len(next)/n)
	return nil
}

// TDTargetsAt is TDTargets with the value of row i's action actions[i] in the place of
// the largest.
func TDTargetsAt(targets, next []float32, actions []int32, rewards, discounts []float32) error {
	n := len(rewards)
	if n == 0 || len(targets) != n || len(discounts) != n || len(actions) != n || len(next) == 0 || len(next)%n != 0 {
		return fmt.Errorf("targets: %d, of %d values, %d actions, %d rewards and %d discounts, must be a row each", len(targets), len(next), len(actions), n, len(discounts))
	}
	width := len(next) / n
	if err := checkActions(actions, width); err != nil {
		return err
	}
	for i, a := range actions {
		targets[i] = rewards[i] + float32(discounts[i]*next[i*width+int(a)])
	}
	return nil
}

// Columns returns "target".
func (l TD) Columns() []Column {
	return []Column{{"target", "what Q(s, a) should be"}}
}

// Parts returns nothing: the loss is one number.
func (l TD) Parts() []string { return nil }

// Build adds the loss.
func (l TD) Build(in *Inputs) (*G.Node, error) {
	if l.Kind != "huber" && l.Kind != "squared" {
		return nil, fmt.Errorf("loss.kind: %q, must be \"huber\" or \"squared\"", l.Kind)
	}
	if l.Reduction != "mean" && l.Reduction != "sum" {
		return nil, fmt.Errorf("loss.reduction: %q, must be \"mean\" or \"sum\"", l.Reduction)
	}
	q, width, err := in.Head("q")
	if err != nil {
		return nil, err
	}
	op := &tdOp{base: newBase("td_loss", nil, q, in.Actions, in.Columns[0]), loss: l, width: width, out: G.NewF32(0)}
	return G.ApplyOp(op, q, in.Actions, in.Columns[0])
}

// weight is what the reduction multiplies each row by.
func (l TD) weight(rows int) float32 {
	if l.Reduction == "mean" {
		return 1 / float32(rows)
	}
	return 1
}

// tdOp has the inputs q [n, width], actions [n] (int32) and targets [n]. Its output
// is the scalar loss; it computes the gradient for q in the same pass.
type tdOp struct {
	base
	loss  TD
	width int
	out   *G.F32
	dq    *tensor.Dense
}

func (o *tdOp) DiffWRT(int) []bool { return []bool{true, false, false} }

func (o *tdOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	op := newLossGradient(o.name+".q'", in[0], loss, grad)
	o.dq = op.value
	dq, err := G.ApplyOp(op, loss, grad)
	return G.Nodes{dq, nil, nil}, err
}

func (o *tdOp) Do(in ...G.Value) (G.Value, error) {
	actions := in[1].(*tensor.Dense).Int32s()
	if err := checkActions(actions, o.width); err != nil {
		return nil, err
	}
	*o.out = G.F32(kernel.TDLoss(o.dq.Float32s(), floats(in[0]), actions, floats(in[2]), o.width, o.loss.Kind == "squared", o.loss.weight(len(actions))))
	return o.out, nil
}

// lossGradient has the inputs loss, whose op has written value by then, and the
// scalar gradient of that output.
type lossGradient struct {
	base
	value *tensor.Dense
}

// newLossGradient returns the gradient of a loss for the node of.
func newLossGradient(name string, of, loss, grad *G.Node) *lossGradient {
	op := &lossGradient{base: newBase(name, of.Shape(), loss, grad)}
	op.value = op.output()
	return op
}

func (o *lossGradient) Do(in ...G.Value) (G.Value, error) {
	if by := float32(scalar(in[1])); by != 1 { // it is 1 where the scalar is the loss itself
		for i, gradient := 0, o.value.Float32s(); i < len(gradient); i++ {
			gradient[i] *= by
		}
	}
	return o.value, nil
}
