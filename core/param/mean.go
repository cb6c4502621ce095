package param

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/nn"
)

// Mean combines the gradients of all learners into each step of a Store (Stooke & Abbeel, 4.2):
// synchronous data parallelism. K learners take the step that one learner takes with K times the
// batch.
//
//   - Combine takes one contribution of every learner. Contributions are added in the order of the
//     learners, so the order in which the learners computed them does not change a bit.
//   - Sums and numbers of rows are combined, not means: a learner with twice the rows has twice the
//     weight. The norm is clipped after the combination.
//   - No visit to the Store is in progress during Combine. The caller decides when that is; the
//     learners pull afterwards.
type Mean struct {
	store   *Store
	maxNorm float64
	grad    []float32 // combined
}

// Contribution is the gradient of one learner.
type Contribution struct {
	Grad []float32
	// Rows is the number of rows of the batch, or the sum of their weights. 0: all rows are holes,
	// and the contribution is ignored.
	Rows float64
	// Summed says that the loss is a sum over the rows. Otherwise it is the mean.
	Summed bool
	// Rate is the learning rate. The rate of the first learner with rows applies.
	Rate float64
}

// Combined is the result of a round.
type Combined struct {
	Rows float64 // of all learners; 0: no step was taken
	Norm float64 // of the combined gradient before clipping
}

// NewMean returns a Mean of the Store s, whose rule is mean. maxNorm is the norm to which larger
// combined gradients are scaled down; 0: they are not clipped.
func NewMean(s *Store, maxNorm float64) (*Mean, error) {
	switch {
	case s.rule.Name != RuleMean:
		return nil, fmt.Errorf("rule: %s, must be %s", s.rule.Name, RuleMean)
	case !(maxNorm >= 0):
		return nil, fmt.Errorf("max_grad_norm: %v, must be 0 or above", maxNorm)
	}
	if maxNorm == 0 {
		maxNorm = math.Inf(1)
	}
	return &Mean{store: s, maxNorm: maxNorm, grad: make([]float32, len(s.theta))}, nil
}

// Combine takes a step along the gradients of all learners. If the combined gradient is not finite,
// no step is taken, and the error wraps a *nn.NotFinite and names the first learner whose gradient
// is not finite.
func (m *Mean) Combine(all []Contribution) (c Combined, err error) {
	for k := range all {
		g := &all[k]
		switch {
		case !(g.Rows >= 0 && g.Rows <= math.MaxFloat32):
			return c, fmt.Errorf("learner %d: rows: %v, must be 0 or above and finite", k, g.Rows)
		case g.Rows > 0 && len(g.Grad) != len(m.grad):
			return c, fmt.Errorf("learner %d: grad: %d floats, must be %d", k, len(g.Grad), len(m.grad))
		case g.Summed != all[0].Summed:
			return c, fmt.Errorf("learner %d: the loss is a sum: %v, must be %v as that of learner 0", k, g.Summed, all[0].Summed)
		}
		c.Rows += g.Rows
	}
	if c.Rows == 0 {
		return c, nil
	}
	rate := all[slices.IndexFunc(all, func(g Contribution) bool { return g.Rows > 0 })].Rate
	if err := checkFinite(1, rate); err != nil {
		return c, err
	}
	m.addGradients(all, c.Rows)
	norm, factor := m.store.device.ClipGradNorm(m.grad, m.maxNorm)
	if c.Norm = norm; math.IsNaN(norm) || math.IsInf(norm, 0) {
		return c, notFinite(all, norm)
	}
	return c, m.store.stepAll(m.grad, factor, rate)
}

// addGradients computes the combined gradient of a number of rows. The sums are in float64. The
// weight of a learner is its share of the rows, which is exactly 1 for one learner.
func (m *Mean) addGradients(all []Contribution, rows float64) {
	var sums [1024]float64
	for first := 0; first < len(m.grad); first += len(sums) {
		to := m.grad[first:min(len(m.grad), first+len(sums))]
		clear(sums[:])
		for k := range all {
			g := &all[k]
			weight := g.Rows / rows
			if g.Rows == 0 {
				continue // NaN included
			}
			if g.Summed {
				weight = 1
			}
			for i, v := range g.Grad[first:][:len(to)] {
				sums[i] += float64(weight * float64(v))
			}
		}
		for i := range to {
			to[i] = float32(sums[i])
		}
	}
}

// notFinite names the learner whose gradient has made the norm not finite.
func notFinite(all []Contribution, norm float64) error {
	of := &nn.NotFinite{What: "gradient norm", Value: norm}
	for k := range all {
		for _, v := range all[k].Grad {
			if all[k].Rows > 0 && v-v != 0 {
				return fmt.Errorf("learner %d: %w", k, of)
			}
		}
	}
	return fmt.Errorf("the sum over the learners: %w", of)
}

// stepAll takes a step of the optimiser with all shards.
func (s *Store) stepAll(grad []float32, factor float32, rate float64) error {
	for i := range s.shards {
		at := &s.shards[i]
		at.Lock()
		err := s.step(at, grad, factor, rate, 0)
		at.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
