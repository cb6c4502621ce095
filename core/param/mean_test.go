package param

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

func newMean(t testing.TB, size int, maxNorm float64) *Mean {
	t.Helper()
	return nntest.Must(NewMean(newStore(t, size, Rule{Name: RuleMean, Optimizer: nn.OptimizerConfig{Name: "rmsprop"}}, 3), maxNorm))(t)
}

// The gradients of K learners give the gradient and the update of one learner with all of their
// rows, to a millionth of the largest element: real networks, losses that are means and sums, rows
// that are holes. Each update begins with equal parameters, because the rounding of a gradient near
// 0 is multiplied by learning_rate/eps in a step.
func TestMeanIsOneLargeBatch(t *testing.T) {
	losses := func(s nn.Spec) []nn.Loss {
		if s.Head("q") < 0 {
			return []nn.Loss{nn.ActorCritic{EntropyCoef: 0.01, ValueCoef: 0.5}, nn.PPO{EntropyCoef: 0.01, ValueCoef: 0.5}}
		}
		return []nn.Loss{nn.TD{Kind: "huber", Reduction: "mean"}, nn.TD{Kind: "huber", Reduction: "sum"}, nn.TD{Kind: "squared", Reduction: "mean", Weighted: true}}
	}
	nntest.OnEveryISA(t, func(t *testing.T) {
		for _, spec := range []nn.Spec{nntest.SmallMLP(), nntest.TwoMLPs()} {
			for _, loss := range losses(spec) {
				for _, optimizer := range []nn.OptimizerConfig{{Name: "adam", Eps: 1e-5}, {Name: "rmsprop", Eps: 1e-5}, {Name: "rmsprop_mnih"}} {
					for _, maxNorm := range []float64{0, 0.05} { // 0.05 clips
						for k := 1; k <= 4; k++ {
							testLargeBatch(t, spec, loss, optimizer, maxNorm, k)
						}
					}
				}
			}
		}
	})
}

func testLargeBatch(t *testing.T, spec nn.Spec, loss nn.Loss, optimizer nn.OptimizerConfig, maxNorm float64, k int) {
	const rows, rate = 6, 2.5e-4
	what := fmt.Sprintf("%d learners, %T %+v, %s, clipped to %v", k, loss, loss, optimizer.Name, maxNorm)
	d, r := device(t), rng.New(uint64(10+k), "test", 0)
	p := nntest.Init(t, spec, 5)
	s := nntest.Must(New(d, p, Rule{Name: RuleMean, Optimizer: optimizer}, 2))(t)
	m := nntest.Must(NewMean(s, maxNorm))(t)
	stepper := nntest.Must(d.Stepper(nn.StepperConfig{Net: spec, Rows: k * rows, Loss: loss, Optimizer: optimizer, MaxGradNorm: maxNorm}))(t)
	one, learner := nntest.Must(d.Learner(spec, k*rows, loss))(t), nntest.Must(d.Learner(spec, rows, loss))(t)
	td, _ := loss.(nn.TD)
	for range 3 {
		want := p.Clone()
		for i, state := range stepper.Optimizer().State() {
			copy(state.Data, s.state[i].Data)
		}
		batch := nntest.RandomBatch(spec, loss, r, k*rows)
		var all []Contribution
		for i := range k {
			part, own := cut(spec, batch, i*rows, rows), 0.0
			for row := range rows {
				own += weightOf(loss, part, row)
			}
			grad := make([]float32, p.Layout.Size)
			nntest.Check(t, learner.Gradient(p, part, grad, &nn.Report{}))
			all = append(all, Contribution{Grad: grad, Rows: own, Summed: td.Reduction == "sum", Rate: rate})
		}
		var report nn.Report
		grad := make([]float32, p.Layout.Size)
		nntest.Check(t, one.Gradient(p, batch, grad, &report))
		nntest.Check(t, stepper.Update(want, batch, rate, &report))
		c, err := m.Combine(all)
		nntest.Check(t, err)
		if math.Abs(c.Norm-report.Norm) > 1e-6*report.Norm || maxNorm > 0 && c.Norm < maxNorm {
			t.Fatalf("%s: norm %v, must be %v", what, c.Norm, report.Norm)
		}
		near(t, what+": gradient", m.grad, doubles(grad), 1e-6)
		near(t, what, p.Host(), doubles(want.Host()), 1e-6)
		if k == 1 {
			sameBits(t, what, p.Host(), want.Host())
		}
	}
}

// cut returns n rows of a batch, from row first on.
func cut(s nn.Spec, b nn.Batch, first, n int) nn.Batch {
	of := nn.Batch{Obs: b.Obs[first*s.Obs.Bytes():][:n*s.Obs.Bytes()], Actions: b.Actions[first:][:n]}
	for _, c := range b.Columns {
		of.Columns = append(of.Columns, c[first:][:n])
	}
	return of
}

// weightOf returns the weight of a row.
func weightOf(loss nn.Loss, b nn.Batch, row int) float64 {
	for i, c := range loss.Columns(nil) {
		if c.Name == "weight" {
			return float64(b.Columns[i][row])
		}
	}
	return 1
}

