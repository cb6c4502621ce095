package nntest

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// implicitTargets is N' of the losses of Implicits.
const implicitTargets = 6

// Implicits returns networks whose heads have taus.
func Implicits() []nn.Spec {
	cnn := QSpec(env.ObsSpec{Shape: []int{1, 36, 36}}, 2, nn.Trunk{Arch: "nature_cnn"})
	bytes := QSpec(env.ObsSpec{Shape: []int{3}}, 2, nn.Trunk{Arch: "mlp", Hidden: []int{4, 5, 3}, Activation: "tanh"})
	all := []nn.Spec{SmallMLP(), cnn, bytes}
	for i := range all {
		all[i].Heads[0].Cosines, all[i].Heads[0].Taus = 9, 5
	}
	return all
}

// middleTaus are the taus of Forward; nil for a network without taus.
func middleTaus(s nn.Spec, rows int) (taus []float32) {
	for _, h := range s.Heads {
		if h.Taus > 0 {
			taus = make([]float32, h.Taus)
			nn.MiddleTaus(taus)
		}
	}
	return slices.Repeat(taus, rows)
}

// tausOf are the taus of a batch; nil for a loss without taus.
func tausOf(loss nn.Loss, b *nn.Batch) []float32 {
	if _, ok := loss.(nn.ImplicitHuber); ok {
		return b.Columns[1]
	}
	return nil
}

// drawnTaus are n taus of each row of an update.
func drawnTaus(use int, key uint64, rows, n int) []float32 {
	taus := make([]float32, rows*n)
	for i := range rows {
		nn.DrawTaus(taus[i*n:(i+1)*n], use, key, i)
	}
	return taus
}

// naiveInput returns the input of a layer: in, or what taus make of it.
func naiveInput(l *nn.Layer, in []float64, outputs [][]float64, taus []float32) []float64 {
	var x []float64
	switch {
	case l.Cosines:
		for _, tau := range taus {
			for i := range l.In {
				x = append(x, math.Cos(math.Pi*float64(i+1)*float64(tau)))
			}
		}
	case l.By > 0:
		for k, by := range outputs[l.By] {
			x = append(x, by*in[k/l.In/l.Taus*l.In+k%l.In])
		}
	default:
		return in
	}
	return x
}

// naiveImplicitHuber is the loss of a row with quantiles x at taus. Trap: it is a sum over the taus
// that learn and a mean over those of the target.
func naiveImplicitHuber(x []float64, target, taus []float32, kappa float64) (row float64) {
	for j, from := range x {
		for _, to := range target {
			u, side := float64(to)-from, float64(taus[j])
			if u < 0 {
				side = 1 - side
			}
			huber := u * u / 2
			if math.Abs(u) > kappa {
				huber = kappa * (math.Abs(u) - kappa/2)
			}
			row += side * huber / kappa / float64(len(target))
		}
	}
	return row
}

// naiveImplicitTarget returns the column of a target whose numbers are those of target at some
// taus, [rows, N'], of the action that the parameters chooses choose by others.
func naiveImplicitTarget(s nn.Spec, chooses, target *nn.Params, x *experience.Transitions, taus, choosing []float32) (column []float32) {
	rows := len(x.Rewards)
	at := func(p *nn.Params, taus []float32) (*nn.Head, []float64) {
		s := s.WithTaus(len(taus) / rows)
		return &s.Heads[0], naivePoints(s, p, x.NextObs, rows, taus)[0]
	}
	h, of := at(chooses, choosing)
	values := naiveMeans(h, of)
	h, points := at(target, taus)
	for i := range rows {
		for _, v := range ofOutput(h, points, i, naiveBest(h, values, x, i)) {
			column = append(column, float32(float64(x.Rewards[i])+float64(x.Discounts[i])*v))
		}
	}
	return column
}

