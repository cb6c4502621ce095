package nntest

import (
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

func (on *suite) testActivityAgainstDefinition(t *testing.T) {
	on.eachPath(t, func(t *testing.T) {
		for _, s := range []nn.Spec{WithNorm(SmallNature(), "layer_all"), WithNorm(SmallNature(), "layer_channels"), WithNorm(SmallMLP(), "layer_all"), SmallNature(), SmallMLP(), OneCNN(), TwoMLPs(), ActorCritic(env.ObsSpec{Shape: []int{5}}, 2, nn.Trunk{Arch: "mlp", Hidden: []int{6, 9}}, nn.Trunk{Arch: "mlp", Hidden: []int{4}})} {
			r := rng.New(5, "test", 0)
			p, loss := Init(t, s, 2), LossOf(s)
			for _, part := range p.Layout.Params { // some units are dead, some are not
				if len(part.Shape) == 1 {
					for j, b := range p.Piece(part) {
						p.Piece(part)[j] = b + float32(r.Intn(2))*float32(r.Uniform(-3, 0.1))
					}
				}
			}
			const rows = 3
			l, a := on.learner(t, s, rows, loss), s.NewActivity()
			var largest [][]float64
			for range 2 { // minibatches
				b := RandomBatch(s, loss, r, rows)
				if err := l.Gradient(p, b, make([]float32, len(p.Host())), &nn.Report{}); err != nil {
					t.Fatal(err)
				}
				l.Look(a)
				found, names := naiveLargest(s, p, b.Obs, rows)
				for i, of := range found {
					if a.Layers[i].Name != names[i] {
						t.Errorf("%s: layer %d is %s, want %s", Name(s), i, a.Layers[i].Name, names[i])
					}
					if len(largest) == i {
						largest = append(largest, make([]float64, len(of)))
					}
					for k, v := range of {
						largest[i][k] = max(largest[i][k], v)
					}
				}
			}
			if len(a.Layers) != len(largest) || a.Flat {
				t.Fatalf("%s: %d layers, want %d; flat: %v", Name(s), len(a.Layers), len(largest), a.Flat)
			}
			dead, all := 0, 0
			for i, of := range largest {
				for k, v := range of {
					if alive := a.Layers[i].Alive[k]; alive != (v > 0) && math.Abs(v) > 1e-6 {
						t.Errorf("%s: unit %d of %s is alive: %v, its largest output is %v", Name(s), k, a.Layers[i].Name, alive, v)
					}
				}
				dead, all = dead+a.Layers[i].Dead(), all+len(of)
			}
			if all > 0 && (dead == 0 || dead == all) {
				t.Errorf("%s: %d of %d units dead shows nothing", Name(s), dead, all)
			}
		}
	})
}

// Constant outputs are found; outputs that differ by little are not constant.
func (on *suite) testFlatOutputs(t *testing.T) {
	on.eachPath(t, func(t *testing.T) {
		for _, s := range []nn.Spec{SmallNature(), SmallMLP(), TwoMLPs()} {
			loss, r := LossOf(s), rng.New(6, "test", 0)
			for _, c := range []struct {
				scale float32 // of the heads' weights
				flat  bool
			}{{1, false}, {1e-3, false}, {1e-9, true}, {0, true}} {
				p := Init(t, s, 3)
				layers, _ := s.Layers()
				for _, h := range layers {
					if h.Head {
						for k := range Named(p, h.Name+".weight") {
							Named(p, h.Name+".weight")[k] *= c.scale
						}
						for k := range Named(p, h.Name+".bias") {
							Named(p, h.Name+".bias")[k] = float32(k) - 0.5
						}
					}
				}
				l, a := on.learner(t, s, 4, loss), s.NewActivity()
				if err := l.Gradient(p, RandomBatch(s, loss, r, 4), make([]float32, len(p.Host())), &nn.Report{}); err != nil {
					t.Fatal(err)
				}
				if l.Look(a); a.Flat != c.flat {
					t.Errorf("%s: weights of heads times %v: flat %v", Name(s), c.scale, a.Flat)
				}
			}
		}
	})
}
