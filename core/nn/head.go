package nn

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxAtoms bounds the atoms and the quantiles of a head.
const MaxAtoms = 1024

// Head is one dense layer on the features of a trunk, without an activation. Files have its fields
// under the names of the tags.
//
// The heads of a policy are "pi", the logits of actions with branches, and "mu", the means of
// independent Gaussians. A policy of both has actions of both. A network with a head "mu" has a
// parameter log_std, the logarithms of the Gaussians' standard deviations, which do not depend on
// the observation.
//
// A head "q" may have a distribution for each output, by its atoms, its quantiles or its taus. The
// outputs of the head are the means of the distributions; a loss sees the distributions. Acting
// therefore need not know of them.
type Head struct {
	Name  string `json:"Name"`  // "q", "pi", "mu", "v"; names.go maps it to names of parameters
	Out   int    `json:"Out"`   // outputs, 1 to MaxOutputs
	Trunk int    `json:"Trunk"` // index in Spec.Trunks
	// Gain scales the initial weights unless Init is "uniform"; 0: the gain of the trunks' layers.
	Gain float64 `json:"Gain"`
	// Branches are the outputs of each branch of a head "pi"; nil: one branch of Out.
	Branches []int32 `json:"Branches,omitempty"`
	// Atoms, 2 to MaxAtoms, are the numbers that an output may be, at equal distances from Min to Max
	// (Bellemare et al. 2017). The layer computes logits [output, atom]. 0: there are none.
	Atoms int     `json:"Atoms,omitempty"`
	Min   float64 `json:"Min,omitempty"`
	Max   float64 `json:"Max,omitempty"`
	// Quantiles, 1 to MaxAtoms, are the quantiles (k + 1/2) / Quantiles of an output, k from 0 on
	// (Dabney et al. 2018). The layer computes them as [quantile, output], the order of sb3-contrib.
	// 0: there are none.
	Quantiles int `json:"Quantiles,omitempty"`
	// Cosines, 1 to MaxAtoms, makes the quantile of an output a function of its probability tau, as in
	// implicit quantile networks (Dabney et al. 2018). A dense layer with ReLU computes an embedding
	// from cos(pi i tau), i from 1 to Cosines. It multiplies the output of the last but one layer of
	// the trunk, and the last layer and the head compute the quantile of each tau. 0: there are none.
	Cosines int `json:"Cosines,omitempty"`
	// Taus, 1 to MaxAtoms, are the quantiles of an output that a Network computes, [tau, output]; 0
	// without Cosines. No parameter depends on it.
	Taus int `json:"Taus,omitempty"`
	// Dueling makes two streams of the head (Wang et al. 2016): a value, and an advantage of each
	// output, of which the mean is subtracted; of distributions, of each atom or quantile. Each
	// stream has a copy of its own of the trunk's last layer. The head is the only one on its trunk.
	Dueling bool `json:"Dueling,omitempty"`
	// Rescaled multiplies the gradient that flows from both streams into the layers below them by
	// the root of 1/2, as in Wang et al. 2016.
	Rescaled bool `json:"Rescaled,omitempty"`
}

// Points returns the numbers of each output that a loss sees: its atoms or its quantiles, or the
// output alone.
func (h *Head) Points() int { return cmp.Or(h.Atoms, h.Quantiles, h.Taus, 1) }

// Width returns the numbers of a row that a loss sees.
func (h *Head) Width() int { return h.Out * h.Points() }

// checkDueling checks the streams of head i.
func (s *Spec) checkDueling(i int) error {
	h := &s.Heads[i]
	switch {
	case h.Rescaled && !h.Dueling:
		return fmt.Errorf("heads[%d].rescaled: true, must be false for a head that is not dueling", i)
	case h.Dueling && h.Name != "q":
		return fmt.Errorf("heads[%d].dueling: true, must be false for a head %q", i, h.Name)
	case h.Dueling && len(s.users(h.Trunk)) > 1:
		return fmt.Errorf("heads[%d].dueling: true, must be false on a trunk with other heads", i)
	}
	return nil
}

// splits reports whether the last layer of a trunk belongs to its head: one that is dueling or has
// taus.
func (s *Spec) splits(trunk int) bool {
	return slices.ContainsFunc(s.Heads, func(h Head) bool { return h.Trunk == trunk && (h.Dueling || h.Taus > 0) })
}

// checkDistribution checks the atoms and quantiles of head i.
func (s *Spec) checkDistribution(i int) error {
	h := &s.Heads[i]
	switch {
	case h.Cosines != 0 || h.Taus != 0:
		return s.checkTaus(i)
	case h.Atoms == 0 && h.Quantiles == 0 && h.Min == 0 && h.Max == 0:
		return nil
	case h.Atoms != 0 && (h.Atoms < 2 || h.Atoms > MaxAtoms):
		return fmt.Errorf("heads[%d].atoms: %d, must be 2 to %d, or 0 for none", i, h.Atoms, MaxAtoms)
	case h.Quantiles < 0 || h.Quantiles > MaxAtoms:
		return fmt.Errorf("heads[%d].quantiles: %d, must be 1 to %d, or 0 for none", i, h.Quantiles, MaxAtoms)
	case h.Atoms > 0 && h.Quantiles > 0:
		return fmt.Errorf("heads[%d].quantiles: %d, must be 0 for a head with atoms", i, h.Quantiles)
	case h.Atoms > 0 && !(h.Min < h.Max && h.Min >= -1e9 && h.Max <= 1e9):
		return fmt.Errorf("heads[%d].min: %v, must be below max (%v), both -1e9 to 1e9", i, h.Min, h.Max)
	case h.Atoms == 0 && (h.Min != 0 || h.Max != 0):
		return fmt.Errorf("heads[%d].min: %v and max: %v, must be 0 for a head without atoms", i, h.Min, h.Max)
	case h.Name != "q":
		return fmt.Errorf("heads[%d].atoms: %d and quantiles: %d, must be 0 for a head %q", i, h.Atoms, h.Quantiles, h.Name)
	case h.Width() > MaxOutputs:
		return fmt.Errorf("heads[%d].out: %d, of %d numbers each, must be at most %d numbers", i, h.Out, h.Points(), MaxOutputs)
	}
	return nil
}
