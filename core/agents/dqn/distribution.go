package dqn

import (
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
)

// This file is about the head of the network: distributions of returns in the place of their means,
// and the two streams of a dueling head.
//
// With the setting distribution the network learns the distribution of the return of each action,
// and Q is its mean. The largest mean chooses the action of a target. The target is the
// distribution of r + gamma Z, with Z that of the action: projected on the atoms (C51), or its
// quantiles (QR-DQN).
//
// With distribution implicit (IQN) the quantiles are those of probabilities tau that are drawn: N
// of each row whose quantiles learn, N' of the target and K others whose mean chooses its action
// (the target network's, with double_q the online one's). An update draws one key from the stream
// of the replay memory, and its taus are functions of the key and the row (nn.DrawTaus). A step
// that needs Q-values draws a key from the stream of its environment, for the K taus of its
// Q-values. A policy that is evaluated or served has the K taus (k + 1/2) / K, so that its actions
// do not depend on draws.

// Head holds the settings of the head.
type Head struct {
	Distribution    string
	NAtoms          int
	VMin, VMax      float64
	LeastProb       float64
	NQuantiles      int
	NTau            int // N
	NTauTarget      int // N'
	NTauAct         int // K
	NCosines        int
	Kappa           float64
	Dueling         bool
	DuelingRescaled bool
}

// Values of distribution.
const (
	NoDistribution = "none"
	Categorical    = "categorical"
	Quantile       = "quantile"
	Implicit       = "implicit"
)

// mostTaus bounds each number of taus: those of a target and those that choose its action are
// computed together.
const mostTaus = nn.MaxAtoms / 2

// ofHead are the settings of Head.
func ofHead() []settings.Setting {
	return settings.Within(func(c *Config) *Head { return &c.Head }, []settings.Setting{
		settings.Text("distribution", NoDistribution, "what the network learns of the return of each action: none (its mean), categorical (probabilities of n_atoms returns; C51, Bellemare et al. 2017), quantile (n_quantiles quantiles; QR-DQN, Dabney et al. 2018) or implicit (the quantile of any probability tau; IQN, Dabney et al. 2018b). loss is not used with the latter three, and a GPU does not compute them", []string{NoDistribution, Categorical, Quantile, Implicit}, func(h *Head) *string { return &h.Distribution }),
		settings.Int("n_atoms", 51, 2, nn.MaxAtoms, "returns of a categorical distribution, at equal distances from v_min to v_max", func(h *Head) *int { return &h.NAtoms }),
		settings.Float("v_min", -10, -1e9, 1e9, "smallest return of a categorical distribution; smaller ones count as this one", func(h *Head) *float64 { return &h.VMin }),
		settings.Float("v_max", 10, -1e9, 1e9, "largest return of a categorical distribution; larger ones count as this one. v_max - v_min must be at least a thousandth of the larger of |v_min| and |v_max|, because Q-values are float32", func(h *Head) *float64 { return &h.VMax }),
		settings.Float("least_prob", 0, 0, 0.5, "smallest probability in the logarithm of a categorical loss: smaller ones count as this one and have no gradient (Stooke & Abbeel's code: 1e-6); 0: the logarithm is exact", func(h *Head) *float64 { return &h.LeastProb }),
		settings.Int("n_quantiles", 200, 1, nn.MaxAtoms, "quantiles of a quantile distribution", func(h *Head) *int { return &h.NQuantiles }),
		settings.Int("n_tau", 64, 1, mostTaus, "N: taus that an update draws for each row, whose quantiles learn; with distribution implicit", func(h *Head) *int { return &h.NTau }),
		settings.Int("n_tau_target", 64, 1, mostTaus, "N': taus that an update draws for each row, whose quantiles are the target; with distribution implicit", func(h *Head) *int { return &h.NTauTarget }),
		settings.Int("n_tau_act", 32, 1, mostTaus, "K: taus whose mean quantile is the value of an action; with distribution implicit. Steps of training and the choice of a target's action draw them; a policy that acts by itself has (k + 1/2) / K, k from 0 on", func(h *Head) *int { return &h.NTauAct }),
		settings.Int("n_cosines", 64, 1, nn.MaxAtoms, "cosines of a tau, cos(pi i tau) with i from 1 on, from which the network computes its embedding; with distribution implicit", func(h *Head) *int { return &h.NCosines }),
		settings.Float("kappa", 1, 1e-6, 1e6, "error up to which the loss of a quantile is quadratic", func(h *Head) *float64 { return &h.Kappa }),
		settings.Bool("dueling", false, "Dueling network (Wang et al. 2016): a stream for the value of a state and one for the advantages of actions, each with a copy of its own of the last hidden layer; with a distribution, for each of its numbers", func(h *Head) *bool { return &h.Dueling }),
		settings.Bool("dueling_rescaled", false, "multiply the gradient that flows from both streams of a dueling network into the layers below them by the root of 1/2, as in its paper. MlpPolicy has such layers where net_arch has at least two widths", func(h *Head) *bool { return &h.DuelingRescaled }),
	})
}

// shapeOfHead are the settings of Head that a file of a run must have as they are.
var shapeOfHead = []string{"distribution", "n_atoms", "v_min", "v_max", "n_quantiles", "n_cosines", "dueling"}

