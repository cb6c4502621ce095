package param

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

func newMean(t testing.TB, size, learners int, maxNorm float64) *Mean {
	t.Helper()
	return nntest.Must(NewMean(newStore(t, size, Rule{Name: RuleMean, Optimizer: nn.OptimizerConfig{Name: "rmsprop"}}, 3), learners, maxNorm))(t)
}

// round makes all learners contribute, in an order that r draws, and wait.
func round(t *testing.T, m *Mean, r *rng.Stream, all []Contribution) (Combined, error) {
	t.Helper()
	left := make([]int, len(all))
	for k := range left {
		left[k] = k
	}
	for len(left) > 0 {
		i := r.Intn(len(left))
		last := nntest.Must(m.Add(left[i], all[left[i]]))(t)
		if left = slices.Delete(left, i, i+1); last != (len(left) == 0) {
			t.Fatalf("last: %v, %d learners are left", last, len(left))
		}
	}
	c, err := m.Wait(0)
	for k := 1; k < len(all); k++ {
		if again, same := m.Wait(k); same != err || err == nil && again != c {
			t.Fatalf("learner %d: %+v and %v, learner 0: %+v and %v", k, again, same, c, err)
		}
	}
	return c, err
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
	m := nntest.Must(NewMean(s, k, maxNorm))(t)
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
		c, err := round(t, m, r, all)
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
	for i, c := range loss.Columns() {
		if c.Name == "weight" {
			return float64(b.Columns[i][row])
		}
	}
	return 1
}

// Contributions are added in the order of the learners, in float64, whatever the order in which
// they come.
func TestMeanAgainstTwin(t *testing.T) {
	const size, count = 2500, 5 // several blocks of addGradients
	for _, summed := range []bool{false, true} {
		m, r := newMean(t, size, count, 10), rng.New(7, "test", 0)
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
			norm, factor := o.ClipGradNorm(grad, 10)
			nntest.Check(t, o.Apply(want, grad, factor, 1e-3))
			c, err := round(t, m, r, all)
			if nntest.Check(t, err); c != (Combined{rows, norm}) {
				t.Fatalf("%+v, must be %v rows and norm %v", c, rows, norm)
			}
			sameBits(t, "parameters", m.store.theta, want.Host())
		}
	}
}

// A round whose rows are all holes takes no step.
func TestMeanOfHoles(t *testing.T) {
	m, r := newMean(t, 40, 2, 0), rng.New(7, "test", 0)
	before := m.store.params.Clone()
	c, err := round(t, m, r, []Contribution{{Grad: floats(r, 40)}, {Grad: floats(r, 40)}})
	if err != nil || c != (Combined{}) || m.store.Counts() != (Counts{}) {
		t.Errorf("%+v, %v, %+v", c, err, m.store.Counts())
	}
	sameBits(t, "parameters", m.store.theta, before.Host())
}

// A gradient that is not finite changes nothing, and all learners get the error.
func TestMeanNotFinite(t *testing.T) {
	m, r := newMean(t, 40, 3, 0.5), rng.New(7, "test", 0)
	all := make([]Contribution, 3)
	for k := range all {
		all[k] = Contribution{Grad: floats(r, 40), Rows: 2, Rate: 1e-3}
	}
	before := m.store.params.Clone()
	for _, v := range []float64{math.NaN(), math.Inf(-1)} {
		all[1].Grad[17] = float32(v)
		_, err := round(t, m, r, all)
		var of *nn.NotFinite
		if !errors.Is(err, fault.ErrNotFinite) || !errors.As(err, &of) || !strings.HasPrefix(err.Error(), "learner 1: gradient norm: ") {
			t.Errorf("error %v", err)
		}
	}
	sameBits(t, "parameters", m.store.theta, before.Host())
	all[1].Grad[17] = 1
	if _, err := round(t, m, r, all); err != nil || m.store.Counts().Updates != 1 {
		t.Errorf("after the errors: %v", err)
	}
}

// Learners on goroutines of their own have the bits of learners in one goroutine: gradients, sums,
// pulls.
func TestMeanOfGoroutines(t *testing.T) {
	const size, count, rounds = 300, 6, 40
	run := func(each func(k int, learn func())) []float32 {
		m := newMean(t, size, count, 1)
		for k := range count {
			each(k, func() {
				r, theta, numbers := rng.New(8, "learner", k), m.store.params.Clone(), make([]float64, 2)
				for i := range rounds {
					numbers[0], numbers[1] = float64(theta.Host()[0])*float64(k), float64(k)
					_, err := m.AddSums(k, numbers)
					if err == nil {
						_, err = m.Wait(k)
					}
					if err != nil || numbers[1] != count*(count-1)/2 {
						t.Errorf("learner %d: %v, error %v", k, numbers, err)
						return
					}
					grad := floats(r, size)
					for j := range grad {
						grad[j] -= float32(numbers[0])
					}
					if _, err = m.Add(k, Contribution{Grad: grad, Rows: float64(1 + k), Rate: 1e-2}); err == nil {
						_, err = m.Wait(k)
					}
					if err != nil {
						t.Error(err)
						return
					}
					for shard := range m.store.Shards() {
						if version := m.store.Pull(shard, theta); version != uint64(i+1) {
							t.Errorf("learner %d has pulled version %d after update %d", k, version, i+1)
						}
					}
				}
			})
		}
		return m.store.theta
	}
	var first []float32
	for range 3 {
		var wait sync.WaitGroup
		theta := run(func(_ int, learn func()) { wait.Go(learn) })
		wait.Wait()
		if first == nil {
			first = theta
		}
		sameBits(t, "goroutines", theta, first)
	}
}

