package nn

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
		size int
	}{
		{atari(), `features_extractor.cnn.0.weight [32 4 8 8]
features_extractor.cnn.0.bias [32]
features_extractor.cnn.2.weight [64 32 4 4]
features_extractor.cnn.2.bias [64]
features_extractor.cnn.4.weight [64 64 3 3]
features_extractor.cnn.4.bias [64]
features_extractor.linear.0.weight [512 3136]
features_extractor.linear.0.bias [512]
q_net.0.weight [6 512]
q_net.0.bias [6]
`, 1687206},
		{qSpec(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, Trunk{Arch: "mlp"}), `q_net.0.weight [64 4]
q_net.0.bias [64]
q_net.2.weight [64 64]
q_net.2.bias [64]
q_net.4.weight [2 64]
q_net.4.bias [2]
`, 4610},
		{qSpec(env.ObsSpec{Shape: []int{2, 3}}, 2, Trunk{Arch: "mlp", Hidden: []int{}}), `q_net.0.weight [2 6]
q_net.0.bias [2]
`, 14},
		// What named_parameters of Stable-Baselines3 2.9's policies lists: an MlpPolicy's, a CnnPolicy's, and a
		// CnnPolicy's with share_features_extractor=False.
		{actorCritic(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, Trunk{Arch: "mlp", Activation: "tanh"}, Trunk{Arch: "mlp", Hidden: []int{32}}), `mlp_extractor.policy_net.0.weight [64 4]
mlp_extractor.policy_net.0.bias [64]
mlp_extractor.policy_net.2.weight [64 64]
mlp_extractor.policy_net.2.bias [64]
mlp_extractor.value_net.0.weight [32 4]
mlp_extractor.value_net.0.bias [32]
action_net.weight [2 64]
action_net.bias [2]
value_net.weight [1 32]
value_net.bias [1]
`, 320 + 4160 + 160 + 130 + 33},
		{actorCritic(env.ObsSpec{Shape: []int{1, 84, 84}}, 6, Trunk{Arch: "nature_cnn"}), `features_extractor.cnn.0.weight [32 1 8 8]
features_extractor.cnn.0.bias [32]
features_extractor.cnn.2.weight [64 32 4 4]
features_extractor.cnn.2.bias [64]
features_extractor.cnn.4.weight [64 64 3 3]
features_extractor.cnn.4.bias [64]
features_extractor.linear.0.weight [512 3136]
features_extractor.linear.0.bias [512]
action_net.weight [6 512]
action_net.bias [6]
value_net.weight [1 512]
value_net.bias [1]
`, 2080 + 32832 + 36928 + 1606144 + 3078 + 513},
		{actorCritic(env.ObsSpec{Shape: []int{2, 24, 20}}, 3, Trunk{Arch: "small_cnn"}, Trunk{Arch: "small_cnn"}), `features_extractor.cnn.0.weight [16 2 8 8]
features_extractor.cnn.0.bias [16]
features_extractor.cnn.2.weight [32 16 4 4]
features_extractor.cnn.2.bias [32]
features_extractor.linear.0.weight [256 32]
features_extractor.linear.0.bias [256]
vf_features_extractor.cnn.0.weight [16 2 8 8]
vf_features_extractor.cnn.0.bias [16]
vf_features_extractor.cnn.2.weight [32 16 4 4]
vf_features_extractor.cnn.2.bias [32]
vf_features_extractor.linear.0.weight [256 32]
vf_features_extractor.linear.0.bias [256]
action_net.weight [3 256]
action_net.bias [3]
value_net.weight [1 256]
value_net.bias [1]
`, 2*(2064+8224+8448) + 771 + 257},
		{actorCritic(env.ObsSpec{Shape: []int{3}}, 2, Trunk{Arch: "mlp", Hidden: []int{5}}), `mlp_extractor.shared_net.0.weight [5 3]
mlp_extractor.shared_net.0.bias [5]
action_net.weight [2 5]
action_net.bias [2]
value_net.weight [1 5]
value_net.bias [1]
`, 20 + 12 + 6},
		// As torch names the modules of Sequentials with a norm behind every layer.
		{withNorm(atari(), "layer_all"), `features_extractor.cnn.0.weight [32 4 8 8]
features_extractor.cnn.0.bias [32]
features_extractor.cnn.1.weight [32 20 20]
features_extractor.cnn.1.bias [32 20 20]
features_extractor.cnn.3.weight [64 32 4 4]
features_extractor.cnn.3.bias [64]
features_extractor.cnn.4.weight [64 9 9]
features_extractor.cnn.4.bias [64 9 9]
features_extractor.cnn.6.weight [64 64 3 3]
features_extractor.cnn.6.bias [64]
features_extractor.cnn.7.weight [64 7 7]
features_extractor.cnn.7.bias [64 7 7]
features_extractor.linear.0.weight [512 3136]
features_extractor.linear.0.bias [512]
features_extractor.linear.1.weight [512]
features_extractor.linear.1.bias [512]
q_net.0.weight [6 512]
q_net.0.bias [6]
`, 1687206 + 2*(12800+5184+3136+512)},
		{withNorm(actorCritic(env.ObsSpec{Shape: []int{2, 24, 20}}, 3, Trunk{Arch: "small_cnn"}), "layer_channels"), `features_extractor.cnn.0.weight [16 2 8 8]
features_extractor.cnn.0.bias [16]
features_extractor.cnn.1.weight [16]
features_extractor.cnn.1.bias [16]
features_extractor.cnn.3.weight [32 16 4 4]
features_extractor.cnn.3.bias [32]
features_extractor.cnn.4.weight [32]
features_extractor.cnn.4.bias [32]
features_extractor.linear.0.weight [256 32]
features_extractor.linear.0.bias [256]
features_extractor.linear.1.weight [256]
features_extractor.linear.1.bias [256]
action_net.weight [3 256]
action_net.bias [3]
value_net.weight [1 256]
value_net.bias [1]
`, 2064 + 8224 + 8448 + 771 + 257 + 2*(16+32+256)},
		{withNorm(qSpec(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, Trunk{Arch: "mlp", Hidden: []int{9, 8}}), "layer_all"), `q_net.0.weight [9 4]
q_net.0.bias [9]
q_net.1.weight [9]
q_net.1.bias [9]
q_net.3.weight [8 9]
q_net.3.bias [8]
q_net.4.weight [8]
q_net.4.bias [8]
q_net.6.weight [2 8]
q_net.6.bias [2]
`, 45 + 18 + 80 + 16 + 18},
	} {
		l, err := c.spec.Layout()
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		at := 0
		for _, p := range l.Params {
			fmt.Fprintf(&got, "%s %v\n", p.Name, p.Shape)
			if p.Offset != at || p.Size != elements(p.Shape) {
				t.Errorf("%s: floats %d to %d, must start at %d", p.Name, p.Offset, p.Offset+p.Size, at)
			}
			at += p.Size
		}
		if got.String() != c.want || l.Size != c.size || at != c.size {
			t.Errorf("%d floats:\n%swant %d:\n%s", l.Size, got.String(), c.size, c.want)
		}
		again, _ := c.spec.Layout()
		if !l.Equal(again) {
			t.Error("a layout differs from itself")
		}
		again.Params[0].Shape = slices.Clone(again.Params[0].Shape)
		slices.Reverse(again.Params[0].Shape)
		if l.Equal(again) {
			t.Error("another shape passes as equal")
		}
	}
}

