// Package nntest is the test suite of every device that computes networks, with networks,
// observations and batches for other tests.
package nntest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// QSpec returns a network with a head "q".
func QSpec(obs env.ObsSpec, actions int, t nn.Trunk) nn.Spec {
	return nn.Spec{Obs: obs, Trunks: []nn.Trunk{t}, Heads: []nn.Head{{Name: "q", Out: actions}}}
}

// Atari returns the Nature CNN as used on Atari.
func Atari() nn.Spec {
	return QSpec(env.ObsSpec{Shape: []int{4, 84, 84}}, 6, nn.Trunk{Arch: "nature_cnn"})
}

// SmallNature returns a Nature CNN for images of the smallest size: only its last convolution has
// one position.
func SmallNature() nn.Spec {
	return QSpec(env.ObsSpec{Shape: []int{2, 44, 40}}, 3, nn.Trunk{Arch: "nature_cnn"})
}

// SmallMLP returns a tiny network on vectors.
func SmallMLP() nn.Spec {
	return QSpec(env.ObsSpec{DType: env.Float32, Shape: []int{5}}, 3, nn.Trunk{Arch: "mlp", Hidden: []int{7, 6}})
}

// ActorCritic returns a network with heads "pi" and "v", on one trunk or on one each.
func ActorCritic(obs env.ObsSpec, actions int, trunks ...nn.Trunk) nn.Spec {
	return nn.Spec{Obs: obs, Trunks: trunks, Heads: []nn.Head{{Name: "pi", Out: actions, Gain: 0.01}, {Name: "v", Out: 1, Trunk: len(trunks) - 1, Gain: 1}}}
}

// TwoMLPs returns a network with tanh trunks of different widths, as Stable-Baselines3's MlpPolicy
// has.
func TwoMLPs() nn.Spec {
	return ActorCritic(env.ObsSpec{DType: env.Float32, Shape: []int{5}}, 3,
		nn.Trunk{Arch: "mlp", Hidden: []int{7, 6}, Activation: "tanh"}, nn.Trunk{Arch: "mlp", Hidden: []int{9}, Activation: "tanh"})
}

// Padded returns a network with padded convolutions. Its image has an even number of rows of zeros
// and an odd number of columns of zeros in the second convolution.
func Padded() nn.Spec {
	return QSpec(env.ObsSpec{Shape: []int{2, 12, 20}}, 3, nn.Trunk{Arch: "dopamine_cnn"})
}

// Patches returns a network whose kernels are one stride wide. In both convolutions its image has
// rows and columns that no kernel reads.
func Patches() nn.Spec {
	return QSpec(env.ObsSpec{Shape: []int{2, 31, 59}}, 3, nn.Trunk{Arch: "der_cnn"})
}

// WidePatches returns a network whose first kernels are two and two thirds strides wide.
func WidePatches() nn.Spec {
	return QSpec(env.ObsSpec{Shape: []int{2, 37, 35}}, 3, nn.Trunk{Arch: "ga3c_3_cnn"})
}

// onlyOnCPU reports whether no GPU computes the convolutions.
func onlyOnCPU(arch string) bool {
	return slices.Contains([]string{"dopamine_cnn", "der_cnn", "ga3c_1_cnn", "ga3c_2_cnn", "ga3c_3_cnn"}, arch)
}

// Tiny returns a network for images of 10x10 cells.
func Tiny() nn.Spec {
	return QSpec(env.ObsSpec{Shape: []int{4, 10, 10}}, 3, nn.Trunk{Arch: "minatar_cnn"})
}

// OneCNN returns a network with one trunk under both heads.
func OneCNN() nn.Spec {
	return ActorCritic(env.ObsSpec{Shape: []int{2, 28, 24}}, 4, nn.Trunk{Arch: "small_cnn"})
}

// WithNorm returns s with a normalisation in every trunk.
func WithNorm(s nn.Spec, norm string) nn.Spec {
	s.Trunks = slices.Clone(s.Trunks)
	for i := range s.Trunks {
		s.Trunks[i].Norm = norm
	}
	return s
}

// Norms returns the networks with every kind of normalisation.
func Norms(specs ...nn.Spec) (all []nn.Spec) {
	for _, s := range specs {
		all = append(all, WithNorm(s, "layer_channels"), WithNorm(s, "layer_all"))
	}
	return all
}

// StirNorms changes the scales and biases of normalisations, which are all equal in fresh
// parameters.
func StirNorms(p *nn.Params, r *rng.Stream) {
	for i, part := range p.Layout.Params {
		if i%2 == 0 && part.Name != "log_std" && len(part.Shape) != 2 && len(part.Shape) != 4 { // the scale of a normalisation
			for k := range p.Piece(part) {
				p.Piece(part)[k] = float32(r.Uniform(0.5, 1.5))
				p.Piece(p.Layout.Params[i+1])[k] = float32(r.Uniform(-0.5, 0.5))
			}
		}
	}
	p.Wrote()
}

