package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/rng"
)

var precisions = map[string]kernel.Precision{"fp32": kernel.FP32, "bf16": kernel.BF16}

func mustTeam(t testing.TB, n int) *kernel.Team {
	t.Helper()
	team, err := kernel.NewTeam(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(team.Close)
	return team
}

// newUpdate returns a function that does one whole update of a fixed batch on
// so many threads.
func newUpdate(t testing.TB, s Spec, rows, n int) func() {
	t.Helper()
	team := mustTeam(t, n)
	l, err := NewLearner(s, rows, Loss{"huber", "mean"}, team)
	if err != nil {
		t.Fatal(err)
	}
	theta, target, batch := mustInit(t, s, 1), mustInit(t, s, 2), randomBatch(s, rng.New(1, "test", 0), rows)
	grad := make([]float32, len(theta.Data))
	opt, err := NewOptimizer(OptimizerConfig{Name: "adam"}, len(grad), team)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := l.Gradient(theta, target, batch, grad); err != nil {
			t.Fatal(err)
		}
		opt.ClipGradNorm(grad, 1e-3)
		opt.Apply(theta.Data, grad, 1e-6)
	}
}

// wide has dense layers that are cut into parts, one of them of a width that is
// no multiple of the parts.
func wide() Spec {
	return Spec{Arch: "mlp", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{100}}, Actions: 3, Hidden: []int{333, 520}}
}

// The same bits for any number of threads: forward passes, gradients, norms and
// optimiser steps, with batches that fill no block.
func TestThreadsChangeNothing(t *testing.T) {
	batches, counts := []int{1, 7, 8, 33}, []int{0, 1, 2, 3, 5} // threads; 0: no team
	if kernel.ISA() == "go" || testing.Short() {                // slow
		batches, counts = []int{9}, []int{0, 2}
	}
	for name, precision := range precisions {
		for _, s := range []Spec{smallCNN(), wide()} {
			for _, rows := range batches {
				s.Precision = precision
				var want []float32
				for _, n := range counts {
					var team *kernel.Team
					if n > 0 {
						team = mustTeam(t, n)
					}
					l, err := NewLearner(s, rows, Loss{"huber", "sum"}, team)
					if err != nil {
						t.Fatal(err)
					}
					net, err := NewNetwork(s, rows, team)
					if err != nil {
						t.Fatal(err)
					}
					theta, target, batch := mustInit(t, s, 1), mustInit(t, s, 2), randomBatch(s, rng.New(1, "test", 0), rows)
					opt, err := NewOptimizer(OptimizerConfig{Name: "adam"}, len(theta.Data), team)
					if err != nil {
						t.Fatal(err)
					}
					grad := make([]float32, len(theta.Data))
					var got []float32
					for range 2 {
						loss, err := l.Gradient(theta, target, batch, grad)
						if err != nil {
							t.Fatal(err)
						}
						norm := opt.ClipGradNorm(grad, 1)
						opt.Apply(theta.Data, grad, 1e-3)
						q, err := net.Forward(theta, batch.Obs, rows)
						if err != nil {
							t.Fatal(err)
						}
						got = append(append(append(got, loss, float32(norm)), grad...), q...)
					}
					got = append(got, theta.Data...)
					if want == nil {
						want = got
						continue
					}
					for i := range want {
						if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
							t.Fatalf("%s %s, %d rows, %d threads: number %d is %v, without threads %v", name, s.Arch, rows, n, i, got[i], want[i])
						}
					}
				}
			}
		}
	}
}

func TestUpdateDoesNotAllocate(t *testing.T) {
	for name, precision := range precisions {
		for _, n := range []int{1, 2} {
			for _, s := range []Spec{smallCNN(), wide()} {
				s.Precision = precision
				update := newUpdate(t, s, 9, n)
				update()
				if allocs := testing.AllocsPerRun(5, update); allocs != 0 {
					t.Errorf("%s %s, %d threads: %v allocations", name, s.Arch, n, allocs)
				}
			}
		}
	}
}

// bf16 rounds the factors of products by up to a part in 256: Q-values and
// gradients stay near those of fp32, but are not the same.
func TestBF16IsNear(t *testing.T) {
	onEveryISA(t, func(t *testing.T) {
		for _, s := range []Spec{smallCNN(), wide()} {
			const rows = 16
			batch := randomBatch(s, rng.New(1, "test", 0), rows)
			var q, grad [2][]float32
			for i, p := range []kernel.Precision{kernel.FP32, kernel.BF16} {
				s.Precision = p
				theta, target := mustInit(t, s, 1), mustInit(t, s, 2)
				values, err := mustNetwork(t, s, rows).Forward(theta, batch.Obs, rows)
				if err != nil {
					t.Fatal(err)
				}
				q[i], grad[i] = values, make([]float32, len(theta.Data))
				if _, err := mustLearner(t, s, rows, Loss{"huber", "mean"}).Gradient(theta, target, batch, grad[i]); err != nil {
					t.Fatal(err)
				}
			}
			for name, x := range map[string][2][]float32{"Q-values": q, "gradient": grad} {
				if d := distance(x[0], x[1]); !(d > 1e-4 && d < 6e-2) {
					t.Errorf("%s: %s differ by %v of their size, want 1e-4 to 6e-2", s.Arch, name, d)
				}
			}
		}
	})
}

// distance is |a - b| / |a|.
func distance(a, b []float32) float64 {
	var d, size float64
	for i := range a {
		d += math.Pow(float64(a[i])-float64(b[i]), 2)
		size += math.Pow(float64(a[i]), 2)
	}
	return math.Sqrt(d / size)
}

// Weights that were packed for one pass are not used for others.
func TestPackedWeightsFollowTheWeights(t *testing.T) {
	s := smallCNN()
	net, obs := mustNetwork(t, s, 2), randomObs(s, rng.New(1, "test", 0), 2)
	p := mustInit(t, s, 1)
	forward := func(n *Network) string {
		q, err := n.Forward(p, obs, 2)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(q)
	}
	seen := map[string]bool{}
	for i := 0; i < len(p.Data); i += len(p.Data) / 50 {
		got := forward(net)
		if want := forward(mustNetwork(t, s, 2)); got != want {
			t.Fatalf("after %d changes: %s, a fresh network says %s", i, got, want)
		}
		seen[got] = true
		p.Data[i] += 1 // in place, and the version stays
	}
	if len(seen) < 10 {
		t.Errorf("%d different results of 50 changes: the test shows little", len(seen))
	}
}
