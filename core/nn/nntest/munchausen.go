package nntest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// scaledLogs returns tau log softmax(q/tau) over the actions that a mask allows, -Inf for the
// others.
func scaledLogs(q []float64, mask []byte, tau float64) (logs []float64) {
	largest, sum := math.Inf(-1), 0.0
	allowed := func(a int) bool { return mask == nil || mask[a] != 0 }
	for a, v := range q {
		if allowed(a) {
			largest = math.Max(largest, v)
		}
	}
	for a, v := range q {
		if allowed(a) {
			sum += math.Exp((v - largest) / tau)
		}
	}
	for a, v := range q {
		if logs = append(logs, math.Inf(-1)); allowed(a) {
			logs[a] = v - largest - tau*math.Log(sum)
		}
	}
	return logs
}

// policyTaus are the taus of the targets of Munchausen: of the quantiles, of the policy at the next
// observations and of the policy at the observations, each [rows, taus].
type policyTaus struct{ targets, next, here []float32 }

// tausOfUpdate are those of an update with a key; none for a network without taus.
func tausOfUpdate(m nn.Munchausen, key uint64, rows int) policyTaus {
	return policyTaus{drawnTaus(nn.TargetTaus, key, rows, m.Taus), drawnTaus(nn.ChoosingTaus, key, rows, m.Choosing), drawnTaus(nn.PolicyTaus, key, rows, m.Choosing)}
}

// naiveMunchausen returns the column of targets of transitions, by the formula of the paper. Trap:
// the policy is the target network's, tau log pi is clipped after its product with tau, and over n
// steps the first action alone has it.
func naiveMunchausen(s nn.Spec, target *nn.Params, m nn.Munchausen, x *experience.Transitions, taus policyTaus) (column []float32) {
	h, rows := &s.Heads[0], len(x.Rewards)
	at := func(obs []byte, taus []float32) []float64 {
		s := s.WithTaus(len(taus) / rows)
		h = &s.Heads[0]
		return naivePoints(s, target, obs, rows, taus)[0]
	}
	of := at(x.Obs, taus.here)
	here := naiveMeans(h, of)
	points := at(x.NextObs, taus.next)
	next := naiveMeans(h, points)
	if h.Taus > 0 {
		points = at(x.NextObs, taus.targets)
	}
	mask := func(of []byte, i int) []byte {
		if len(of) == 0 {
			return nil
		}
		return of[i*h.Out : (i+1)*h.Out]
	}
	for i := range rows {
		log := scaledLogs(here[i*h.Out:(i+1)*h.Out], mask(x.Masks, i), m.Tau)[x.Actions[i]]
		fixed := float64(x.Rewards[i]) + m.Alpha*math.Max(m.Least, math.Min(0, log))
		logs := scaledLogs(next[i*h.Out:(i+1)*h.Out], mask(x.NextMasks, i), m.Tau)
		sums := make([]float64, h.Points())
		for a, log := range logs {
			if pi := math.Exp(log / m.Tau); pi > 0 {
				for k, v := range ofOutput(h, points, i, a) {
					sums[k] += pi * (v - log)
				}
			}
		}
		for _, v := range sums {
			column = append(column, float32(fixed+float64(x.Discounts[i])*v))
		}
	}
	return column
}

