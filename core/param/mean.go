package param

import (
	"fmt"
	"math"
	"sync"

	"github.com/paceline-rl/paceline/core/nn"
)

// Mean combines the gradients of all learners into each step of a Store (Stooke & Abbeel, 4.2):
// synchronous data parallelism. K learners take the step that one learner takes with K times the
// batch.
//
//   - A round is one contribution of every learner. The learner whose contribution is the last one
//     combines them and takes the step; the others wait. The order in which learners contribute does
//     not change a bit, because contributions are added in the order of the learners.
//   - Sums and numbers of rows are combined, not means: a learner with twice the rows has twice the
//     weight. The norm is clipped after the combination.
//   - Wait returns the result of the round. A learner contributes to the next round after Wait, so a
//     round cannot overtake a learner. After Wait the learner pulls.
//   - A learner that waits holds no core: the caller releases its core before Wait, and acquires one
//     after it, if Add has returned false.
//
// AddSums combines numbers instead of a gradient, for what learners must agree on before they
// compute a gradient: the mean and the deviation of advantages, or a divergence that ends an update.
type Mean struct {
	store   *Store
	maxNorm float64
	grad    []float32 // combined

	mu      sync.Mutex
	ended   sync.Cond // a round has ended, or Stop was called
	given   []contribution
	count   int      // contributions of the round in progress
	result  Combined // of the latest round
	err     error    // of the latest round
	stopped error
}

// contribution is what a learner has given to the round.
type contribution struct {
	state contributionState
	Contribution
	sums []float64
}

type contributionState int

const (
	absent contributionState = iota
	given                    // the round is in progress
	ended                    // Wait has not returned the result yet
)

// Contribution is the gradient of one learner. The learner does not change Grad before Wait has
// returned.
type Contribution struct {
	Grad []float32
	// Rows is the number of rows of the batch, or the sum of their weights. 0: all rows are holes,
	// and the contribution is ignored.
	Rows float64
	// Summed says that the loss is a sum over the rows. Otherwise it is the mean.
	Summed bool
	// Rate is the learning rate. The rate of learner 0 applies.
	Rate float64
}

// Combined is the result of a round.
type Combined struct {
	Rows float64 // of all learners; 0: no step was taken
	Norm float64 // of the combined gradient before clipping
}

// NewMean returns a Mean of a number of learners, at least 1. maxNorm is the norm to which larger
// combined gradients are scaled down; 0: they are not clipped. The rule of s is mean.
func NewMean(s *Store, learners int, maxNorm float64) (*Mean, error) {
	switch {
	case s.rule.Name != RuleMean:
		return nil, fmt.Errorf("rule: %s, must be %s", s.rule.Name, RuleMean)
	case learners < 1:
		return nil, fmt.Errorf("learners: %d, must be at least 1", learners)
	case !(maxNorm >= 0):
		return nil, fmt.Errorf("max_grad_norm: %v, must be 0 or above", maxNorm)
	}
	if maxNorm == 0 {
		maxNorm = math.Inf(1)
	}
	m := &Mean{store: s, maxNorm: maxNorm, grad: make([]float32, len(s.theta)), given: make([]contribution, learners)}
	m.ended.L = &m.mu
	return m, nil
}

// Add contributes the gradient of a learner to the round. last says that the round has ended with
// it, so that Wait returns at once. After an error the learner has not contributed.
func (m *Mean) Add(learner int, c Contribution) (last bool, err error) {
	switch {
	case len(c.Grad) != len(m.grad):
		return false, fmt.Errorf("grad: %d floats, must be %d", len(c.Grad), len(m.grad))
	case !(c.Rows >= 0 && c.Rows <= math.MaxFloat32):
		return false, fmt.Errorf("rows: %v, must be 0 or above and finite", c.Rows)
	}
	if err := checkFinite(1, c.Rate); err != nil {
		return false, err
	}
	return m.add(learner, contribution{state: given, Contribution: c})
}

// AddSums contributes numbers to the round. When it ends, the numbers of every learner are replaced
// by their sums over the learners. The learner does not use them before Wait has returned. last and
// err are those of Add.
func (m *Mean) AddSums(learner int, numbers []float64) (last bool, err error) {
	if numbers == nil {
		numbers = []float64{}
	}
	return m.add(learner, contribution{state: given, sums: numbers})
}

