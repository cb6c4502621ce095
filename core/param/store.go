package param

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/paceline-rl/paceline/core/nn"
)

// MaxShards is the largest number of shards.
const MaxShards = 1024

// alignment is the number of floats of a cache line. The borders of shards are multiples of it, so
// that no two shards write the same cache line.
const alignment = 16

// Store holds the central parameters and the state of their optimiser.
type Store struct {
	params    *nn.Params
	theta     []float32 // of params
	rule      Rule
	device    nn.Device    // of one thread, so that learners step shards concurrently; nil: multi_step_adam
	optimizer nn.Optimizer // nil: multi_step_adam
	state     []nn.Tensor  // of the optimiser
	shards    []shard

	writes sync.Mutex // guards params.Writes: visits to different shards count in it
}

type shard struct {
	sync.Mutex
	first, size int

	version uint64 // pushes applied
	steps   int64  // steps of an optimiser in these pushes
	refused uint64 // pushes that were too old
	pulls   uint64

	_ [64]byte // keeps the locks of two shards in different cache lines
}

// New returns a Store whose central parameters are p, cut into a number of shards, 1 to MaxShards
// and at most one for each parameter. p is in host memory and belongs to the Store. d is a CPU.
func New(d nn.Device, p *nn.Params, rule Rule, shards int) (*Store, error) {
	if err := rule.complete(); err != nil {
		return nil, err
	}
	size := p.Layout.Size
	if most := min(size, MaxShards); shards < 1 || shards > most {
		return nil, fmt.Errorf("shards: %d, must be 1 to %d for %d parameters", shards, most, size)
	}
	if d.Name() != "cpu" {
		return nil, fmt.Errorf("device: %s, the central parameters need the device cpu", d.Name())
	}
	s := &Store{params: p, theta: p.Host(), rule: rule, shards: make([]shard, shards)}
	if rule.Name == RuleMultiStepAdam {
		var err error
		if s.state, err = s.rule.Optimizer.NewState(size); err != nil {
			return nil, err
		}
	} else {
		var err error
		if s.device, err = d.Another(1, nil); err != nil {
			return nil, err
		}
		if s.optimizer, err = s.device.Optimizer(rule.Optimizer, size); err != nil {
			return nil, err
		}
		s.state = s.optimizer.State()
	}
	unit := alignment
	if size < alignment*shards {
		unit = 1
	}
	units, first := (size+unit-1)/unit, 0
	for i := range s.shards {
		end := min(size, units*(i+1)/shards*unit)
		s.shards[i].first, s.shards[i].size = first, end-first
		first = end
	}
	return s, nil
}

// Shards returns the number of shards.
func (s *Store) Shards() int { return len(s.shards) }

// Range returns the parameters of a shard: the first one, and how many they are.
func (s *Store) Range(shard int) (first, size int) {
	return s.shards[shard].first, s.shards[shard].size
}

// Rule returns the rule, with the defaults of its optimiser filled in.
func (s *Store) Rule() Rule { return s.rule }

// Params returns the central parameters. They may be used only while no visit is in progress, and a
// caller that changes them calls their Wrote.
func (s *Store) Params() *nn.Params { return s.params }

// Versions writes the version of each shard to a slice of Shards() elements.
func (s *Store) Versions(to []uint64) {
	for i := range s.shards {
		at := &s.shards[i]
		at.Lock()
		to[i] = at.version
		at.Unlock()
	}
}

// Counts are numbers of visits.
type Counts struct {
	Updates uint64 // pushes that were applied to the last shard
	Refused uint64 // pushes that were refused, summed over the shards
	Pulls   uint64 // pulls of the last shard
}

// Counts returns the numbers of visits so far.
func (s *Store) Counts() (c Counts) {
	for i := range s.shards {
		at := &s.shards[i]
		at.Lock()
		c.Updates, c.Pulls = at.version, at.pulls
		c.Refused += at.refused
		at.Unlock()
	}
	return c
}

// Pull copies a shard to a learner's copy of the parameters, and returns the version of the shard.
// A pull of the last shard sets Updates of the copy. The copy has the layout of the central
// parameters: Pull panics if their sizes differ.
func (s *Store) Pull(shard int, to *nn.Params) (version uint64) {
	if len(to.Raw()) != len(s.theta) {
		panic("param: Pull between different layouts")
	}
	at := &s.shards[shard]
	at.Lock()
	defer at.Unlock()
	at.pulls++
	s.give(at, to)
	return at.version
}

// give copies a locked shard to a learner's copy.
func (s *Store) give(at *shard, to *nn.Params) {
	copy(to.Host()[at.first:at.first+at.size], s.theta[at.first:])
	if s.last(at) {
		to.Updates = at.version
	}
	to.Wrote()
}

// last reports whether a shard is the last one.
func (s *Store) last(at *shard) bool { return at.first+at.size == len(s.theta) }

