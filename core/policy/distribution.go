package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// Distribution is the distribution of actions that the outputs of a network describe. An action's
// parts are independent: each branch has the softmax of its logits, each component of the box a
// Gaussian around the output of head "mu", whose standard deviation exp(log_std) does not depend on
// the observation. Probabilities are products over the parts; log-probabilities are sums, branches
// first.
type Distribution struct {
	Action env.ActionSpec
	Pi, Mu int // heads; -1 if the action has no branches, or no box
	Bounds Bounds
}

// NewDistribution returns the distribution of a network with the heads that the action needs: "pi"
// of Action.Logits() outputs, "mu" of Action.Floats() outputs.
func NewDistribution(action env.ActionSpec, net *nn.Spec, bounds Bounds) *Distribution {
	return &Distribution{Action: action, Pi: net.Head("pi"), Mu: net.Head("mu"), Bounds: bounds}
}

// width returns how many of the remaining logits belong to branch b.
func (d *Distribution) width(b int, logits []float32) int {
	if d.Action.N > 0 {
		return len(logits)
	}
	return int(d.Action.Branches[b])
}

// Sample draws an action: one number for each branch, then one for each component of the box.
// It writes to.Action and to.Continuous and returns the log-probability of the action. mask has a
// byte for each logit and allows at least one action of each branch; nil allows all.
func (d *Distribution) Sample(row Row, mask []byte, r *rng.Stream, to *experience.Step) (logProb float32, err error) {
	if d.Pi >= 0 {
		logits, err := row.Head(d.Pi)
		if err != nil {
			return 0, err
		}
		for b := range to.Action {
			width := d.width(b, logits)
			var p float32
			to.Action[b], p = sampleSoftmax(logits[:width], part(mask, width), r.Float64())
			logProb += p
			logits, mask = logits[width:], rest(mask, width)
		}
	}
	if d.Mu < 0 {
		return logProb, nil
	}
	mean, err := row.Head(d.Mu)
	if err != nil {
		return 0, err
	}
	logStd := row.LogStd()
	kernel.Exp(to.Continuous, logStd)
	for k, std := range to.Continuous {
		to.Continuous[k] = mean[k] + float32(std*float32(r.Normal()))
	}
	return gaussianLogProb(logProb, to.Continuous, mean, logStd), nil
}

// Mode writes the most probable action: the first allowed action with the largest logit of each
// branch, and the means.
func (d *Distribution) Mode(row Row, mask []byte, to *experience.Step) error {
	if d.Pi >= 0 {
		logits, err := row.Head(d.Pi)
		if err != nil {
			return err
		}
		for b := range to.Action {
			width := d.width(b, logits)
			to.Action[b] = nn.Argmax(logits[:width], part(mask, width))
			logits, mask = logits[width:], rest(mask, width)
		}
	}
	if d.Mu >= 0 {
		mean, err := row.Head(d.Mu)
		if err != nil {
			return err
		}
		copy(to.Continuous, mean)
	}
	return nil
}

// LogProb returns the log-probability of an action, bit-identical to that of Sample.
func (d *Distribution) LogProb(row Row, mask []byte, action []int32, continuous []float32) (logProb float32, err error) {
	if d.Pi >= 0 {
		logits, err := row.Head(d.Pi)
		if err != nil {
			return 0, err
		}
		for b, a := range action {
			width := d.width(b, logits)
			logProb += LogProb(logits[:width], part(mask, width), a)
			logits, mask = logits[width:], rest(mask, width)
		}
	}
	if d.Mu < 0 {
		return logProb, nil
	}
	mean, err := row.Head(d.Mu)
	if err != nil {
		return 0, err
	}
	return gaussianLogProb(logProb, continuous, mean, row.LogStd()), nil
}

// part returns the first width bytes of a mask; nil stays nil.
func part(mask []byte, width int) []byte {
	if mask == nil {
		return nil
	}
	return mask[:width]
}

// rest returns what follows the first width bytes of a mask; nil stays nil.
func rest(mask []byte, width int) []byte {
	if mask == nil {
		return nil
	}
	return mask[width:]
}

// gaussianLogProb returns the sum of the log-probabilities of x, and logProb.
func gaussianLogProb(logProb float32, x, mean, logStd []float32) float32 {
	s := scratch.Get().(*rowScratch)
	defer scratch.Put(s)
	s.sum[0] = logProb
	kernel.GaussianLogProbs(s.sum[:], mean, logStd, x)
	return s.sum[0]
}

// Bounds says how a Gaussian's sample becomes an action of the box.
type Bounds struct {
	// Squash takes the hyperbolic tangent of the sample. The result is in [-1, 1].
	Squash bool
	// Scaled stretches [-1, 1] to the box, whose bounds must be finite.
	Scaled bool
}

// Check returns an error if the bounds do not fit the action.
func (b Bounds) Check(a env.ActionSpec) error {
	switch {
	case (b.Squash || b.Scaled) && a.Floats() == 0:
		return fmt.Errorf("squashed: %v, scaled: %v, must be false where actions are %v", b.Squash, b.Scaled, a)
	case b.Scaled && !a.Bounded():
		return errors.New("scaled: true, must be false where a bound of the box is infinite")
	}
	if b.Scaled {
		for k, low := range a.Low {
			if high := a.High[k]; high-low > math.MaxFloat32 {
				return fmt.Errorf("scaled: true, must be false where high[%d] - low[%d] of the box (%v - %v) is above %v", k, k, high, low, float32(math.MaxFloat32))
			}
		}
	}
	return nil
}

// ToBox writes the action of the box for a sample of the Gaussian: squashed, scaled and clipped to
// the bounds of the box.
func (d *Distribution) ToBox(to, sample []float32) {
	if d.Bounds.Squash {
		kernel.Tanh(to, sample)
		sample = to
	}
	if d.Bounds.Scaled {
		for k, x := range sample {
			low, high := d.Action.Low[k], d.Action.High[k]
			to[k] = low + float32(float32(0.5*(x+1))*(high-low))
		}
		sample = to
	}
	d.Action.Clip(to, sample)
}
