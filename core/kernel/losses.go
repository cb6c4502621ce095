package kernel

import "fmt"

// Exp overwrites y with the exponentials of x, within 2 units in the last place. A result below the
// smallest normal number is 0. y may be x.
func Exp(y, x []float32) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().exp(y, x)
	}
}

// Log overwrites y with the natural logarithms of x, within 2 units in the last place: -Inf for
// zeros and denormals, NaN for negative numbers. y may be x.
func Log(y, x []float32) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().log(y, x)
	}
}

// Tanh overwrites y with the hyperbolic tangents of x, within 2 units in the last place. y may be
// x.
func Tanh(y, x []float32) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().tanh(y, x)
	}
}

// TanhBackward overwrites dx with the gradient of Tanh's input, dy*(1 - y*y). y is the output of
// Tanh, dy the gradient of y. dx may be dy.
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

// TDTargets overwrites targets with the targets of Q-learning. Row i of n = len(rewards) has
//
//	rewards[i] + discounts[i] * max over a of next[i, a]
//
// rounded twice. The maximum of a row with NaN is its first NaN. next is [n, width], the target
// network's values at the next observations.
func TDTargets(targets, next, rewards, discounts []float32, width int) {
	n := len(rewards)
	atLeast("targets", len(targets), n)
	atLeast("next", len(next), n*width)
	atLeast("discounts", len(discounts), n)
	current.Load().tdTargets(targets, next, rewards, discounts, width)
}

// TDLoss returns the loss of Q-learning on a batch and overwrites dq with its gradient with respect
// to q. Row i of n = len(actions) has the error
//
//	d = q[i, actions[i]] - targets[i]
//
// If squared, its loss is d*d; otherwise d*d/2 if |d| < 1 and |d| - 1/2 if not. A row's loss is
// multiplied by weights[i] (nil: 1). The result is the sum of the losses in float64, times weight.
// A row of weight 0 is ignored, NaN included. q and dq are [n, width]; actions are 0 to width-1. dq
// must not be q.
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

// LogSoftmax overwrites the rows of y [n, width] with the log-probabilities of the logits in the
// rows of x: y[i, a] = x[i, a] - log(sum over b of exp(x[i, b])). y must not be x.
func LogSoftmax(y, x []float32, width int) {
	if width < 1 || len(x)%width != 0 {
		panic(fmt.Sprintf("kernel: x: %d elements, must be rows of %d", len(x), width))
	}
	atLeast("y", len(y), len(x))
	current.Load().logSoftmax(y, x, width)
}

// ActorCriticBatch is the input of ActorCritic: n = len(Actions) rows.
type ActorCriticBatch struct {
	Logits  []float32 // [n, Width]
	Values  []float32 // [n]
	Width   int       // number of actions
	Actions []int32   // [n], 0 to Width-1
	// Masks are [n, Width], 0 for an action that is not allowed: it has probability 0 and no
	// gradient. Each row allows its action. nil allows all.
	Masks []byte
	// Advantages and Returns are constants: they get no gradient.
	Advantages, Returns []float32 // [n]
	Weights             []float32 // [n], 0 or above
	// Clip selects PPO's losses of policy and value; nil selects the plain ones.
	Clip *ClipBatch
}

// ClipBatch holds PPO's constants of each row: n numbers in each slice.
type ClipBatch struct {
	LogProbs    []float32 // log pi(a|s) when the action was taken
	Ranges      []float32 // of the ratio: 1 - range to 1 + range
	Values      []float32 // V(s) when the action was taken
	ValueRanges []float32 // largest distance of the value from Values; +Inf: any
	// Largest selects the larger of the squared errors of the value and of the clipped value;
	// otherwise the clipped value's counts.
	Largest bool
}

// ActorCriticParts are the terms of the loss and the distance of the policy from the policy that
// acted: weighted means over the rows of a batch.
type ActorCriticParts struct {
	Policy  float64 // -advantage * log-probability of the action; with Clip, PPO's loss
	Value   float64 // (value - return)^2
	Entropy float64 // -sum of p log p
	// Divergence is the mean of (ratio - 1) - log ratio, an estimate of the Kullback-Leibler
	// divergence of the policy that acted from the policy now. Outside is the share of rows whose
	// ratio is out of its range. Both are 0 without Clip.
	Divergence, Outside float64
}

// ActorCritic returns the parts of the loss
//
//	Policy - entropyCoef*Entropy + valueCoef*Value
//
// and overwrites dlogits [n, Width] and dvalues [n] with its gradients. With Clip a row's policy
// loss is -min(ratio*advantage, clipped ratio*advantage), where ratio is the action's probability
// now divided by its probability when it was taken.
//
// The means are weighted: sums in float64, in the order of the rows, divided by the sum of the
// weights. A row of weight 0 is ignored, NaN included, and gets the gradient 0. If all weights are
// 0, the result is 0. dlogits and dvalues must not be among the inputs.
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
