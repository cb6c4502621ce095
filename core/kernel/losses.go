package kernel

import "fmt"

// Exp overwrites y with the exponentials of x, within 2 units in the last place.
// A result below the smallest normal number is 0. y may be x.
func Exp(y, x []float32) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().exp(y, x)
	}
}

// Log overwrites y with the natural logarithms of x, within 2 units in the last
// place: -Inf for zeros and for numbers below the smallest normal one, NaN for what
// is below zero. y may be x.
func Log(y, x []float32) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().log(y, x)
	}
}

// Tanh overwrites y with the hyperbolic tangents of x, within 2 units in the last
// place. y may be x.
func Tanh(y, x []float32) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().tanh(y, x)
	}
}

// TanhBackward overwrites dx with dy*(1 - y*y): the gradient of the input, from the
// output y of Tanh and its gradient dy. dx may be dy.
func TanhBackward(dx, y, dy []float32) {
	atLeast("y", len(y), len(dy))
	atLeast("dx", len(dx), len(dy))
	if len(dy) > 0 {
		current.Load().tanhBackward(dx, y, dy)
	}
}

// Add adds y to x, element by element.
func Add(x, y []float32) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().add(x, y[:len(x)])
	}
}

// TDTargets overwrites targets with what Q-learning's values should be: for row i,
// of n = len(rewards),
//
//	rewards[i] + discounts[i] * max over a of next[i, a]
//
// rounded twice; a row's first NaN is its maximum. next is [n, width], the target
// network's values at the next observations.
func TDTargets(targets, next, rewards, discounts []float32, width int) {
	n := len(rewards)
	atLeast("targets", len(targets), n)
	atLeast("next", len(next), n*width)
	atLeast("discounts", len(discounts), n)
	current.Load().tdTargets(targets, next, rewards, discounts, width)
}

// TDLoss returns the loss of Q-learning on a batch and overwrites dq with its
// gradient for q, in one pass. Row i, of n = len(actions), has the error
//
//	d = q[i, actions[i]] - targets[i]
//
// and the loss d*d where squared, else d*d/2 where |d| < 1 and |d| - 1/2 elsewhere,
// times weights[i] (nil: 1); the result is the sum of the rows' losses in float64, times
// weight. A row of weight 0 counts for nothing, whatever its numbers are. q and dq are
// [n, width]; actions are 0 to width-1. dq must not be q.
func TDLoss(dq, q []float32, actions []int32, targets, weights []float32, width int, squared bool, weight float32) float64 {
	n := len(actions)
	atLeast("dq", len(dq), n*width)
	atLeast("q", len(q), n*width)
	atLeast("targets", len(targets), n)
	if weights != nil {
		atLeast("weights", len(weights), n)
	}
	checkActions(actions, width)
	return current.Load().tdLoss(dq, q, actions, targets, weights, width, squared, weight)
}

// LogSoftmax overwrites the rows of y [n, width] with the logarithms of the
// probabilities that the rows of x, logits, stand for: x[i, a] less the logarithm
// of the sum of their exponentials. y must not be x.
func LogSoftmax(y, x []float32, width int) {
	if width < 1 || len(x)%width != 0 {
		panic(fmt.Sprintf("kernel: x: %d elements, must be rows of %d", len(x), width))
	}
	atLeast("y", len(y), len(x))
	current.Load().logSoftmax(y, x, width)
}

// ActorCriticBatch is what ActorCritic reads: n = len(Actions) rows.
type ActorCriticBatch struct {
	Logits  []float32 // [n, Width]
	Values  []float32 // [n]
	Width   int       // number of actions
	Actions []int32   // [n], 0 to Width-1
	// Masks are [n, Width]: 0 where an action may not be taken, which then has no
	// probability and no gradient. Each row allows its action. nil: all are allowed.
	Masks []byte
	// Advantages and Returns are constants: no gradient flows into them.
	Advantages, Returns []float32 // [n]
	Weights             []float32 // [n], 0 or above
	// Clip, where it is set, makes the policy's loss and the values' that of PPO.
	Clip *ClipBatch
}

// ClipBatch is what PPO compares each row with: constants of length n.
type ClipBatch struct {
	LogProbs    []float32 // log pi(a|s) when the action was taken
	Ranges      []float32 // of the ratio: 1 - range to 1 + range
	Values      []float32 // V(s) then
	ValueRanges []float32 // how far the value may move away from it; +Inf: anywhere
	// Largest takes the larger of the squared errors of the value and of the value kept
	// within its range; else the latter.
	Largest bool
}

// ActorCriticParts are the weighted means, over the rows of a batch, that its loss
// is made of, and what it says of how far the policy has moved.
type ActorCriticParts struct {
	Policy  float64 // -advantage * log probability of the action; with Clip, of the clipped ratio
	Value   float64 // (value - return)^2
	Entropy float64 // -sum of p log p
	// With Clip, else 0: (ratio - 1) - log ratio, an estimate of the Kullback-Leibler
	// divergence of the policy then from the policy now, and the share of rows whose
	// ratio is out of its range.
	Divergence, Outside float64
}

// ActorCritic returns the parts of the loss
//
//	Policy - entropyCoef*Entropy + valueCoef*Value
//
// and overwrites dlogits [n, Width] and dvalues [n] with its gradients, in one pass.
// With Clip a row's policy loss is -min(ratio*advantage, clipped ratio*advantage) for
// the ratio of the action's probability now to that when it was taken.
// A row counts as much as its weight: the sums, in float64 and in the order of the
// rows, are divided by the sum of the weights. A row of weight 0 counts for nothing
// and gets the gradient 0, whatever its numbers are; where all weights are 0, so is
// the result. dlogits and dvalues must not be among the inputs.
func ActorCritic(dlogits, dvalues []float32, b *ActorCriticBatch, entropyCoef, valueCoef float32) ActorCriticParts {
	n := len(b.Actions)
	atLeast("dlogits", len(dlogits), n*b.Width)
	atLeast("dvalues", len(dvalues), n)
	atLeast("logits", len(b.Logits), n*b.Width)
	atLeast("values", len(b.Values), n)
	atLeast("advantages", len(b.Advantages), n)
	atLeast("returns", len(b.Returns), n)
	atLeast("weights", len(b.Weights), n)
	if c := b.Clip; c != nil {
		atLeast("log_probs", len(c.LogProbs), n)
		atLeast("ranges", len(c.Ranges), n)
		atLeast("old values", len(c.Values), n)
		atLeast("value_ranges", len(c.ValueRanges), n)
	}
	checkActions(b.Actions, b.Width)
	if b.Masks != nil {
		atLeast("masks", len(b.Masks), n*b.Width)
		for i, a := range b.Actions {
			if b.Weights[i] != 0 && b.Masks[i*b.Width+int(a)] == 0 {
				panic(fmt.Sprintf("kernel: actions[%d]: %d, must be one that its mask allows", i, a))
			}
		}
	}
	return current.Load().actorCritic(dlogits, dvalues, b, entropyCoef, valueCoef)
}

func checkActions(actions []int32, width int) {
	for i, a := range actions {
		if a < 0 || int(a) >= width {
			panic(fmt.Sprintf("kernel: actions[%d]: %d, must be 0 to %d", i, a, width-1))
		}
	}
}
