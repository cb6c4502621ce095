package nn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ActorCritic is the loss of advantage actor-critic, on a head "pi" of logits and a
// head "v" of one value: over rows i of weight w_i, with H the entropy of pi(.|s_i),
//
//	sum of w_i (-advantage_i log pi(a_i|s_i) - EntropyCoef H_i + ValueCoef (v_i - return_i)²)
//
// divided by the sum of w_i. With all weights 1 and ValueCoef vf_coef it is that of
// Stable-Baselines3's A2C; Mnih et al. 2016 have a half of the squared error, Stooke
// & Abbeel a quarter. A row of weight 0 counts for nothing, whatever it holds.
type ActorCritic struct {
	EntropyCoef float64 // 0 or above
	ValueCoef   float64 // 0 or above
}

// Columns returns "advantage", "return" and "weight".
func (l ActorCritic) Columns() []Column {
	return []Column{
		{"advantage", "how much better the action was than the value said"},
		{"return", "what the value should be"},
		{"weight", "what the row counts: 0 for a row that is no step"},
	}
}

// Parts returns "policy", "value" and "entropy": the weighted means of
// -advantage log pi, of the squared error without its coefficient, and of H.
func (l ActorCritic) Parts() []string { return []string{"policy", "value", "entropy"} }

// Build adds the loss.
func (l ActorCritic) Build(in *Inputs) (*G.Node, error) {
	for _, c := range []struct {
		name string
		of   float64
	}{{"entropy_coef", l.EntropyCoef}, {"value_coef", l.ValueCoef}} {
		if !(c.of >= 0 && c.of <= 1e6) {
			return nil, fmt.Errorf("loss.%s: %v, must be 0 to 1e6", c.name, c.of)
		}
	}
	pi, width, err := in.Head("pi")
	if err != nil {
		return nil, err
	}
	v, one, err := in.Head("v")
	if err != nil {
		return nil, err
	}
	if one != 1 {
		return nil, fmt.Errorf("heads: \"v\" has %d outputs, must be 1", one)
	}
	inputs := G.Nodes{pi, v, in.Actions, in.Columns[0], in.Columns[1], in.Columns[2]}
	op := &actorCriticOp{base: newBase("actor_critic", nil, inputs...), loss: l, parts: in.Parts, out: G.NewF32(0)}
	op.batch.Width = width
	return G.ApplyOp(op, inputs...)
}

// actorCriticOp has the inputs logits [n, width], values [n, 1], actions [n]
// (int32), advantages, returns and weights [n]. Its output is the scalar loss; it
// computes the gradients for logits and values in the same pass.
type actorCriticOp struct {
	base
	loss             ActorCritic
	batch            kernel.ActorCriticBatch
	parts            []float64
	out              *G.F32
	dlogits, dvalues *tensor.Dense
}

func (o *actorCriticOp) DiffWRT(int) []bool { return []bool{true, true, false, false, false, false} }

func (o *actorCriticOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	forLogits := newLossGradient(o.name+".pi'", in[0], loss, grad)
	forValues := newLossGradient(o.name+".v'", in[1], loss, grad)
	o.dlogits, o.dvalues = forLogits.value, forValues.value
	dlogits, err := G.ApplyOp(forLogits, loss, grad)
	if err != nil {
		return nil, err
	}
	dvalues, err := G.ApplyOp(forValues, loss, grad)
	return G.Nodes{dlogits, dvalues, nil, nil, nil, nil}, err
}

func (o *actorCriticOp) Do(in ...G.Value) (G.Value, error) {
	b := &o.batch
	b.Logits, b.Values, b.Actions = floats(in[0]), floats(in[1]), in[2].(*tensor.Dense).Int32s()
	b.Advantages, b.Returns, b.Weights = floats(in[3]), floats(in[4]), floats(in[5])
	if err := checkActions(b.Actions, b.Width); err != nil {
		return nil, err
	}
	p := kernel.ActorCritic(o.dlogits.Float32s(), o.dvalues.Float32s(), b, float32(o.loss.EntropyCoef), float32(o.loss.ValueCoef))
	// Nothing of the caller's is kept.
	b.Actions, b.Advantages, b.Returns, b.Weights = nil, nil, nil, nil
	o.parts[0], o.parts[1], o.parts[2] = p.Policy, p.Value, p.Entropy
	*o.out = G.F32(p.Policy - float64(o.loss.EntropyCoef*p.Entropy) + float64(o.loss.ValueCoef*p.Value))
	return o.out, nil
}
