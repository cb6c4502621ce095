package nntest

import (
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// withHead returns a network on vectors with one head.
func withHead(h nn.Head) nn.Spec {
	return nn.Spec{Obs: env.ObsSpec{DType: env.Float32, Shape: []int{4}}, Trunks: []nn.Trunk{{Arch: "mlp"}}, Heads: []nn.Head{h}}
}

func (on *suite) testImpossibleSpecs(t *testing.T) {
	f32 := func(shape ...int) env.ObsSpec { return env.ObsSpec{DType: env.Float32, Shape: shape} }
	u8 := func(shape ...int) env.ObsSpec { return env.ObsSpec{Shape: shape} }
	for _, c := range []struct {
		spec nn.Spec
		want string
	}{
		{QSpec(u8(4, 84, 84), 1, nn.Trunk{Arch: "cnn"}), `arch: "cnn", must be "nature_cnn", "small_cnn", "cule_cnn", "ga3c_1_cnn" to "ga3c_4_cnn", "minatar_cnn", "dopamine_cnn", "der_cnn" or "mlp"`},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", Norm: "layer"}), `norm: "layer", must be "", "layer_channels" or "layer_all"`},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", Norm: "layer_all", NormEps: -1e-5}), "norm_eps: -1e-05, must be above 0 and at most 1, or 0 for norm's own; 0 without norm"},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", Norm: "layer_all", NormEps: math.NaN()}), "norm_eps: NaN, must be above 0 and at most 1, or 0 for norm's own; 0 without norm"},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", Norm: "layer_all", NormEps: 1e-60}), "norm_eps: 1e-60, must be above 0 and at most 1, or 0 for norm's own; 0 without norm"},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", NormEps: 1e-5}), "norm_eps: 1e-05, must be above 0 and at most 1, or 0 for norm's own; 0 without norm"},
		{QSpec(f32(4), 0, nn.Trunk{Arch: "mlp"}), "heads[0].out: 0, must be 1 to 65536"},
		{QSpec(f32(4), 65537, nn.Trunk{Arch: "mlp"}), "heads[0].out: 65537, must be 1 to 65536"},
		{QSpec(f32(), 1, nn.Trunk{Arch: "mlp"}), "obs.shape: [], must have at least one axis"},
		{QSpec(f32(4, 0), 1, nn.Trunk{Arch: "mlp"}), "obs.shape: [4 0], axes must be at least 1 and the product at most 268435456"},
		{QSpec(f32(1<<20, 1<<20, 1<<40), 1, nn.Trunk{Arch: "mlp"}), "obs.shape: [1048576 1048576 1099511627776], axes must be"},
		{QSpec(f32(1<<27), 1, nn.Trunk{Arch: "mlp"}), "hidden[0]: 64, must be 1 to 2 after a layer of 134217728"},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", Hidden: []int{8, 0}}), "hidden[1]: 0, must be 1 to "},
		{ActorCritic(f32(4), 1, nn.Trunk{Arch: "mlp"}, nn.Trunk{Arch: "mlp", Hidden: []int{8, 0}}), "trunks[1].hidden[1]: 0, must be 1 to "},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", Hidden: []int{1 << 14, 1 << 14, 1 << 14}}), "hidden: [16384 16384 16384]: more than 268435456 parameters"},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", Hidden: []int{12_000, 12_000}, Noisy: 0.5}), "hidden: [12000 12000]: more than 268435456 parameters"}, // with sigmas
		{QSpec(f32(4, 84, 84), 1, nn.Trunk{Arch: "nature_cnn"}), "obs.dtype: float32, must be uint8 for nature_cnn"},
		{QSpec(u8(84, 84), 1, nn.Trunk{Arch: "nature_cnn"}), "obs.shape: [84 84], must be [channels, height, width] of at least 36x36 for nature_cnn"},
		{QSpec(u8(1, 36, 35), 1, nn.Trunk{Arch: "nature_cnn"}), "obs.shape: [1 36 35], must be [channels, height, width] of at least 36x36 for nature_cnn; the cnn \"minatar\" takes 5x5"},
		{QSpec(u8(1, 20, 19), 1, nn.Trunk{Arch: "small_cnn"}), "obs.shape: [1 20 19], must be [channels, height, width] of at least 20x20 for small_cnn"},
		{QSpec(u8(4, 4, 10), 1, nn.Trunk{Arch: "minatar_cnn"}), "obs.shape: [4 4 10], must be [channels, height, width] of at least 5x5 for minatar_cnn"},
		{QSpec(u8(1, 10, 7), 1, nn.Trunk{Arch: "dopamine_cnn"}), "obs.shape: [1 10 7], must be [channels, height, width] of at least 8x8 for dopamine_cnn"},
		{QSpec(u8(1, 24, 25), 1, nn.Trunk{Arch: "der_cnn"}), "obs.shape: [1 24 25], must be [channels, height, width] of at least 25x25 for der_cnn"},
		{QSpec(u8(84, 84, 4), 1, nn.Trunk{Arch: "nature_cnn"}), "obs.shape: [84 84 4], must be [channels, height, width] of at least 36x36 for nature_cnn"},
		{QSpec(u8(4, 1<<13, 1<<13), 1, nn.Trunk{Arch: "nature_cnn"}), "obs.shape: [4 8192 8192]: more than 268435456 parameters"},
		{QSpec(u8(4, 84, 84), 1, nn.Trunk{Arch: "nature_cnn", Hidden: []int{64}}), "hidden: [64], must be empty for nature_cnn"},
		{QSpec(u8(4, 84, 84), 1, nn.Trunk{Arch: "small_cnn", Activation: "tanh"}), `activation: "tanh", must be "relu", or "tanh" for mlp`},
		{ActorCritic(f32(4), 1, nn.Trunk{Arch: "mlp"}, nn.Trunk{Arch: "mlp", Activation: "elu"}), `trunks[1].activation: "elu", must be`},
		{nn.Spec{Obs: f32(4)}, "network: 0 trunks and 0 heads, must be at least one each"},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 2), Heads: []nn.Head{{Name: "q", Out: 1, Trunk: 1}}}, "trunks[0]: no head is on it"},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 1), Heads: []nn.Head{{Name: "q", Out: 1}, {Name: "q", Out: 1}}}, `heads[1].name: "q", must not be empty and not that of another head`},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 1), Heads: []nn.Head{{Name: "q", Out: 1}, {Name: "v", Out: 1, Trunk: 1}}}, "heads[1].trunk: 1, must be 0 to 0"},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 1), Heads: []nn.Head{{Name: "q", Out: 1, Gain: -1}}}, "heads[0].gain: -1, must be 0 to 1e6"},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 1), Heads: make([]nn.Head, 1), Init: "zeros"}, `init: "zeros", must be "uniform", "orthogonal", "he_normal", "xavier_uniform" or "variance_scaling"`},
		{withHead(nn.Head{Name: "q", Out: 2, Cosines: 4}), "heads[0].cosines: 4 and taus: 0, must be 1 to 1024, or both 0 for none"},
		{withHead(nn.Head{Name: "q", Out: 2, Taus: 4}), "heads[0].cosines: 0 and taus: 4, must be 1 to 1024, or both 0 for none"},
		{withHead(nn.Head{Name: "q", Out: 2, Cosines: 4, Taus: 1025}), "heads[0].cosines: 4 and taus: 1025, must be 1 to 1024, or both 0 for none"},
		{withHead(nn.Head{Name: "q", Out: 2, Cosines: 4, Taus: 4, Quantiles: 3}), "heads[0].cosines: 4, must be 0 for a head with atoms or quantiles"},
		{withHead(nn.Head{Name: "pi", Out: 2, Cosines: 4, Taus: 4}), `heads[0].cosines: 4, must be 0 for a head "pi"`},
		{withHead(nn.Head{Name: "q", Out: 4096, Cosines: 4, Taus: 17}), "heads[0].out: 4096, of 17 numbers each, must be at most 65536 numbers"},
		{WithNorm(withHead(nn.Head{Name: "q", Out: 2, Cosines: 4, Taus: 4}), "layer_all"), "heads[0].cosines: 4, must be 0 on a trunk with a normalisation"},
		{nn.Spec{Obs: f32(4), Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{8}}}, Heads: []nn.Head{{Name: "q", Out: 2, Cosines: 4, Taus: 4}}}, "heads[0].cosines: 4, must be 0 on a trunk of fewer than two layers"},
		{nn.Spec{Obs: f32(4), Trunks: []nn.Trunk{{Arch: "mlp"}}, Heads: []nn.Head{{Name: "q", Out: 2, Cosines: 4, Taus: 4}, {Name: "v", Out: 1}}}, "heads[0].cosines: 4, must be 0 on a trunk with other heads"},
		{WithPolicy(TwoMLPs(), []int32{3, 0, 2}, 1), "heads[0].branches[1]: 0, must be 1 to 65536"},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 1), Heads: []nn.Head{{Name: "pi", Out: 4, Branches: []int32{2, 3}}}}, "heads[0].branches: [2 3], must add up to 4 outputs"},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 1), Heads: []nn.Head{{Name: "pi", Out: 4, Branches: []int32{}}}}, "heads[0].branches: [], must add up to 4 outputs"},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 1), Heads: []nn.Head{{Name: "q", Out: 4, Branches: []int32{4}}}}, `heads[0].branches: [4], must be nil for a head "q"`},
		{nn.Spec{Obs: f32(4), Trunks: make([]nn.Trunk, 1), Heads: []nn.Head{{Name: "mu", Out: 4}}, LogStdInit: math.NaN()}, "log_std_init: NaN, must be -20 to 20"},
		{withHead(nn.Head{Name: "q", Out: 2, Atoms: 1, Max: 1}), "heads[0].atoms: 1, must be 2 to 1024, or 0 for none"},
		{withHead(nn.Head{Name: "q", Out: 2, Atoms: 51, Min: 10, Max: -10}), "heads[0].min: 10, must be below max (-10), both -1e9 to 1e9"},
		{withHead(nn.Head{Name: "q", Out: 2, Atoms: 51, Min: math.NaN(), Max: 1}), "heads[0].min: NaN, must be below max (1), both -1e9 to 1e9"},
		{withHead(nn.Head{Name: "q", Out: 2, Quantiles: -1}), "heads[0].quantiles: -1, must be 1 to 1024, or 0 for none"},
		{withHead(nn.Head{Name: "q", Out: 2, Atoms: 51, Max: 1, Quantiles: 3}), "heads[0].quantiles: 3, must be 0 for a head with atoms"},
		{withHead(nn.Head{Name: "q", Out: 2, Max: 1}), "heads[0].min: 0 and max: 1, must be 0 for a head without atoms"},
		{withHead(nn.Head{Name: "v", Out: 1, Quantiles: 3}), `heads[0].atoms: 0 and quantiles: 3, must be 0 for a head "v"`},
		{withHead(nn.Head{Name: "q", Out: 400, Quantiles: 200}), "heads[0].out: 400, of 200 numbers each, must be at most 65536 numbers"},
		{withHead(nn.Head{Name: "q", Out: 2, Rescaled: true}), "heads[0].rescaled: true, must be false for a head that is not dueling"},
		{withHead(nn.Head{Name: "v", Out: 1, Dueling: true}), `heads[0].dueling: true, must be false for a head "v"`},
		{nn.Spec{Obs: f32(4), Trunks: []nn.Trunk{{Arch: "mlp"}}, Heads: []nn.Head{{Name: "q", Out: 2, Dueling: true}, {Name: "v", Out: 1}}}, "heads[0].dueling: true, must be false on a trunk with other heads"},
		{QSpec(f32(4), 1, nn.Trunk{Arch: "mlp", Noisy: -1}), "noisy: -1, must be 1e-6 to 1000, or 0 for none"},
		{ActorCritic(f32(4), 1, nn.Trunk{Arch: "mlp", Noisy: 0.5}), `noisy: 0.5, must be 0 for a network that is not of one head "q"`},
		{nn.Spec{Precision: "fp64"}, `precision: "fp64", must be "fp32", "bf16" or "tf32"`},
	} {
		_, layoutErr := c.spec.Layout()
		_, initErr := c.spec.InitialParams(rng.New(1, "weights", 0))
		_, netErr := on.device(t, 1).Network(c.spec, 1)
		_, learnErr := on.device(t, 1).Learner(c.spec, 1, nn.TD{Kind: "huber", Reduction: "mean"})
		for _, err := range []error{layoutErr, initErr, netErr, learnErr} {
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		}
	}
	for _, smallest := range []nn.Spec{QSpec(u8(1, 36, 36), 1, nn.Trunk{Arch: "nature_cnn"}), QSpec(u8(1, 20, 20), 1, nn.Trunk{Arch: "small_cnn"}),
		QSpec(u8(1, 5, 5), 1, nn.Trunk{Arch: "minatar_cnn"}), QSpec(u8(1, 8, 8), 1, nn.Trunk{Arch: "dopamine_cnn"}),
		QSpec(u8(1, 25, 25), 1, nn.Trunk{Arch: "der_cnn"})} {
		if _, err := smallest.Layout(); err != nil {
			t.Error(err)
		}
	}
}