// Stop wakes every learner. Contributions to a round that has not ended are withdrawn, and the
// learners contribute again after Resume.
func TestMeanStops(t *testing.T) {
	const count = 4
	m, r := newMean(t, 40, count, 0), rng.New(7, "test", 0)
	grad, stop := floats(r, 40), errors.New("stopped")
	results := make(chan error, count)
	for k := range count - 1 {
		nntest.Must(m.Add(k, Contribution{Grad: grad, Rows: 1, Rate: 1e-3}))(t)
		go func() {
			_, err := m.Wait(k)
			results <- err
		}()
	}
	m.Stop(stop)
	for range count - 1 {
		if err := <-results; err != stop {
			t.Errorf("error %v, must be that of Stop", err)
		}
	}
	if _, err := m.Add(3, Contribution{Grad: grad, Rows: 1}); err != stop {
		t.Errorf("a contribution after Stop: error %v", err)
	}
	m.Resume()
	all := slices.Repeat([]Contribution{{Grad: grad, Rows: 1, Rate: 1e-3}}, count)
	if c, err := round(t, m, r, all); err != nil || c.Rows != count || m.store.Counts().Updates != 1 {
		t.Errorf("after Resume: %+v, %v", c, err)
	}
	// A round that has ended before Stop has its result.
	for k := range count {
		nntest.Must(m.Add(k, all[k]))(t)
	}
	m.Stop(stop)
	for k := range count {
		if c, err := m.Wait(k); err != nil || c.Rows != count {
			t.Errorf("learner %d: %+v, %v", k, c, err)
		}
	}
}

func TestContributionsRefused(t *testing.T) {
	m := newMean(t, 40, 2, 0)
	grad := make([]float32, 40)
	good := Contribution{Grad: grad, Rows: 1, Rate: 1e-3}
	for _, c := range []struct {
		learner int
		change  func(c *Contribution)
		want    string
	}{
		{-1, func(*Contribution) {}, "learner: -1, must be 0 to 1"},
		{2, func(*Contribution) {}, "learner: 2, must be 0 to 1"},
		{0, func(c *Contribution) { c.Grad = grad[:3] }, "grad: 3 floats, must be 40"},
		{0, func(c *Contribution) { c.Rows = -1 }, "rows: -1, must be 0 or above and finite"},
		{0, func(c *Contribution) { c.Rows = math.NaN() }, "rows: NaN, must be 0 or above and finite"},
		{0, func(c *Contribution) { c.Rate = math.NaN() }, "learning_rate: NaN, must be 0 or above and finite"},
	} {
		of := good
		c.change(&of)
		if _, err := m.Add(c.learner, of); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if _, err := m.Wait(0); err == nil || err.Error() != "learner: 0 has not contributed to the round" {
		t.Errorf("error %v", err)
	}
	nntest.Must(m.Add(0, good))(t)
	if _, err := m.Add(0, good); err == nil || err.Error() != "learner: 0 has contributed to this round, and must call Wait first" {
		t.Errorf("error %v", err)
	}
	nntest.Must(m.AddSums(1, nil))(t)
	for k := range 2 {
		if _, err := m.Wait(k); err == nil || err.Error() != "learner 1: a gradient in a round of sums, or sums in a round of gradients" {
			t.Errorf("error %v", err)
		}
	}
	nntest.Must(m.AddSums(0, []float64{1}))(t)
	nntest.Must(m.AddSums(1, []float64{1, 2}))(t)
	m.Wait(0)
	if _, err := m.Wait(1); err == nil || err.Error() != "learner 1: 2 numbers, must be 1 as those of learner 0" {
		t.Errorf("error %v", err)
	}
	nntest.Must(m.Add(0, good))(t)
	good.Summed = true
	nntest.Must(m.Add(1, good))(t)
	m.Wait(0)
	if _, err := m.Wait(1); err == nil || err.Error() != "learner 1: the loss is a sum: true, must be false as that of learner 0" {
		t.Errorf("error %v", err)
	}
	for _, c := range []struct {
		learners int
		maxNorm  float64
		want     string
	}{{0, 1, "learners: 0, must be at least 1"}, {1, -1, "max_grad_norm: -1, must be 0 or above"}, {1, math.NaN(), "max_grad_norm: NaN, must be 0 or above"}} {
		if _, err := NewMean(m.store, c.learners, c.maxNorm); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if _, err := NewMean(newStore(t, 5, Rule{Name: RuleGradient, Optimizer: nn.OptimizerConfig{Name: "adam"}}, 1), 1, 1); err == nil || err.Error() != "rule: gradient, must be mean" {
		t.Errorf("error %v", err)
	}
}
