package nntest

import (
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// randomTransitions returns the rows of a batch with random next observations.
func randomTransitions(s nn.Spec, b *nn.Batch, r *rng.Stream) *experience.Transitions {
	rows := len(b.Actions)
	x := &experience.Transitions{Obs: b.Obs, NextObs: RandomObs(s, r, rows), Actions: b.Actions, Rewards: make([]float32, rows), Discounts: make([]float32, rows)}
	for i := range rows {
		x.Rewards[i], x.Discounts[i] = float32(r.Uniform(-1, 1)), float32(0.9*float64(r.Intn(2)))
	}
	return x
}

// testRowsOfAReport compares Report.Rows with the errors of the rows, with any kind of loss.
func (on *suite) testRowsOfAReport(t *testing.T) {
	const rows = 6
	s := SmallMLP()
	for _, loss := range []nn.TD{
		{Kind: "huber", Reduction: "mean"}, {Kind: "squared", Reduction: "sum", Scale: 3}, {Kind: "huber", Reduction: "mean", Weighted: true},
		{Kind: "huber", Reduction: "mean", Importance: nn.ImportanceGradient},
	} {
		l, p := on.learner(t, s, rows, loss), Init(t, s, 1)
		b := RandomBatch(s, loss, rng.New(1, "test", 0), rows)
		q, large := naiveOutputs(s, p, b.Obs, rows)[0], 0
		grad, r := make([]float32, len(p.Host())), nn.Report{Rows: make([]float32, rows)}
		Check(t, l.Gradient(p, b, grad, &r))
		for i, a := range b.Actions {
			want := math.Abs(q[i*3+int(a)] - float64(b.Columns[0][i]))
			if !(math.Abs(float64(r.Rows[i])-want) <= 1e-5*(1+want)) {
				t.Errorf("%+v: row %d is %v, want %v", loss, i, r.Rows[i], want)
			}
			if want > 1 {
				large++
			}
		}
		if large == 0 || large == rows {
			t.Errorf("%d errors above 1 of %d: the test shows little", large, rows)
		}
		was := slices.Clone(r.Rows)
		b.Columns[0][0] += 9
		Check(t, l.Gradient(p, b, grad, &nn.Report{}))
		if !slices.Equal(r.Rows, was) {
			t.Error("Rows of an earlier report were written")
		}
		for want, bad := range map[string]*nn.Report{"report.rows: 5 numbers, must be nil or 6": {Rows: make([]float32, rows-1)}} {
			if err := l.Gradient(p, b, grad, bad); err == nil || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
	ac := TwoMLPs()
	p, b := Init(t, ac, 1), RandomBatch(ac, LossOf(ac), rng.New(1, "test", 0), rows)
	err := on.learner(t, ac, rows, LossOf(ac)).Gradient(p, b, make([]float32, len(p.Host())), &nn.Report{Rows: make([]float32, rows)})
	if err == nil || err.Error() != "report.rows: 6 numbers, must be nil for this loss" {
		t.Errorf("error %v", err)
	}
}

// testImportanceOfTransitions compares updates of weighted transitions with those of the same rows
// with a column of weights, and unweighted ones with weights of 1.
func (on *suite) testImportanceOfTransitions(t *testing.T) {
	const rows = 7
	s := SmallMLP()
	c := nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean", Importance: nn.ImportanceGradient}, Optimizer: nn.OptimizerConfig{Name: "adam"}}
	for _, weighted := range []bool{true, false} {
		d := on.device(t, 2)
		q, plain := Must(d.QStepper(c, nn.MaxQ{Double: true}))(t), Must(d.Stepper(c))(t)
		p, by, target := Init(t, s, 1), Init(t, s, 1), Init(t, s, 2)
		for k := range 3 {
			r := rng.New(3, "test", k)
			b := RandomBatch(s, c.Loss, r, rows)
			x := randomTransitions(s, &b, r)
			if x.Weights = b.Columns[1]; !weighted {
				x.Weights = nil
				for i := range b.Columns[1] {
					b.Columns[1][i] = 1
				}
			}
			next, online := naiveOutputs(s, target, x.NextObs, rows)[0], naiveOutputs(s, p, x.NextObs, rows)[0]
			for i := range rows {
				best := 0
				for a := range 3 {
					if online[i*3+a] > online[i*3+best] {
						best = a
					}
				}
				b.Columns[0][i] = float32(float64(x.Rewards[i]) + float64(x.Discounts[i])*next[i*3+best])
			}
			have, want := nn.Report{Rows: make([]float32, rows)}, nn.Report{Rows: make([]float32, rows)}
			Check(t, plain.Update(by, b, 1e-2, &want))
			Check(t, q.Update(p, target, x, 1e-2, &have))
			if !(math.Abs(have.Loss-want.Loss) <= 1e-5*math.Abs(want.Loss)) {
				t.Errorf("weighted %v: loss %v, want %v", weighted, have.Loss, want.Loss)
			}
			for i := range rows {
				if math.Abs(float64(have.Rows[i]-want.Rows[i])) > 1e-5 {
					t.Errorf("weighted %v: row %d is %v, want %v", weighted, i, have.Rows[i], want.Rows[i])
				}
			}
			by.CopyFrom(p)
		}
		b := RandomBatch(s, c.Loss, rng.New(4, "test", 0), rows)
		x := randomTransitions(s, &b, rng.New(4, "test", 1))
		x.Weights = b.Columns[1][1:]
		if err := q.Update(p, target, x, 1e-2, &nn.Report{}); err == nil || err.Error() != "transitions.weights: 6, must be nil or 7" {
			t.Errorf("error %v", err)
		}
		c := c
		c.Loss = nn.TD{Kind: "huber", Reduction: "mean"}
		x.Weights = b.Columns[1]
		if err := Must(d.QStepper(c, nn.MaxQ{}))(t).Update(p, target, x, 1e-2, &nn.Report{}); err == nil || err.Error() != `transitions.weights: 7, must be nil where loss.importance is ""` {
			t.Errorf("error %v", err)
		}
	}
}
