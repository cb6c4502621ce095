package param

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
	budget "github.com/paceline-rl/paceline/core/threads"
)

// whole pushes to all shards, then pulls.
func whole(t testing.TB, s *Store, p Push, theta *nn.Params, seen []uint64) {
	t.Helper()
	for i := range s.Shards() {
		p.Seen = seen[i]
		nntest.Must(s.Push(i, p))(t)
	}
	for i := range s.Shards() {
		seen[i] = s.Pull(i, theta)
	}
}

// One learner is bit-identical to the optimiser, for every optimiser, rule and number of shards.
func TestOneLearnerIsTheOptimizer(t *testing.T) {
	const size = 203
	nntest.OnEveryISA(t, func(t *testing.T) {
		for _, cfg := range nntest.Optimizers() {
			for _, rule := range []Rule{{Name: RuleGradient, Optimizer: cfg}, {Name: RuleGradient, Optimizer: cfg, LocalSteps: true}, {Name: RuleOverwrite, Optimizer: cfg, MaxStaleness: 1}, {Name: RuleMean, Optimizer: cfg}} {
				for _, shards := range []int{1, 2, 5, 12, 64} {
					s := newStore(t, size, rule, shards)
					want, o := s.params.Clone(), nntest.Must(device(t).Optimizer(cfg, size))(t)
					theta, seen, r := s.params.Clone(), make([]uint64, shards), rng.New(9, "test", 0)
					var mean *Mean
					if rule.Name == RuleMean {
						mean = nntest.Must(NewMean(s, 3))(t)
					}
					for step := int64(1); step <= 12; step++ {
						grad, rate := floats(r, size), r.Uniform(1e-3, 1e-2)
						norm, factor := device(t).ClipGradNorm(grad, 3)
						nntest.Check(t, o.Apply(want, grad, factor, rate))
						if mean == nil {
							whole(t, s, Push{Grad: grad, Factor: factor, Rate: rate, Step: step, To: theta}, theta, seen)
						} else {
							c := nntest.Must(mean.Combine([]Contribution{{Grad: grad, Rows: 7, Rate: rate}}))(t)
							if c.Norm != norm || c.Rows != 7 {
								t.Fatalf("%+v, want norm %v", c, norm)
							}
							for i := range shards {
								s.Pull(i, theta)
							}
						}
						sameBits(t, rule.String(), theta.Host(), want.Host())
					}
					for i, state := range o.State() {
						sameBits(t, rule.String()+" "+state.Name, s.state[i].Data, state.Data)
					}
					if theta.Updates != want.Updates || s.params.Updates != want.Updates || s.Counts().Updates != 12 {
						t.Fatalf("%v: %d updates in the copy, %d in the store, want %d", rule, theta.Updates, s.params.Updates, want.Updates)
					}
				}
			}
		}
	})
}

// Every parameter is in one shard, shards differ by at most one unit, and borders are those of
// cache lines where the parameters are many.
func TestShardsPartitionTheParameters(t *testing.T) {
	for _, c := range []struct{ size, shards int }{{1, 1}, {5, 5}, {131, 1}, {131, 8}, {131, 9}, {131, 131}, {1600, 100}, {1601, 7}, {5000, 1024}} {
		s := newStore(t, c.size, Rule{Name: RuleGradient, Optimizer: nn.OptimizerConfig{Name: "adagrad"}}, c.shards)
		next, smallest, largest := 0, c.size, 0
		for i := range s.Shards() {
			first, size := s.Range(i)
			if first != next || size < 1 || c.size >= 16*c.shards && first%16 != 0 {
				t.Errorf("%+v: shard %d is %d from %d on", c, i, size, first)
			}
			next, smallest, largest = first+size, min(smallest, size), max(largest, size)
		}
		if next != c.size || s.Shards() != c.shards || largest-smallest > 31 {
			t.Errorf("%+v: the shards end at %d, the sizes are %d to %d", c, next, smallest, largest)
		}
	}
}

