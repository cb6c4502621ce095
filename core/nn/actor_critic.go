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
// & Abbeel a quarter. A row of weight 0 counts for nothing, whatever it holds. Actions
// that Batch.Masks forbids have no probability.
type ActorCritic struct {
	EntropyCoef float64 // 0 or above
	ValueCoef   float64 // 0 or above
}

// columnWeight is the place of the weights among the columns of ActorCritic and PPO.
const columnWeight = 2

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
	return newActorCriticOp("actor_critic", in, l.EntropyCoef, l.ValueCoef, nil)
}

// PPO is the clipped loss of Schulman et al. 2017, on the heads of ActorCritic: that loss
// with, in place of -advantage_i log pi(a_i|s_i),
//
//	-min(ratio_i advantage_i, clamp(ratio_i, 1-range_i, 1+range_i) advantage_i)
//
// where ratio_i is pi(a_i|s_i) by that of the policy that acted, and with a squared error
// that may be clipped, too: of the value kept within value_range_i of what it was then
// (Stable-Baselines3's), or the larger of that one and the value's own (Largest; OpenAI
// Baselines' and CleanRL's).
type PPO struct {
	EntropyCoef float64 // 0 or above
	ValueCoef   float64 // 0 or above
	Largest     bool
}

// Columns returns those of ActorCritic and "log_prob", "clip_range", "old_value" and
// "clip_range_vf".
func (l PPO) Columns() []Column {
	return append(ActorCritic{}.Columns(),
		Column{"log_prob", "logarithm of the action's probability when it was taken"},
		Column{"clip_range", "how far from 1 the ratio of the probabilities counts"},
		Column{"old_value", "the state's value then"},
		Column{"clip_range_vf", "how far from it the value counts; +Inf: anywhere"})
}

// Parts returns those of ActorCritic, the first of the clipped ratios, and
// "approx_kl" and "clip_fraction": the weighted means of (ratio - 1) - log ratio and of
// how many ratios are out of their range, neither of which is part of the loss.
func (l PPO) Parts() []string {
	return append(ActorCritic{}.Parts(), "approx_kl", "clip_fraction")
}

// Build adds the loss.
func (l PPO) Build(in *Inputs) (*G.Node, error) {
	return newActorCriticOp("ppo", in, l.EntropyCoef, l.ValueCoef, &kernel.ClipBatch{Largest: l.Largest})
}

// actorCriticOp has the inputs logits [n, width], values [n, 1], actions [n] (int32)
// and the columns [n] of its loss. Its output is the scalar loss; it computes the
// gradients for logits and values in the same pass.
type actorCriticOp struct {
	base
	entropyCoef, valueCoef float64
	batch                  kernel.ActorCriticBatch
	masks                  *[]byte // of the batch at hand
	parts                  []float64
	out                    *G.F32
	dlogits, dvalues       *tensor.Dense
}

// newActorCriticOp adds the loss called name; with clip it is PPO's.
func newActorCriticOp(name string, in *Inputs, entropyCoef, valueCoef float64, clip *kernel.ClipBatch) (*G.Node, error) {
	for _, c := range []struct {
		name string
		of   float64
	}{{"entropy_coef", entropyCoef}, {"value_coef", valueCoef}} {
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
	inputs := append(G.Nodes{pi, v, in.Actions}, in.Columns...)
	op := &actorCriticOp{base: newBase(name, nil, inputs...), entropyCoef: entropyCoef, valueCoef: valueCoef, masks: in.Masks, parts: in.Parts, out: G.NewF32(0)}
	op.batch.Width, op.batch.Clip = width, clip
	return G.ApplyOp(op, inputs...)
}

func (o *actorCriticOp) DiffWRT(inputs int) []bool {
	return append([]bool{true, true}, make([]bool, inputs-2)...)
}

func (o *actorCriticOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	forLogits := newLossGradient(o.name+".pi'", in[0], loss, grad)
	forValues := newLossGradient(o.name+".v'", in[1], loss, grad)
	o.dlogits, o.dvalues = forLogits.value, forValues.value
	grads := make(G.Nodes, len(in)) // nil for what the loss compares with
	var err error
	if grads[0], err = G.ApplyOp(forLogits, loss, grad); err != nil {
		return nil, err
	}
	grads[1], err = G.ApplyOp(forValues, loss, grad)
	return grads, err
}

func (o *actorCriticOp) Do(in ...G.Value) (G.Value, error) {
	b := &o.batch
	b.Logits, b.Values, b.Actions, b.Masks = floats(in[0]), floats(in[1]), in[2].(*tensor.Dense).Int32s(), *o.masks
	b.Advantages, b.Returns, b.Weights = floats(in[3]), floats(in[4]), floats(in[5])
	if c := b.Clip; c != nil {
		c.LogProbs, c.Ranges, c.Values, c.ValueRanges = floats(in[6]), floats(in[7]), floats(in[8]), floats(in[9])
	}
	defer o.release()
	if err := checkActions(b.Actions, b.Width); err != nil {
		return nil, err
	}
	if err := checkMasks(b.Masks, b.Actions, b.Weights, b.Width); err != nil {
		return nil, err
	}
	p := kernel.ActorCritic(o.dlogits.Float32s(), o.dvalues.Float32s(), b, float32(o.entropyCoef), float32(o.valueCoef))
	copy(o.parts, []float64{p.Policy, p.Value, p.Entropy, p.Divergence, p.Outside}) // as many as the loss has
	*o.out = G.F32(p.Policy - float64(o.entropyCoef*p.Entropy) + float64(o.valueCoef*p.Value))
	return o.out, nil
}

// release drops what is the caller's.
func (o *actorCriticOp) release() {
	b := &o.batch
	b.Actions, b.Masks, b.Advantages, b.Returns, b.Weights = nil, nil, nil, nil, nil
	if c := b.Clip; c != nil {
		c.LogProbs, c.Ranges, c.Values, c.ValueRanges = nil, nil, nil, nil
	}
}

// checkMasks checks the masks of a batch: each row that counts allows its action.
func checkMasks(masks []byte, actions []int32, weights []float32, width int) error {
	if masks == nil {
		return nil
	}
	for i, a := range actions {
		if weights[i] != 0 && masks[i*width+int(a)] == 0 {
			return fmt.Errorf("batch.masks[%d]: forbids action %d, which was taken, must allow it", i, a)
		}
	}
	return nil
}
