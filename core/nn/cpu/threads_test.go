package cpu

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

var precisions = []nn.Precision{nn.FP32, nn.BF16}

// newUpdate returns a function that does one Q-learning update of a fixed batch, target pass
// included, on n threads.
func newUpdate(t testing.TB, s nn.Spec, rows, n int) func() {
	t.Helper()
	d := mustCPU(t, n)
	loss := nn.TD{Kind: "huber", Reduction: "mean"}
	l, err := d.Learner(s, rows, loss)
	if err != nil {
		t.Fatal(err)
	}
	net, err := d.Network(s, rows)
	if err != nil {
		t.Fatal(err)
	}
	theta, target, batch := nntest.Init(t, s, 1), nntest.Init(t, s, 2), nntest.RandomBatch(s, loss, rng.New(1, "test", 0), rows)
	next, rewards, discounts := nntest.RandomObs(s, rng.New(2, "test", 0), rows), make([]float32, rows), make([]float32, rows)
	grad := make([]float32, len(theta.Host()))
	opt, err := d.Optimizer(nn.OptimizerConfig{Name: "adam"}, len(grad))
	if err != nil {
		t.Fatal(err)
	}
	var r nn.Report
	return func() {
		q, err := net.Forward(target, next, rows)
		if err == nil {
			err = tdTargets(batch.Columns[0], q.Values[0], rewards, discounts)
		}
		if err == nil {
			err = l.Gradient(theta, batch, grad, &r)
		}
		if err == nil {
			_, factor := d.ClipGradNorm(grad, 1e-3)
			err = opt.Apply(theta, grad, factor, 1e-6)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wide has dense layers that are split into parts; the width of one is no multiple of the number of
// parts.
func wide() nn.Spec {
	return nntest.QSpec(env.ObsSpec{DType: env.Float32, Shape: []int{100}}, 3, nn.Trunk{Arch: "mlp", Hidden: []int{333, 520}})
}

// Forward passes, gradients, norms and optimiser steps give the same bits for any number of
// threads, also with batches that fill no block.
func TestThreadsChangeNoBit(t *testing.T) {
	batches, counts := []int{1, 7, 8, 33}, []int{1, 2, 3, 5} // threads
	if kernel.ISA() == "go" || testing.Short() {             // slow
		batches, counts = []int{9}, []int{1, 2}
	}
	both := wide()
	both.Heads = []nn.Head{{Name: "pi", Out: 3}, {Name: "v", Out: 1}}
	distributions := []nn.Spec{wide(), wide(), wide()}
	distributions[0].Heads[0].Atoms, distributions[0].Heads[0].Max = 51, 1
	distributions[1].Heads[0].Quantiles, distributions[1].Heads[0].Dueling, distributions[1].Heads[0].Rescaled = 33, true, true
	distributions[2].Heads[0].Cosines, distributions[2].Heads[0].Taus = 64, 32
	for _, precision := range precisions {
		for _, s := range []nn.Spec{nntest.WithPolicy(both, []int32{3, 2}, 4), nntest.SmallNature(), wide(), nntest.OneCNN(), nntest.Padded(), nntest.Patches(), nntest.WidePatches(), both, nntest.WithNorm(nntest.SmallNature(), "layer_all"), nntest.WithNorm(nntest.OneCNN(), "layer_channels"), nntest.WithNorm(both, "layer_channels"), distributions[0], distributions[1], distributions[2]} {
			for _, rows := range batches {
				s.Precision = precision
				var want []float32
				for _, n := range counts {
					d, loss := mustCPU(t, n), nntest.LossOf(s)
					l, err := d.Learner(s, rows, loss)
					if err != nil {
						t.Fatal(err)
					}
					net, err := d.Network(s, rows)
					if err != nil {
						t.Fatal(err)
					}
					p, batch := nntest.Init(t, s, 1), nntest.RandomBatch(s, loss, rng.New(1, "test", 0), rows)
					opt, err := d.Optimizer(nn.OptimizerConfig{Name: "adam"}, len(p.Host()))
					if err != nil {
						t.Fatal(err)
					}
					grad := make([]float32, len(p.Host()))
					var got []float32
					var r nn.Report
					for range 2 {
						if err := l.Gradient(p, batch, grad, &r); err != nil {
							t.Fatal(err)
						}
						norm, factor := d.ClipGradNorm(grad, 1)
						if err := opt.Apply(p, grad, factor, 1e-3); err != nil {
							t.Fatal(err)
						}
						out, err := net.Forward(p, batch.Obs, rows)
						if err != nil {
							t.Fatal(err)
						}
						got = append(append(got, float32(r.Loss), float32(norm)), grad...)
						for _, v := range out.Values {
							got = append(got, v...)
						}
					}
					got = append(got, p.Host()...)
					if want == nil {
						want = got
						continue
					}
					for i := range want {
						if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
							t.Fatalf("%s %s, %d rows, %d threads: number %d is %v, with one thread %v", precision, nntest.Name(s), rows, n, i, got[i], want[i])
						}
					}
				}
			}
		}
	}
}

func TestUpdateDoesNotAllocate(t *testing.T) {
	if kernel.ISA() == "go" && testing.Short() {
		t.Skip("left out by -short, without C's kernels")
	}
	rows := 9
	if kernel.ISA() == "go" { // slow
		rows = 2
	}
	for _, precision := range precisions {
		for _, n := range []int{1, 2} {
			for _, s := range append(nntest.Norms(nntest.SmallNature(), wide()), nntest.SmallNature(), wide()) {
				s.Precision = precision
				update := newUpdate(t, s, rows, n)
				update()
				if allocs := testing.AllocsPerRun(5, update); allocs != 0 {
					t.Errorf("%s %s, %d threads: %v allocations", precision, nntest.Name(s), n, allocs)
				}
			}
		}
	}
}

// bf16 rounds the factors of products by at most 1 part in 256: Q-values and gradients are close to
// those of fp32, but not equal.
func TestBF16IsCloseToFP32(t *testing.T) {
	nntest.OnEveryISA(t, func(t *testing.T) {
		for _, s := range append(nntest.Norms(nntest.SmallNature(), wide()), nntest.SmallNature(), wide()) {
			const rows = 16
			loss := nn.TD{Kind: "huber", Reduction: "mean"}
			batch := nntest.RandomBatch(s, loss, rng.New(1, "test", 0), rows)
			var q, grad [2][]float32
			for i, p := range precisions {
				s.Precision = p
				theta := nntest.Init(t, s, 1)
				out, err := mustNetwork(t, s, rows).Forward(theta, batch.Obs, rows)
				if err != nil {
					t.Fatal(err)
				}
				q[i], grad[i] = out.Values[0], make([]float32, len(theta.Host()))
				if err := mustLearner(t, s, rows, loss).Gradient(theta, batch, grad[i], &nn.Report{}); err != nil {
					t.Fatal(err)
				}
			}
			for name, x := range map[string][2][]float32{"Q-values": q, "gradient": grad} {
				most := 6e-2
				if s.Trunks[0].Norm != "" { // a norm divides by small deviations
					most = 0.25
				}
				if d := distance(x[0], x[1]); !(d > 1e-4 && d < most) {
					t.Errorf("%s: %s differ by %v of their size, want 1e-4 to %v", nntest.Name(s), name, d, most)
				}
			}
		}
	})
}

// distance returns |a - b| / |a|.
func distance(a, b []float32) float64 {
	var d, size float64
	for i := range a {
		d += math.Pow(float64(a[i])-float64(b[i]), 2)
		size += math.Pow(float64(a[i]), 2)
	}
	return math.Sqrt(d / size)
}

// A pass uses the packed weights of its parameters, if every change is announced: for another set,
// a changed set, and another path.
func TestPackedWeightsAreUpToDate(t *testing.T) {
	for _, precision := range []nn.Precision{nn.FP32, nn.BF16} {
		t.Run(string(precision), func(t *testing.T) { packedWeightsFollow(t, precision) })
	}
}

func packedWeightsFollow(t *testing.T, precision nn.Precision) {
	s := nntest.SmallNature()
	s.Precision = precision
	net, obs := mustNetwork(t, s, 2), nntest.RandomObs(s, rng.New(1, "test", 0), 2)
	sets := []*nn.Params{nntest.Init(t, s, 1), nntest.Init(t, s, 1)}
	forward := func(n nn.Network, p *nn.Params) string {
		out, err := n.Forward(p, obs, 2)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(out.Values)
	}
	opt := mustOptimizer(t, nn.OptimizerConfig{Name: "adam"}, len(sets[0].Host()))
	grad := make([]float32, len(sets[0].Host()))
	for i := range grad {
		grad[i] = float32(i%7) - 3
	}
	was := kernel.ISA()
	defer kernel.Use(was)
	seen := map[string]bool{}
	for i := range 60 {
		p := sets[i/3%2]
		before := p.Writes
		switch i % 6 {
		case 0: // unchanged
		case 1:
			p.Host()[i*len(p.Host())/60] += 1
			p.Wrote()
		case 2:
			if err := opt.Apply(p, grad, 1, 1e-2); err != nil {
				t.Fatal(err)
			}
		case 3:
			p.CopyFrom(nntest.Init(t, s, uint64(i)))
		case 4:
			if err := p.Write(nntest.Init(t, s, uint64(i)).Host()); err != nil {
				t.Fatal(err)
			}
		case 5:
			var file bytes.Buffer
			nntest.Check(t, nn.TensorsPart("p", nntest.Init(t, s, uint64(i)).Tensors()).Write(&file))
			adopt, err := nn.TensorsPart("p", p.Tensors()).Read(&file, int64(file.Len()))
			if err != nil {
				t.Fatal(err)
			}
			adopt()
			p.Wrote()
		}
		if (p.Writes == before) != (i%6 == 0) {
			t.Errorf("case %d: %d writes, then %d", i%6, before, p.Writes)
		}
		if err := kernel.Use(kernel.ISAs()[i/20%len(kernel.ISAs())]); err != nil {
			t.Fatal(err)
		}
		want := forward(mustNetwork(t, s, 2), p)
		for again := range 3 {
			if got := forward(net, p); got != want {
				t.Fatalf("after %d changes, pass %d: %s, a fresh network says %s", i, again, got, want)
			}
		}
		seen[want] = true
	}
	if len(seen) < 10 {
		t.Errorf("%d different results of 60 changes: the test proves little", len(seen))
	}
}
