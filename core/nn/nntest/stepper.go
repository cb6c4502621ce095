package nntest

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// testStepper compares the updates of a Stepper, in one call or in two, with Gradient, ClipGradNorm
// and Apply: they have the same bits. They do not allocate.
func (on *suite) testStepper(t *testing.T) {
	for _, s := range append(Policies(), TwoMLPs()) {
		for _, maxNorm := range []float64{0, 0.05} {
			on.stepper(t, s, maxNorm)
		}
	}
}

func (on *suite) stepper(t *testing.T, s nn.Spec, maxNorm float64) {
	loss, d := LossOf(s), on.device(t, 2)
	const rows, n = 6, 5
	c := nn.StepperConfig{Net: s, Rows: rows, Loss: loss, Optimizer: nn.OptimizerConfig{Name: "rmsprop", EpsInside: true}, MaxGradNorm: maxNorm}
	l, o := Must(d.Learner(s, rows, loss))(t), on.optimizer(t, c.Optimizer, Init(t, s, 1).Layout.Size)
	stepper := Must(d.Stepper(c))(t)
	p, q := Init(t, s, 1), Init(t, s, 1)
	grad, clipped := make([]float32, len(p.Host())), 0
	var want, r nn.Report
	for k := range n {
		b, lr := RandomBatch(s, loss, rng.New(1, "test", k), rows), 1e-2/float64(k+1)
		Check(t, l.Gradient(p, b, grad, &want))
		limit := maxNorm
		if limit == 0 {
			limit = math.Inf(1)
		}
		norm, factor := d.ClipGradNorm(grad, limit)
		if want.Norm = norm; factor < 1 {
			clipped++
		}
		Check(t, o.Apply(p, grad, factor, lr))
		if k%2 == 0 {
			Check(t, stepper.Update(q, b, lr, &r))
		} else {
			Check(t, stepper.Learn(q, b, &r))
			Check(t, stepper.Step(q, lr, &r))
		}
		// A GPU adds the squares of the gradient in another order than ClipGradNorm.
		sameNorm := math.Abs(r.Norm-want.Norm) <= 1e-12*want.Norm
		want.Norm = r.Norm
		if !slices.Equal(p.Host(), q.Host()) || stepper.Optimizer().Step() != int64(k+1) || q.Updates != uint64(k+1) || !sameNorm || !reflect.DeepEqual(r, want) {
			t.Fatalf("%s, max norm %v, update %d: not the parameters or the report by hand: %+v, want %+v", Name(s), maxNorm, k, r, want)
		}
	}
	if (clipped > 0) != (maxNorm > 0) {
		t.Errorf("%s, max norm %v: %d gradients were clipped: the test shows little", Name(s), maxNorm, clipped)
	}
	b := RandomBatch(s, loss, rng.New(2, "test", 0), rows)
	if allocs := testing.AllocsPerRun(5, func() { Check(t, stepper.Update(q, b, 1e-3, &r)) }); allocs != 0 {
		t.Errorf("%s: %v allocations", Name(s), allocs)
	}
}

