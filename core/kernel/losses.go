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
// If squared, its loss is d*d; otherwise d*d/2 if |d| < 1 and |d| - 1/2 if not. order says what
// weights[i] (nil: 1) multiplies. The result is the sum of the losses in float64, times weight. A
// row of weight 0 is ignored, NaN included. q and dq are [n, width]; actions are 0 to width-1. dq
// must not be q.
func TDLoss(dq, q []float32, actions []int32, targets, weights []float32, width int, squared bool, order WeightOrder, weight float32) float64 {
	n := len(actions)
	atLeast("dq", len(dq), n*width)
	atLeast("q", len(q), n*width)
	atLeast("targets", len(targets), n)
	if weights != nil {
		atLeast("weights", len(weights), n)
	}
	checkActions(actions, width)
	return current.Load().tdLoss(dq, q, actions, targets, weights, width, squared, order, weight)
}

// WeightOrder says what the weight w of a row multiplies in TDLoss.
type WeightOrder int

const (
	WeightLoss     WeightOrder = iota // the loss: w*loss(d)
	WeightGradient                    // w*d before the gradient is clipped: w*d*d/2 with the slope w*d, -1 to 1; squared must be false
	WeightError                       // the error: loss(w*d)
)

// LogSoftmax overwrites the rows of y [n, width] with the log-probabilities of the logits in the
// rows of x: y[i, a] = x[i, a] - log(sum over b of exp(x[i, b])). y must not be x.
func LogSoftmax(y, x []float32, width int) {
	if width < 1 || len(x)%width != 0 {
		panic(fmt.Sprintf("kernel: x: %d elements, must be rows of %d", len(x), width))
	}
	atLeast("y", len(y), len(x))
	current.Load().logSoftmax(y, x, width)
}

// ActorCriticBatch is the input of ActorCritic: n rows of actions. An action has an integer for
// every branch, a number for every standard deviation, or both.
type ActorCriticBatch struct {
	Logits []float32 // [n, Width]
	Values []float32 // [n]
	Width  int       // logits of a row: the sum of Branches; 0: actions have no branches
	// Branches are the numbers of choices of each branch; nil: one branch of Width.
	Branches []int32
	Actions  []int32 // [n, branches], each 0 to the choices of its branch - 1
	// Masks are [n, Width], 0 for a choice that is not allowed: it has probability 0 and no
	// gradient. Each row allows its choices. nil allows all.
	Masks []byte
	// The numbers of an action are independent Gaussians.
	Means      []float32 // [n, len(LogStd)]
	LogStd     []float32 // logarithms of the standard deviations, the same for all rows
	Continuous []float32 // [n, len(LogStd)], the numbers of the actions
	// Advantages and Returns are constants: they get no gradient.
	Advantages, Returns []float32 // [n]
	Weights             []float32 // [n], 0 or above
	// Clip selects PPO's losses of policy and value; nil selects the plain ones.
	Clip *ClipBatch
}

// rows returns the number of rows.
func (b *ActorCriticBatch) rows() int {
	switch {
	case b.Width == 0 && len(b.LogStd) == 0:
		panic("kernel: width: 0 and log_std: 0 elements, one of them must be at least 1")
	case b.Width == 0:
		return len(b.Continuous) / len(b.LogStd)
	case b.Branches != nil:
		return len(b.Actions) / len(b.Branches)
	}
	return len(b.Actions)
}

// branches returns the number of branches.
func (b *ActorCriticBatch) branches() int {
	if b.Branches == nil && b.Width > 0 {
		return 1
	}
	return len(b.Branches)
}

// choices returns the number of choices of a branch.
func (b *ActorCriticBatch) choices(branch int) int {
	if b.Branches == nil {
		return b.Width
	}
	return int(b.Branches[branch])
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
	Entropy float64 // -sum of p log p over each branch, plus the entropy of each Gaussian
	// Divergence is the mean of (ratio - 1) - log ratio, an estimate of the Kullback-Leibler
	// divergence of the policy that acted from the policy now. Outside is the share of rows whose
	// ratio is out of its range. Both are 0 without Clip.
	Divergence, Outside float64
}

// ActorCriticGradients are the gradients that ActorCritic overwrites. No slice may be among the
// inputs.
type ActorCriticGradients struct {
	Logits []float32 // [n, Width]
	Means  []float32 // [n, len(LogStd)]
	LogStd []float32 // [len(LogStd)]: sums over the rows, in float64, in the order of the rows
	Values []float32 // [n]

	softmax   []float32 // scratch: softmaxNumbers for each branch
	inverse   []float32 // scratch: 1 / standard deviation
	logStdSum []float64 // scratch

	numbers  []float32  // scratch of Regulariser
	gaussian [1]float32 // scratch of Regulariser
}