func TestImpossibleSpecs(t *testing.T) { onBoth(t, testImpossibleSpecs) }

func testImpossibleSpecs(t *testing.T) {
	f32 := func(shape ...int) env.ObsSpec { return env.ObsSpec{DType: env.Float32, Shape: shape} }
	u8 := func(shape ...int) env.ObsSpec { return env.ObsSpec{Shape: shape} }
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{qSpec(u8(4, 84, 84), 1, Trunk{Arch: "cnn"}), `arch: "cnn", must be "nature_cnn", "small_cnn", "cule_cnn" or "mlp"`},
		{qSpec(f32(4), 1, Trunk{Arch: "mlp", Norm: "layer"}), `norm: "layer", must be "", "layer_channels" or "layer_all"`},
		{qSpec(f32(4), 1, Trunk{Arch: "mlp", Norm: "layer_all", NormEps: -1e-5}), "norm_eps: -1e-05, must be above 0 and at most 1, or 0 for norm's own; 0 without norm"},
		{qSpec(f32(4), 1, Trunk{Arch: "mlp", Norm: "layer_all", NormEps: math.NaN()}), "norm_eps: NaN, must be above 0 and at most 1, or 0 for norm's own; 0 without norm"},
		{qSpec(f32(4), 1, Trunk{Arch: "mlp", Norm: "layer_all", NormEps: 1e-60}), "norm_eps: 1e-60, must be above 0 and at most 1, or 0 for norm's own; 0 without norm"},
		{qSpec(f32(4), 1, Trunk{Arch: "mlp", NormEps: 1e-5}), "norm_eps: 1e-05, must be above 0 and at most 1, or 0 for norm's own; 0 without norm"},
		{qSpec(f32(4), 0, Trunk{Arch: "mlp"}), "heads[0].out: 0, must be 1 to 65536"},
		{qSpec(f32(4), 65537, Trunk{Arch: "mlp"}), "heads[0].out: 65537, must be 1 to 65536"},
		{qSpec(f32(), 1, Trunk{Arch: "mlp"}), "obs.shape: [], must have at least one axis"},
		{qSpec(f32(4, 0), 1, Trunk{Arch: "mlp"}), "obs.shape: [4 0], axes must be at least 1 and the product at most 268435456"},
		{qSpec(f32(1<<20, 1<<20, 1<<40), 1, Trunk{Arch: "mlp"}), "obs.shape: [1048576 1048576 1099511627776], axes must be"},
		{qSpec(f32(1<<27), 1, Trunk{Arch: "mlp"}), "hidden[0]: 64, must be 1 to 2 behind a layer of 134217728"},
		{qSpec(f32(4), 1, Trunk{Arch: "mlp", Hidden: []int{8, 0}}), "hidden[1]: 0, must be 1 to "},
		{actorCritic(f32(4), 1, Trunk{Arch: "mlp"}, Trunk{Arch: "mlp", Hidden: []int{8, 0}}), "trunks[1].hidden[1]: 0, must be 1 to "},
		{qSpec(f32(4), 1, Trunk{Arch: "mlp", Hidden: []int{1 << 14, 1 << 14, 1 << 14}}), "hidden: [16384 16384 16384]: more than 268435456 parameters"},
		{qSpec(f32(4, 84, 84), 1, Trunk{Arch: "nature_cnn"}), "obs.dtype: float32, must be uint8 for nature_cnn"},
		{qSpec(u8(84, 84), 1, Trunk{Arch: "nature_cnn"}), "obs.shape: [84 84], must be [channels, height, width] of at least 36x36 for nature_cnn"},
		{qSpec(u8(1, 36, 35), 1, Trunk{Arch: "nature_cnn"}), "obs.shape: [1 36 35], must be [channels, height, width] of at least 36x36 for nature_cnn"},
		{qSpec(u8(1, 20, 19), 1, Trunk{Arch: "small_cnn"}), "obs.shape: [1 20 19], must be [channels, height, width] of at least 20x20 for small_cnn"},
		{qSpec(u8(84, 84, 4), 1, Trunk{Arch: "nature_cnn"}), "obs.shape: [84 84 4], must be [channels, height, width] of at least 36x36 for nature_cnn"},
		{qSpec(u8(4, 1<<13, 1<<13), 1, Trunk{Arch: "nature_cnn"}), "obs.shape: [4 8192 8192]: more than 268435456 parameters"},
		{qSpec(u8(4, 84, 84), 1, Trunk{Arch: "nature_cnn", Hidden: []int{64}}), "hidden: [64], must be empty for nature_cnn"},
		{qSpec(u8(4, 84, 84), 1, Trunk{Arch: "small_cnn", Activation: "tanh"}), `activation: "tanh", must be "relu", or "tanh" for mlp`},
		{actorCritic(f32(4), 1, Trunk{Arch: "mlp"}, Trunk{Arch: "mlp", Activation: "elu"}), `trunks[1].activation: "elu", must be`},
		{Spec{Obs: f32(4)}, "network: 0 trunks and 0 heads, must be at least one each"},
		{Spec{Obs: f32(4), Trunks: make([]Trunk, 2), Heads: []Head{{Name: "q", Out: 1, Trunk: 1}}}, "trunks[0]: no head is on it"},
		{Spec{Obs: f32(4), Trunks: make([]Trunk, 1), Heads: []Head{{Name: "q", Out: 1}, {Name: "q", Out: 1}}}, `heads[1].name: "q", must not be empty and not that of another head`},
		{Spec{Obs: f32(4), Trunks: make([]Trunk, 1), Heads: []Head{{Name: "q", Out: 1}, {Name: "v", Out: 1, Trunk: 1}}}, "heads[1].trunk: 1, must be 0 to 0"},
		{Spec{Obs: f32(4), Trunks: make([]Trunk, 1), Heads: []Head{{Name: "q", Out: 1, Gain: -1}}}, "heads[0].gain: -1, must be 0 to 1e6"},
		{Spec{Obs: f32(4), Trunks: make([]Trunk, 1), Heads: make([]Head, 1), Init: "zeros"}, `init: "zeros", must be "uniform", "orthogonal" or "he_normal"`},
		{Spec{Precision: "fp64"}, `precision: "fp64", must be "fp32", "bf16" or "tf32"`},
	} {
		_, layoutErr := c.spec.Layout()
		_, initErr := c.spec.InitialParams(rng.New(1, "weights", 0))
		_, netErr := mustDevice(t, tested, 1).Network(c.spec, 1)
		_, learnErr := mustDevice(t, tested, 1).Learner(c.spec, 1, TD{Kind: "huber", Reduction: "mean"})
		for _, err := range []error{layoutErr, initErr, netErr, learnErr} {
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		}
	}
	for _, smallest := range []Spec{qSpec(u8(1, 36, 36), 1, Trunk{Arch: "nature_cnn"}), qSpec(u8(1, 20, 20), 1, Trunk{Arch: "small_cnn"})} {
		if _, err := smallest.Layout(); err != nil {
			t.Error(err)
		}
	}
}

