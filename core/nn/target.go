package nn

import "fmt"

// Target says what a QStepper makes of the outputs at the next observations: the column "target" of
// its loss. It is a value; MaxQ, Projected, Quantile, Implicit and Munchausen are the targets that
// the devices compute.
//
// Row i has an action a, and the target network's outputs of that action at the next observation
// count. a is the first allowed action with the largest value. Munchausen has no a: every action
// counts.
type Target interface {
	// Passes returns the number of forward passes without a gradient: 1, at the next observations, or
	// 2 if the parameters that are learned choose a, as in double Q-learning (van Hasselt et al.
	// 2016), or if the target network computes the observations, too.
	Passes() int
	// Check returns one sentence that says what does not go together. s and loss are a network that
	// Layout accepts and a loss that accepts s.
	Check(s *Spec, loss Loss) error
}

// MaxQ is the target of TD: reward + discount * Q(next observation, a; target).
type MaxQ struct {
	Double bool // the parameters that are learned choose a; false: the target network does
}

func (t MaxQ) Passes() int { return passes(t.Double) }

func (t MaxQ) Check(_ *Spec, loss Loss) error {
	if l, ok := loss.(TD); !ok || l.Weighted {
		return fmt.Errorf("loss: %#v, must be a TD that is not weighted", loss)
	}
	return nil
}

func passes(double bool) int {
	if double {
		return 2
	}
	return 1
}