// softmaxNumbers are the numbers of a branch that both passes over a row use: the largest logit,
// the sum of the exponentials and its logarithm.
const softmaxNumbers = 3

// reserve makes the scratch memory large enough.
func (d *ActorCriticGradients) reserve(branches, size int) {
	if len(d.softmax) < branches*softmaxNumbers {
		d.softmax = make([]float32, branches*softmaxNumbers)
	}
	if len(d.inverse) < size {
		d.inverse, d.logStdSum = make([]float32, size), make([]float64, size)
	}
}

// ActorCritic returns the parts of the loss
//
//	Policy - entropyCoef*Entropy + valueCoef*Value
//
// and overwrites d with its gradients. With Clip a row's policy loss is
// -min(ratio*advantage, clipped ratio*advantage), where ratio is the action's probability (density)
// now divided by its probability when it was taken.
//
// The log-probability of an action is the sum over its branches and then over its Gaussians, in
// float32, in this order: LogSoftmax and GaussianLogProbs give its terms, bit for bit.
//
// The means are weighted: sums in float64, in the order of the rows, divided by the sum of the
// weights. A row of weight 0 is ignored, NaN included, and gets the gradient 0. If all weights are
// 0, the result is 0. Only the first call with a d allocates.
func ActorCritic(d *ActorCriticGradients, b *ActorCriticBatch, entropyCoef, valueCoef float32) ActorCriticParts {
	n, size := b.rows(), len(b.LogStd)
	atLeast("dlogits", len(d.Logits), n*b.Width)
	atLeast("dmeans", len(d.Means), n*size)
	atLeast("dlog_std", len(d.LogStd), size)
	atLeast("dvalues", len(d.Values), n)
	atLeast("logits", len(b.Logits), n*b.Width)
	atLeast("means", len(b.Means), n*size)
	atLeast("continuous", len(b.Continuous), n*size)
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
	b.checkBranches(n)
	d.reserve(b.branches(), size)
	return current.Load().actorCritic(d, b, n, entropyCoef, valueCoef)
}

// checkBranches checks the branches, actions and masks of n rows.
func (b *ActorCriticBatch) checkBranches(n int) {
	if b.Branches != nil {
		sum := 0
		for _, choices := range b.Branches {
			if choices < 1 {
				panic(fmt.Sprintf("kernel: branches: %v, must be at least 1 each", b.Branches))
			}
			sum += int(choices)
		}
		if sum != b.Width {
			panic(fmt.Sprintf("kernel: branches: %v, must add up to the width, %d", b.Branches, b.Width))
		}
	}
	branches := b.branches()
	atLeast("actions", len(b.Actions), n*branches)
	if b.Masks != nil {
		atLeast("masks", len(b.Masks), n*b.Width)
	}
	first := 0 // logit of the branch
	for branch := range branches {
		choices := b.choices(branch)
		for i := range n {
			a := b.Actions[i*branches+branch]
			if a < 0 || int(a) >= choices {
				panic(fmt.Sprintf("kernel: actions[%s]: %d, must be 0 to %d", b.place(i, branch), a, choices-1))
			}
			if b.Masks != nil && b.Weights[i] != 0 && b.Masks[i*b.Width+first+int(a)] == 0 {
				panic(fmt.Sprintf("kernel: actions[%s]: %d, must be one that its mask allows", b.place(i, branch), a))
			}
		}
		first += choices
	}
}

// place names an action in messages.
func (b *ActorCriticBatch) place(row, branch int) string {
	if b.Branches == nil {
		return fmt.Sprint(row)
	}
	return fmt.Sprintf("%d, %d", row, branch)
}

// GaussianLogProbs adds to logProbs[i] the logarithm of the density of x[i, k] under a Gaussian of
// mean means[i, k] and standard deviation exp(logStd[k]), for every k in turn, in float32. means
// and x are [len(logProbs), len(logStd)].
func GaussianLogProbs(logProbs, means, logStd, x []float32) {
	atLeast("means", len(means), len(logProbs)*len(logStd))
	atLeast("x", len(x), len(logProbs)*len(logStd))
	if len(logProbs) > 0 && len(logStd) > 0 {
		current.Load().gaussianLogProbs(logProbs, means, logStd, x)
	}
}

func checkActions(actions []int32, width int) {
	for i, a := range actions {
		if a < 0 || int(a) >= width {
			panic(fmt.Sprintf("kernel: actions[%d]: %d, must be 0 to %d", i, a, width-1))
		}
	}
}