// testQStepper compares the targets of a QStepper with the textbook, with and without double
// Q-learning and masks. Everything else is tested by testStepper.
func (on *suite) testQStepper(t *testing.T) {
	s, d := SmallMLP(), on.device(t, 2)
	const rows = 7
	width := s.Heads[0].Out
	for _, double := range []bool{false, true} {
		for _, masked := range []bool{false, true} {
			c := nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 1}
			stepper, plain := Must(d.QStepper(c, nn.MaxQ{Double: double}))(t), Must(d.Stepper(c))(t)
			p, q, target := Init(t, s, 1), Init(t, s, 1), Init(t, s, 2)
			for k := range 4 {
				r := rng.New(3, "test", k)
				b := RandomBatch(s, c.Loss, r, rows)
				x := &experience.Transitions{Obs: b.Obs, NextObs: RandomObs(s, r, rows), Actions: b.Actions, Rewards: make([]float32, rows), Discounts: make([]float32, rows)}
				if masked {
					x.NextMasks = make([]byte, rows*width)
				}
				values, choosing := naiveOutputs(s, target, x.NextObs, rows)[0], naiveOutputs(s, q, x.NextObs, rows)[0]
				if !double {
					choosing = values
				}
				for i := range rows {
					x.Rewards[i], x.Discounts[i] = float32(r.Uniform(-1, 1)), float32(0.9*float64(r.Intn(2)))
					best := -1
					for a := range width {
						at := i*width + a
						if masked {
							x.NextMasks[at] = byte(r.Intn(2))
							if a == width-1 && best < 0 {
								x.NextMasks[at] = 1
							}
						}
						if (!masked || x.NextMasks[at] != 0) && (best < 0 || choosing[at] > choosing[i*width+best]) {
							best = a
						}
					}
					b.Columns[0][i] = float32(float64(x.Rewards[i]) + float64(x.Discounts[i])*values[i*width+best])
				}
				var have, want nn.Report
				Check(t, plain.Learn(p, b, &want))
				Check(t, stepper.Update(q, target, x, 1e-2, &have))
				if !(math.Abs(have.Loss-want.Loss) <= 1e-5*math.Abs(want.Loss)) {
					t.Errorf("double %v, masks %v: loss %v, want %v", double, masked, have.Loss, want.Loss)
				}
				p.CopyFrom(q)
			}
			if n := stepper.Optimizer().Step(); n != 4 || q.Updates != 4 {
				t.Errorf("%d steps and %d updates of 4", n, q.Updates)
			}
		}
	}
	for want, c := range map[string]nn.StepperConfig{
		"must be a TD that is not weighted": {Net: s, Rows: 4, Loss: nn.TD{Kind: "huber", Reduction: "mean", Weighted: true}, Optimizer: nn.OptimizerConfig{Name: "adam"}},
		"max_grad_norm: -1, must be at":     {Net: s, Rows: 4, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: -1},
	} {
		if _, err := d.QStepper(c, nn.MaxQ{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// testNotFinite tests that a loss or a norm that is not finite gives no step, clipped or not.
func (on *suite) testNotFinite(t *testing.T) {
	s := TwoMLPs()
	loss, d := LossOf(s), on.device(t, 1)
	for _, clip := range []float64{0, 0.5} {
		for _, what := range []string{"loss", "gradient norm"} {
			st := Must(d.Stepper(nn.StepperConfig{Net: s, Rows: 4, Loss: loss, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: clip}))(t)
			p := Init(t, s, 1)
			b := RandomBatch(s, loss, rng.New(1, "test", 0), 4)
			Check(t, st.Update(p, b, 1e-3, &nn.Report{}))
			before := p.Clone()
			var r nn.Report
			var err error
			if what == "loss" {
				b.Columns[1][0] = float32(math.NaN())
				err = st.Update(p, b, 1e-3, &r)
			} else {
				Check(t, st.Learn(p, b, &r))
				on.Spoil(t, st)
				err = st.Step(p, 1e-3, &r)
			}
			if e := (*nn.NotFinite)(nil); !errors.As(err, &e) || !errors.Is(err, fault.ErrNotFinite) || e.What != what || !math.IsNaN(e.Value) || err.Error() != what+": NaN, must be finite" {
				t.Errorf("%s: error %v", what, err)
			}
			if n := st.Optimizer().Step(); n != 1 || !slices.Equal(p.Host(), before.Host()) || p.Updates != 1 {
				t.Errorf("%s: %d steps applied, want 1", what, n)
			}
		}
	}
}

// testRowsNotFinite shows that a row whose error overflows ends an update, although the weighted
// mean is finite.
func (on *suite) testRowsNotFinite(t *testing.T) {
	if on.device(t, 1).Name() != "cpu" {
		return
	}
	s := Implicits()[0]
	loss := nn.ImplicitHuber{Taus: 8, Targets: 1, Kappa: 1, Reduction: "mean", Importance: nn.ImportanceLoss}
	st := Must(on.device(t, 1).Stepper(nn.StepperConfig{Net: s, Rows: 4, Loss: loss, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 1}))(t)
	p, b := Init(t, s, 1), RandomBatch(s, loss, rng.New(1, "test", 0), 4)
	b.Columns[0][0], b.Columns[2][0] = 3e38, 0.1
	for k := range loss.Taus {
		b.Columns[1][k] = 0.5
	}
	before, r := p.Clone(), nn.Report{Rows: make([]float32, 4)}
	err := st.Update(p, b, 1e-3, &r)
	if e := (*nn.NotFinite)(nil); !errors.As(err, &e) || e.What != "error of a row" || !math.IsInf(e.Value, 1) || math.IsInf(r.Loss, 0) {
		t.Errorf("loss %v: error %v", r.Loss, err)
	}
	if !slices.Equal(p.Host(), before.Host()) || st.Optimizer().Step() != 0 {
		t.Error("the step was applied")
	}
}

// sameReport compares the loss, the norm of the gradient and the losses of rows of an update with
// those of a reference.
func sameReport(t *testing.T, name string, have, want nn.Report) {
	t.Helper()
	if !(math.Abs(have.Loss-want.Loss) <= 1e-5*math.Abs(want.Loss)) || !(math.Abs(have.Norm-want.Norm) <= 1e-4*want.Norm) {
		t.Errorf("%s: loss %v, want %v; norm %v, want %v", name, have.Loss, want.Loss, have.Norm, want.Norm)
	}
	for i, row := range want.Rows {
		if !(math.Abs(float64(have.Rows[i]-row)) <= 1e-5*(1+math.Abs(float64(row)))) {
			t.Errorf("%s: row %d is %v, want %v", name, i, have.Rows[i], row)
		}
	}
}
