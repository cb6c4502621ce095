package nntest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// Distributions returns networks whose heads have atoms or quantiles.
func Distributions() []nn.Spec {
	cnn := QSpec(env.ObsSpec{Shape: []int{1, 36, 36}}, 2, nn.Trunk{Arch: "nature_cnn"})
	cnn.Heads[0].Atoms, cnn.Heads[0].Min, cnn.Heads[0].Max = 5, -1, 1
	atoms, quantiles := SmallMLP(), SmallMLP()
	atoms.Heads[0].Atoms, atoms.Heads[0].Min, atoms.Heads[0].Max = 9, -1.5, 2.5
	quantiles.Heads[0].Quantiles = 7
	return append([]nn.Spec{atoms, cnn, quantiles}, Implicits()...)
}

// Duels returns networks whose heads have two streams.
func Duels() []nn.Spec {
	linear := SmallMLP()
	linear.Trunks[0].Hidden = []int{}
	all := append([]nn.Spec{SmallMLP(), linear, WithNorm(SmallMLP(), "layer_all")}, Distributions()...)
	for i := range all {
		all[i].Heads[0].Dueling = true
	}
	return all
}

// distributions are those of Distributions, Duels, Padded, Patches and WidePatches that the device
// computes.
func (on *suite) distributions(t *testing.T) []nn.Spec {
	if on.device(t, 1).Name() != "cpu" {
		return nil
	}
	return append(append(Distributions(), Duels()...), Padded(), Patches(), WidePatches())
}

// naivePoints returns what a loss sees of each head; taus are [rows, taus] of the head that has
// them.
func naivePoints(s nn.Spec, p *nn.Params, obs []byte, rows int, taus []float32) (points [][]float64) {
	layers, outputs := naive(s, p, obs, rows, taus)
	var value []float64
	for i := range layers {
		if !layers[i].Head {
			continue
		}
		h, x := &s.Heads[len(points)], outputs[i]
		switch {
		case h.Dueling && value == nil:
			value = x
			continue
		case h.Dueling:
			for row := range rows {
				for k := range h.Points() {
					mean := 0.0
					for of := range h.Out {
						mean += x[row*h.Width()+pointOf(h, of, k)] / float64(h.Out)
					}
					for of := range h.Out {
						x[row*h.Width()+pointOf(h, of, k)] += value[row*h.Points()+k] - mean
					}
				}
			}
			value = nil
		}
		points = append(points, x)
	}
	return points
}

// atom returns the number of atom k.
func atom(h *nn.Head, k int) float64 { return h.Min + float64(k)*(h.Max-h.Min)/float64(h.Atoms-1) }

// pointOf returns the index of point k of output a in a row.
func pointOf(h *nn.Head, a, k int) int {
	if h.Atoms > 0 {
		return a*h.Atoms + k
	}
	return k*h.Out + a
}

// ofOutput returns the points of output a of row i.
func ofOutput(h *nn.Head, points []float64, i, a int) (x []float64) {
	for k := range h.Points() {
		x = append(x, points[i*h.Width()+pointOf(h, a, k)])
	}
	return x
}

// naiveMeans returns the outputs of a head.
func naiveMeans(h *nn.Head, points []float64) (means []float64) {
	for at := range len(points) / h.Points() {
		x, mean := ofOutput(h, points, at/h.Out, at%h.Out), 0.0
		if h.Atoms > 0 {
			for k, l := range logPi(x) {
				mean += math.Exp(l) * atom(h, k)
			}
		} else {
			for _, v := range x {
				mean += v / float64(len(x))
			}
		}
		means = append(means, mean)
	}
	return means
}

// naiveDistributionLoss returns the loss of a batch and of each row.
func naiveDistributionLoss(h *nn.Head, loss nn.Loss, points []float64, b *nn.Batch) (sum float64, rows []float64) {
	reduction, n := "", len(b.Columns[0])/len(b.Actions)
	weights := 1 // column of the weights
	for i, a := range b.Actions {
		x, target, row := ofOutput(h, points, i, int(a)), b.Columns[0][i*n:(i+1)*n], 0.0
		switch l := loss.(type) {
		case nn.CrossEntropy:
			reduction = l.Reduction
			for k, logP := range logPi(x) {
				row -= float64(target[k]) * logP
			}
		case nn.QuantileHuber:
			reduction = l.Reduction
			for j, from := range x {
				for _, to := range target {
					u, tau := float64(to)-from, (float64(j)+0.5)/float64(n)
					if u < 0 {
						tau = 1 - tau
					}
					huber := u * u / 2
					if math.Abs(u) > l.Kappa {
						huber = l.Kappa * (math.Abs(u) - l.Kappa/2)
					}
					row += tau * huber / l.Kappa / float64(n)
				}
			}
		case nn.ImplicitHuber:
			reduction, weights = l.Reduction, 2
			row = naiveImplicitHuber(x, target, b.Columns[1][i*l.Taus:(i+1)*l.Taus], l.Kappa)
		}
		w := 1.0
		if len(b.Columns) > weights {
			w = float64(b.Columns[weights][i])
		}
		rows, sum = append(rows, row), sum+w*row
	}
	if reduction == "mean" {
		sum /= float64(len(b.Actions))
	}
	return sum, rows
}