// testMunchausen compares the updates of a QStepper with those of a Stepper whose targets are
// computed in float64.
func (on *suite) testMunchausen(t *testing.T) {
	const rows = 9
	small := nn.Munchausen{Alpha: 0.9, Tau: 0.03, Least: -1}
	if d := on.device(t, 1); d.Name() != "cpu" {
		c := nn.StepperConfig{Net: SmallMLP(), Rows: rows, Loss: LossOf(SmallMLP()), Optimizer: nn.OptimizerConfig{Name: "adam"}}
		if _, err := d.QStepper(c, small); err == nil || !strings.Contains(err.Error(), "must be a MaxQ on ") {
			t.Errorf("error %v", err)
		}
		return
	}
	clipped := 0
	for _, s := range []nn.Spec{SmallMLP(), Distributions()[2], Duels()[5], Implicits()[0], Duels()[6]} {
		for variant, m := range []nn.Munchausen{small, {Alpha: 0.5, Tau: 1, Least: -1}, {Alpha: 1, Tau: 1e-4, Least: -0.1}, {Alpha: 0.9, Tau: 0.3, Least: -1e9}} {
			h, masked := s.Heads[0], variant%2 == 0
			if h.Taus > 0 {
				m.Taus, m.Choosing = implicitTargets, 3
			}
			c := nn.StepperConfig{Net: s, Rows: rows, Loss: LossOf(s), Optimizer: nn.OptimizerConfig{Name: "adam"}}
			d := on.device(t, 2)
			q, plain := Must(d.QStepper(c, m))(t), Must(d.Stepper(c))(t)
			p, by, target := Init(t, s, 1), Init(t, s, 1), Init(t, s, 2)
			for k := range 3 {
				r := rng.New(5, "test", k)
				b := RandomBatch(s, c.Loss, r, rows)
				x := randomTransitions(s, &b, r)
				if masked {
					x.Masks, x.NextMasks = make([]byte, rows*h.Out), make([]byte, rows*h.Out)
					for i := range rows {
						x.Masks[i*h.Out+int(b.Actions[i])], x.Masks[i*h.Out+r.Intn(h.Out)] = 1, 1
						x.NextMasks[i*h.Out+r.Intn(h.Out)], x.NextMasks[i*h.Out+r.Intn(h.Out)] = 1, 1
					}
				}
				x.Key = r.Uint64()
				taus := tausOfUpdate(m, x.Key, rows)
				b.Columns[0] = naiveMunchausen(s, target, m, x, taus)
				if l, ok := c.Loss.(nn.ImplicitHuber); ok {
					b.Columns[1] = drawnTaus(nn.OnlineTaus, x.Key, rows, l.Taus)
				}
				without := m
				without.Least = -1e9
				if free := naiveMunchausen(s, target, without, x, taus); free[0] != b.Columns[0][0] {
					clipped++
				}
				have, want := nn.Report{Rows: make([]float32, rows)}, nn.Report{Rows: make([]float32, rows)}
				Check(t, plain.Update(by, b, 1e-2, &want))
				Check(t, q.Update(p, target, x, 1e-2, &have))
				sameReport(t, fmt.Sprintf("%s, %+v", Name(s), m), have, want)
				by.CopyFrom(p)
			}
			b := RandomBatch(s, c.Loss, rng.New(4, "test", 0), rows)
			x, report := randomTransitions(s, &b, rng.New(4, "test", 1)), nn.Report{Rows: make([]float32, rows)}
			if a := testing.AllocsPerRun(5, func() { Check(t, q.Update(p, target, x, 1e-3, &report)) }); a != 0 {
				t.Errorf("%s: %v allocations", Name(s), a)
			}
			x.Masks = make([]byte, 1)
			if err := q.Update(p, target, x, 1e-3, &report); err == nil || !strings.HasPrefix(err.Error(), "transitions.masks: 1 bytes, must be none or ") {
				t.Errorf("error %v", err)
			}
			x.Masks = nil
			target.Host()[0] = float32(math.NaN())
			target.Wrote()
			if err := q.Update(p, target, x, 1e-3, &report); err == nil || !strings.Contains(err.Error(), "NaN") {
				t.Errorf("error %v", err)
			}
		}
	}
	if clipped == 0 {
		t.Error("no logarithm was clipped: the test shows little")
	}
	on.munchausenRefused(t)
}

func (on *suite) munchausenRefused(t *testing.T) {
	d, s := on.device(t, 1), SmallMLP()
	for _, c := range []struct {
		want   string
		spec   nn.Spec
		target nn.Munchausen
		loss   nn.Loss
	}{
		{"target.alpha: 1.5, must be 0 to 1", s, nn.Munchausen{Alpha: 1.5, Tau: 1}, LossOf(s)},
		{"target.tau: 0, must be 1e-6 to 1e6", s, nn.Munchausen{}, LossOf(s)},
		{"target.least: 1, must be -1e9 to 0", s, nn.Munchausen{Tau: 1, Least: 1}, LossOf(s)},
		{"must be a TD that is not weighted, a QuantileHuber or an ImplicitHuber", Distributions()[0], nn.Munchausen{Tau: 1}, LossOf(Distributions()[0])},
		{"must be a TD that is not weighted, a QuantileHuber or an ImplicitHuber", s, nn.Munchausen{Tau: 1}, nn.TD{Kind: "huber", Reduction: "mean", Weighted: true}},
		{"target: 4 taus and 3 that choose, must be 0 for a loss without taus", s, nn.Munchausen{Tau: 1, Taus: 4, Choosing: 3}, LossOf(s)},
		{"must be an ImplicitHuber with 4 targets", Implicits()[0], nn.Munchausen{Tau: 1, Taus: 4, Choosing: 3}, LossOf(Implicits()[0])},
		{"target: 6 taus and 0 that choose, must be at least 1 each", Implicits()[0], nn.Munchausen{Tau: 1, Taus: 6}, LossOf(Implicits()[0])},
	} {
		_, err := d.QStepper(nn.StepperConfig{Net: c.spec, Rows: 2, Loss: c.loss, Optimizer: nn.OptimizerConfig{Name: "adam"}}, c.target)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
