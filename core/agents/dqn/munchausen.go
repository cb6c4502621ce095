package dqn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
)

// This file is about targets by Munchausen DQN (Vieillard et al. 2020).
//
// With munchausen (nn.Munchausen) pi = softmax(Q(., .; theta-minus) / tau) takes the place of the
// largest value: a target is r + alpha clip(tau log pi(a|s)) + gamma sum_a' pi(a'|s') (Q(s', a';
// theta-minus) - tau log pi(a'|s')). Over n steps the first action alone has a logarithm. Actions
// that are not allowed have probability 0 in both policies, so D stores the mask of s, too. With
// distribution implicit (M-IQN) the Q-values of both policies are means of K quantiles each, at
// taus of their own.

// Munchausen holds the settings of such targets.
type Munchausen struct {
	Munchausen      bool
	MunchausenAlpha float64
	MunchausenTau   float64
	MunchausenClip  float64
}

// ofMunchausen are the settings of Munchausen.
func ofMunchausen() []settings.Setting {
	return settings.Within(func(c *Config) *Munchausen { return &c.Munchausen }, []settings.Setting{
		settings.Bool("munchausen", false, "Munchausen DQN (Vieillard et al. 2020): a target has the expectation of a softmax policy of theta-minus and its entropy, in the place of the largest value, and a share of the policy's logarithm of the action, with n_steps of the first action alone; with distribution implicit (M-IQN) the policy's values are means of n_tau_act quantiles. A GPU does not compute it", func(m *Munchausen) *bool { return &m.Munchausen }),
		settings.Float("munchausen_alpha", 0.9, 0, 1, "share of munchausen_tau times the logarithm that a target of munchausen has", func(m *Munchausen) *float64 { return &m.MunchausenAlpha }),
		settings.Float("munchausen_tau", 0.03, 1e-6, 1e6, "temperature of munchausen's policy, softmax(Q / munchausen_tau)", func(m *Munchausen) *float64 { return &m.MunchausenTau }),
		settings.Float("munchausen_clip", -1, -1e9, 0, "smallest munchausen_tau times the logarithm; smaller ones count as this one", func(m *Munchausen) *float64 { return &m.MunchausenClip }),
	})
}

// shapeOfMunchausen are the settings of Munchausen that a file of a run must have as they are: the
// replay memory then has the masks of observations, too.
var shapeOfMunchausen = []string{"munchausen"}

// resolveMunchausen checks the settings of Munchausen.
func (c *Config) resolveMunchausen() (notices []string, err error) {
	switch {
	case !c.Munchausen.Munchausen:
	case c.DoubleQ:
		return nil, fmt.Errorf("double_q: true, must be false where munchausen is true: a target has the expectation over all actions, and no action is chosen")
	case c.Distribution == Categorical:
		return nil, fmt.Errorf("distribution: categorical, must be none, quantile or implicit where munchausen is true")
	}
	return nil, nil
}

// setMunchausenTarget sets the target of a run, if munchausen is set.
func (c *Config) setMunchausenTarget(run *offpolicy.Config) {
	if !c.Munchausen.Munchausen {
		return
	}
	of := nn.Munchausen{Alpha: c.MunchausenAlpha, Tau: c.MunchausenTau, Least: c.MunchausenClip}
	if c.Distribution == Implicit {
		of.Taus, of.Choosing = c.NTauTarget, c.NTauAct
	}
	run.Target = of
}