// Name names a network in messages.
func Name(s nn.Spec) (n string) {
	for _, t := range s.Trunks {
		n += t.Arch + " " + t.Activation + " " + t.Norm
	}
	if h := s.Heads[0]; h.Atoms+h.Quantiles > 0 {
		n += fmt.Sprintf(" %d atoms, %d quantiles", h.Atoms, h.Quantiles)
	}
	if h := s.Heads[0]; h.Taus > 0 {
		n += fmt.Sprintf(" %d cosines, %d taus", h.Cosines, h.Taus)
	}
	if s.Heads[0].Dueling {
		n += " dueling"
	}
	if branches, gaussians := s.Policy(); len(branches) > 1 || gaussians > 0 {
		n += fmt.Sprint(" ", branches, gaussians)
	}
	return n
}

// RandomObs returns random observations.
func RandomObs(s nn.Spec, r *rng.Stream, rows int) []byte {
	b := make([]byte, 0, rows*s.Obs.Bytes())
	for range rows * s.Obs.Len() {
		if s.Obs.DType == env.Uint8 {
			b = append(b, byte(r.Intn(256)))
		} else {
			b = binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(r.Uniform(-2, 2))))
		}
	}
	return b
}

// importance reports whether the weights of a loss are importance weights.
func importance(loss nn.Loss) bool {
	switch l := loss.(type) {
	case nn.TD:
		return l.Importance != ""
	case nn.CrossEntropy:
		return l.Importance != ""
	case nn.QuantileHuber:
		return l.Importance != ""
	case nn.ImplicitHuber:
		return l.Importance != ""
	}
	return false
}

// RandomBatch returns n rows for a loss. About a third of the weights are 0, but those of
// importance 0.1 to 2.
func RandomBatch(s nn.Spec, loss nn.Loss, r *rng.Stream, n int) nn.Batch {
	b := nn.Batch{Obs: RandomObs(s, r, n)}
	branches, gaussians := s.Policy()
	if s.Head("q") >= 0 {
		branches = []int32{int32(s.Heads[0].Out)}
	}
	for range n {
		for _, choices := range branches {
			b.Actions = append(b.Actions, int32(r.Intn(int(choices))))
		}
		for range gaussians {
			b.Continuous = append(b.Continuous, float32(r.Uniform(-1.5, 1.5)))
		}
	}
	for _, c := range loss.Columns(&s) {
		column := make([]float32, n*c.Width)
		for i := range column {
			column[i] = float32(r.Uniform(-3, 3))
			if c.Name == "taus" {
				column[i] = float32(r.Float64())
			}
			if c.Name == "weight" {
				column[i] = 1
				if importance(loss) {
					column[i] = float32(r.Uniform(0.1, 2))
				} else if i > 0 && r.Intn(3) == 0 {
					column[i] = 0
				}
			}
		}
		if l, ok := loss.(nn.CrossEntropy); ok && c.Name == "target" {
			probabilities(column, l.Columns(&s)[0].Width)
		}
		b.Columns = append(b.Columns, column)
	}
	return b
}

// LossOf returns a loss that the heads of s allow.
func LossOf(s nn.Spec) nn.Loss {
	switch q := s.Head("q"); {
	case q >= 0 && s.Heads[q].Atoms > 0:
		return nn.CrossEntropy{Reduction: "mean"}
	case q >= 0 && s.Heads[q].Taus > 0:
		return nn.ImplicitHuber{Taus: s.Heads[q].Taus, Targets: implicitTargets, Kappa: 1, Reduction: "mean"}
	case q >= 0 && s.Heads[q].Quantiles > 0:
		return nn.QuantileHuber{Kappa: 1, Reduction: "mean"}
	case q >= 0:
		return nn.TD{Kind: "huber", Reduction: "mean"}
	}
	return nn.ActorCritic{EntropyCoef: 0.01, ValueCoef: 0.5}
}

// Named returns the piece called name. It panics if there is none.
func Named(p *nn.Params, name string) []float32 {
	return p.Piece(p.Layout.Params[slices.IndexFunc(p.Layout.Params, func(part nn.Param) bool { return part.Name == name })])
}

// Init returns fresh parameters.
func Init(t testing.TB, s nn.Spec, seed uint64) *nn.Params {
	t.Helper()
	p, err := s.InitialParams(rng.New(seed, "weights", 0))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// OnEveryISA runs f once for each instruction set of the CPU's kernels; with -short, only for the
// one in use and the portable one.
func OnEveryISA(t *testing.T, f func(t *testing.T)) {
	was := kernel.ISA()
	defer kernel.Use(was)
	for _, isa := range kernel.ISAs() {
		if testing.Short() && isa != was && isa != cpu.Portable {
			continue
		}
		t.Run(isa, func(t *testing.T) {
			if err := kernel.Use(isa); err != nil {
				t.Fatal(err)
			}
			f(t)
		})
	}
}

// Check ends the test on an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns v, or ends the test on an error.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Check(t, err)
		return v
	}
}

// Flat returns n parameters in one piece.
func Flat(n int) *nn.Params {
	return nn.NewParams(&nn.Layout{Params: []nn.Param{{Name: "all", Shape: []int{n}, Size: n}}, Size: n})
}

// OddBytes returns a network on observations whose size is no multiple of 4.
func OddBytes() nn.Spec {
	return ActorCritic(env.ObsSpec{Shape: []int{7}}, 3, nn.Trunk{Arch: "mlp", Hidden: []int{8}})
}
