package cpu

import (
	"fmt"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

func TestForwardReleasesMemory(t *testing.T) {
	s := nntest.SmallMLP()
	n := mustNetwork(t, s, 1).(*network)
	if _, err := n.Forward(nntest.Init(t, s, 1), nntest.RandomObs(s, rng.New(1, "test", 0), 1), 1); err != nil {
		t.Fatal(err)
	}
	for _, leaf := range append(n.graph.Params, n.graph.Obs) {
		if len(leaf.Raw) != 0 {
			t.Error("a leaf still has the caller's memory")
		}
	}
}

func TestForwardDoesNotAllocate(t *testing.T) {
	for _, s := range []nn.Spec{nntest.SmallMLP(), nntest.SmallNature(), nntest.TwoMLPs(), nntest.OneCNN()} {
		n := mustNetwork(t, s, 4)
		p := []*nn.Params{nntest.Init(t, s, 1), nntest.Init(t, s, 2)} // with separate layouts
		obs := nntest.RandomObs(s, rng.New(1, "test", 0), 4)
		i := 0
		if a := testing.AllocsPerRun(20, func() {
			rows := 1 + i%4
			if _, err := n.Forward(p[i%2], obs[:rows*s.Obs.Bytes()], rows); err != nil {
				t.Fatal(err)
			}
			i++
		}); a != 0 {
			t.Errorf("%s: %v allocations", nntest.Name(s), a)
		}
	}
}

func BenchmarkForwardNature(b *testing.B) {
	s := nntest.Atari()
	p := nntest.Init(b, s, 1)
	for _, rows := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			n, obs := mustNetwork(b, s, 32), nntest.RandomObs(s, rng.New(1, "test", 0), rows)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := n.Forward(p, obs, rows); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkForwardMLP(b *testing.B) {
	s := nntest.QSpec(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, nn.Trunk{Arch: "mlp", Hidden: []int{128, 128}})
	p, n, obs := nntest.Init(b, s, 1), mustNetwork(b, s, 1), nntest.RandomObs(s, rng.New(1, "test", 0), 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Forward(p, obs, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRows measures an update by rows of a rollout of Atari's size.
func BenchmarkRows(b *testing.B) {
	const rows, many = 256, 1024
	s := nntest.ActorCritic(env.ObsSpec{Shape: []int{4, 84, 84}}, 6, nn.Trunk{Arch: "nature_cnn"})
	st := nntest.Must(mustCPU(b, 1).Stepper(nn.StepperConfig{Net: s, Rows: rows, Loss: nntest.LossOf(s), Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 0.5}))(b)
	p, r, all := nntest.Init(b, s, 1), rng.New(1, "test", 0), nntest.RandomObs(s, rng.New(2, "test", 0), many)
	batch := nntest.RandomBatch(s, nntest.LossOf(s), r, rows)
	order := make([]int32, rows)
	for i := range order {
		order[i] = int32(r.Intn(many))
	}
	size := s.Obs.Bytes()
	var report nn.Report
	nntest.Check(b, st.SetObs(all))
	b.Run("copied by the caller", func(b *testing.B) {
		for b.Loop() {
			for i, row := range order {
				copy(batch.Obs[i*size:(i+1)*size], all[int(row)*size:])
			}
			nntest.Check(b, st.Update(p, batch, 1e-6, &report))
		}
	})
	batch.Obs, batch.Rows = nil, order
	b.Run("by rows", func(b *testing.B) {
		for b.Loop() {
			nntest.Check(b, st.Update(p, batch, 1e-6, &report))
		}
	})
}