// Contributions are added in the order of the learners, in float64.
func TestMeanAgainstTwin(t *testing.T) {
	const size, count = 2500, 5 // several blocks of addGradients
	for _, summed := range []bool{false, true} {
		m, r := newMean(t, size, 10), rng.New(7, "test", 0)
		want, o := m.store.params.Clone(), nntest.Must(device(t).Optimizer(nn.OptimizerConfig{Name: "rmsprop"}, size))(t)
		for update := range 20 {
			var all []Contribution
			rows := 0.0
			for k := range count {
				all = append(all, Contribution{Grad: floats(r, size), Rows: float64(r.Intn(9)), Summed: summed, Rate: 1e-3 * float64(k+1)})
				if k == 0 && update == 0 {
					all[0].Rows = 0
				}
				if all[k].Rows == 0 {
					all[k].Grad[0] = float32(math.NaN()) // of holes alone
				}
				rows += all[k].Rows
			}
			rate := all[slices.IndexFunc(all, func(c Contribution) bool { return c.Rows > 0 })].Rate
			grad := make([]float32, size)
			for i := range grad {
				sum := 0.0
				for _, c := range all {
					if c.Rows > 0 && summed {
						sum += float64(c.Grad[i])
					} else if c.Rows > 0 {
						sum += float64(c.Rows / rows * float64(c.Grad[i]))
					}
				}
				grad[i] = float32(sum)
			}
			norm, factor := device(t).ClipGradNorm(grad, 10)
			nntest.Check(t, o.Apply(want, grad, factor, rate))
			c, err := m.Combine(all)
			if nntest.Check(t, err); c != (Combined{rows, norm}) {
				t.Fatalf("%+v, must be %v rows and norm %v", c, rows, norm)
			}
			sameBits(t, "parameters", m.store.theta, want.Host())
		}
	}
}

// A round whose rows are all holes takes no step.
func TestMeanOfHoles(t *testing.T) {
	m, r := newMean(t, 40, 0), rng.New(7, "test", 0)
	before := m.store.params.Clone()
	c, err := m.Combine([]Contribution{{Grad: floats(r, 40)}, {Grad: floats(r, 40)}})
	if err != nil || c != (Combined{}) || m.store.Counts() != (Counts{}) {
		t.Errorf("%+v, %v, %+v", c, err, m.store.Counts())
	}
	sameBits(t, "parameters", m.store.theta, before.Host())
}

// A gradient that is not finite changes nothing.
func TestMeanNotFinite(t *testing.T) {
	m, r := newMean(t, 40, 0.5), rng.New(7, "test", 0)
	all := make([]Contribution, 3)
	for k := range all {
		all[k] = Contribution{Grad: floats(r, 40), Rows: 2, Rate: 1e-3}
	}
	before := m.store.params.Clone()
	for _, v := range []float64{math.NaN(), math.Inf(-1)} {
		all[1].Grad[17] = float32(v)
		_, err := m.Combine(all)
		var of *nn.NotFinite
		if !errors.Is(err, fault.ErrNotFinite) || !errors.As(err, &of) || !strings.HasPrefix(err.Error(), "learner 1: gradient norm: ") {
			t.Errorf("error %v", err)
		}
	}
	sameBits(t, "parameters", m.store.theta, before.Host())
	all[1].Grad[17] = 1
	if _, err := m.Combine(all); err != nil || m.store.Counts().Updates != 1 {
		t.Errorf("after the errors: %v", err)
	}
}

func TestContributionsRefused(t *testing.T) {
	m := newMean(t, 40, 0)
	grad := make([]float32, 40)
	for _, c := range []struct {
		change func(first, second *Contribution)
		want   string
	}{
		{func(_, c *Contribution) { c.Grad = grad[:3] }, "learner 1: grad: 3 floats, must be 40"},
		{func(c, _ *Contribution) { c.Rows = -1 }, "learner 0: rows: -1, must be 0 or above and finite"},
		{func(_, c *Contribution) { c.Rows = math.NaN() }, "learner 1: rows: NaN, must be 0 or above and finite"},
		{func(c, _ *Contribution) { c.Rate = math.NaN() }, "learning_rate: NaN, must be 0 or above and finite"},
		{func(_, c *Contribution) { c.Summed = true }, "learner 1: the loss is a sum: true, must be false as that of learner 0"},
	} {
		all := slices.Repeat([]Contribution{{Grad: grad, Rows: 1, Rate: 1e-3}}, 2)
		c.change(&all[0], &all[1])
		if _, err := m.Combine(all); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	for maxNorm, want := range map[float64]string{-1: "max_grad_norm: -1, must be 0 or above", math.NaN(): "max_grad_norm: NaN, must be 0 or above"} {
		if _, err := NewMean(m.store, maxNorm); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := NewMean(newStore(t, 5, Rule{Name: RuleGradient, Optimizer: nn.OptimizerConfig{Name: "adam"}}, 1), 1); err == nil || err.Error() != "rule: gradient, must be mean" {
		t.Errorf("error %v", err)
	}
}
