package param

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

func newRangeOf(t testing.TB, parameters []float32, o RangeOptions) *Range {
	t.Helper()
	return nntest.Must(NewRange(parameters, o))(t)
}

// Ranges that cover the parameters, pushed to and pulled from by one learner, are bit-identical to
// the optimiser, for every optimiser and number of ranges.
func TestRangesAreTheOptimizer(t *testing.T) {
	const size = 203
	nntest.OnEveryISA(t, func(t *testing.T) {
		for _, cfg := range nntest.Optimizers() {
			for _, shards := range []int{1, 3, 12} {
				start := random(rng.New(1, "parameters", 0), size)
				want, o := start.Clone(), nntest.Must(device(t).Optimizer(cfg, size))(t)
				theta, r := start.Clone(), rng.New(9, "test", 0)
				cut := newStore(t, size, Rule{Name: RuleGradient, Optimizer: cfg}, shards)
				var all []*Range
				for i := range shards {
					first, n := cut.Range(i)
					all = append(all, newRangeOf(t, start.Host()[first:first+n], RangeOptions{First: int64(first), Optimizer: cfg}))
				}
				for step := int64(1); step <= 12; step++ {
					grad, rate := floats(r, size), r.Uniform(1e-3, 1e-2)
					nntest.Check(t, o.Apply(want, grad, 1, rate))
					for i, one := range all {
						first, n := cut.Range(i)
						a := nntest.Must(one.Push(grad[first:first+n], rate, uint64(step-1), Key{Learner: 5, Step: step}))(t)
						if a != (Answer{Version: uint64(step)}) {
							t.Fatalf("%+v at step %d", a, step)
						}
						if version := nntest.Must(one.Pull(theta.Host()[first : first+n]))(t); version != uint64(step) {
							t.Fatalf("version %d at step %d", version, step)
						}
					}
					sameBits(t, fmt.Sprintf("%+v, %d ranges", cfg, shards), theta.Host(), want.Host())
				}
			}
		}
	})
}

// The largest part of the memory, which an error names, has the name of something that a Range has.
func TestMemoryOfARangeIsThatOfItsOptimizer(t *testing.T) {
	defer func(before func(...limits.Part) error) { admit = before }(admit)
	var largest limits.Part
	admit = func(parts ...limits.Part) error {
		largest = slices.MaxFunc(parts, func(a, b limits.Part) int { return cmp.Compare(a.Bytes, b.Bytes) })
		return errors.New("refused")
	}
	_, err := newRange(1<<30, RangeOptions{Optimizer: nn.OptimizerConfig{Name: "adam"}})
	if want := (limits.Part{Setting: "optimizer: adam", Bytes: 2 * 4 << 30}); err == nil || largest != want {
		t.Errorf("%+v, %v, want %+v", largest, err, want)
	}
}

// rangeTwin is a Range in its simplest form: a list of everything that was ever pushed.
type rangeTwin struct {
	theta   []float32
	steps   int64 // version
	o       nn.Optimizer
	params  *nn.Params
	most    int64
	answers map[Key]Answer
	lives   map[int64]int64
	newest  map[int64]int64
}

func (w *rangeTwin) push(grad []float32, rate float64, seen uint64, key Key) (a Answer, refused bool) {
	if key.Life < w.lives[key.Learner] {
		return a, true
	}
	if key.Life > w.lives[key.Learner] {
		w.lives[key.Learner], w.newest[key.Learner] = key.Life, 0
	}
	if key.Step <= w.newest[key.Learner]-Window {
		return a, true
	}
	if a, ok := w.answers[key]; ok {
		a.Duplicate = true
		return a, false
	}
	a.Lag = uint64(w.steps) - seen
	if a.Refused = int64(a.Lag) > w.most; !a.Refused {
		w.o.Apply(w.params, grad, 1, rate)
		w.steps++
	}
	a.Version = uint64(w.steps)
	w.answers[key] = a
	w.newest[key.Learner] = max(w.newest[key.Learner], key.Step)
	return a, false
}

