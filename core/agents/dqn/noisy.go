package dqn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/settings"
)

// This file is about noisy networks (Fortunato et al. 2018).
//
// With the setting noisy the dense layers have factorised noise (nn.Noise). The environments of a
// round act with the same noise, which is drawn anew for the next round. An update draws apart for
// Q(s, a; theta), for theta-minus and for the choices of double_q. The noise of a round is a
// function of the seed and t, that of an update of the seed and the update's number. Policies,
// predict and evaluation have none.

// Noisy holds the settings of noisy networks.
type Noisy struct {
	Noisy      bool
	NoisySigma float64
}

// ofNoisy are the settings of Noisy.
func ofNoisy() []settings.Setting {
	return settings.Within(func(c *Config) *Noisy { return &c.Noisy }, []settings.Setting{
		settings.Bool("noisy", false, "Noisy network (Fortunato et al. 2018): all dense layers have factorised noise of learned size, which explores, so epsilon may be 0. Every round of steps has noise of its own; in an update theta, theta-minus and the choices of double_q have theirs. Policies act without noise. A GPU does not compute it", func(n *Noisy) *bool { return &n.Noisy }),
		settings.Float("noisy_sigma", 0.5, 1e-6, 1e3, "initial size of the noise of a noisy network; a layer has noisy_sigma / sqrt(inputs)", func(n *Noisy) *float64 { return &n.NoisySigma }),
	})
}

// shapeOfNoisy are the settings of Noisy that a file of a run must have as they are.
var shapeOfNoisy = []string{"noisy", "noisy_sigma"}

// resolveNoisy checks the settings of Noisy.
func (c *Config) resolveNoisy() (notices []string, err error) {
	switch {
	case !c.Noisy.Noisy:
	case !c.Synchronized:
		return nil, fmt.Errorf("noisy: true, must be false where synchronized is false: the environments of a round share its noise")
	case c.Learners > 0:
		return nil, fmt.Errorf("noisy: true, must be false where learners is %d", c.Learners)
	case c.Outliers > 0:
		return nil, fmt.Errorf("noisy: true, must be false where outliers is %g: an update after a dropped gradient would have its noise", c.Outliers)
	}
	return nil, nil
}

// sigma is the initial size of the noise of the network; 0: it is not noisy.
func (c *Config) sigma() float64 {
	if c.Noisy.Noisy {
		return c.NoisySigma
	}
	return 0
}