// Push is what a learner pushes to a shard. The arrays have the layout of the parameters; a visit
// uses the range of its shard.
type Push struct {
	Grad   []float32 // finite; gradient and overwrite
	Factor float32   // of Grad, which clips its norm: 1 or less
	Rate   float64   // learning rate
	// Seen is the version of the shard that the learner had when it computed the gradient, or with
	// multi_step_adam the version after its latest push or pull.
	Seen uint64
	// Step is the number of this push among those of its learner, from 1 on, if Rule.LocalSteps.
	Step int64
	// To is the learner's copy of the parameters. overwrite and multi_step_adam change it.
	To *nn.Params
	// Local is what the learner has accumulated; multi_step_adam.
	Local *Local
}

// ErrStale says that a shard has refused a gradient because of Rule.MaxStaleness.
var ErrStale = errors.New("the gradient is too old")

// Stale is the error of a push that was refused. It wraps ErrStale.
type Stale struct {
	Shard int
	Lag   uint64
	Most  int64
}

func (e *Stale) Error() string {
	return fmt.Sprintf("shard %d: lag %d, must be at most max_staleness: %d: %v", e.Shard, e.Lag, e.Most, ErrStale)
}
func (e *Stale) Unwrap() error { return ErrStale }

// Push applies a push to a shard and returns the version of the shard after it.
//
// A push that is too old changes neither the shard nor its version. It is counted, and the error is
// a *Stale. Each shard decides for itself, with its own lag. After a push that was applied or
// refused, the shard of the copy To is the central one if the rule is overwrite or multi_step_adam,
// and the shard of Local is empty. After any other error nothing has changed.
func (s *Store) Push(shard int, p Push) (version uint64, err error) {
	if err := s.check(shard, &p); err != nil {
		return 0, err
	}
	at := &s.shards[shard]
	at.Lock()
	defer at.Unlock()
	if p.Seen > at.version {
		return 0, fmt.Errorf("push.seen: %d, must be at most the version of shard %d, which is %d", p.Seen, shard, at.version)
	}
	if lag := at.version - p.Seen; s.rule.MaxStaleness > 0 && lag > uint64(s.rule.MaxStaleness) {
		at.refused++
		err = &Stale{shard, lag, s.rule.MaxStaleness}
	} else if p.Local != nil {
		s.move(at, p.Local)
	} else if err := s.step(at, p.Grad, p.Factor, p.Rate, p.Step); err != nil {
		return 0, err
	}
	switch s.rule.Name {
	case RuleMultiStepAdam:
		p.Local.pushed(shard, at)
		s.give(at, p.To)
	case RuleOverwrite:
		s.give(at, p.To)
	}
	return at.version, err
}

// check checks everything of a push but Seen.
func (s *Store) check(shard int, p *Push) error {
	size, multi := len(s.theta), s.rule.Name == RuleMultiStepAdam
	switch {
	case s.rule.Name == RuleMean:
		return fmt.Errorf("rule: %s, gradients are pushed with a Mean", s.rule.Name)
	case shard < 0 || shard >= len(s.shards):
		return fmt.Errorf("shard: %d, must be 0 to %d", shard, len(s.shards)-1)
	case s.rule.Name != RuleGradient && (p.To == nil || len(p.To.Raw()) != size):
		return fmt.Errorf("push.to: no parameters, or of another network, must be %d", size)
	case !multi && p.Local != nil:
		return fmt.Errorf("push.local: the rule %s has no steps of its own", s.rule.Name)
	case multi:
		return p.Local.check(s, shard)
	case len(p.Grad) != size:
		return fmt.Errorf("push.grad: %d floats, must be %d", len(p.Grad), size)
	case s.rule.LocalSteps && p.Step < 1:
		return fmt.Errorf("push.step: %d, must be at least 1", p.Step)
	}
	return checkFinite(float64(p.Factor), p.Rate)
}

// checkFinite checks what a gradient is multiplied by.
func checkFinite(factor, rate float64) error {
	if !(factor >= 0 && factor <= math.MaxFloat32) {
		return fmt.Errorf("factor: %v, must be 0 or above and finite", factor)
	}
	if !(rate >= 0 && rate <= math.MaxFloat32) {
		return fmt.Errorf("learning_rate: %v, must be 0 or above and finite", rate)
	}
	return nil
}

// step takes a step of the optimiser with a locked shard. own is the learner's number of the step.
func (s *Store) step(at *shard, grad []float32, factor float32, rate float64, own int64) error {
	t := at.steps + 1
	if s.rule.LocalSteps {
		t = own
	}
	if err := s.optimizer.ApplyRange(s.params, at.first, grad[at.first:at.first+at.size], factor, rate, t); err != nil {
		return err
	}
	s.applied(at, 1)
	return nil
}

// applied counts a push of a number of steps to a locked shard.
func (s *Store) applied(at *shard, steps int64) {
	at.version++
	at.steps += steps
	if s.last(at) {
		s.params.Updates = at.version
	}
	s.writes.Lock()
	s.params.Wrote()
	s.writes.Unlock()
}
