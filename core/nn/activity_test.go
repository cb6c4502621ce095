package nn

import (
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// naiveLargest is the largest output of every unit below the heads, by the definition of
// the layers in float64.
func naiveLargest(s Spec, p *Params, obs []byte, rows int) (largest [][]float64, names []string) {
	layers, _ := s.layers()
	outputs := make([][]float64, len(layers))
	x := make([]float64, rows*s.Obs.Len())
	for i := range x {
		if s.Obs.DType == env.Uint8 {
			x[i] = float64(obs[i]) * float64(s.obsScale())
		} else {
			x[i] = float64(math.Float32frombits(uint32(obs[4*i]) | uint32(obs[4*i+1])<<8 | uint32(obs[4*i+2])<<16 | uint32(obs[4*i+3])<<24))
		}
	}
	for i := range layers {
		l, in := &layers[i], x
		if l.from >= 0 {
			in = outputs[l.from]
		}
		outputs[i] = l.naive(p, in, rows)
		if l.head || l.act != relu {
			continue
		}
		of := make([]float64, l.units())
		for k, v := range outputs[i] {
			unit := k % l.out / (l.out / len(of)) // naive images are planar
			of[unit] = max(of[unit], v)
		}
		largest = append(largest, of)
		if l.norm != nil { // behind the layer that has the units
			l = &layers[i-1]
		}
		names = append(names, l.name)
	}
	return largest, names
}

func TestActivityAgainstDefinition(t *testing.T) {
	onEveryDevice(t, func(t *testing.T) {
		for _, s := range []Spec{withNorm(smallNature(), "layer_all"), withNorm(smallNature(), "layer_channels"), withNorm(smallMLP(), "layer_all"), smallNature(), smallMLP(), oneCNN(), twoMLPs(), actorCritic(env.ObsSpec{Shape: []int{5}}, 2, Trunk{Arch: "mlp", Hidden: []int{6, 9}}, Trunk{Arch: "mlp", Hidden: []int{4}})} {
			r := rng.New(5, "test", 0)
			p, loss := mustInit(t, s, 2), lossOf(s)
			for _, part := range p.Layout.Params { // some units are dead, some are not
				if len(part.Shape) == 1 {
					for j, b := range p.view(part) {
						p.view(part)[j] = b + float32(r.Intn(2))*float32(r.Uniform(-3, 0.1))
					}
				}
			}
			const rows = 3
			l, a := mustLearner(t, s, rows, loss), s.NewActivity()
			var largest [][]float64
			for range 2 { // minibatches
				b := randomBatch(s, loss, r, rows)
				if err := l.Gradient(p, b, make([]float32, len(p.Host())), &Report{}); err != nil {
					t.Fatal(err)
				}
				l.Look(a)
				found, names := naiveLargest(s, p, b.Obs, rows)
				for i, of := range found {
					if a.Layers[i].Name != names[i] {
						t.Errorf("%s: layer %d is %s, want %s", s.name(), i, a.Layers[i].Name, names[i])
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
				t.Fatalf("%s: %d layers, want %d; flat: %v", s.name(), len(a.Layers), len(largest), a.Flat)
			}
			dead, all := 0, 0
			for i, of := range largest {
				for k, v := range of {
					if alive := a.Layers[i].Alive[k]; alive != (v > 0) && math.Abs(v) > 1e-6 {
						t.Errorf("%s: unit %d of %s is alive: %v, its largest output is %v", s.name(), k, a.Layers[i].Name, alive, v)
					}
				}
				dead, all = dead+a.Layers[i].Dead(), all+len(of)
			}
			if all > 0 && (dead == 0 || dead == all) {
				t.Errorf("%s: %d of %d units dead shows nothing", s.name(), dead, all)
			}
		}
	})
}

// Constant outputs are found; outputs that differ by little are not constant.
func TestFlatOutputs(t *testing.T) {
	onEveryDevice(t, func(t *testing.T) {
		for _, s := range []Spec{smallNature(), smallMLP(), twoMLPs()} {
			loss, r := lossOf(s), rng.New(6, "test", 0)
			for _, c := range []struct {
				scale float32 // of the heads' weights
				flat  bool
			}{{1, false}, {1e-3, false}, {1e-9, true}, {0, true}} {
				p := mustInit(t, s, 3)
				layers, _ := s.layers()
				for _, h := range layers {
					if h.head {
						for k := range p.named(h.name + ".weight") {
							p.named(h.name + ".weight")[k] *= c.scale
						}
						for k := range p.named(h.name + ".bias") {
							p.named(h.name + ".bias")[k] = float32(k) - 0.5
						}
					}
				}
				l, a := mustLearner(t, s, 4, loss), s.NewActivity()
				if err := l.Gradient(p, randomBatch(s, loss, r, 4), make([]float32, len(p.Host())), &Report{}); err != nil {
					t.Fatal(err)
				}
				if l.Look(a); a.Flat != c.flat {
					t.Errorf("%s: weights of heads times %v: flat %v", s.name(), c.scale, a.Flat)
				}
			}
		}
	})
}
