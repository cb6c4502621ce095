package policy

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// outputs is a Row of given outputs that counts the calls of Head.
type outputs struct {
	heads [][]float32
	asked int
	err   error
}

func (o *outputs) Head(k int) ([]float32, error) {
	o.asked++
	if o.err != nil {
		return nil, o.err
	}
	return o.heads[k], nil
}

func (o *outputs) LogStd() []float32 { return nil }

// softmaxOf returns a Sampler of discrete actions with the logits of head pi and the value of head
// v.
func softmaxOf(pi, v int) *Sampler {
	return &Sampler{&Distribution{Action: env.ActionSpec{N: 1}, Pi: pi, Mu: -1}, v}
}

// drawn returns the number of draws of f from a stream.
func drawn(t *testing.T, f func(r *rng.Stream)) int {
	t.Helper()
	used := rng.New(5, "draws", 0)
	f(used)
	next := used.Uint64()
	fresh := rng.New(5, "draws", 0)
	for n := range 10 {
		if fresh.Uint64() == next {
			return n
		}
	}
	t.Fatal("more than 9 numbers drawn")
	return 0
}

func TestArgmaxTakesTheFirstOfEqualValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		values []float32
		want   int32
	}{
		{[]float32{3}, 0}, {[]float32{1, 2, 2}, 1}, {[]float32{-1, -2}, 0}, {[]float32{0, inf, inf}, 1},
		{[]float32{1, nan, 2}, 2}, {[]float32{nan, nan}, 0},
	} {
		if got := nn.Argmax(c.values, nil); got != c.want {
			t.Errorf("nn.Argmax(%v) is %d, want %d", c.values, got, c.want)
		}
	}
}

// A choice draws the same numbers for all outputs, and a random choice does not compute outputs.
func TestEpsilonGreedyDrawsIndependentlyOfOutputs(t *testing.T) {
	for _, epsilon := range []float64{0, 0.3, 1} {
		c := &EpsilonGreedy{Actions: 4, Head: 1, Epsilon: func(int64) float64 { return epsilon }}
		if got := c.NeedsOutputs(7); got != (epsilon < 1) {
			t.Errorf("epsilon %v: NeedsOutputs is %v", epsilon, got)
		}
		r, twin := rng.New(1, "explore", 0), rng.New(1, "explore", 0)
		random := 0
		for n := range 2000 {
			row := &outputs{heads: [][]float32{nil, {0, 1, float32(n), -1}}}
			s := experience.Step{Action: make([]int32, 1)}
			if err := c.Choose(int64(n), row, nil, r, &s); err != nil {
				t.Fatal(err)
			}
			want, asked := nn.Argmax(row.heads[1], nil), 1
			if twin.Float64() < epsilon {
				want, asked = int32(twin.Intn(4)), 0
				random++
			}
			if s.Action[0] != want || row.asked != asked {
				t.Fatalf("epsilon %v, choice %d: action %d with %d computations, want %d with %d", epsilon, n, s.Action[0], row.asked, want, asked)
			}
		}
		if share := float64(random) / 2000; math.Abs(share-epsilon) > 0.05 {
			t.Errorf("epsilon %v: %v of the actions are random", epsilon, share)
		}
	}
	broken := errors.New("no outputs")
	c := &EpsilonGreedy{Actions: 2, Epsilon: func(int64) float64 { return 0 }}
	if err := c.Choose(0, &outputs{err: broken}, nil, rng.New(1, "explore", 0), &experience.Step{Action: make([]int32, 1)}); !errors.Is(err, broken) {
		t.Errorf("%v, want the row's error", err)
	}
}

func TestUniformDrawsOnceAndNeedsNoOutputs(t *testing.T) {
	u := Uniform{Actions: 3}
	if u.NeedsOutputs(0) || u.Columns() != nil {
		t.Error("Uniform asks for outputs or records something")
	}
	if n := drawn(t, func(r *rng.Stream) { _ = u.Choose(0, nil, nil, r, &experience.Step{Action: make([]int32, 1)}) }); n != 1 {
		t.Errorf("%d numbers drawn, want 1", n)
	}
	r, counts := rng.New(2, "explore", 0), [3]int{}
	for range 30_000 {
		s := experience.Step{Action: make([]int32, 1)}
		_ = u.Choose(0, nil, nil, r, &s)
		counts[s.Action[0]]++
	}
	for a, n := range counts {
		if n < 9_500 || n > 10_500 {
			t.Errorf("action %d was chosen %d times of 30,000", a, n)
		}
	}
}

// softmax is sampleSoftmax in float64.
func softmax(logits []float32) []float64 {
	most := float64(slices.Max(logits))
	p, sum := make([]float64, len(logits)), 0.0
	for a, x := range logits {
		p[a] = math.Exp(float64(x) - most)
		sum += p[a]
	}
	for a := range p {
		p[a] /= sum
	}
	return p
}

