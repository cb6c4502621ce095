package nn

import (
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/rng"
)

// This file is about heads with taus: implicit quantile networks (Dabney et al. 2018).

// TauNetwork is a Network of a head with taus. Its Forward computes the quantiles of the taus
// (k + 1/2) / Taus, k from 0 on, so that the outputs of a row depend on its observation alone.
type TauNetwork interface {
	Network
	// ForwardAt is Forward with taus that are drawn: those of row i are ActingTaus of keys[i].
	ForwardAt(p *Params, obs []byte, rows int, keys []uint64) (Outputs, error)
}

// The uses of drawn taus. Each has other numbers.
const (
	ActingTaus   = iota // of a choice of an action; the key is that of the choice
	OnlineTaus          // of the quantiles that are learned; the key is that of the update
	TargetTaus          // of the target's quantiles
	ChoosingTaus        // of the choice of the target's action, or of the policy there
	PolicyTaus          // of the policy of Munchausen at the observations
)

// DrawTaus fills to with taus, uniform in [0, 1). Number k is a function of use, key, row and k, so
// that the order of draws is of no matter.
func DrawTaus(to []float32, use int, key uint64, row int) {
	rng.Fractions(to, key, uint32(use), uint32(row))
}

// MiddleTaus fills to with (k + 1/2) / len(to).
func MiddleTaus(to []float32) {
	for k := range to {
		to[k] = (float32(k) + 0.5) / float32(len(to))
	}
}

// WithTaus returns s with n taus in the heads that have taus.
func (s Spec) WithTaus(n int) Spec {
	s.Heads = slices.Clone(s.Heads)
	for i := range s.Heads {
		if h := &s.Heads[i]; h.Taus > 0 {
			h.Taus = n
		}
	}
	return s
}

// LearnerSpec returns the network of a Learner of s: with as many taus as the loss has.
func LearnerSpec(s Spec, loss Loss) Spec {
	if l, ok := loss.(ImplicitHuber); ok {
		return s.WithTaus(l.Taus)
	}
	return s
}

// TargetSpecs returns the networks of the Passes of a target of s.
func TargetSpecs(s Spec, target Target) []Spec {
	switch t := target.(type) {
	case Munchausen:
		if t.Choosing > 0 {
			return []Spec{s.WithTaus(t.Taus + t.Choosing), s.WithTaus(t.Choosing)}
		}
	case Implicit:
		if t.Double {
			return []Spec{s.WithTaus(t.Taus), s.WithTaus(t.Choosing)}
		}
		return []Spec{s.WithTaus(t.Taus + t.Choosing)}
	}
	return slices.Repeat([]Spec{s}, target.Passes())
}

// ImplicitHuber is the loss of implicit quantile networks (Dabney et al. 2018), on a head "q" with
// taus. A row has taus of its own, the column "taus". With the quantiles x of its action at these
// taus, and those of the column "target", T, the loss of the row is
//
//	sum over j of the mean over k of |tau_j - (u < 0)| huber(u) / Kappa
//
// with u = T_k - x_j and the huber of QuantileHuber.
type ImplicitHuber struct {
	Taus    int // N: taus of a row, 1 to MaxAtoms
	Targets int // N': numbers of a target, 1 to MaxAtoms
	Kappa   float64
	// Reduction and Importance are those of CrossEntropy.
	Reduction  string
	Importance string
}

// Columns returns "target", "taus" and, if the loss has Importance, "weight".
func (l ImplicitHuber) Columns(*Spec) []Column {
	list := []Column{{"target", l.Targets, "quantiles of the target"}, {"taus", l.Taus, "probabilities of the quantiles that are learned"}}
	if l.Importance != "" {
		list = append(list, importanceColumn)
	}
	return list
}

// Parts returns nothing: the loss is one number.
func (l ImplicitHuber) Parts() []string { return nil }

func (l ImplicitHuber) PerRow() string { return "loss, not weighted" }

func (l ImplicitHuber) Check(s *Spec) error {
	if l.Taus < 1 || l.Taus > MaxAtoms || l.Targets < 1 || l.Targets > MaxAtoms {
		return fmt.Errorf("loss.taus: %d and targets: %d, must be 1 to %d", l.Taus, l.Targets, MaxAtoms)
	}
	if err := checkKappa(l.Kappa); err != nil {
		return err
	}
	if err := checkDistributionLoss(l.Reduction, l.Importance); err != nil {
		return err
	}
	h, err := s.need("q")
	if err == nil && h.Taus == 0 {
		err = fmt.Errorf("heads: \"q\" has no taus, which the loss needs")
	}
	return err
}

// Implicit is the target of ImplicitHuber: reward + discount * x for Taus quantiles x of a at the
// next observation, at taus that each update draws. The largest mean of Choosing other quantiles
// chooses a, as in section 3.1 of Dabney et al. 2018 and in Dopamine.
type Implicit struct {
	Double   bool // as in MaxQ
	Taus     int  // N', as Targets of the loss
	Choosing int  // K; Taus and Choosing together are at most MaxAtoms
}

func (t Implicit) Passes() int { return passes(t.Double) }

func (t Implicit) Check(_ *Spec, loss Loss) error {
	l, ok := loss.(ImplicitHuber)
	switch {
	case !ok || l.Targets != t.Taus:
		return fmt.Errorf("loss: %#v, must be an ImplicitHuber with %d targets", loss, t.Taus)
	case t.Choosing < 1 || t.Taus+t.Choosing > MaxAtoms:
		return fmt.Errorf("target: %d taus and %d that choose, must be at least 1 each and at most %d together", t.Taus, t.Choosing, MaxAtoms)
	}
	return nil
}

// checkTaus checks the cosines and taus of head i.
func (s *Spec) checkTaus(i int) error {
	h := &s.Heads[i]
	switch {
	case h.Cosines < 1 || h.Cosines > MaxAtoms || h.Taus < 1 || h.Taus > MaxAtoms:
		return fmt.Errorf("heads[%d].cosines: %d and taus: %d, must be 1 to %d, or both 0 for none", i, h.Cosines, h.Taus, MaxAtoms)
	case h.Atoms != 0 || h.Quantiles != 0 || h.Min != 0 || h.Max != 0:
		return fmt.Errorf("heads[%d].cosines: %d, must be 0 for a head with atoms or quantiles", i, h.Cosines)
	case h.Name != "q":
		return fmt.Errorf("heads[%d].cosines: %d, must be 0 for a head %q", i, h.Cosines, h.Name)
	case len(s.users(h.Trunk)) > 1:
		return fmt.Errorf("heads[%d].cosines: %d, must be 0 on a trunk with other heads", i, h.Cosines)
	case s.Trunks[h.Trunk].Norm != "":
		return fmt.Errorf("heads[%d].cosines: %d, must be 0 on a trunk with a normalisation", i, h.Cosines)
	case h.Width() > MaxOutputs:
		return fmt.Errorf("heads[%d].out: %d, of %d numbers each, must be at most %d numbers", i, h.Out, h.Points(), MaxOutputs)
	}
	return nil
}