// Goroutines push and pull without an order. A shard in which all elements are equal stays so: no
// pull sees a part of a push. Pushes of one gradient are bit-identical to the
// same number of steps of one learner.
func TestLearnersAtTheSameTime(t *testing.T) {
	const size, count, rounds = 500, 8, 60
	for _, rule := range []Rule{
		{Name: RuleGradient, Optimizer: nn.OptimizerConfig{Name: "adam"}},
		{Name: RuleOverwrite, Optimizer: nn.OptimizerConfig{Name: "rmsprop", Centered: true}},
		{Name: RuleMultiStepAdam, Optimizer: nn.OptimizerConfig{Name: "adam"}},
	} {
		s := newStore(t, size, rule, 4)
		for i := range s.theta {
			s.theta[i] = 1
		}
		want, o := s.params.Clone(), nntest.Must(device(t).Optimizer(rule.Optimizer, size))(t)
		grad := make([]float32, size)
		for i := range grad {
			grad[i] = 0.5
		}
		var wait sync.WaitGroup
		for range count {
			theta := want.Clone()
			wait.Go(func() {
				local := (*Local)(nil)
				if rule.Name == RuleMultiStepAdam {
					var err error
					if local, err = s.NewLocal(); err != nil {
						t.Error(err)
					}
				}
				seen := make([]uint64, s.Shards())
				for range rounds {
					p := Push{Grad: grad, Factor: 1, Rate: 1e-3, To: theta, Local: local}
					if local != nil {
						if err := local.Step(theta, grad, 1, 1e-3); err != nil {
							t.Error(err)
						}
					}
					for i := range s.Shards() {
						p.Seen = seen[i]
						if version, err := s.Push(i, p); err != nil || version <= seen[i] {
							t.Errorf("version %d after %d, error %v", version, seen[i], err)
						}
					}
					for i := range s.Shards() {
						seen[i] = s.Pull(i, theta)
						first, size := s.Range(i)
						for _, v := range theta.Host()[first : first+size] {
							if v != theta.Host()[first] {
								t.Errorf("shard %d: %v and %v in one pull", i, theta.Host()[first], v)
								return
							}
						}
					}
					s.Counts()
					s.Versions(seen)
				}
			})
		}
		wait.Wait()
		for range count * rounds {
			nntest.Check(t, o.Apply(want, grad, 1, 1e-3))
		}
		if rule.Name != RuleMultiStepAdam { // whose result depends on the order
			sameBits(t, rule.String(), s.theta, want.Host())
		}
		if c := s.Counts(); c.Updates != count*rounds || c.Pulls != count*rounds || c.Refused != 0 || s.params.Writes != 4*count*rounds {
			t.Errorf("%v: %+v, %d writes", rule, c, s.params.Writes)
		}
	}
}

func TestVisitsAllocateNothing(t *testing.T) {
	const size = 100
	for _, rule := range []Rule{{Name: RuleGradient, Optimizer: nn.OptimizerConfig{Name: "adam"}}, {Name: RuleOverwrite, Optimizer: nn.OptimizerConfig{Name: "adam"}}, {Name: RuleMultiStepAdam, Optimizer: nn.OptimizerConfig{Name: "adam"}}} {
		s := newStore(t, size, rule, 2)
		theta, seen, grad := s.params.Clone(), make([]uint64, 2), make([]float32, size)
		p := Push{Grad: grad, Factor: 1, Rate: 1e-3, To: theta}
		if rule.Name == RuleMultiStepAdam {
			p.Local = nntest.Must(s.NewLocal())(t)
		}
		if a := testing.AllocsPerRun(10, func() {
			if p.Local != nil {
				p.Local.Step(theta, grad, 1, 1e-3)
			}
			whole(t, s, p, theta, seen)
		}); a != 0 {
			t.Errorf("%v: %v allocations", rule, a)
		}
	}
}

