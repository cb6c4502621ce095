package param

import (
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/nn"
)

// Local is what a learner keeps under the rule multi_step_adam: moments m and v of Adam, and what
// its steps since the latest push add up to. With the gradient g, learning rate r and Adam's t, a
// step is (Stooke & Abbeel, appendix A)
//
//	a = r sqrt(1-β2^t)/(1-β1^t)
//	m = β1 m + (1-β1) g              v = β2 v + (1-β2) g²
//	s = a m/(sqrt(v) + eps)          θ -= s
//	a_g = β1 a_g + g                 a_g2 = β2 a_g2 + g²        a_s += s
//
// and a push of n steps is, with the central values θ', m', v',
//
//	θ, θ' = θ' - a_s
//	m, m' = β1^n m' + (1-β1) a_g     v, v' = β2^n v' + (1-β2) a_g2
//	a_g, a_g2, a_s = 0
//
// The copy of the appendix that we have prints sqrt(v eps) in place of sqrt(v) + eps; the authors'
// code has the sum. With Rule.EpsCorrected eps is multiplied by sqrt(1-β2^t), and θ, m and v are
// those of the optimiser "adam", bit for bit, until the push.
//
// n may differ from push to push: the learner pushes the remainder of an epoch, too. Between the
// first and the last shard of a push the learner takes no step.
//
// A learner that pulls parameters between two pushes keeps its moments, as the paper's sampling
// does. It has no step that is not pushed then.
type Local struct {
	store *Store
	// m, v and the accumulated a_g, a_g2, a_s, each as long as the parameters.
	m, v, sumG, sumG2, sumS []float32

	steps []int64 // Adam's t of the latest step, by shard
	n     int64   // steps since the latest push
	next  int     // shard that the push in progress visits next; 0: no push is in progress
}

// NewLocal returns what a learner keeps, with the central moments. The rule is multi_step_adam.
func (s *Store) NewLocal() (*Local, error) {
	if s.rule.Name != RuleMultiStepAdam {
		return nil, fmt.Errorf("rule: %s, must be %s for local steps", s.rule.Name, RuleMultiStepAdam)
	}
	size := len(s.theta)
	l := &Local{store: s, steps: make([]int64, len(s.shards))}
	for _, array := range l.arrays() {
		*array = make([]float32, size)
	}
	for i := range s.shards {
		at := &s.shards[i]
		at.Lock()
		l.take(i, at)
		if s.rule.LocalSteps {
			l.steps[i] = 0
		}
		at.Unlock()
	}
	return l, nil
}

func (l *Local) arrays() [localArrays]*[]float32 {
	return [localArrays]*[]float32{&l.m, &l.v, &l.sumG, &l.sumG2, &l.sumS}
}

// Pending returns the number of steps that are not pushed.
func (l *Local) Pending() int64 { return l.n }

// Next returns the shard that the push in progress visits next; 0: no push is in progress.
func (l *Local) Next() int { return l.next }

// Step takes one step of Adam with a learner's copy of the parameters, along factor*grad. It does
// not count in Updates, which are those of the Store. It does not allocate.
func (l *Local) Step(theta *nn.Params, grad []float32, factor float32, rate float64) error {
	size := len(l.m)
	switch {
	case len(theta.Raw()) != size || len(grad) != size:
		return fmt.Errorf("local step: %d parameters and %d gradients, must be %d each", len(theta.Raw()), len(grad), size)
	case l.next != 0:
		return fmt.Errorf("local step: a push is in progress, its next shard is %d of %d", l.next, len(l.steps))
	}
	if err := checkFinite(float64(factor), rate); err != nil {
		return err
	}
	host := theta.Host()
	for i := range l.steps {
		at := &l.store.shards[i]
		l.steps[i]++
		l.step(at, host[at.first:at.first+at.size], grad[at.first:at.first+at.size], factor, rate, l.steps[i])
	}
	l.n++
	theta.Wrote()
	return nil
}

// step takes step number t with a shard.
func (l *Local) step(at *shard, theta, grad []float32, factor float32, rate float64, t int64) {
	c := &l.store.rule.Optimizer
	keep1, rest1 := float32(c.Beta1), float32(1-c.Beta1)
	keep2, rest2 := float32(c.Beta2), float32(1-c.Beta2)
	// s = size*m / (sqrt(v)/root + eps), in the operations of the optimiser "adam".
	size := float32(float64(float32(rate)) / (1 - power(c.Beta1, t)))
	root := float32(math.Sqrt(1 - power(c.Beta2, t)))
	eps := float32(c.Eps)
	if !l.store.rule.EpsCorrected {
		eps /= root
	}
	of := func(array []float32) []float32 { return array[at.first:][:len(theta)] }
	m, v, sumG, sumG2, sumS := of(l.m), of(l.v), of(l.sumG), of(l.sumG2), of(l.sumS)
	for i := range theta {
		g := float32(factor * grad[i])
		m[i] = float32(keep1*m[i]) + float32(rest1*g)
		v[i] = float32(keep2*v[i]) + float32(float32(rest2*g)*g)
		s := float32(size*m[i]) / (float32(float32(math.Sqrt(float64(v[i])))/root) + eps)
		before := theta[i]
		theta[i] -= s
		sumG[i] = float32(keep1*sumG[i]) + g
		sumG2[i] = float32(keep2*sumG2[i]) + float32(g*g)
		sumS[i] += before - theta[i] // s as θ has rounded it: one learner's push gives its θ again
	}
}

