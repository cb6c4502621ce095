package cpu

import (
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// noisy makes the parameters of an update of a noisy network. Those that are learned, those that
// choose actions in double Q-learning and those of the target have noise of their own, as in
// dqn_zoo's Rainbow.
type noisy struct {
	seed *uint64
	sets [3]noisySet // in this order
}

type noisySet struct {
	name  string // of the stream
	noise *nn.Noise
	with  *nn.Params // nil: the update has no such parameters
}

// newNoisy returns nil for a network that is not noisy.
func newNoisy(c *nn.StepperConfig, target nn.Target) (*noisy, error) {
	if c.Net.Trunks[0].Noisy == 0 {
		return nil, nil
	}
	layout, err := c.Net.Layout()
	if err != nil {
		return nil, err
	}
	n := &noisy{seed: c.Seed, sets: [3]noisySet{{name: "noise online"}, {name: "noise choice"}, {name: "noise target"}}}
	if n.seed == nil {
		n.seed = new(uint64)
	}
	_, soft := target.(nn.Munchausen)
	for k := range n.sets {
		s := &n.sets[k]
		if k == 1 && (soft || target.Passes() < 2) {
			continue // no action is chosen by theta
		}
		if s.noise, err = c.Net.NewNoise(); err != nil {
			return nil, err
		}
		s.with = nn.NewParams(layout)
	}
	return n, nil
}

// draw draws the noise of the update after a number of steps.
func (n *noisy) draw(theta, target *nn.Params, step int64) (learned, choosing, targets *nn.Params) {
	for k, from := range [3]*nn.Params{theta, theta, target} {
		if s := &n.sets[k]; s.with != nil {
			s.noise.Draw(rng.New(*n.seed, s.name, int(step)))
			s.noise.Apply(s.with, from)
		}
	}
	return n.sets[0].with, n.sets[1].with, n.sets[2].with
}
