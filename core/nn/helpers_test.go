package nn

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/rng"
)

// atari is the Nature CNN as used on Atari; smallCNN the smallest with more than
// one position in no layer but the last; smallMLP a tiny vector network.
func atari() Spec {
	return Spec{Arch: "nature_cnn", Obs: env.ObsSpec{Shape: []int{4, 84, 84}}, Actions: 6}
}

func smallCNN() Spec {
	return Spec{Arch: "nature_cnn", Obs: env.ObsSpec{Shape: []int{2, 44, 40}}, Actions: 3}
}

func smallMLP() Spec {
	return Spec{Arch: "mlp", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{5}}, Actions: 3, Hidden: []int{7, 6}}
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

func randomBatch(s Spec, r *rng.Stream, n int) *Batch {
	b := &Batch{
		Obs: randomObs(s, r, n), NextObs: randomObs(s, r, n), Actions: make([]int32, n),
		Rewards: make([]float32, n), Discounts: make([]float32, n),
	}
	for i := range n {
		b.Actions[i] = int32(r.Intn(s.Actions))
		b.Rewards[i] = float32(r.Uniform(-3, 3))
		if r.Intn(4) != 0 {
			b.Discounts[i] = 0.99
		}
	}
	return b
}

func mustInit(t testing.TB, s Spec, seed uint64) *Params {
	t.Helper()
	p, err := s.Init(rng.New(seed, "weights", 0))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustLearner(t testing.TB, s Spec, batch int, loss Loss) *Learner {
	t.Helper()
	l, err := NewLearner(s, batch, loss, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustNetwork(t testing.TB, s Spec, rows int) *Network {
	t.Helper()
	n, err := NewNetwork(s, rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// onEveryISA runs f once per path of the kernels.
func onEveryISA(t *testing.T, f func(t *testing.T)) {
	was := kernel.ISA()
	defer kernel.Use(was)
	for _, isa := range kernel.ISAs() {
		t.Run(isa, func(t *testing.T) {
			if err := kernel.Use(isa); err != nil {
				t.Fatal(err)
			}
			f(t)
		})
	}
}