func TestParams(t *testing.T) {
	s := smallMLP()
	p := mustInit(t, s, 1)
	p.Updates = 7
	part := p.Layout.Params[3]
	v := p.named(part.Name)
	v[0] = 42
	if p.Host()[part.Offset] != 42 || len(v) != part.Size || cap(v) != part.Size {
		t.Error("a view must be the piece itself and no more")
	}
	q := NewParams(p.Layout)
	q.CopyFrom(p)
	if !slices.Equal(q.Host(), p.Host()) || q.Updates != 7 {
		t.Error("CopyFrom: not equal")
	}
	q = mustInit(t, s, 2)
	if err := q.Write(p.Host()); err != nil || !slices.Equal(q.Host(), p.Host()) || q.Updates != 0 {
		t.Errorf("Write: %v, %d updates", err, q.Updates)
	}
	to := make([]float32, len(p.Host()))
	if err := p.Read(to); err != nil || !slices.Equal(to, p.Host()) {
		t.Errorf("Read: %v", err)
	}
	if c := p.Clone(); !slices.Equal(c.Host(), p.Host()) || c.Updates != 7 || &c.Host()[0] == &p.Host()[0] {
		t.Error("Clone: not a copy")
	}
	for _, err := range []error{p.Read(to[1:]), p.Write(to[1:])} {
		if err == nil || err.Error() != fmt.Sprintf("parameters: %d numbers, must be %d", len(to)-1, len(to)) {
			t.Errorf("error %v", err)
		}
	}
	q = NewParams(p.Layout)
	for i, piece := range p.Tensors() {
		copy(q.Tensors()[i].Data, piece.Data)
	}
	if !slices.Equal(q.Host(), p.Host()) {
		t.Error("Tensors: not views of all")
	}
	var file bytes.Buffer
	if err := writeTensors(&file, p.Tensors()); err != nil {
		t.Fatal(err)
	}
	if q, err := ReadParams(&file, int64(file.Len()), p.Layout); err != nil || !slices.Equal(q.Host(), p.Host()) {
		t.Errorf("ReadParams: %v", err)
	}
}