// The interval of action a in [0, 1) follows those of the actions before and is as long as its
// probability. The log-probability is that of the drawn action.
func TestSampleSoftmaxMatchesFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for trial := range 300 {
		logits := make([]float32, 1+r.IntN(20))
		scale := math.Pow(10, r.Float64()*3-1)
		for a := range logits {
			logits[a] = float32(r.NormFloat64() * scale)
		}
		p := softmax(logits)
		begins := 0.0
		for a := range logits {
			for _, at := range []float64{0.001, 0.5, 0.999} {
				u := begins + at*p[a]
				if p[a] < 1e-4 || u >= 1 {
					continue // float32 cannot resolve so short an interval
				}
				got, logProb := sampleSoftmax(logits, nil, u)
				if got != int32(a) && math.Abs(at-0.5) < 0.4 {
					t.Fatalf("trial %d: u %v of %v is action %d, want %d", trial, u, p, got, a)
				}
				if want := math.Log(p[got]); math.Abs(float64(logProb)-want) > 1e-5*(1+math.Abs(want)) {
					t.Fatalf("trial %d: log-probability %v, want %v", trial, logProb, want)
				}
			}
			begins += p[a]
		}
	}
}

func TestSampleSoftmaxOfExtremeLogits(t *testing.T) {
	below1 := math.Nextafter(1, 0)
	for _, c := range []struct {
		logits []float32
		u      float64
		want   int32
	}{
		{[]float32{0}, 0, 0}, {[]float32{0}, below1, 0},
		{[]float32{1000, 0}, below1, 0},     // action 1 has probability 0
		{[]float32{-1000, 0}, 0, 1},         // action 0 has probability 0
		{[]float32{0, 0, -1e30}, below1, 1}, // action 2 has probability 0, despite rounding
		{[]float32{3e38, -3e38}, 0.5, 0},
	} {
		got, logProb := sampleSoftmax(c.logits, nil, c.u)
		if got != c.want || logProb > 0 || logProb != logProb {
			t.Errorf("%v at %v: action %d with log-probability %v, want action %d", c.logits, c.u, got, logProb, c.want)
		}
	}
}

func TestSoftmaxRecordsLogProbAndValue(t *testing.T) {
	c := softmaxOf(1, 0)
	if !slices.Equal(c.Columns(), []string{"log_prob", "value"}) || !c.NeedsOutputs(0) {
		t.Fatalf("columns %v", c.Columns())
	}
	row := &outputs{heads: [][]float32{{2.5}, {0, 1, 2}}}
	if n := drawn(t, func(r *rng.Stream) {
		_ = c.Choose(0, row, nil, r, &experience.Step{Action: make([]int32, 1), Columns: make([]float32, 2)})
	}); n != 1 {
		t.Errorf("%d numbers drawn, want 1", n)
	}
	r, counts, p := rng.New(7, "explore", 0), [3]int{}, softmax(row.heads[1])
	for range 30_000 {
		s := experience.Step{Action: make([]int32, 1), Columns: make([]float32, 2)}
		if err := c.Choose(0, row, nil, r, &s); err != nil {
			t.Fatal(err)
		}
		counts[s.Action[0]]++
		if want := math.Log(p[s.Action[0]]); s.Columns[1] != 2.5 || math.Abs(float64(s.Columns[0])-want) > 1e-6 {
			t.Fatalf("columns %v, want %v and 2.5", s.Columns, want)
		}
	}
	for a := range counts {
		if got := float64(counts[a]) / 30_000; math.Abs(got-p[a]) > 0.01 {
			t.Errorf("action %d: share %v, want %v", a, got, p[a])
		}
	}
	broken := errors.New("no outputs")
	if err := c.Choose(0, &outputs{err: broken}, nil, r, &experience.Step{Action: make([]int32, 1), Columns: make([]float32, 2)}); !errors.Is(err, broken) {
		t.Errorf("%v, want the row's error", err)
	}
}

// One chooser serves any number of goroutines.
func TestSoftmaxOnManyGoroutines(t *testing.T) {
	var wait sync.WaitGroup
	for k := range 8 {
		wait.Go(func() {
			logits := make([]float32, 2+k)
			for a := range logits {
				logits[a] = float32(a)
			}
			p := softmax(logits)
			for range 2000 {
				action, logProb := sampleSoftmax(logits, nil, 0.99)
				if math.Abs(float64(logProb)-math.Log(p[action])) > 1e-5 {
					t.Errorf("%d actions: log-probability %v of action %d", len(logits), logProb, action)
					return
				}
			}
		})
	}
	wait.Wait()
}