// probabilities makes rows of numbers distributions. Some of the probabilities are 0.
func probabilities(x []float32, width int) {
	for row := range slices.Chunk(x, width) {
		sum := float32(0)
		row[0] = max(row[0], -row[0])
		for k := range row {
			row[k] = max(row[k], 0)
			sum += row[k]
		}
		for k := range row {
			row[k] /= sum
		}
	}
}

// naiveTarget returns the column of targets of transitions.
func naiveTarget(s nn.Spec, theta, target *nn.Params, x *experience.Transitions, double bool) (column []float32) {
	h, rows := &s.Heads[0], len(x.Rewards)
	if h.Taus > 0 {
		of, chooses := TargetOf(s, double).(nn.Implicit), target
		if double {
			chooses = theta
		}
		return naiveImplicitTarget(s, chooses, target, x, drawnTaus(nn.TargetTaus, x.Key, rows, of.Taus), drawnTaus(nn.ChoosingTaus, x.Key, rows, of.Choosing))
	}
	points := naivePoints(s, target, x.NextObs, rows, nil)[0]
	choosing := naiveMeans(h, points)
	if double {
		choosing = naiveOutputs(s, theta, x.NextObs, rows)[0]
	}
	for i := range rows {
		best := naiveBest(h, choosing, x, i)
		next, r, d := ofOutput(h, points, i, best), float64(x.Rewards[i]), float64(x.Discounts[i])
		if h.Atoms == 0 {
			for _, v := range next {
				column = append(column, float32(r+d*v))
			}
			continue
		}
		step, m := atom(h, 1)-atom(h, 0), make([]float64, h.Atoms)
		for k, l := range logPi(next) {
			z := math.Max(h.Min, math.Min(h.Max, r+d*atom(h, k)))
			for j := range m {
				m[j] += math.Exp(l) * math.Max(0, 1-math.Abs(z-atom(h, j))/step)
			}
		}
		for _, v := range m {
			column = append(column, float32(v))
		}
	}
	return column
}

// naiveBest returns the first allowed action of row i whose value is the largest.
func naiveBest(h *nn.Head, values []float64, x *experience.Transitions, i int) int {
	best := -1
	for a := range h.Out {
		at := i*h.Out + a
		if (x.NextMasks == nil || x.NextMasks[at] != 0) && (best < 0 || values[at] > values[i*h.Out+best]) {
			best = a
		}
	}
	return best
}

// TargetOf returns the target of LossOf.
func TargetOf(s nn.Spec, double bool) nn.Target {
	switch h := s.Heads[s.Head("q")]; {
	case h.Atoms > 0:
		return nn.Projected{Double: double}
	case h.Quantiles > 0:
		return nn.Quantile{Double: double}
	case h.Taus > 0:
		return nn.Implicit{Double: double, Taus: implicitTargets, Choosing: 3}
	}
	return nn.MaxQ{Double: double}
}