// Learners push late, twice, out of order and in several lives; the Range, also one that is saved
// and loaded again and again, answers as its twin.
func TestRangeAnswersAsItsTwin(t *testing.T) {
	const size, pushes, learners = 37, 3000, 5
	cfg := nn.OptimizerConfig{Name: "adagrad"}
	start := random(rng.New(1, "parameters", 0), size)
	r := newRangeOf(t, start.Host(), RangeOptions{First: 7, Optimizer: cfg, MaxStaleness: 3})
	w := &rangeTwin{params: start, o: nntest.Must(device(t).Optimizer(cfg, size))(t), most: 3, answers: map[Key]Answer{}, lives: map[int64]int64{}, newest: map[int64]int64{}}
	draws, grad := rng.New(3, "pushes", 0), make([]float32, size)
	var counts struct{ refused, duplicates uint64 }
	for n := range pushes {
		k := int64(draws.Intn(learners))
		key := Key{k, w.lives[k], max(1, w.newest[k]+1-int64(draws.Intn(4)))}
		switch draws.Intn(60) {
		case 0:
			key.Life, key.Step = key.Life+1+int64(draws.Intn(2)), 1+int64(draws.Intn(9))
		case 1:
			key.Life = max(0, key.Life-1)
		case 2:
			key.Step += int64(draws.Intn(2 * Window))
		case 3:
			key.Step = max(1, key.Step-int64(draws.Intn(2*Window)))
		}
		seen := uint64(max(0, w.steps-int64(draws.Intn(6))))
		copy(grad, floats(draws, size))
		want, refused := w.push(grad, 0.01, seen, key)
		got, err := r.Push(grad, 0.01, seen, key)
		switch {
		case refused:
			if err == nil || errors.Is(err, ErrStale) || got != (Answer{}) {
				t.Fatalf("push %d of %+v: %+v, error %v, must be refused", n, key, got, err)
			}
		case got != want || errors.Is(err, ErrStale) != want.Refused || err != nil && !want.Refused:
			t.Fatalf("push %d of %+v: %+v, error %v, must be %+v", n, key, got, err, want)
		case got.Duplicate:
			counts.duplicates++
		case got.Refused:
			counts.refused++
		}
		sameBits(t, "parameters", r.store.theta, w.params.Host())
		if n%500 == 250 {
			r = nntest.Must(RangeFromBytes(nntest.Must(r.Bytes())(t)))(t)
		}
	}
	d := r.Describe()
	if d.Version != uint64(w.steps) || d.Refused != counts.refused || d.Duplicates != counts.duplicates || d.First != 7 || d.Size != size || d.Optimizer != "adagrad" || len(d.Learners) != learners {
		t.Errorf("%+v, must have version %d, %+v", d, w.steps, counts)
	}
	if counts.refused == 0 || counts.duplicates == 0 {
		t.Error("the test proves nothing")
	}
	for _, l := range d.Learners {
		for _, a := range l.Answers {
			if want := w.answers[Key{l.Learner, l.Life, int64(a[0])}]; a != [4]uint64{a[0], want.Version, want.Lag, a[3]} || want.Refused != (a[3] == 1) {
				t.Errorf("learner %d: answer %v, must be %+v", l.Learner, a, want)
			}
		}
	}
}

