package nn

import "fmt"

// CrossEntropy is the loss of categorical DQN (Bellemare et al. 2017), on a head "q" with atoms.
// With the probabilities p of the atoms of a row's action, and those of the column "target", m, the
// loss of the row is -sum of m log p.
type CrossEntropy struct {
	// Reduction over the batch: "mean" or "sum".
	Reduction string
	// Importance is "" or ImportanceLoss, as in TD. Nothing is clipped here.
	Importance string
	// LeastProb, 0 to 1, replaces smaller probabilities in the logarithm, as in accel_rl (1e-6). They
	// have no gradient then. 0: the logarithm is exact.
	LeastProb float64
	// Divergence makes Report.Rows the Kullback-Leibler divergences of p from m, sum of m log(m/p),
	// as in accel_rl, instead of the losses of the rows, as in dqn_zoo and Dopamine. The losses' sizes
	// are bounded from below by the entropies of m; the divergences are 0 where p is m.
	Divergence bool
}

// Columns returns "target" and, if the loss has Importance, "weight".
func (l CrossEntropy) Columns(s *Spec) []Column {
	return distributionColumns(s, "probabilities of the atoms of the target", l.Importance)
}

// Parts returns nothing: the loss is one number.
func (l CrossEntropy) Parts() []string { return nil }

func (l CrossEntropy) PerRow() string {
	if l.Divergence {
		return "Kullback-Leibler divergence, not weighted"
	}
	return "cross-entropy, not weighted"
}

func (l CrossEntropy) Check(s *Spec) error {
	if !(l.LeastProb >= 0 && l.LeastProb < 1) {
		return fmt.Errorf("loss.least_prob: %v, must be at least 0 and below 1", l.LeastProb)
	}
	if err := checkDistributionLoss(l.Reduction, l.Importance); err != nil {
		return err
	}
	h, err := s.need("q")
	if err == nil && h.Atoms == 0 {
		err = fmt.Errorf("heads: \"q\" has no atoms, which the loss needs")
	}
	return err
}

// QuantileHuber is the loss of quantile regression DQN (Dabney et al. 2018), on a head "q" with
// quantiles. With the quantiles x of a row's action and those of the column "target", T, the loss
// of the row is
//
//	sum over j of the mean over k of |tau_j - (u < 0)| huber(u) / Kappa
//
// with u = T_k - x_j. huber(u) is u²/2 where |u| is at most Kappa, else Kappa (|u| - Kappa/2).
type QuantileHuber struct {
	Kappa float64 // above 0, at most 1e6
	// Reduction and Importance are those of CrossEntropy.
	Reduction  string
	Importance string
}

// Columns returns "target" and, if the loss has Importance, "weight".
func (l QuantileHuber) Columns(s *Spec) []Column {
	return distributionColumns(s, "quantiles of the target", l.Importance)
}

// Parts returns nothing: the loss is one number.
func (l QuantileHuber) Parts() []string { return nil }

func (l QuantileHuber) PerRow() string { return "loss, not weighted" }

func (l QuantileHuber) Check(s *Spec) error {
	if err := checkKappa(l.Kappa); err != nil {
		return err
	}
	if err := checkDistributionLoss(l.Reduction, l.Importance); err != nil {
		return err
	}
	h, err := s.need("q")
	if err == nil && h.Quantiles == 0 {
		err = fmt.Errorf("heads: \"q\" has no quantiles, which the loss needs")
	}
	return err
}

func checkKappa(kappa float64) error {
	if !(float32(kappa) > 0 && kappa <= 1e6) {
		return fmt.Errorf("loss.kappa: %v, must be above 0 and at most 1e6", kappa)
	}
	return nil
}

func checkDistributionLoss(reduction, importance string) error {
	if importance != "" && importance != ImportanceLoss {
		return fmt.Errorf("loss.importance: %q, must be \"\" or %q for a distribution", importance, ImportanceLoss)
	}
	return checkReduction(reduction)
}

func distributionColumns(s *Spec, doc, importance string) []Column {
	list := []Column{{"target", s.Heads[s.Head("q")].Points(), doc}}
	if importance != "" {
		list = append(list, importanceColumn)
	}
	return list
}

// Projected is the target of CrossEntropy: the distribution of reward + discount * Z, projected on
// the atoms. Z is the distribution of a at the next observation.
type Projected struct {
	Double bool // as in MaxQ
}

func (t Projected) Passes() int { return passes(t.Double) }

func (t Projected) Check(_ *Spec, loss Loss) error {
	if _, ok := loss.(CrossEntropy); !ok {
		return fmt.Errorf("loss: %#v, must be a CrossEntropy", loss)
	}
	return nil
}

// Quantile is the target of QuantileHuber: reward + discount * x for the quantiles x of a at the
// next observation.
type Quantile struct {
	Double bool // as in MaxQ
}

func (t Quantile) Passes() int { return passes(t.Double) }

func (t Quantile) Check(_ *Spec, loss Loss) error {
	if _, ok := loss.(QuantileHuber); !ok {
		return fmt.Errorf("loss: %#v, must be a QuantileHuber", loss)
	}
	return nil
}