// testQStepperOfDistributions compares the updates of a QStepper, with and without double
// Q-learning, masks and weights, with those of a Stepper whose targets are computed in float64.
func (on *suite) testQStepperOfDistributions(t *testing.T) {
	const rows = 7
	for _, s := range on.distributions(t) {
		h := s.Heads[0]
		for variant := range 4 {
			double, more := variant&1 != 0, variant&2 != 0 // more: masks and weights
			if s.Trunks[0].Arch != "mlp" && variant < 3 {
				continue // slow
			}
			c := nn.StepperConfig{Net: s, Rows: rows, Loss: LossOf(s), Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 1}
			of := TargetOf(s, double)
			if td, ok := c.Loss.(nn.TD); more && ok {
				td.Importance = nn.ImportanceError
				c.Loss = td
			} else if more && h.Atoms > 0 {
				c.Loss = nn.CrossEntropy{Reduction: "mean", Importance: nn.ImportanceLoss, Divergence: true}
			} else if l, ok := c.Loss.(nn.ImplicitHuber); more && ok {
				l.Kappa, l.Reduction, l.Importance = 0.5, "sum", nn.ImportanceLoss
				c.Loss = l
			} else if more {
				c.Loss = nn.QuantileHuber{Kappa: 0.5, Reduction: "sum", Importance: nn.ImportanceLoss}
			}
			d := on.device(t, 2)
			q, plain := Must(d.QStepper(c, of))(t), Must(d.Stepper(c))(t)
			p, by, target := Init(t, s, 1), Init(t, s, 1), Init(t, s, 2)
			for k := range 3 {
				r := rng.New(3, "test", k)
				b := RandomBatch(s, c.Loss, r, rows)
				x := randomTransitions(s, &b, r)
				if more {
					x.Weights, x.NextMasks = b.Columns[len(b.Columns)-1], make([]byte, rows*h.Out)
					for i := range rows {
						x.NextMasks[i*h.Out+r.Intn(h.Out)] = 1
						x.NextMasks[i*h.Out+r.Intn(h.Out)] = 1
					}
				}
				x.Key = r.Uint64()
				b.Columns[0] = naiveTarget(s, p, target, x, double)
				if l, ok := c.Loss.(nn.ImplicitHuber); ok {
					b.Columns[1] = drawnTaus(nn.OnlineTaus, x.Key, rows, l.Taus)
				}
				have, want := nn.Report{Rows: make([]float32, rows)}, nn.Report{Rows: make([]float32, rows)}
				Check(t, plain.Update(by, b, 1e-2, &want))
				Check(t, q.Update(p, target, x, 1e-2, &have))
				sameReport(t, fmt.Sprintf("%s, variant %d", Name(s), variant), have, want)
				by.CopyFrom(p)
			}
			if n := q.Optimizer().Step(); n != 3 || p.Updates != 3 {
				t.Errorf("%d steps and %d updates of 3", n, p.Updates)
			}
			b := RandomBatch(s, c.Loss, rng.New(4, "test", 0), rows)
			x, report := randomTransitions(s, &b, rng.New(4, "test", 1)), nn.Report{Rows: make([]float32, rows)}
			if a := testing.AllocsPerRun(5, func() { Check(t, q.Update(p, target, x, 1e-3, &report)) }); a != 0 {
				t.Errorf("%s: %v allocations", Name(s), a)
			}
		}
	}
}

// testRowsOfDistributions compares Report.Rows with the losses of the rows, and the divergences
// with these minus the entropies of the targets.
func (on *suite) testRowsOfDistributions(t *testing.T) {
	const rows = 6
	for _, s := range on.distributions(t) {
		h := &s.Heads[0]
		if h.Points() == 1 {
			continue
		}
		p, b := Init(t, s, 1), RandomBatch(s, LossOf(s), rng.New(1, "test", 0), rows)
		sum, want := naiveDistributionLoss(h, LossOf(s), naivePoints(s, p, b.Obs, rows, tausOf(LossOf(s), &b))[0], &b)
		losses := []nn.Loss{LossOf(s)}
		if h.Atoms > 0 {
			losses = append(losses, nn.CrossEntropy{Reduction: "mean", Divergence: true})
		}
		for k, loss := range losses {
			r := nn.Report{Rows: make([]float32, rows)}
			Check(t, on.learner(t, s, rows, loss).Gradient(p, b, make([]float32, len(p.Host())), &r))
			if math.Abs(r.Loss-sum) > 1e-5*(1+sum) {
				t.Errorf("%s, %#v: loss %v, want %v", Name(s), loss, r.Loss, sum)
			}
			for i, row := range want {
				if k > 0 {
					for _, m := range b.Columns[0][i*h.Atoms : (i+1)*h.Atoms] {
						if m > 0 {
							row += float64(m) * math.Log(float64(m))
						}
					}
				}
				if !(math.Abs(float64(r.Rows[i])-row) <= 1e-5*(1+math.Abs(row))) {
					t.Errorf("%s, %#v: row %d is %v, want %v", Name(s), loss, i, r.Rows[i], row)
				}
			}
		}
	}
}

// testRescaled compares the gradient of a dueling network with the rescaled one: in the layers
// below both streams it is smaller by the root of 1/2, and elsewhere the same.
func (on *suite) testRescaled(t *testing.T) {
	for _, s := range on.distributions(t) {
		if !s.Heads[0].Dueling || len(s.Trunks[0].Hidden) == 0 && s.Trunks[0].Arch == "mlp" {
			continue
		}
		p, b := Init(t, s, 1), RandomBatch(s, LossOf(s), rng.New(1, "test", 0), 4)
		plain, scaled := make([]float32, len(p.Host())), make([]float32, len(p.Host()))
		Check(t, on.learner(t, s, 4, LossOf(s)).Gradient(p, b, plain, &nn.Report{}))
		s.Heads = slices.Clone(s.Heads)
		s.Heads[0].Rescaled = true
		Check(t, on.learner(t, s, 4, LossOf(s)).Gradient(p, b, scaled, &nn.Report{}))
		shared := 0
		for _, part := range p.Layout.Params {
			by := 1.0
			if !strings.Contains(part.Name, ".value.") && !strings.Contains(part.Name, ".advantage.") {
				by = math.Sqrt2 / 2
				shared++
			}
			for i := part.Offset; i < part.Offset+part.Size; i++ {
				if want := by * float64(plain[i]); math.Abs(float64(scaled[i])-want) > 1e-6*(1+math.Abs(want)) || by == 1 && scaled[i] != plain[i] {
					t.Fatalf("%s: gradient of %s is %v, want %v", Name(s), part.Name, scaled[i], want)
				}
			}
		}
		if shared == 0 {
			t.Errorf("%s: no layers are shared", Name(s))
		}
	}
}