func TestRangePushesRefused(t *testing.T) {
	const size = 20
	start := random(rng.New(1, "parameters", 0), size).Host()
	r := newRangeOf(t, start, RangeOptions{Optimizer: nn.OptimizerConfig{Name: "rmsprop"}})
	good, spoilt := floats(rng.New(2, "grad", 0), size), func(v float64) []float32 {
		g := floats(rng.New(2, "grad", 0), size)
		g[7] = float32(v)
		return g
	}
	nntest.Must(r.Push(good, 0.1, 0, Key{Learner: 1, Life: 2, Step: 100}))(t)
	before := nntest.Must(r.Bytes())(t)
	for _, c := range []struct {
		grad []float32
		rate float64
		seen uint64
		key  Key
		want string
	}{
		{good[1:], 0.1, 0, Key{1, 2, 101}, "grad: 19 numbers, must be 20"},
		{nil, 0.1, 0, Key{1, 2, 101}, "grad: 0 numbers, must be 20"},
		{spoilt(math.NaN()), 0.1, 0, Key{1, 2, 101}, "grad: number 7 is NaN, must be finite"},
		{spoilt(math.Inf(-1)), 0.1, 0, Key{1, 2, 101}, "grad: number 7 is -Inf, must be finite"},
		{spoilt(1e30), 0.1, 0, Key{1, 2, 101}, "grad: number 7 is 1e+30, must be -9.223372e+18 to 9.223372e+18: its square must be finite"},
		{good, math.NaN(), 0, Key{1, 2, 101}, "learning_rate: NaN, must be 0 to 1000"},
		{good, -1, 0, Key{1, 2, 101}, "learning_rate: -1, must be 0 to 1000"},
		{good, 0.1, 2, Key{1, 2, 101}, "seen: 2, must be at most the version, which is 1"},
		{good, 0.1, 0, Key{-1, 2, 101}, "key.learner: -1, must be 0 to 4095"},
		{good, 0.1, 0, Key{MaxLearners, 2, 101}, "key.learner: 4096, must be 0 to 4095"},
		{good, 0.1, 0, Key{1, -2, 101}, "key.life: -2, must be 0 to 2251799813685248"},
		{good, 0.1, 0, Key{1, 2, 0}, "key.step: 0, must be 1 to 2251799813685248"},
		{good, 0.1, 0, Key{1, 1, 101}, "key.life: 1, must be at least 2, the latest life of learner 1"},
		{good, 0.1, 0, Key{1, 2, 36}, "key.step: 36, must be above 36: learner 1 has pushed step 100, and older answers are forgotten"},
	} {
		a, err := r.Push(c.grad, c.rate, c.seen, c.key)
		if err == nil || err.Error() != c.want || a != (Answer{}) {
			t.Errorf("%+v, error %v, want %q", a, err, c.want)
		}
		if notFinite := errors.Is(err, fault.ErrNotFinite); notFinite != (len(c.grad) == size && c.grad[7] != good[7]) {
			t.Errorf("%v: not finite: %v", err, notFinite)
		}
	}
	if _, err := r.Pull(make([]float32, 3)); err == nil || err.Error() != "parameters: 3 numbers, must be 20" {
		t.Errorf("error %v", err)
	}
	if string(nntest.Must(r.Bytes())(t)) != string(before) {
		t.Error("a refused call has changed the range")
	}
	for _, c := range []struct {
		parameters []float32
		o          RangeOptions
		want       string
	}{
		{nil, RangeOptions{}, "parameters: 0 numbers, must be 1 to 2147483648"},
		{spoilt(math.NaN()), RangeOptions{}, "parameters: number 7 is NaN, must be finite"},
		{start, RangeOptions{First: -1}, "first: -1, must be 0 to 2251799813685248"},
		{start, RangeOptions{Optimizer: nn.OptimizerConfig{Name: "adagrad"}, MaxStaleness: -1}, "max_staleness: -1, must be at least 0"},
		{start, RangeOptions{Optimizer: nn.OptimizerConfig{Name: "adagrad", Decay: 0.9}}, "optimizer.decay: 0.9, adagrad has no such setting"},
	} {
		if _, err := NewRange(c.parameters, c.o); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// Goroutines push and pull without an order, some of their pushes twice. Each key is applied once,
// and pushes of one gradient are bit-identical to the same number of steps.
func TestRangeAtTheSameTime(t *testing.T) {
	const size, learners, steps = 64, 6, 40
	cfg := nn.OptimizerConfig{Name: "adam"}
	start := nntest.Flat(size)
	want, o := start.Clone(), nntest.Must(device(t).Optimizer(cfg, size))(t)
	grad := make([]float32, size)
	for i := range grad {
		grad[i] = 0.5
	}
	r := newRangeOf(t, start.Host(), RangeOptions{Optimizer: cfg})
	var wait sync.WaitGroup
	for k := range learners {
		for range 2 {
			wait.Go(func() {
				to := make([]float32, size)
				for step := int64(1); step <= steps; step++ {
					seen, err := r.Pull(to)
					if err == nil {
						_, err = r.Push(grad, 1e-3, seen, Key{Learner: int64(k), Step: step})
					}
					if err != nil {
						t.Error(err)
						return
					}
					for _, v := range to {
						if v != to[0] {
							t.Errorf("%v and %v in one pull", v, to[0])
							return
						}
					}
					r.Describe()
				}
			})
		}
	}
	wait.Wait()
	for range learners * steps {
		nntest.Check(t, o.Apply(want, grad, 1, 1e-3))
	}
	sameBits(t, "parameters", r.store.theta, want.Host())
	if d := r.Describe(); d.Version != learners*steps || d.Duplicates != learners*steps || d.Pulls != 2*learners*steps {
		t.Errorf("%+v", d)
	}
}
