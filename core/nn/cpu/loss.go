package cpu

import (
	"cmp"
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// tdRun computes the loss of Q-learning and the gradient of q.
type tdRun struct {
	*graph.TDOp
	on  *state
	out *G.F32
}

// weightOrders are those of the kernel by Importance.
var weightOrders = map[string]kernel.WeightOrder{nn.ImportanceGradient: kernel.WeightGradient, nn.ImportanceError: kernel.WeightError}

func (o *tdRun) Do(in ...G.Value) (G.Value, error) {
	actions := in[1].(*tensor.Dense).Int32s()
	if err := graph.CheckActions(actions, o.Width); err != nil {
		return nil, err
	}
	q, targets := floats(in[0]), floats(in[2])
	var weights []float32
	if len(in) > 3 {
		weights = floats(in[3])
	}
	order, by := weightOrders[o.Loss.Importance], weight(o.Loss, len(actions), weights)
	*o.out = G.F32(kernel.TDLoss(o.DQ.Float32s(), q, actions, targets, weights, o.Width, o.Loss.Kind == "squared", order, by))
	for i := range o.on.perRow {
		o.on.perRow[i] = abs(q[i*o.Width+int(actions[i])] - targets[i])
	}
	return o.out, nil
}

func abs(x float32) float32 { return max(x, -x) }

// weight returns the factor of the sum over rows by the loss's Reduction and Scale.
func weight(l nn.TD, rows int, weights []float32) float32 {
	scale := cmp.Or(l.Scale, 1)
	if l.Reduction != "mean" {
		return float32(scale)
	}
	total := float64(rows)
	if l.Weighted {
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

// tdTargets computes the column of nn.TD in float32: rewards[i] + discounts[i] * the largest value
// in row i of next. Product and sum are rounded separately. next are the outputs of the target
// network at the next observations. They must be finite also where the discount is 0, because 0
// times NaN is NaN. All slices have as many rows as rewards.
func tdTargets(targets, next, rewards, discounts []float32) error {
	n := len(rewards)
	if n == 0 || len(targets) != n || len(discounts) != n || len(next) == 0 || len(next)%n != 0 {
		return fmt.Errorf("targets: %d, of %d values, %d rewards and %d discounts, must be a row each", len(targets), len(next), n, len(discounts))
	}
	kernel.TDTargets(targets, next, rewards, discounts, len(next)/n)
	return nil
}

// tdTargetsAt is tdTargets with the value of action actions[i] instead of the largest value of row
// i.
func tdTargetsAt(targets, next []float32, actions []int32, rewards, discounts []float32) error {
	n := len(rewards)
	if n == 0 || len(targets) != n || len(discounts) != n || len(actions) != n || len(next) == 0 || len(next)%n != 0 {
		return fmt.Errorf("targets: %d, of %d values, %d actions, %d rewards and %d discounts, must be a row each", len(targets), len(next), len(actions), n, len(discounts))
	}
	width := len(next) / n
	if err := graph.CheckActions(actions, width); err != nil {
		return err
	}
	for i, a := range actions {
		targets[i] = rewards[i] + float32(discounts[i]*next[i*width+int(a)])
	}
	return nil
}

// actorCriticRun computes the loss of actor-critic or PPO and its gradients.
type actorCriticRun struct {
	*graph.ActorCriticOp
	on        *state
	batch     kernel.ActorCriticBatch
	gradients kernel.ActorCriticGradients
	out       *G.F32
}

func newActorCriticRun(op *graph.ActorCriticOp, s *state) *actorCriticRun {
	o := &actorCriticRun{ActorCriticOp: op, on: s, out: G.NewF32(0)}
	if o.batch.Width = op.Width; len(op.Branches) > 1 {
		o.batch.Branches = op.Branches
	}
	if op.Clipped != nil {
		o.batch.Clip = &kernel.ClipBatch{Largest: op.Clipped.Largest}
	}
	return o
}

func (o *actorCriticRun) Do(values ...G.Value) (G.Value, error) {
	b, d, in := &o.batch, &o.gradients, o.Inputs(values)
	b.Values, d.Values, b.Masks = floats(in.Values), o.DValues.Float32s(), o.on.masks
	b.Advantages, b.Returns, b.Weights = floats(in.Columns[0]), floats(in.Columns[1]), floats(in.Columns[2])
	if o.Width > 0 {
		b.Logits, d.Logits, b.Actions = floats(in.Logits), o.DLogits.Float32s(), in.Actions.(*tensor.Dense).Int32s()
	}
	if o.Size > 0 {
		b.Means, b.LogStd, b.Continuous = floats(in.Means), floats(in.LogStd), floats(in.Continuous)
		d.Means, d.LogStd = o.DMeans.Float32s(), o.DLogStd.Float32s()
	}
	if c := b.Clip; c != nil {
		c.LogProbs, c.Ranges, c.Values, c.ValueRanges = floats(in.Columns[3]), floats(in.Columns[4]), floats(in.Columns[5]), floats(in.Columns[6])
	}
	defer o.release()
	if err := graph.CheckChoices(b.Actions, o.Branches, b.Masks, b.Weights); err != nil {
		return nil, err
	}
	if err := graph.CheckContinuous(b.Continuous, o.Size, b.Weights); err != nil {
		return nil, err
	}
	entropyCoef, valueCoef := o.Loss.EntropyCoef, o.Loss.ValueCoef
	p := kernel.ActorCritic(d, b, float32(entropyCoef), float32(valueCoef))
	if form := o.Loss.Regulariser; form != "" && o.Width > 0 {
		kernel.Regulariser{Max: form == nn.RegulariserMax, Eps: float32(o.Loss.LogEps)}.Apply(d, b, float32(entropyCoef), &p)
	}
	copy(o.on.parts, []float64{p.Policy, p.Value, p.Entropy, p.Divergence, p.Outside}) // as many as the loss has
	*o.out = G.F32(p.Policy - float64(entropyCoef*p.Entropy) + float64(valueCoef*p.Value))
	return o.out, nil
}

// release clears the references to the caller's memory.
func (o *actorCriticRun) release() {
	b := &o.batch
	b.Actions, b.Continuous, b.Masks, b.Advantages, b.Returns, b.Weights = nil, nil, nil, nil, nil, nil
	b.LogStd, o.gradients.LogStd = nil, nil
	if c := b.Clip; c != nil {
		c.LogProbs, c.Ranges, c.Values, c.ValueRanges = nil, nil, nil, nil
	}
}

// lossGradientRun returns the gradient that the op of the loss has written, times the gradient of
// the loss.
type lossGradientRun struct{ *graph.LossGradient }

func newLossGradientRun(op *graph.LossGradient) lossGradientRun {
	if !op.Flat {
		allocate(op.Value)
	}
	return lossGradientRun{op}
}

func (o lossGradientRun) Do(in ...G.Value) (G.Value, error) {
	if by := float32(graph.Scalar(in[1])); by != 1 { // 1: the scalar is the loss itself
		for i, gradient := 0, o.Value.Float32s(); i < len(gradient); i++ {
			gradient[i] *= by
		}
	}
	return o.Value, nil
}
