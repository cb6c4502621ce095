package cpu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

func TestNewRefusesBadNumbersOfThreads(t *testing.T) {
	for _, n := range []int{0, -1, 100_000} {
		if _, err := New(n, nil); err == nil || !strings.HasPrefix(err.Error(), "threads: ") {
			t.Errorf("%d threads: %v", n, err)
		}
	}
	d := mustCPU(t, 2)
	d.Close()
	d.Close()
}

// Bytes counts every tensor of the graphs, every packed weight and the scratch memory. Leaves and
// parameter gradients are the caller's memory.
func TestBytesCountsEveryTensor(t *testing.T) {
	d := mustCPU(t, 2)
	bytesMLP := nntest.ActorCritic(env.ObsSpec{Shape: []int{5, 3, 2}}, 3, nn.Trunk{Arch: "mlp", Activation: "tanh"}, nn.Trunk{Arch: "mlp", Hidden: []int{}})
	plain := []nn.Spec{nntest.SmallMLP(), nntest.SmallNature(), nntest.TwoMLPs(), nntest.OneCNN(), nntest.Padded(), nntest.Patches(), nntest.WidePatches(), nntest.Tiny(), bytesMLP}
	for _, s := range slices.Concat(nntest.Norms(plain...), nntest.Policies(), nntest.Distributions(), nntest.Duels(), rescaled(nntest.Duels()), plain) {
		const rows = 11
		got := func(n nn.Needs) int64 {
			b, err := d.Bytes(s, n)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		n, err := d.(*device).network(s, rows)
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.Learner(s, rows, nntest.LossOf(s))
		if err != nil {
			t.Fatal(err)
		}
		learn := l.(*learner)
		if want := held(n.machine); got(nn.Needs{NetworkRows: []int{rows}}) != want {
			t.Errorf("%s: a network has %d bytes, Bytes says %d", nntest.Name(s), want, got(nn.Needs{NetworkRows: []int{rows}}))
		}
		if want := held(learn.machine); got(nn.Needs{LearnerRows: []int{rows}}) != want {
			t.Errorf("%s: a learner has %d bytes, Bytes says %d", nntest.Name(s), want, got(nn.Needs{LearnerRows: []int{rows}}))
		}
		layout, _ := s.Layout()
		if b := got(nn.Needs{Sets: 3, Optimizer: nn.OptimizerConfig{Name: "rmsprop", Centered: true}}); b != int64(4*5*layout.Size) {
			t.Errorf("%s: %d bytes for three sets and two averages of %d", nntest.Name(s), b, layout.Size)
		}
	}
	for _, n := range []nn.Needs{{NetworkRows: []int{0}}, {LearnerRows: []int{nn.MaxRows + 1}}, {Optimizer: nn.OptimizerConfig{Name: "sgd"}}} {
		if _, err := d.Bytes(nntest.SmallMLP(), n); err == nil {
			t.Errorf("%+v: no error", n)
		}
	}
}

// rescaled returns the networks with gradients that are rescaled.
func rescaled(duels []nn.Spec) []nn.Spec {
	for i := range duels {
		duels[i].Heads[0].Rescaled = true
	}
	return duels
}

// held returns the bytes of the arrays of a graph and its machine.
func held(m *machine) int64 {
	total := len(m.scratch) + len(m.padded) + len(m.dPadded)
	for _, s := range m.steps {
		switch o := s.op.(type) {
		case *layerRun:
			total += len(o.Y.Float32s()) + len(o.packed.data)
		case *weightGradRun:
			total += len(o.DW.Raw)/4 + len(o.DB.Raw)/4 + len(o.dz) + len(o.packed)
		case *normRun:
			total += len(o.Y.Float32s()) + len(o.statistics)
		case *normGradRun:
			total += len(o.DScale.Raw)/4 + len(o.DBias.Raw)/4 + len(o.dz)
		case outputRun:
			total += len(o.Value.Raw) / 4
		case convertRun:
			total += len(o.Y.Float32s())
		case lossGradientRun:
			total += len(o.Value.Float32s())
		case sumRun:
			total += len(o.Sum.Float32s())
		case cosinesRun:
			total += len(o.Y.Float32s())
		case modulateRun:
			total += len(o.Y.Float32s())
		case modulateGradRun:
			total += len(o.DBy.Float32s())
		case meansRun:
			total += len(o.Y.Float32s())
		case duelRun:
			total += len(o.Y.Float32s())
		case duelGradRun:
			total += len(o.DAdvantage.Float32s())
		case rescaledRun:
			total += len(o.DX.Float32s())
		}
	}
	return 4 * int64(total)
}

// After a call the device holds none of the caller's memory.
func TestGradientReleasesMemory(t *testing.T) {
	for _, s := range append(append(nntest.Policies(), nntest.Distributions()...), nntest.SmallMLP(), nntest.TwoMLPs(), nntest.WithNorm(nntest.OneCNN(), "layer_all")) {
		l, p := mustLearner(t, s, 4, nntest.LossOf(s)).(*learner), nntest.Init(t, s, 1)
		if err := l.Gradient(p, nntest.RandomBatch(s, nntest.LossOf(s), rng.New(1, "test", 0), 4), make([]float32, len(p.Host())), &nn.Report{}); err != nil {
			t.Fatal(err)
		}
		for i, v := range l.machine.values {
			n := l.machine.nodes[i]
			if d, ok := v.(interface{ Uint8s() []uint8 }); ok && n.Op() == nil && len(d.Uint8s()) != 0 {
				t.Errorf("leaf %v still has memory", n)
			}
		}
		for i, g := range l.graph.Grads {
			if len(g.Raw) != 0 {
				t.Errorf("gradient %d still has memory", i)
			}
		}
	}
}

func TestGradientDoesNotAllocate(t *testing.T) {
	for _, s := range slices.Concat(nntest.Norms(nntest.SmallMLP(), nntest.SmallNature(), nntest.TwoMLPs(), nntest.OneCNN()), nntest.Policies(), nntest.Distributions(), nntest.Duels(), []nn.Spec{nntest.SmallMLP(), nntest.SmallNature(), nntest.TwoMLPs(), nntest.OneCNN()}) {
		loss := nntest.LossOf(s)
		l := mustLearner(t, s, 4, loss)
		// Parameter sets and batches change from call to call.
		p := []*nn.Params{nntest.Init(t, s, 1), nntest.Init(t, s, 2)}
		b := []nn.Batch{nntest.RandomBatch(s, loss, rng.New(1, "test", 0), 4), nntest.RandomBatch(s, loss, rng.New(2, "test", 0), 4)}
		grad := make([]float32, len(p[0].Host()))
		var r nn.Report
		i := 0
		if n := testing.AllocsPerRun(10, func() {
			if err := l.Gradient(p[i%2], b[i%2], grad, &r); err != nil {
				t.Fatal(err)
			}
			i++
		}); n != 0 {
			t.Errorf("%s: %v allocations", nntest.Name(s), n)
		}
	}
}

// BenchmarkUpdateDistributions measures one update of a QStepper on Atari with 32 rows: of DQN, of
// QR-DQN with 200 quantiles and of IQN with 64, 64 and 32 taus.
func BenchmarkUpdateDistributions(b *testing.B) {
	dqn, qr, iqn := nntest.Atari(), nntest.Atari(), nntest.Atari()
	qr.Heads[0].Quantiles = 200
	iqn.Heads[0].Cosines, iqn.Heads[0].Taus = 64, 32
	for _, c := range []struct {
		name   string
		net    nn.Spec
		loss   nn.Loss
		target nn.Target
	}{
		{"dqn", dqn, nn.TD{Kind: "huber", Reduction: "mean"}, nn.MaxQ{}},
		{"qr", qr, nn.QuantileHuber{Kappa: 1, Reduction: "mean"}, nn.Quantile{}},
		{"iqn", iqn, nn.ImplicitHuber{Taus: 64, Targets: 64, Kappa: 1, Reduction: "mean"}, nn.Implicit{Taus: 64, Choosing: 32}},
	} {
		for _, n := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", c.name, n), func(b *testing.B) {
				const rows = 32
				q := nntest.Must(mustCPU(b, n).QStepper(nn.StepperConfig{Net: c.net, Rows: rows, Loss: c.loss, Optimizer: nn.OptimizerConfig{Name: "adam"}}, c.target))(b)
				r := rng.New(1, "test", 0)
				x := &experience.Transitions{Obs: nntest.RandomObs(c.net, r, rows), NextObs: nntest.RandomObs(c.net, r, rows),
					Actions: make([]int32, rows), Rewards: make([]float32, rows), Discounts: make([]float32, rows)}
				theta, target, report := nntest.Init(b, c.net, 1), nntest.Init(b, c.net, 2), nn.Report{}
				nntest.Check(b, q.Update(theta, target, x, 1e-6, &report))
				for b.Loop() {
					nntest.Check(b, q.Update(theta, target, x, 1e-6, &report))
				}
			})
		}
	}
}

// BenchmarkUpdateNature measures one update: target pass, forward, backward, gradient norm and
// optimiser step, with 32 rows. It allocates nothing.
func BenchmarkUpdateNature(b *testing.B) {
	for _, precision := range precisions {
		for _, n := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", precision, n), func(b *testing.B) {
				s := nntest.Atari()
				s.Precision = precision
				update := newUpdate(b, s, 32, n)
				update()
				b.ReportAllocs()
				for b.Loop() {
					update()
				}
			})
		}
	}
}
