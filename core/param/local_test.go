package param

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

// paperAdam is the usual Adam as appendix A prints it, in float64.
type paperAdam struct{ theta, m, v []float64 }

func (a *paperAdam) step(c nn.OptimizerConfig, grad []float32, factor, rate float64, t int) {
	for i := range a.theta {
		g := factor * float64(grad[i])
		a.m[i] = c.Beta1*a.m[i] + (1-c.Beta1)*g
		a.v[i] = c.Beta2*a.v[i] + (1-c.Beta2)*g*g
		by := rate * math.Sqrt(1-math.Pow(c.Beta2, float64(t))) / (1 - math.Pow(c.Beta1, float64(t)))
		a.theta[i] -= by * a.m[i] / (math.Sqrt(a.v[i]) + c.Eps)
	}
}

// One learner that pushes every n steps has the numbers of Adam after 100 steps, to a millionth of
// the largest element: of the optimiser "adam" with EpsCorrected, else of appendix A. The remainder
// of an epoch is a push of its own.
func TestOneLearnerIsAdam(t *testing.T) {
	const size, steps = 203, 100
	for _, scale := range []float32{1, 1e-3} { // of gradients: eps matters for small ones
		for _, epoch := range []int{steps, 10} {
			for n := 1; n <= 4; n++ {
				for _, rule := range []Rule{{}, {LocalSteps: true}, {EpsCorrected: true}, {EpsCorrected: true, LocalSteps: true}} {
					rule.Name, rule.Optimizer = RuleMultiStepAdam, nn.OptimizerConfig{Name: "adam", Eps: 1e-5}
					s := newStore(t, size, rule, 3)
					l, theta, seen := nntest.Must(s.NewLocal())(t), s.params.Clone(), make([]uint64, 3)
					adam, o := s.params.Clone(), nntest.Must(device(t).Optimizer(s.rule.Optimizer, size))(t)
					paper := paperAdam{doubles(s.theta), make([]float64, size), make([]float64, size)}
					r := rng.New(4, "test", n)
					pushes := uint64(0)
					for i := 1; i <= steps; i++ {
						grad, rate := floats(r, size), r.Uniform(1e-3, 1e-2)
						for k := range grad {
							grad[k] *= scale
						}
						nntest.Check(t, o.Apply(adam, grad, 0.5, rate))
						paper.step(s.rule.Optimizer, grad, 0.5, rate, i)
						nntest.Check(t, l.Step(theta, grad, 0.5, rate))
						inEpoch := (i-1)%epoch + 1
						if inEpoch%n == 0 || inEpoch == epoch {
							whole(t, s, Push{To: theta, Local: l}, theta, seen)
							pushes++
						}
					}
					want, part := paper.theta, 1e-6
					if rule.EpsCorrected { // in float32 as well
						want, part = doubles(adam.Host()), 3e-7
					}
					what := fmt.Sprintf("n %d, epoch %d, gradients times %v: %v", n, epoch, scale, rule)
					near(t, what, s.theta, want, part)
					near(t, what, theta.Host(), want, part)
					near(t, what+" m", l.m, doubles(o.State()[0].Data), 1e-6)
					near(t, what+" v", s.state[1].Data, doubles(o.State()[1].Data), 1e-6)
					if each := uint64((epoch + n - 1) / n * (steps / epoch)); pushes != each || s.Counts().Updates != each || l.Pending() != 0 || s.shards[2].steps != steps {
						t.Errorf("%s: %d pushes, %d pending, %d steps; must be %d pushes of %d steps", what, pushes, l.Pending(), s.shards[2].steps, each, steps)
					}
				}
			}
		}
	}
}

// Between two pushes the learner's parameters and moments are those of the optimiser "adam", bit
// for bit.
func TestLocalStepsAreAdam(t *testing.T) {
	nntest.OnEveryISA(t, func(t *testing.T) {
		rule := Rule{Name: RuleMultiStepAdam, Optimizer: nn.OptimizerConfig{Name: "adam", Eps: 1e-4}, EpsCorrected: true}
		s := newStore(t, 203, rule, 4)
		l, theta := nntest.Must(s.NewLocal())(t), s.params.Clone()
		adam, o, r := s.params.Clone(), nntest.Must(device(t).Optimizer(rule.Optimizer, 203))(t), rng.New(6, "test", 0)
		for range 30 {
			grad := floats(r, 203)
			nntest.Check(t, o.Apply(adam, grad, 0.7, 1e-2))
			nntest.Check(t, l.Step(theta, grad, 0.7, 1e-2))
		}
		sameBits(t, "theta", theta.Host(), adam.Host())
		sameBits(t, "m", l.m, o.State()[0].Data)
		sameBits(t, "v", l.v, o.State()[1].Data)
	})
}

// A learner that joins has the central moments, and Adam's t of all learners or of its own.
func TestNewLocalTakesTheMoments(t *testing.T) {
	for _, local := range []bool{false, true} {
		s := newStore(t, 50, Rule{Name: RuleMultiStepAdam, Optimizer: nn.OptimizerConfig{Name: "adam"}, LocalSteps: local}, 2)
		l, theta, seen := nntest.Must(s.NewLocal())(t), s.params.Clone(), make([]uint64, 2)
		for range 3 {
			nntest.Check(t, l.Step(theta, floats(rng.New(6, "test", 0), 50), 1, 1e-2))
		}
		whole(t, s, Push{To: theta, Local: l}, theta, seen)
		joins := nntest.Must(s.NewLocal())(t)
		sameBits(t, "m", joins.m, s.state[0].Data)
		sameBits(t, "v", joins.v, s.state[1].Data)
		if want := map[bool]int64{false: 3, true: 0}[local]; joins.steps[1] != want {
			t.Errorf("local steps %v: t is %d, must be %d", local, joins.steps[1], want)
		}
	}
}

// After Forget, also between the shards of a push, l is that of a learner that joins, apart from
// Adam's t of its own steps.
func TestForgottenSteps(t *testing.T) {
	for _, local := range []bool{false, true} {
		for _, pushed := range []int{0, 1} {
			s := newStore(t, 50, Rule{Name: RuleMultiStepAdam, Optimizer: nn.OptimizerConfig{Name: "adam"}, LocalSteps: local}, 2)
			l, theta := nntest.Must(s.NewLocal())(t), s.params.Clone()
			for range 3 {
				nntest.Check(t, l.Step(theta, floats(rng.New(6, "test", 0), 50), 1, 1e-2))
			}
			for shard := range pushed {
				nntest.Must(s.Push(shard, Push{To: theta, Local: l}))(t)
			}
			l.Forget()
			joins := nntest.Must(s.NewLocal())(t)
			if l.Pending() != 0 || l.Next() != 0 || !slices.Equal(l.steps, joins.steps) && !local || local && l.steps[1] != 3 {
				t.Errorf("local steps %v, %d shards pushed: %d pending, next shard %d, t %v, must be %v", local, pushed, l.Pending(), l.Next(), l.steps, joins.steps)
			}
			for i, array := range l.arrays() {
				sameBits(t, fmt.Sprintf("%d shards pushed, array %d", pushed, i), *array, *joins.arrays()[i])
			}
			nntest.Check(t, l.Step(theta, floats(rng.New(6, "test", 1), 50), 1, 1e-2))
		}
	}
}
