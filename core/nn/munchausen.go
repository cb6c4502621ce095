package nn

import "fmt"

// Munchausen is the target of TD, QuantileHuber or ImplicitHuber of Munchausen DQN and IQN
// (Vieillard et al. 2020). With the target network's values q and pi = softmax(q/Tau) over the
// allowed actions it is
//
//	reward + Alpha clip(Tau log pi(action | obs), Least, 0)
//	       + discount sum over a of pi(a | next obs) (q(next obs, a) - Tau log pi(a | next obs))
//
// As in the authors' code, Tau log pi is clipped, not log pi. With quantiles, q of pi is their
// mean, and each quantile of the target has that quantile of q(next obs, a). With ImplicitHuber the
// target has Taus quantiles, at TargetTaus, and q of pi is the mean of Choosing others:
// ChoosingTaus at the next observations, PolicyTaus at the observations. Over several steps only
// the first action has a bonus, as in Clark et al. 2024 (Beyond the Rainbow): reward is then their
// discounted sum, and the other actions are not known. Transitions.Masks are those of obs.
type Munchausen struct {
	Alpha float64 // scale of the bonus, 0 to 1
	Tau   float64 // temperature, above 0
	Least float64 // smallest Tau log pi, at most 0
	// Taus and Choosing are those of Implicit where the loss is ImplicitHuber, else 0.
	Taus, Choosing int
}

// Passes returns 2: the target network computes obs, too.
func (t Munchausen) Passes() int { return 2 }

func (t Munchausen) Check(s *Spec, loss Loss) error {
	switch {
	case !(t.Alpha >= 0 && t.Alpha <= 1):
		return fmt.Errorf("target.alpha: %v, must be 0 to 1", t.Alpha)
	case !(t.Tau >= 1e-6 && t.Tau <= 1e6):
		return fmt.Errorf("target.tau: %v, must be 1e-6 to 1e6", t.Tau)
	case !(t.Least <= 0 && t.Least >= -1e9):
		return fmt.Errorf("target.least: %v, must be -1e9 to 0", t.Least)
	}
	switch l := loss.(type) {
	case ImplicitHuber:
		return t.drawn().Check(s, loss)
	case QuantileHuber:
		return t.checkUndrawn()
	case TD:
		if !l.Weighted {
			return t.checkUndrawn()
		}
	}
	return fmt.Errorf("loss: %#v, must be a TD that is not weighted, a QuantileHuber or an ImplicitHuber", loss)
}

// drawn is the target whose quantiles at the next observations are those of t.
func (t Munchausen) drawn() Implicit { return Implicit{Taus: t.Taus, Choosing: t.Choosing} }

func (t Munchausen) checkUndrawn() error {
	if t.Taus != 0 || t.Choosing != 0 {
		return fmt.Errorf("target: %d taus and %d that choose, must be 0 for a loss without taus", t.Taus, t.Choosing)
	}
	return nil
}
