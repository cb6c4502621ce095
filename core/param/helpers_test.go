package param

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

func device(t testing.TB) nn.Device {
	t.Helper()
	d := nntest.Must(cpu.New(1, nil))(t)
	t.Cleanup(d.Close)
	return d
}

func newStore(t testing.TB, size int, r Rule, shards int) *Store {
	t.Helper()
	return nntest.Must(New(device(t), random(rng.New(1, "parameters", 0), size), r, shards))(t)
}

// random returns parameters of -1 to 1.
func random(r *rng.Stream, size int) *nn.Params {
	p := nntest.Flat(size)
	copy(p.Host(), floats(r, size))
	return p
}

// floats returns n numbers of -1 to 1.
func floats(r *rng.Stream, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.Uniform(-1, 1))
	}
	return x
}

// sameBits ends the test if an element differs.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
		t.Fatalf("%s: the bits differ", what)
	}
}

// near ends the test if an element differs by more than a part of the largest element.
func near(t *testing.T, what string, got []float32, want []float64, part float64) {
	t.Helper()
	largest, apart := 0.0, 0.0
	for i, w := range want {
		largest = max(largest, math.Abs(w))
		apart = max(apart, math.Abs(float64(got[i])-w))
	}
	if !(apart <= part*largest) || largest == 0 {
		t.Fatalf("%s: %g apart, the largest element is %g", what, apart, largest)
	}
}

func doubles(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// learners are K learners of a store that take turns at random: each visit is of a learner that the
// stream draws. A learner's programme is steps (multi_step_adam), a push, a pull.
type learners struct {
	t     testing.TB
	store *Store
	turns *rng.Stream
	all   []*learner
}

type learner struct {
	number int
	draws  *rng.Stream // gradients, factors, rates
	theta  *nn.Params
	local  *Local
	seen   []uint64
	pushes int64

	push    Push
	pulling bool
	next    int // shard
}

func newLearners(t testing.TB, s *Store, n int) *learners {
	g := &learners{t: t, store: s, turns: rng.New(2, "turns", 0)}
	for k := range n {
		l := &learner{number: k, draws: rng.New(3, "learner", k), theta: s.params.Clone(), seen: make([]uint64, s.Shards())}
		if s.rule.Name == RuleMultiStepAdam {
			l.local = nntest.Must(s.NewLocal())(t)
		}
		g.all = append(g.all, l)
	}
	return g
}

// observer sees what a visit is about to do, and its result.
type observer interface {
	stepped(l *learner, p Push) // a local step
	pushed(l *learner, shard int, p Push, err error)
	pulled(l *learner, shard int)
}

// visit makes one visit of one learner.
func (g *learners) visit(o observer) {
	l := g.all[g.turns.Intn(len(g.all))]
	s := g.store
	if l.pulling {
		l.seen[l.next] = s.Pull(l.next, l.theta)
		if o != nil {
			o.pulled(l, l.next)
		}
	} else {
		if l.next == 0 {
			l.prepare(g.t, s, o)
		}
		p := l.push
		p.Seen = l.seen[l.next]
		version, err := s.Push(l.next, p)
		if _, stale := err.(*Stale); err != nil && !stale {
			g.t.Fatal(err)
		}
		if s.rule.Name != RuleGradient { // the copy is the new one
			l.seen[l.next] = version
		}
		if o != nil {
			o.pushed(l, l.next, p, err)
		}
	}
	if l.next++; l.next == s.Shards() {
		l.next, l.pulling = 0, !l.pulling
	}
}

// prepare computes what the learner will push.
func (l *learner) prepare(t testing.TB, s *Store, o observer) {
	l.pushes++
	draw := func() Push {
		return Push{Grad: floats(l.draws, len(s.theta)), Factor: float32(l.draws.Uniform(0.5, 1)), Rate: l.draws.Uniform(1e-3, 1e-2)}
	}
	if l.local == nil {
		l.push = draw()
		l.push.To, l.push.Step = l.theta, l.pushes
		return
	}
	for range 1 + l.draws.Intn(4) {
		p := draw()
		if err := l.local.Step(l.theta, p.Grad, p.Factor, p.Rate); err != nil {
			t.Fatal(err)
		}
		if o != nil {
			o.stepped(l, p)
		}
	}
	l.push = Push{To: l.theta, Local: l.local}
}

// rulesOf returns every asynchronous rule in its forms.
func rulesOf() (list []Rule) {
	for _, o := range nntest.Optimizers() {
		for _, local := range []bool{false, true} {
			list = append(list, Rule{Name: RuleGradient, Optimizer: o, LocalSteps: local}, Rule{Name: RuleOverwrite, Optimizer: o, LocalSteps: local, MaxStaleness: 2})
		}
	}
	adam := nn.OptimizerConfig{Name: "adam", Eps: 1e-3}
	for _, local := range []bool{false, true} {
		list = append(list, Rule{Name: RuleMultiStepAdam, Optimizer: adam, LocalSteps: local}, Rule{Name: RuleMultiStepAdam, Optimizer: adam, LocalSteps: local, EpsCorrected: true, MaxStaleness: 2})
	}
	return list
}

func (r Rule) String() string {
	return fmt.Sprintf("%s of %+v, local steps %v, eps corrected %v, staleness %d", r.Name, r.Optimizer, r.LocalSteps, r.EpsCorrected, r.MaxStaleness)
}