func (on *suite) testDistributionsRefused(t *testing.T) {
	d, specs, td := on.device(t, 1), Distributions(), nn.TD{Kind: "huber", Reduction: "mean"}
	atoms, quantiles, taus := specs[0], specs[2], specs[3]
	if d.Name() != "cpu" {
		for i, s := range append(specs, Duels()[0]) {
			_, netErr := d.Network(s, 1)
			_, learnErr := d.Learner(s, 1, LossOf(s))
			prefix, end := "heads[0].atoms: ", "must be 0 on "
			if s.Heads[0].Taus > 0 {
				prefix = "heads[0].taus: "
			}
			if i == len(specs) {
				prefix, end = "heads[0].dueling: ", "must be false on "
			}
			for _, err := range []error{netErr, learnErr} {
				if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), end) {
					t.Errorf("error %v", err)
				}
			}
		}
		return
	}
	for _, c := range []struct {
		want   string
		spec   nn.Spec
		loss   nn.Loss
		target nn.Target
	}{
		{`heads: "q" has 9 atoms and 0 quantiles, must have none for this loss`, atoms, td, nn.MaxQ{}},
		{`heads: "q" has 0 atoms and 7 quantiles, must have none for this loss`, quantiles, td, nn.MaxQ{}},
		{`heads: "q" has no atoms, which the loss needs`, quantiles, nn.CrossEntropy{Reduction: "mean"}, nn.Projected{}},
		{`heads: "q" has no quantiles, which the loss needs`, atoms, nn.QuantileHuber{Kappa: 1, Reduction: "mean"}, nn.Quantile{}},
		{`heads: none is called "q", which the loss needs`, TwoMLPs(), nn.CrossEntropy{Reduction: "mean"}, nn.Projected{}},
		{`loss.reduction: "max", must be "mean" or "sum"`, atoms, nn.CrossEntropy{Reduction: "max"}, nn.Projected{}},
		{`loss.least_prob: 1, must be at least 0 and below 1`, atoms, nn.CrossEntropy{Reduction: "mean", LeastProb: 1}, nn.Projected{}},
		{`loss.importance: "error", must be "" or "loss" for a distribution`, atoms, nn.CrossEntropy{Reduction: "mean", Importance: "error"}, nn.Projected{}},
		{`loss.kappa: 0, must be above 0 and at most 1e6`, quantiles, nn.QuantileHuber{Reduction: "mean"}, nn.Quantile{}},
		{`heads: "q" has taus, must have none for this loss`, taus, td, nn.MaxQ{}},
		{`heads: "q" has no taus, which the loss needs`, quantiles, LossOf(taus), TargetOf(taus, false)},
		{`heads: "q" has no quantiles, which the loss needs`, taus, LossOf(quantiles), nn.Quantile{}},
		{`loss.taus: 0 and targets: 6, must be 1 to 1024`, taus, nn.ImplicitHuber{Targets: 6, Kappa: 1, Reduction: "mean"}, nn.Implicit{Taus: 6, Choosing: 1}},
		{`loss.kappa: 0, must be above 0`, taus, nn.ImplicitHuber{Taus: 2, Targets: 6, Reduction: "mean"}, nn.Implicit{Taus: 6, Choosing: 1}},
		{`must be an ImplicitHuber with 5 targets`, taus, LossOf(taus), nn.Implicit{Taus: 5, Choosing: 1}},
		{`target: 6 taus and 1019 that choose, must be at least 1 each and at most 1024 together`, taus, LossOf(taus), nn.Implicit{Taus: 6, Choosing: 1019}},
		{`must be a CrossEntropy`, quantiles, LossOf(quantiles), nn.Projected{}},
		{`must be a QuantileHuber`, atoms, LossOf(atoms), nn.Quantile{}},
		{`must be a TD that is not weighted`, atoms, LossOf(atoms), nn.MaxQ{}},
		{`target: nil, must be an nn.Target`, atoms, LossOf(atoms), nil},
	} {
		_, err := d.QStepper(nn.StepperConfig{Net: c.spec, Rows: 2, Loss: c.loss, Optimizer: nn.OptimizerConfig{Name: "adam"}}, c.target)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
