package offpolicy

import (
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// noise makes the parameters that a noisy network acts with. The noise of a round is a function of
// the seed and of the step at which the round begins, so it depends neither on threads nor on how a
// run is cut into calls, and only the seed is part of a checkpoint. nn.StepperConfig.Seed says
// where the noise of updates comes from. The learners of a run have noise of their own.
type noise struct {
	run     uint64 // seed of the run
	learner int    // number of this learner in the run
	seed    uint64 // of this learner's noise; learner 0 has the run's
	source  *nn.Noise
	clean   *nn.Params
	noisy   *nn.Params // clean with the noise of the latest round
}

// newNoise returns nil for a network that is not noisy. acting are its parameters without noise,
// run and learner the fields of noise.
func newNoise(net nn.Spec, acting *nn.Params, run uint64, learner int) (*noise, error) {
	if net.Trunks[0].Noisy == 0 {
		return nil, nil
	}
	source, err := net.NewNoise()
	n := &noise{learner: learner, source: source, clean: acting, noisy: acting.Clone()}
	n.setRun(run)
	return n, err
}

// setRun sets the seed of the run.
func (n *noise) setRun(seed uint64) {
	n.run, n.seed = seed, seed
	if n.learner > 0 {
		n.seed = rng.New(seed, "noise", n.learner).Uint64()
	}
}

// Perturb draws the noise of the round that begins, of a noisy network after the warm-up. It may be
// called again before the round's steps.
func (r *Run) Perturb() {
	if r.noise == nil {
		return
	}
	// UpdatesBefore tells runs after a reset of the step count from one another.
	at := r.Clock.UpdatesBefore<<32 + r.Clock.T
	r.noise.source.Draw(rng.New(r.noise.seed, "noise act", int(at)))
	r.noise.source.Apply(r.noise.noisy, r.noise.clean)
}

// noisySets is the number of parameter sets with noise, at most: of acting and of an update.
func (c *Config) noisySets() int {
	if c.Net.Trunks[0].Noisy == 0 {
		return 0
	}
	return 2 + c.Target.Passes()
}