func (m *Mean) add(learner int, c contribution) (last bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case learner < 0 || learner >= len(m.given):
		return false, fmt.Errorf("learner: %d, must be 0 to %d", learner, len(m.given)-1)
	case m.given[learner].state != absent:
		return false, fmt.Errorf("learner: %d has contributed to this round, and must call Wait first", learner)
	case m.stopped != nil:
		return false, m.stopped
	}
	m.given[learner] = c
	if m.count++; m.count < len(m.given) {
		return false, nil
	}
	m.result, m.err = m.combine()
	m.count = 0
	for i := range m.given {
		m.given[i] = contribution{state: ended}
	}
	m.ended.Broadcast()
	return true, nil
}

// Wait waits until the round has ended to which a learner has contributed, and returns the result,
// which is the same for all learners. If the combined gradient is not finite, no step is taken, and
// the error wraps a *nn.NotFinite and names the first learner whose gradient is not finite. After
// Stop, Wait withdraws the contribution and returns Stop's error, if the round has not ended.
func (m *Mean) Wait(learner int) (Combined, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if learner < 0 || learner >= len(m.given) || m.given[learner].state == absent {
		return Combined{}, fmt.Errorf("learner: %d has not contributed to the round", learner)
	}
	for m.given[learner].state == given && m.stopped == nil {
		m.ended.Wait()
	}
	was := m.given[learner].state
	m.given[learner] = contribution{}
	if was == given {
		m.count--
		return Combined{}, m.stopped
	}
	return m.result, m.err
}

// Stop makes Wait and Add return err, until Resume. A round that has ended is not undone.
func (m *Mean) Stop(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = err
	m.ended.Broadcast()
}

// Resume allows contributions again. No Wait is in progress.
func (m *Mean) Resume() { m.Stop(nil) }

// combine ends a round.
func (m *Mean) combine() (c Combined, err error) {
	first := &m.given[0]
	for i := range m.given {
		switch g := &m.given[i]; {
		case (g.sums == nil) != (first.sums == nil):
			return c, fmt.Errorf("learner %d: a gradient in a round of sums, or sums in a round of gradients", i)
		case len(g.sums) != len(first.sums):
			return c, fmt.Errorf("learner %d: %d numbers, must be %d as those of learner 0", i, len(g.sums), len(first.sums))
		case g.Summed != first.Summed:
			return c, fmt.Errorf("learner %d: the loss is a sum: %v, must be %v as that of learner 0", i, g.Summed, first.Summed)
		}
		c.Rows += m.given[i].Rows
	}
	if first.sums != nil {
		m.addSums()
		return c, nil
	}
	if c.Rows == 0 {
		return c, nil
	}
	m.addGradients(c.Rows)
	norm, factor := m.store.optimizer.ClipGradNorm(m.grad, m.maxNorm)
	if c.Norm = norm; math.IsNaN(norm) || math.IsInf(norm, 0) {
		return c, m.notFinite(norm)
	}
	return c, m.store.stepAll(m.grad, factor, first.Rate)
}

// addSums replaces the numbers of every learner by their sums.
func (m *Mean) addSums() {
	for i := range m.given[0].sums {
		sum := 0.0
		for k := range m.given {
			sum += m.given[k].sums[i]
		}
		for k := range m.given {
			m.given[k].sums[i] = sum
		}
	}
}

// addGradients computes the combined gradient of a number of rows. The sums are in float64. The
// weight of a learner is its share of the rows, which is exactly 1 for one learner.
func (m *Mean) addGradients(rows float64) {
	var sums [1024]float64
	for first := 0; first < len(m.grad); first += len(sums) {
		to := m.grad[first:min(len(m.grad), first+len(sums))]
		clear(sums[:])
		for k := range m.given {
			g := &m.given[k]
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
func (m *Mean) notFinite(norm float64) error {
	of := &nn.NotFinite{What: "gradient norm", Value: norm}
	for k := range m.given {
		for _, v := range m.given[k].Grad {
			if m.given[k].Rows > 0 && v-v != 0 {
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
		s.lock(at)
		err := s.step(at, grad, factor, rate, 0)
		at.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
