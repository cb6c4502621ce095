package nn_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
)

// withHead returns a Q-network of two actions on vectors of 4 with such a head.
func withHead(h nn.Head, hidden ...int) nn.Spec {
	s := nntest.QSpec(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, nn.Trunk{Arch: "mlp", Hidden: append([]int{}, hidden...)})
	h.Name, h.Out = "q", 2
	s.Heads[0] = h
	return s
}

func dueling(s nn.Spec) nn.Spec {
	s.Heads[0].Dueling = true
	return s
}

func withTaus(s nn.Spec) nn.Spec {
	s.Heads[0].Cosines, s.Heads[0].Taus = 6, 3
	return s
}

func TestLayoutsHaveTheNamesOfSB3(t *testing.T) {
	for _, c := range []struct {
		spec nn.Spec
		want string
		size int
	}{
		{nntest.Atari(), `features_extractor.cnn.0.weight [32 4 8 8]
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
		{nntest.QSpec(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, nn.Trunk{Arch: "mlp"}), `q_net.0.weight [64 4]
q_net.0.bias [64]
q_net.2.weight [64 64]
q_net.2.bias [64]
q_net.4.weight [2 64]
q_net.4.bias [2]
`, 4610},
		{nntest.QSpec(env.ObsSpec{Shape: []int{2, 3}}, 2, nn.Trunk{Arch: "mlp", Hidden: []int{}}), `q_net.0.weight [2 6]
q_net.0.bias [2]
`, 14},
		// named_parameters of Stable-Baselines3 2.9's policies: MlpPolicy, CnnPolicy, and CnnPolicy
		// with share_features_extractor=False.
		{nntest.ActorCritic(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, nn.Trunk{Arch: "mlp", Activation: "tanh"}, nn.Trunk{Arch: "mlp", Hidden: []int{32}}), `mlp_extractor.policy_net.0.weight [64 4]
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
		{nntest.ActorCritic(env.ObsSpec{Shape: []int{1, 84, 84}}, 6, nn.Trunk{Arch: "nature_cnn"}), `features_extractor.cnn.0.weight [32 1 8 8]
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
		{nntest.ActorCritic(env.ObsSpec{Shape: []int{1, 84, 84}}, 3, nn.Trunk{Arch: "ga3c_2_cnn"}), `features_extractor.cnn.0.weight [32 1 8 8]
features_extractor.cnn.0.bias [32]
features_extractor.cnn.2.weight [32 32 4 4]
features_extractor.cnn.2.bias [32]
features_extractor.cnn.4.weight [64 32 4 4]
features_extractor.cnn.4.bias [64]
features_extractor.linear.0.weight [256 4096]
features_extractor.linear.0.bias [256]
action_net.weight [3 256]
action_net.bias [3]
value_net.weight [1 256]
value_net.bias [1]
`, 2080 + 16416 + 32832 + 1048832 + 771 + 257},
		{nntest.ActorCritic(env.ObsSpec{Shape: []int{2, 24, 20}}, 3, nn.Trunk{Arch: "small_cnn"}, nn.Trunk{Arch: "small_cnn"}), `features_extractor.cnn.0.weight [16 2 8 8]
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
		{nntest.ActorCritic(env.ObsSpec{Shape: []int{3}}, 2, nn.Trunk{Arch: "mlp", Hidden: []int{5}}), `mlp_extractor.shared_net.0.weight [5 3]
mlp_extractor.shared_net.0.bias [5]
action_net.weight [2 5]
action_net.bias [2]
value_net.weight [1 5]
value_net.bias [1]
`, 20 + 12 + 6},
		// What named_parameters of Stable-Baselines3 2.9's MlpPolicy lists for a Box, where log_std comes
		// first, and for a MultiDiscrete; and an action of both.
		{nntest.WithPolicy(nntest.TwoMLPs(), nil, 2), `mlp_extractor.policy_net.0.weight [7 5]
mlp_extractor.policy_net.0.bias [7]
mlp_extractor.policy_net.2.weight [6 7]
mlp_extractor.policy_net.2.bias [6]
mlp_extractor.value_net.0.weight [9 5]
mlp_extractor.value_net.0.bias [9]
action_net.weight [2 6]
action_net.bias [2]
value_net.weight [1 9]
value_net.bias [1]
log_std [2]
`, 42 + 48 + 54 + 14 + 10 + 2},
		{nntest.WithPolicy(nntest.TwoMLPs(), []int32{2, 3}, 0), `mlp_extractor.policy_net.0.weight [7 5]
mlp_extractor.policy_net.0.bias [7]
mlp_extractor.policy_net.2.weight [6 7]
mlp_extractor.policy_net.2.bias [6]
mlp_extractor.value_net.0.weight [9 5]
mlp_extractor.value_net.0.bias [9]
action_net.weight [5 6]
action_net.bias [5]
value_net.weight [1 9]
value_net.bias [1]
`, 42 + 48 + 54 + 35 + 10},
		{nntest.WithPolicy(nntest.TwoMLPs(), []int32{2, 3}, 2), `mlp_extractor.policy_net.0.weight [7 5]
mlp_extractor.policy_net.0.bias [7]
mlp_extractor.policy_net.2.weight [6 7]
mlp_extractor.policy_net.2.bias [6]
mlp_extractor.value_net.0.weight [9 5]
mlp_extractor.value_net.0.bias [9]
action_net.weight [5 6]
action_net.bias [5]
mu_net.weight [2 6]
mu_net.bias [2]
value_net.weight [1 9]
value_net.bias [1]
log_std [2]
`, 42 + 48 + 54 + 35 + 14 + 10 + 2},
		{nntest.WithPolicy(nntest.ActorCritic(env.ObsSpec{Shape: []int{2, 24, 20}}, 0, nn.Trunk{Arch: "small_cnn"}, nn.Trunk{Arch: "mlp", Hidden: []int{}}), []int32{2}, 1), `features_extractor.cnn.0.weight [16 2 8 8]
features_extractor.cnn.0.bias [16]
features_extractor.cnn.2.weight [32 16 4 4]
features_extractor.cnn.2.bias [32]
features_extractor.linear.0.weight [256 32]
features_extractor.linear.0.bias [256]
action_net.weight [2 256]
action_net.bias [2]
mu_net.weight [1 256]
mu_net.bias [1]
value_net.weight [1 960]
value_net.bias [1]
log_std [1]
`, 2064 + 8224 + 8448 + 514 + 257 + 961 + 1},
		{nntest.WithPolicy(nntest.ActorCritic(env.ObsSpec{Shape: []int{3}}, 0, nn.Trunk{Arch: "mlp", Hidden: []int{5}}), nil, 2), `mlp_extractor.shared_net.0.weight [5 3]
mlp_extractor.shared_net.0.bias [5]
action_net.weight [2 5]
action_net.bias [2]
value_net.weight [1 5]
value_net.bias [1]
log_std [2]
`, 20 + 12 + 6 + 2},
		// torch's names for a Sequential with a norm after every layer.
		{nntest.WithNorm(nntest.Atari(), "layer_all"), `features_extractor.cnn.0.weight [32 4 8 8]
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
		{nntest.WithNorm(nntest.ActorCritic(env.ObsSpec{Shape: []int{2, 24, 20}}, 3, nn.Trunk{Arch: "small_cnn"}), "layer_channels"), `features_extractor.cnn.0.weight [16 2 8 8]
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
		{nntest.WithNorm(nntest.QSpec(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, nn.Trunk{Arch: "mlp", Hidden: []int{9, 8}}), "layer_all"), `q_net.0.weight [9 4]
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
		// The names of sb3-contrib's QRDQN; atoms keep those of DQN.
		{withHead(nn.Head{Quantiles: 5}, 9), `quantile_net.0.weight [9 4]
quantile_net.0.bias [9]
quantile_net.2.weight [10 9]
quantile_net.2.bias [10]
`, 45 + 100},
		{withHead(nn.Head{Atoms: 3, Max: 1}, 9), `q_net.0.weight [9 4]
q_net.0.bias [9]
q_net.2.weight [6 9]
q_net.2.bias [6]
`, 45 + 60},
		// The streams of a dueling head have copies of the last layer: with atoms, with a norm, with
		// convolutions, and of nothing.
		{withHead(nn.Head{Atoms: 3, Max: 1, Dueling: true}, 9, 8), `q_net.0.weight [9 4]
q_net.0.bias [9]
q_net.value.0.weight [8 9]
q_net.value.0.bias [8]
q_net.value.2.weight [3 8]
q_net.value.2.bias [3]
q_net.advantage.0.weight [8 9]
q_net.advantage.0.bias [8]
q_net.advantage.2.weight [6 8]
q_net.advantage.2.bias [6]
`, 45 + 80 + 27 + 80 + 54},
		{nntest.WithNorm(withHead(nn.Head{Quantiles: 2, Dueling: true}, 9), "layer_all"), `quantile_net.value.0.weight [9 4]
quantile_net.value.0.bias [9]
quantile_net.value.1.weight [9]
quantile_net.value.1.bias [9]
quantile_net.value.3.weight [2 9]
quantile_net.value.3.bias [2]
quantile_net.advantage.0.weight [9 4]
quantile_net.advantage.0.bias [9]
quantile_net.advantage.1.weight [9]
quantile_net.advantage.1.bias [9]
quantile_net.advantage.3.weight [4 9]
quantile_net.advantage.3.bias [4]
`, 63 + 20 + 63 + 40},
		{dueling(nntest.QSpec(env.ObsSpec{Shape: []int{3, 36, 28}}, 2, nn.Trunk{Arch: "small_cnn"})), `features_extractor.cnn.0.weight [16 3 8 8]
features_extractor.cnn.0.bias [16]
features_extractor.cnn.2.weight [32 16 4 4]
features_extractor.cnn.2.bias [32]
q_net.value.0.weight [256 192]
q_net.value.0.bias [256]
q_net.value.2.weight [1 256]
q_net.value.2.bias [1]
q_net.advantage.0.weight [256 192]
q_net.advantage.0.bias [256]
q_net.advantage.2.weight [2 256]
q_net.advantage.2.bias [2]
`, 3088 + 8224 + 2*49408 + 257 + 514},
		{withHead(nn.Head{Cosines: 6, Taus: 3}, 9, 8), `quantile_net.0.weight [9 4]
quantile_net.0.bias [9]
quantile_net.embedding.weight [9 6]
quantile_net.embedding.bias [9]
quantile_net.2.weight [8 9]
quantile_net.2.bias [8]
quantile_net.4.weight [2 8]
quantile_net.4.bias [2]
`, 45 + 63 + 80 + 18},
		{withTaus(nntest.QSpec(env.ObsSpec{Shape: []int{3, 36, 28}}, 2, nn.Trunk{Arch: "small_cnn"})), `features_extractor.cnn.0.weight [16 3 8 8]
features_extractor.cnn.0.bias [16]
features_extractor.cnn.2.weight [32 16 4 4]
features_extractor.cnn.2.bias [32]
quantile_net.embedding.weight [192 6]
quantile_net.embedding.bias [192]
quantile_net.0.weight [256 192]
quantile_net.0.bias [256]
quantile_net.2.weight [2 256]
quantile_net.2.bias [2]
`, 3088 + 8224 + 1344 + 49408 + 514},
		{withHead(nn.Head{Dueling: true}), `q_net.value.0.weight [1 4]
q_net.value.0.bias [1]
q_net.advantage.0.weight [2 4]
q_net.advantage.0.bias [2]
`, 15},
	} {
		l, err := c.spec.Layout()
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		at := 0
		for _, p := range l.Params {
			fmt.Fprintf(&got, "%s %v\n", p.Name, p.Shape)
			if p.Offset != at || p.Size != nn.Elements(p.Shape) {
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

// TensorFlow's padding SAME keeps the borders of images: 84x84 becomes 21x21, 11x11 and 11x11.
func TestLayersOfDopaminesNetwork(t *testing.T) {
	s := nntest.QSpec(env.ObsSpec{Shape: []int{4, 84, 84}}, 6, nn.Trunk{Arch: "dopamine_cnn"})
	layers, err := s.Layers()
	if err != nil || len(layers) != 5 {
		t.Fatal(layers, err)
	}
	for k, want := range [][3]int{{32, 21, 21}, {64, 11, 11}, {64, 11, 11}} {
		c := layers[k].Conv
		if got := [3]int{c.OutC, c.OutH(), c.OutW()}; got != want || layers[k].Out != want[0]*want[1]*want[2] {
			t.Errorf("convolution %d: %v, %d numbers, want %v", k, got, layers[k].Out, want)
		}
	}
	if features := layers[3]; features.In != 7744 || features.Out != 512 || layers[4].In != 512 {
		t.Errorf("dense layers: %+v, %+v", features, layers[4])
	}
}

func TestParamsAreCopiedReadAndWritten(t *testing.T) {
	s := nntest.SmallMLP()
	p := nntest.Init(t, s, 1)
	p.Updates = 7
	part := p.Layout.Params[3]
	v := nntest.Named(p, part.Name)
	v[0] = 42
	if p.Host()[part.Offset] != 42 || len(v) != part.Size || cap(v) != part.Size {
		t.Error("a view must be exactly the piece")
	}
	q := nn.NewParams(p.Layout)
	q.CopyFrom(p)
	if !slices.Equal(q.Host(), p.Host()) || q.Updates != 7 {
		t.Error("CopyFrom: not equal")
	}
	q = nntest.Init(t, s, 2)
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
	q = nn.NewParams(p.Layout)
	for i, piece := range p.Tensors() {
		copy(q.Tensors()[i].Data, piece.Data)
	}
	if !slices.Equal(q.Host(), p.Host()) {
		t.Error("Tensors: not views of all parameters")
	}
	var file bytes.Buffer
	if err := nn.WriteTensors(&file, p.Tensors()); err != nil {
		t.Fatal(err)
	}
	if q, err := nn.ReadParams(&file, int64(file.Len()), p.Layout); err != nil || !slices.Equal(q.Host(), p.Host()) {
		t.Errorf("ReadParams: %v", err)
	}
}