// check checks a push of l to a shard of s.
func (l *Local) check(s *Store, shard int) error {
	switch {
	case l == nil || l.store != s:
		return errors.New("push.local: none, or of another store")
	case shard != l.next:
		return fmt.Errorf("shard: %d, must be %d: a push visits the shards in their order", shard, l.next)
	case l.n == 0:
		return errors.New("push.local: 0 steps since the latest push, must be at least 1")
	}
	return nil
}

// move applies the steps of a learner to a locked shard.
func (s *Store) move(at *shard, l *Local) {
	c := &s.rule.Optimizer
	// In float64: a power of β rounded to float32 has the same error at every push, and such errors
	// add up. A local step multiplies by β rounded to float32, so the power is that of the rounded β.
	keep1, rest1 := power(float64(float32(c.Beta1)), l.n), float64(float32(1-c.Beta1))
	keep2, rest2 := power(float64(float32(c.Beta2)), l.n), float64(float32(1-c.Beta2))
	of := func(array []float32) []float32 { return array[at.first:][:at.size] }
	theta, m, v := of(s.theta), of(s.state[0].Data), of(s.state[1].Data)
	sumG, sumG2, sumS := of(l.sumG), of(l.sumG2), of(l.sumS)
	for i := range theta {
		theta[i] -= sumS[i]
		m[i] = float32(float64(keep1*float64(m[i])) + float64(rest1*float64(sumG[i])))
		v[i] = float32(float64(keep2*float64(v[i])) + float64(rest2*float64(sumG2[i])))
	}
	s.applied(at, l.n)
}

// pushed counts the visit of a push to a locked shard.
func (l *Local) pushed(shard int, at *shard) {
	l.renew(shard, at)
	if l.next++; l.next == len(l.steps) {
		l.n, l.next = 0, 0
	}
}

// Forget discards the steps that are not pushed, also those of a push in progress: l continues with
// the central moments. The caller pulls the parameters.
func (l *Local) Forget() {
	for i := range l.store.shards {
		at := &l.store.shards[i]
		at.Lock()
		l.renew(i, at)
		at.Unlock()
	}
	l.n, l.next = 0, 0
}

// renew empties a locked shard of l, which continues with the shard's moments.
func (l *Local) renew(shard int, at *shard) {
	steps := l.steps[shard]
	l.take(shard, at)
	if l.store.rule.LocalSteps {
		l.steps[shard] = steps
	}
	for _, array := range []([]float32){l.sumG, l.sumG2, l.sumS} {
		clear(array[at.first:][:at.size])
	}
}

// take copies the moments and the steps of a locked shard to l.
func (l *Local) take(shard int, at *shard) {
	copy(l.m[at.first:][:at.size], l.store.state[0].Data[at.first:])
	copy(l.v[at.first:][:at.size], l.store.state[1].Data[at.first:])
	l.steps[shard] = at.steps
}

// power returns x^n by repeated squaring, for the same bits on every processor.
func power(x float64, n int64) float64 {
	p := 1.0
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			p = float64(p * x)
		}
		x = float64(x * x)
	}
	return p
}

// savedLocal is the part of a checkpoint beside the arrays of a Local.
type savedLocal struct {
	Steps []int64 `json:"steps"`
	N     int64   `json:"n"`
	Next  int     `json:"next"`
}

// Parts lists the parts of a checkpoint that hold l. Their names begin with name.
func (l *Local) Parts(name string) []checkpoint.Part {
	tensors := make([]nn.Tensor, 0, localArrays)
	for i, array := range l.arrays() {
		tensors = append(tensors, nn.Tensor{Name: []string{"m", "v", "sum_g", "sum_g2", "sum_s"}[i], Shape: []int{len(*array)}, Data: *array})
	}
	save := func() (savedLocal, error) { return savedLocal{l.steps, l.n, l.next}, nil }
	return []checkpoint.Part{
		nn.TensorsPart(name+".safetensors", tensors),
		checkpoint.JSON(name+".json", partBytes(len(l.steps)), save, func(saved savedLocal) (func(), error) {
			return func() {
				copy(l.steps, saved.Steps)
				l.n, l.next = saved.N, saved.Next
			}, l.checkSaved(&saved)
		}),
	}
}

func (l *Local) checkSaved(saved *savedLocal) error {
	if len(saved.Steps) != len(l.steps) {
		return fmt.Errorf("local steps: %d shards, must be %d", len(saved.Steps), len(l.steps))
	}
	for i, n := range saved.Steps {
		if n < 0 || n > most {
			return fmt.Errorf("local steps: step %d of shard %d, must be 0 to %d", n, i, most)
		}
	}
	if saved.N < 0 || saved.N > most || saved.Next < 0 || saved.Next >= len(l.steps) || saved.N == 0 && saved.Next != 0 {
		return fmt.Errorf("local steps: %d not pushed, of which the next shard is %d of %d", saved.N, saved.Next, len(l.steps))
	}
	return nil
}
