package param

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
)

// Range is a store of a range of the parameters, for learners in other processes: a shard of the
// parameter server of Gorila (Nair et al. 2015). It has the rule gradient, the state of its
// optimiser, and a version. The caller carries the gradients and the parameters.
//
//   - A push has a key. A network may deliver a push twice, and a learner that was restarted may
//     repeat one: a key that was seen before changes nothing, and the answer is that of the first
//     push with that key. A restarted learner has a new life, which ends its older lives.
//   - A gradient that is older than MaxStaleness is refused, and the refusal is its answer.
//   - A push that returns another error changes nothing, and its key is not seen.
//
// One learner that pushes every gradient and pulls before the next one is bit-identical to an
// nn.Optimizer. So have any number of ranges that cover the parameters. Any goroutines may call a
// Range at any time.
type Range struct {
	mu    sync.Mutex
	first int
	store *Store // of one shard
	// ledgers are those of the learners that have pushed, by their numbers.
	ledgers    map[int64]*ledger
	refused    uint64 // pushes that were too old
	duplicates uint64 // pushes of keys that had been seen
}

// RangeOptions are the constants of a Range.
type RangeOptions struct {
	// First is the number of the range's first parameter among all. The Range does not use it; a file
	// has it, and Describe reports it.
	First     int64
	Optimizer nn.OptimizerConfig
	// MaxStaleness is the largest lag of a gradient that is accepted; 0: there is no limit.
	MaxStaleness int64
}

// maxRate is the largest learning rate of a push, which is that of the settings.
const maxRate = 1e3

// MaxRange is the largest number of parameters of a Range.
const MaxRange = 1 << 31

var admit = limits.Admit // a test refuses memory

// NewRange returns a Range with a copy of its parameters, which are finite.
func NewRange(parameters []float32, o RangeOptions) (*Range, error) {
	if err := checkNumbers("parameters", parameters, math.MaxFloat32); err != nil {
		return nil, err
	}
	r, err := newRange(int64(len(parameters)), o)
	if err != nil {
		return nil, err
	}
	copy(r.store.theta, parameters)
	return r, nil
}

// newRange returns a Range of zeros.
func newRange(size int64, o RangeOptions) (*Range, error) {
	switch {
	case size < 1 || size > MaxRange:
		return nil, fmt.Errorf("parameters: %d numbers, must be 1 to %d", size, int64(MaxRange))
	case o.First < 0 || o.First > most:
		return nil, fmt.Errorf("first: %d, must be 0 to %d", o.First, int64(most))
	case o.MaxStaleness > most:
		return nil, fmt.Errorf("max_staleness: %d, must be at most %d", o.MaxStaleness, int64(most))
	}
	rule := Rule{Name: RuleGradient, Optimizer: o.Optimizer, MaxStaleness: o.MaxStaleness}
	memory, err := rule.Memory(int(size), 1, 1)
	if err != nil {
		return nil, err
	}
	if err := admit(append(memory, limits.Part{Setting: fmt.Sprintf("parameters: %d", size), Bytes: 4 * size})...); err != nil {
		return nil, err
	}
	d, err := cpu.New(1, nil) // with one thread, so there is nothing to close
	if err != nil {
		return nil, err
	}
	layout := &nn.Layout{Params: []nn.Param{{Name: "parameters", Shape: []int{int(size)}, Size: int(size)}}, Size: int(size)}
	s, err := New(d, nn.NewParams(layout), rule, 1)
	return &Range{first: int(o.First), store: s, ledgers: map[int64]*ledger{}}, err
}

// Size returns the number of parameters.
func (r *Range) Size() int { return len(r.store.theta) }

// Answer is the answer to a push.
type Answer struct {
	// Version is the version of the Range after the push: the number of pushes that were applied. For
	// a duplicate it is that of the first push with the key.
	Version uint64
	// Lag is the number of pushes that were applied between the learner's pull and its push.
	Lag uint64
	// Refused says that the gradient was too old.
	Refused bool
	// Duplicate says that the key had been seen.
	Duplicate bool
}

// Push takes a step of the optimiser along a gradient of the range, which the learner has clipped.
// rate is the learning rate. seen is the version that the learner pulled before it computed the
// gradient. The error of a gradient that is too old wraps ErrStale, and the answer is filled in; so
// it is for a duplicate of such a push. The error of a gradient that is not finite, or whose
// squares are not, wraps fault.ErrNotFinite.
func (r *Range) Push(grad []float32, rate float64, seen uint64, key Key) (Answer, error) {
	if n := r.Size(); len(grad) != n {
		return Answer{}, fmt.Errorf("grad: %d numbers, must be %d", len(grad), n)
	}
	if !(rate >= 0 && rate <= maxRate) {
		return Answer{}, fmt.Errorf("learning_rate: %v, must be 0 to %g", rate, maxRate)
	}
	if err := key.check(); err != nil {
		return Answer{}, err
	}
	// If the norm is within the limit, every number is. A kernel computes the norm faster.
	if norm, _ := r.store.device.ClipGradNorm(grad, math.Inf(1)); !(norm <= maxGradient) {
		if err := checkNumbers("grad", grad, maxGradient); err != nil {
			return Answer{}, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before, err := r.before(key)
	if err != nil {
		return Answer{}, err
	}
	if before.step > 0 {
		r.duplicates++
		r.ledgers[key.Learner].duplicates++
		return r.answer(before, true)
	}
	version, _ := r.version()
	if seen > version {
		return Answer{}, fmt.Errorf("seen: %d, must be at most the version, which is %d", seen, version)
	}
	now := answer{step: key.Step, lag: version - seen}
	if now.version, err = r.store.Push(0, Push{Grad: grad, Factor: 1, Rate: rate, Seen: seen}); errors.Is(err, ErrStale) {
		now.refused = true
		r.refused++
	} else if err != nil {
		return Answer{}, err
	}
	r.ledger(key).add(now)
	return r.answer(now, false)
}

// answer returns what a push is answered.
func (r *Range) answer(a answer, duplicate bool) (Answer, error) {
	to := Answer{a.version, a.lag, a.refused, duplicate}
	if !a.refused {
		return to, nil
	}
	return to, fmt.Errorf("lag: %d, must be at most max_staleness (%d): %w", a.lag, r.store.rule.MaxStaleness, ErrStale)
}

// Pull copies the parameters, and returns the version.
func (r *Range) Pull(to []float32) (version uint64, err error) {
	if n := r.Size(); len(to) != n {
		return 0, fmt.Errorf("parameters: %d numbers, must be %d", len(to), n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := &r.store.shards[0]
	at.pulls++
	copy(to, r.store.theta)
	return at.version, nil
}

// version returns the version and the number of pulls. The Range is locked.
func (r *Range) version() (version, pulls uint64) {
	at := &r.store.shards[0]
	return at.version, at.pulls
}

// maxGradient is the largest number of a gradient: the optimisers square it.
const maxGradient = 1 << 63

// checkNumbers refuses numbers that are not finite or larger than a limit.
func checkNumbers(name string, list []float32, most float32) error {
	for i, v := range list {
		if !(v >= -most && v <= most) {
			if v-v == 0 {
				return fmt.Errorf("%s: number %d is %v, must be %g to %g: its square %w", name, i, v, -most, most, fault.ErrNotFinite)
			}
			return fmt.Errorf("%s: number %d is %v, %w", name, i, v, fault.ErrNotFinite)
		}
	}
	return nil
}