// resolveHead checks the settings of the head.
func (c *Config) resolveHead() (notices []string, err error) {
	switch {
	case c.Distribution == Categorical && !(c.VMin < c.VMax):
		return nil, fmt.Errorf("v_min: %g, must be below v_max (%g)", c.VMin, c.VMax)
	case c.Distribution == Categorical && c.VMax-c.VMin < c.leastSupport()*(1-1e-9): // 10 - 9.99 is a little less than 0.01
		return nil, fmt.Errorf("v_max: %v, must be above v_min (%v) by at least %v, a thousandth of the larger of |v_min| and |v_max|", c.VMax, c.VMin, c.leastSupport())
	case c.Distribution == Implicit && c.BatchSize*max(c.NTau, c.NTauTarget+c.NTauAct) > nn.MaxRows:
		return nil, fmt.Errorf("batch_size: %d, must be at most %d with these numbers of taus", c.BatchSize, nn.MaxRows/max(c.NTau, c.NTauTarget+c.NTauAct))
	case c.Distribution == Implicit && c.NumEnvs*c.NTauAct > nn.MaxRows:
		return nil, fmt.Errorf("num_envs: %d, must be at most %d with n_tau_act %d", c.NumEnvs, nn.MaxRows/c.NTauAct, c.NTauAct)
	case c.DuelingRescaled && !c.Dueling:
		return nil, fmt.Errorf("dueling_rescaled: true, must be false where dueling is false")
	}
	if c.Distribution != NoDistribution && c.Loss != "huber" {
		notices = append(notices, fmt.Sprintf("loss: %s is not used where distribution is %s", c.Loss, c.Distribution))
	}
	return notices, nil
}

// leastSupport is the smallest v_max - v_min. On narrower supports the float32 means of different
// distributions become equal, so that the best action can no longer be told.
func (h *Head) leastSupport() float64 { return max(math.Abs(h.VMin), math.Abs(h.VMax)) / 1000 }

// checkWidth refuses distributions of so many numbers that those of all actions are more than a
// network may compute.
func (c *Config) checkWidth(actions int) error {
	most := nn.MaxOutputs / max(1, actions)
	if most == 0 {
		return nil // too many actions for any head, which its layout refuses
	}
	if c.Distribution == Categorical && most < 2 {
		return fmt.Errorf("distribution: categorical, must be none or quantile where an environment has %d actions, more than %d", actions, nn.MaxOutputs/2)
	}
	type numbers struct {
		setting string
		n       int
	}
	var list []numbers
	switch c.Distribution {
	case Categorical:
		list = []numbers{{"n_atoms", c.NAtoms}}
	case Quantile:
		list = []numbers{{"n_quantiles", c.NQuantiles}}
	case Implicit:
		list = []numbers{{"n_tau", c.NTau}, {"n_tau_target", c.NTauTarget}, {"n_tau_act", c.NTauAct}}
	}
	for _, x := range list {
		if x.n > most {
			return fmt.Errorf("%s: %d, must be at most %d where an environment has %d actions", x.setting, x.n, most, actions)
		}
	}
	// Without double_q the taus of a target and those that choose its action are computed together.
	if c.Distribution == Implicit && !c.DoubleQ && c.NTauTarget+c.NTauAct > most {
		if most < 2 {
			return fmt.Errorf("double_q: false, must be true with distribution implicit where an environment has %d actions", actions)
		}
		return fmt.Errorf("n_tau_target: %d and n_tau_act: %d, must be at most %d together where an environment has %d actions", c.NTauTarget, c.NTauAct, most, actions)
	}
	return nil
}

// head is the head that resolved settings stand for.
func (c *Config) head(actions int) nn.Head {
	h := nn.Head{Name: "q", Out: actions, Dueling: c.Dueling, Rescaled: c.DuelingRescaled}
	switch c.Distribution {
	case Categorical:
		h.Atoms, h.Min, h.Max = c.NAtoms, c.VMin, c.VMax
	case Quantile:
		h.Quantiles = c.NQuantiles
	case Implicit:
		h.Cosines, h.Taus = c.NCosines, c.NTauAct
	}
	return h
}

// setDistribution sets the target and the loss of a distribution, where the settings name one.
func (c *Config) setDistribution(run *offpolicy.Config) {
	importance, divergence := "", false
	if p := run.Priorities; p != nil && c.Distribution != NoDistribution {
		p.Distributions = true
		importance, divergence = nn.ImportanceLoss, p.Formula.Error(true) == replay.Divergence
	}
	switch c.Distribution {
	case Categorical:
		run.Target = nn.Projected{Double: c.DoubleQ}
		run.Loss = nn.CrossEntropy{Reduction: c.LossReduction, Importance: importance, LeastProb: c.LeastProb, Divergence: divergence}
	case Quantile:
		run.Target = nn.Quantile{Double: c.DoubleQ}
		run.Loss = nn.QuantileHuber{Kappa: c.Kappa, Reduction: c.LossReduction, Importance: importance}
	case Implicit:
		run.Target = nn.Implicit{Double: c.DoubleQ, Taus: c.NTauTarget, Choosing: c.NTauAct}
		run.Loss = nn.ImplicitHuber{Taus: c.NTau, Targets: c.NTauTarget, Kappa: c.Kappa, Reduction: c.LossReduction, Importance: importance}
	}
}
