package nn

import (
	"cmp"
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
	// Weighted adds a column of weights, by which rows count in the sum and in the mean: 0
	// for a row that is no step.
	Weighted bool
	// Scale multiplies the loss; 0 stands for 1.
	Scale float64
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

// Argmax returns the first index of the largest value that mask allows; nil allows all.
func Argmax(values []float32, mask []byte) int32 {
	best := -1
	for a, v := range values {
		if (mask == nil || mask[a] != 0) && (best < 0 || v > values[best]) {
			best = a
		}
	}
	return int32(best)
}

// Columns returns "target" and, where the loss is Weighted, "weight".
func (l TD) Columns() []Column {
	list := []Column{{"target", "what Q(s, a) should be"}}
	if l.Weighted {
		list = append(list, Column{"weight", "what the row counts: 0 for a row that is no step"})
	}
	return list
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
	if !(l.Scale >= 0 && l.Scale <= 1e6) {
		return nil, fmt.Errorf("loss.scale: %v, must be 0 to 1e6", l.Scale)
	}
	q, width, err := in.Head("q")
	if err != nil {
		return nil, err
	}
	inputs := append(G.Nodes{q, in.Actions}, in.Columns...)
	op := &tdOp{base: newBase("td_loss", nil, inputs...), loss: l, width: width, out: G.NewF32(0)}
	return G.ApplyOp(op, inputs...)
}

// weight is what the reduction and Scale multiply each row by; weights: of the rows, nil for
// 1 each.
func (l TD) weight(rows int, weights []float32) float32 {
	scale := cmp.Or(l.Scale, 1)
	if l.Reduction != "mean" {
		return float32(scale)
	}
	total := float64(rows)
	if weights != nil {
		total = 0
		for _, w := range weights {
			total += float64(w)
		}
	}
	if total == 0 {
		return 0
	}
	return float32(scale) / float32(total)
}

// tdOp has the inputs q [n, width], actions [n] (int32), targets [n] and, where the loss is
// Weighted, weights [n]. Its output is the scalar loss; it computes the gradient for q in the same pass.
type tdOp struct {
	base
	loss  TD
	width int
	out   *G.F32
	dq    *tensor.Dense
}

func (o *tdOp) DiffWRT(inputs int) []bool { return append([]bool{true}, make([]bool, inputs-1)...) }

func (o *tdOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	op := newLossGradient(o.name+".q'", in[0], loss, grad)
	o.dq = op.value
	dq, err := G.ApplyOp(op, loss, grad)
	return append(G.Nodes{dq}, make(G.Nodes, len(in)-1)...), err
}

func (o *tdOp) Do(in ...G.Value) (G.Value, error) {
	actions := in[1].(*tensor.Dense).Int32s()
	if err := checkActions(actions, o.width); err != nil {
		return nil, err
	}
	var weights []float32
	if o.loss.Weighted {
		weights = floats(in[3])
	}
	*o.out = G.F32(kernel.TDLoss(o.dq.Float32s(), floats(in[0]), actions, floats(in[2]), weights, o.width, o.loss.Kind == "squared", o.loss.weight(len(actions), weights)))
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

func (o *lossGradient) allocate() { allocate(o.value) }

func (o *lossGradient) Do(in ...G.Value) (G.Value, error) {
	if by := float32(scalar(in[1])); by != 1 { // it is 1 where the scalar is the loss itself
		for i, gradient := 0, o.value.Float32s(); i < len(gradient); i++ {
			gradient[i] *= by
		}
	}
	return o.value, nil
}
