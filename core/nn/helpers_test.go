package nn

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/rng"
)

// qSpec is a network with a head "q".
func qSpec(obs env.ObsSpec, actions int, t Trunk) Spec {
	return Spec{Obs: obs, Trunks: []Trunk{t}, Heads: []Head{{Name: "q", Out: actions}}}
}

// atari is the Nature CNN as used on Atari; smallNature the smallest with more than
// one position in no layer but the last; smallMLP a tiny vector network.
func atari() Spec {
	return qSpec(env.ObsSpec{Shape: []int{4, 84, 84}}, 6, Trunk{Arch: "nature_cnn"})
}

func smallNature() Spec {
	return qSpec(env.ObsSpec{Shape: []int{2, 44, 40}}, 3, Trunk{Arch: "nature_cnn"})
}

func smallMLP() Spec {
	return qSpec(env.ObsSpec{DType: env.Float32, Shape: []int{5}}, 3, Trunk{Arch: "mlp", Hidden: []int{7, 6}})
}

// actorCritic puts heads "pi" and "v" on one trunk, or on one each.
func actorCritic(obs env.ObsSpec, actions int, trunks ...Trunk) Spec {
	return Spec{Obs: obs, Trunks: trunks, Heads: []Head{{Name: "pi", Out: actions, Gain: 0.01}, {Name: "v", Out: 1, Trunk: len(trunks) - 1, Gain: 1}}}
}

// twoMLPs has tanh trunks of different widths, as Stable-Baselines3's MlpPolicy
// has; oneCNN a trunk under both heads.
func twoMLPs() Spec {
	return actorCritic(env.ObsSpec{DType: env.Float32, Shape: []int{5}}, 3,
		Trunk{Arch: "mlp", Hidden: []int{7, 6}, Activation: "tanh"}, Trunk{Arch: "mlp", Hidden: []int{9}, Activation: "tanh"})
}

func oneCNN() Spec {
	return actorCritic(env.ObsSpec{Shape: []int{2, 28, 24}}, 4, Trunk{Arch: "small_cnn"})
}

// withNorm is s with a normalisation in every trunk, norms with every kind.
func withNorm(s Spec, norm string) Spec {
	s.Trunks = slices.Clone(s.Trunks)
	for i := range s.Trunks {
		s.Trunks[i].Norm = norm
	}
	return s
}

func norms(specs ...Spec) (all []Spec) {
	for _, s := range specs {
		all = append(all, withNorm(s, "layer_channels"), withNorm(s, "layer_all"))
	}
	return all
}

// stirNorms changes the scales and biases of normalisations, which are all the same in
// fresh parameters.
func (p *Params) stirNorms(r *rng.Stream) {
	for i, part := range p.Layout.Params {
		if i%2 == 0 && len(part.Shape) != 2 && len(part.Shape) != 4 { // a weight that is no layer's
			for k := range p.view(part) {
				p.view(part)[k] = float32(r.Uniform(0.5, 1.5))
				p.view(p.Layout.Params[i+1])[k] = float32(r.Uniform(-0.5, 0.5))
			}
		}
	}
	p.Wrote()
}

// name names a spec in tests.
func (s Spec) name() (n string) {
	for _, t := range s.Trunks {
		n += t.Arch + " " + t.Activation + " " + t.Norm
	}
	return n
}

func randomObs(s Spec, r *rng.Stream, rows int) []byte {
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

// randomBatch returns n rows for a loss; about a third of the weights are 0.
func randomBatch(s Spec, loss Loss, r *rng.Stream, n int) Batch {
	b := Batch{Obs: randomObs(s, r, n), Actions: make([]int32, n)}
	for i := range b.Actions {
		b.Actions[i] = int32(r.Intn(s.Heads[0].Out))
	}
	for _, c := range loss.Columns() {
		column := make([]float32, n)
		for i := range column {
			column[i] = float32(r.Uniform(-3, 3))
			if c.Name == "weight" {
				column[i] = 1
				if i > 0 && r.Intn(3) == 0 {
					column[i] = 0
				}
			}
		}
		b.Columns = append(b.Columns, column)
	}
	return b
}

// lossOf is one that the heads of s allow.
func lossOf(s Spec) Loss {
	if s.Head("q") >= 0 {
		return TD{Kind: "huber", Reduction: "mean"}
	}
	return ActorCritic{EntropyCoef: 0.01, ValueCoef: 0.5}
}

// named is the piece called name, which is there.
func (p *Params) named(name string) []float32 {
	return p.view(p.Layout.Params[slices.IndexFunc(p.Layout.Params, func(part Param) bool { return part.Name == name })])
}

func mustInit(t testing.TB, s Spec, seed uint64) *Params {
	t.Helper()
	p, err := s.InitialParams(rng.New(seed, "weights", 0))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mustCPU returns a device of n threads.
func mustCPU(t testing.TB, n int) Device {
	t.Helper()
	return mustDevice(t, "cpu", n)
}

func mustDevice(t testing.TB, name string, n int) Device {
	t.Helper()
	d := must(NewDevice(name, n, nil))(t)
	t.Cleanup(d.Close)
	return d
}

// tested is the name of the device that is tested, "cpu" but within onEveryDevice.
var tested = "cpu"

func mustLearner(t testing.TB, s Spec, rows int, loss Loss) Learner {
	t.Helper()
	return must(mustDevice(t, tested, 1).Learner(s, rows, loss))(t)
}

func mustNetwork(t testing.TB, s Spec, rows int) Network {
	t.Helper()
	return must(mustDevice(t, tested, 1).Network(s, rows))(t)
}

func mustOptimizer(t testing.TB, c OptimizerConfig, size int) Optimizer {
	t.Helper()
	return must(mustDevice(t, tested, 1).Optimizer(c, size))(t)
}

// onOthers runs f on the devices that a build has beside the CPU (gpu_test.go).
var onOthers = func(*testing.T, func(*testing.T)) {}

// onEveryDevice runs f once per path of the CPU's kernels, and on the other devices.
func onEveryDevice(t *testing.T, f func(t *testing.T)) {
	onEveryISA(t, f)
	onOthers(t, f)
}

// onBoth runs f on the CPU and on the other devices.
func onBoth(t *testing.T, f func(t *testing.T)) {
	t.Run("cpu", f)
	onOthers(t, f)
}

// onEveryISA runs f once per path of the kernels, with -short per path in C.
func onEveryISA(t *testing.T, f func(t *testing.T)) {
	was := kernel.ISA()
	defer kernel.Use(was)
	for _, isa := range kernel.ISAs() {
		if testing.Short() && isa == "go" && len(kernel.ISAs()) > 1 {
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

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}