func TestPushesRefused(t *testing.T) {
	adam, nan := nn.OptimizerConfig{Name: "adam"}, math.NaN()
	s := newStore(t, 40, Rule{Name: RuleOverwrite, Optimizer: adam, LocalSteps: true}, 2)
	multi := newStore(t, 40, Rule{Name: RuleMultiStepAdam, Optimizer: adam}, 2)
	other := newStore(t, 40, Rule{Name: RuleMultiStepAdam, Optimizer: adam}, 2)
	mean := newStore(t, 40, Rule{Name: RuleMean, Optimizer: adam}, 2)
	grad, theta := make([]float32, 40), nntest.Flat(40)
	local, stepped, foreign := nntest.Must(multi.NewLocal())(t), nntest.Must(multi.NewLocal())(t), nntest.Must(other.NewLocal())(t)
	nntest.Check(t, stepped.Step(theta, grad, 1, 1e-3))
	good := Push{Grad: grad, Factor: 1, Rate: 1e-3, Step: 1, To: theta}
	for _, c := range []struct {
		store  *Store
		shard  int
		change func(p *Push)
		want   string
	}{
		{mean, 0, func(*Push) {}, "rule: mean, gradients are pushed with a Mean"},
		{s, -1, func(*Push) {}, "shard: -1, must be 0 to 1"},
		{s, 2, func(*Push) {}, "shard: 2, must be 0 to 1"},
		{s, 0, func(p *Push) { p.To = nil }, "push.to: no parameters, or of another network, must be 40"},
		{s, 0, func(p *Push) { p.To = nntest.Flat(3) }, "push.to: no parameters, or of another network, must be 40"},
		{s, 0, func(p *Push) { p.Local = local }, "push.local: the rule overwrite has no steps of its own"},
		{s, 0, func(p *Push) { p.Grad = grad[1:] }, "push.grad: 39 floats, must be 40"},
		{s, 0, func(p *Push) { p.Factor = float32(nan) }, "factor: NaN, must be 0 or above and finite"},
		{s, 0, func(p *Push) { p.Factor = -1 }, "factor: -1, must be 0 or above and finite"},
		{s, 0, func(p *Push) { p.Rate = math.Inf(1) }, "learning_rate: +Inf, must be 0 or above and finite"},
		{s, 0, func(p *Push) { p.Step = 0 }, "push.step: 0, must be at least 1"},
		{s, 1, func(p *Push) { p.Seen = 1 }, "push.seen: 1, must be at most the version of shard 1, which is 0"},
		{multi, 0, func(p *Push) {}, "push.local: none, or of another store"},
		{multi, 0, func(p *Push) { p.Local = foreign }, "push.local: none, or of another store"},
		{multi, 0, func(p *Push) { p.Local = local }, "push.local: 0 steps since the latest push, must be at least 1"},
		{multi, 1, func(p *Push) { p.Local = stepped }, "shard: 1, must be 0: a push visits the shards in their order"},
		{multi, 0, func(p *Push) { p.Local, p.Seen = stepped, 7 }, "push.seen: 7, must be at most the version of shard 0, which is 0"},
	} {
		p := good
		c.change(&p)
		if _, err := c.store.Push(c.shard, p); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	for _, of := range []*Store{s, multi} {
		if c := of.Counts(); c != (Counts{}) || of.params.Writes != 0 {
			t.Errorf("after the errors: %+v, %d writes", c, of.params.Writes)
		}
	}
	// The refused pushes have not changed the Local.
	nntest.Must(multi.Push(0, Push{To: theta, Local: stepped}))(t)
	if err := stepped.Step(theta, grad, 1, 1e-3); err == nil || err.Error() != "local step: a push is in progress, its next shard is 1 of 2" || stepped.Next() != 1 {
		t.Errorf("a step inside a push: %v", err)
	}
	nntest.Must(multi.Push(1, Push{To: theta, Local: stepped}))(t)
	for want, err := range map[string]error{
		"local step: 3 parameters and 40 gradients, must be 40 each": stepped.Step(nntest.Flat(3), grad, 1, 1e-3),
		"local step: 40 parameters and 1 gradients, must be 40 each": stepped.Step(theta, grad[:1], 1, 1e-3),
		"factor: NaN, must be 0 or above and finite":                 stepped.Step(theta, grad, float32(nan), 1e-3),
		"learning_rate: -1, must be 0 or above and finite":           stepped.Step(theta, grad, 1, -1),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := s.NewLocal(); err == nil || err.Error() != "rule: overwrite, must be multi_step_adam for local steps" {
		t.Errorf("error %v", err)
	}
}

// A gradient that is too old is refused by each shard for itself, and counted.
func TestStaleGradients(t *testing.T) {
	s := newStore(t, 64, Rule{Name: RuleGradient, Optimizer: nn.OptimizerConfig{Name: "rmsprop"}, MaxStaleness: 1}, 2)
	p := Push{Grad: floats(rng.New(1, "test", 0), 64), Factor: 1, Rate: 1e-2}
	for _, shard := range []int{0, 0, 1} { // versions 2 and 1
		p.Seen = s.Pull(shard, nntest.Flat(64))
		nntest.Must(s.Push(shard, p))(t)
	}
	p.Seen = 0
	before := s.params.Clone()
	version, err := s.Push(0, p)
	stale, ok := err.(*Stale)
	if !ok || version != 2 || *stale != (Stale{0, 2, 1}) || err.Error() != "shard 0: lag 2, must be at most max_staleness: 1: the gradient is too old" {
		t.Fatalf("version %d, error %v", version, err)
	}
	sameBits(t, "a refused push", s.theta, before.Host())
	if version, err := s.Push(1, p); version != 2 || err != nil {
		t.Errorf("shard 1, lag 1: version %d, error %v", version, err)
	}
	if c := s.Counts(); c != (Counts{Updates: 2, Refused: 1, Pulls: 1}) {
		t.Errorf("%+v", c)
	}
}

func TestRulesRefused(t *testing.T) {
	adam, rmsprop := nn.OptimizerConfig{Name: "adam"}, nn.OptimizerConfig{Name: "rmsprop"}
	for _, c := range []struct {
		rule   Rule
		shards int
		want   string
	}{
		{Rule{Name: "hogwild", Optimizer: adam}, 1, `rule: "hogwild", must be one of gradient, overwrite, multi_step_adam, mean`},
		{Rule{Name: RuleGradient}, 1, `optimizer.name: "", must be one of`},
		{Rule{Name: RuleGradient, Optimizer: adam, MaxStaleness: -1}, 1, "max_staleness: -1, must be at least 0"},
		{Rule{Name: RuleMultiStepAdam, Optimizer: rmsprop}, 1, `optimizer.name: "rmsprop", must be adam with the rule multi_step_adam`},
		{Rule{Name: RuleGradient, Optimizer: adam, EpsCorrected: true}, 1, "eps_corrected: true, the rule gradient has no such setting"},
		{Rule{Name: RuleMean, Optimizer: adam, LocalSteps: true}, 1, "local_steps: true, the rule mean has no such setting"},
		{Rule{Name: RuleMean, Optimizer: adam, MaxStaleness: 3}, 1, "max_staleness: 3, the rule mean has no such setting"},
		{Rule{Name: RuleGradient, Optimizer: adam}, 0, "shards: 0, must be 1 to 5 for 5 parameters"},
		{Rule{Name: RuleGradient, Optimizer: adam}, 6, "shards: 6, must be 1 to 5 for 5 parameters"},
	} {
		if _, err := New(device(t), nntest.Flat(5), c.rule, c.shards); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
		if _, err := c.rule.Memory(5, 1, 1); c.shards == 1 && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("Memory: error %v, want %q", err, c.want)
		}
	}
	if _, err := New(onGPU{device(t)}, nntest.Flat(5), Rule{Name: RuleGradient, Optimizer: adam}, 1); err == nil || err.Error() != "device: cuda:0 (NVIDIA H100), the central parameters need the device cpu" {
		t.Errorf("error %v", err)
	}
}

// The threads of a device belong to one goroutine. Learners are several, so a store has a device of
// one thread.
func TestStoreHasOneThread(t *testing.T) {
	d := &threads{Device: device(t)}
	nntest.Must(New(d, nntest.Flat(5), Rule{Name: RuleGradient, Optimizer: nn.OptimizerConfig{Name: "adam"}}, 1))(t)
	if d.asked != 1 {
		t.Errorf("the store has asked for a device of %d threads, must be 1", d.asked)
	}
}

type threads struct {
	nn.Device
	asked int
}

func (d *threads) Another(n int, budget *budget.Budget) (nn.Device, error) {
	d.asked = n
	return d.Device.Another(n, budget)
}

// Optimizer is that of several threads.
func (*threads) Optimizer(nn.OptimizerConfig, int) (nn.Optimizer, error) {
	return nil, errors.New("an optimizer of several threads")
}

type onGPU struct{ nn.Device }

func (onGPU) Name() string { return "cuda:0 (NVIDIA H100)" }

// Memory counts every array of a store, its learners and its Mean.
func TestMemoryCountsEveryArray(t *testing.T) {
	const size, shards, count = 300, 3, 4
	for _, rule := range append(rulesOf(), Rule{Name: RuleMean, Optimizer: nn.OptimizerConfig{Name: "adam"}}) {
		s, want := newStore(t, size, rule, shards), int64(0)
		for _, state := range s.state {
			want += 4 * int64(len(state.Data))
		}
		switch rule.Name {
		case RuleMultiStepAdam:
			l := nntest.Must(s.NewLocal())(t)
			for _, array := range l.arrays() {
				want += count * 4 * int64(len(*array))
			}
			want += count * 8 * int64(len(l.steps))
		case RuleMean:
			want += 4 * int64(len(nntest.Must(NewMean(s, 0))(t).grad))
		}
		got := int64(0)
		for _, part := range nntest.Must(rule.Memory(size, shards, count))(t) {
			got += part.Bytes
		}
		if want += shards * shardBytes; got != want {
			t.Errorf("%v: %d bytes, must be %d", rule, got, want)
		}
	}
}