// testTausOfActing compares ForwardAt with the definition. The outputs of a row depend on its key
// and not on the other rows, and Forward is at the middle taus before and after.
func (on *suite) testTausOfActing(t *testing.T) {
	if on.device(t, 1).Name() != "cpu" {
		return
	}
	const rows = 3
	for _, s := range append(Implicits(), Duels()[6]) {
		n := on.network(t, s, 4).(nn.TauNetwork)
		p, obs, keys := Init(t, s, 1), RandomObs(s, rng.New(1, "test", 0), rows), []uint64{5, 1 << 63, 5}
		middle := slices.Clone(Must(n.Forward(p, obs, rows))(t).Values[0])
		got := slices.Clone(Must(n.ForwardAt(p, obs, rows, keys))(t).Values[0])
		var taus []float32
		for _, key := range keys {
			taus = append(taus, drawnTaus(nn.ActingTaus, key, 1, s.Heads[0].Taus)...)
		}
		for i, want := range naiveMeans(&s.Heads[0], naivePoints(s, p, obs, rows, taus)[0]) {
			if math.Abs(float64(got[i])-want) > 1e-5 {
				t.Errorf("%s: output %d is %v, want %v", Name(s), i, got[i], want)
			}
		}
		size := s.Obs.Bytes()
		if alone := Must(n.ForwardAt(p, obs[size:2*size], 1, keys[1:2]))(t); !slices.Equal(alone.Values[0], Values(got, s, 1)) {
			t.Errorf("%s: row 1 alone has %v, in a batch %v", Name(s), alone.Values[0], got)
		}
		if again := Must(n.Forward(p, obs, rows))(t); !slices.Equal(again.Values[0], middle) || slices.Equal(middle, got) {
			t.Errorf("%s: %v, then %v; drawn %v", Name(s), middle, again.Values[0], got)
		}
		if _, err := n.ForwardAt(p, obs, rows, keys[1:]); err == nil || err.Error() != "keys: 2, must be one for each of 3 rows, at most 4" {
			t.Error(err)
		}
		if a := testing.AllocsPerRun(5, func() { _, err := n.ForwardAt(p, obs, rows, keys); Check(t, err) }); a != 0 {
			t.Errorf("%s: %v allocations", Name(s), a)
		}
	}
	if _, ok := on.network(t, SmallMLP(), 1).(nn.TauNetwork); ok {
		t.Error("a network without taus draws taus")
	}
}

// Values returns the outputs of row i of a network with one head.
func Values(outputs []float32, s nn.Spec, i int) []float32 {
	return outputs[i*s.Heads[0].Out : (i+1)*s.Heads[0].Out]
}

// bytesOf returns observations of numbers.
func bytesOf(numbers []float32) (b []byte) {
	for _, x := range numbers {
		b = binary.NativeEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// testQuantilesOfAKnownDistribution trains the quantiles of rewards that are known: uniform from 0
// to 1 after one observation, and 1 or 3 with probabilities of 1/4 and 3/4 after another. No reward
// has a next value.
func (on *suite) testQuantilesOfAKnownDistribution(t *testing.T) {
	d := on.device(t, 1)
	if d.Name() != "cpu" {
		return
	}
	const rows, taus = 32, 8
	s := QSpec(env.ObsSpec{DType: env.Float32, Shape: []int{2}}, 1, nn.Trunk{Arch: "mlp", Hidden: []int{32, 32}})
	s.Heads[0].Cosines, s.Heads[0].Taus = 16, taus
	c := nn.StepperConfig{Net: s, Rows: rows, Loss: nn.ImplicitHuber{Taus: taus, Targets: 1, Kappa: 0.02, Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}}
	q, p, r := Must(d.QStepper(c, nn.Implicit{Taus: 1, Choosing: 1}))(t), Init(t, s, 1), rng.New(1, "test", 0)
	observation := [][]float32{{1, 0}, {0, 1}}
	x := &experience.Transitions{NextObs: bytesOf(make([]float32, 2*rows)), Actions: make([]int32, rows), Rewards: make([]float32, rows), Discounts: make([]float32, rows)}
	const updates = 1500
	for k := range updates {
		var obs []float32
		for i := range rows {
			obs = append(obs, observation[i%2]...)
			if x.Rewards[i] = float32(r.Float64()); i%2 == 1 {
				x.Rewards[i] = 3
				if r.Float64() < 0.25 {
					x.Rewards[i] = 1
				}
			}
		}
		x.Obs, x.Key = bytesOf(obs), r.Uint64()
		Check(t, q.Update(p, p, x, 3e-3*(1-float64(k)/updates), &nn.Report{}))
	}
	const points = 50 // quantiles that are compared
	at := s.WithTaus(points)
	for i, quantile := range []func(tau float64) float64{
		func(tau float64) float64 { return tau },
		func(tau float64) float64 { return map[bool]float64{true: 1, false: 3}[tau < 0.25] },
	} {
		distance := 0.0 // Wasserstein's, of the middle taus
		for k, got := range naivePoints(at, p, bytesOf(observation[i]), 1, middleTaus(at, 1))[0] {
			distance += math.Abs(got-quantile((float64(k)+0.5)/points)) / points
		}
		mean, limit := Must(on.network(t, s, 1).Forward(p, bytesOf(observation[i]), 1))(t).Values[0][0], []float64{0.03, 0.15}[i]
		want := []float32{0.5, 2.5}[i]
		t.Logf("observation %d: Wasserstein distance %.4f, mean %v", i, distance, mean)
		if !(distance < limit) || math.Abs(float64(mean-want)) > 0.1 {
			t.Errorf("observation %d: Wasserstein distance %v, must be below %v; mean %v, want %v", i, distance, limit, mean, want)
		}
	}
}
