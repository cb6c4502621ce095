package dqn

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
)

func TestLayersOfImages(t *testing.T) {
	for _, c := range []struct {
		cnn, distribution, arch, init string
	}{
		{"nature", NoDistribution, "nature_cnn", ""},
		{"small", Categorical, "small_cnn", ""},
		{"minatar", Quantile, "minatar_cnn", ""},
		{DER, Categorical, "der_cnn", ""},
		{Dopamine, NoDistribution, "dopamine_cnn", "xavier_uniform"},
		{Dopamine, Categorical, "dopamine_cnn", "variance_scaling"},
		{Dopamine, Quantile, "dopamine_cnn", "variance_scaling"},
	} {
		cfg := DefaultConfig()
		cfg.Policy, cfg.CNN, cfg.Distribution = train.PolicyCNN, c.cnn, c.distribution
		net := cfg.network(env.Spec{Obs: env.ObsSpec{Shape: []int{4, 84, 84}, High: []float32{255}}, Action: env.ActionSpec{N: 3}})
		if net.Trunks[0].Arch != c.arch || net.Init != c.init || net.RawImages {
			t.Errorf("%s, %s: %s, init %q, raw %v", c.cnn, c.distribution, net.Trunks[0].Arch, net.Init, net.RawImages)
		}
		if err := cfg.checkTrunk(); err != nil {
			t.Error(err)
		}
		cfg.Distribution = NoDistribution
		if given, _ := cfg.OnlyCPU(train.PolicyCNN); (given != "") != (c.cnn == Dopamine || c.cnn == DER) {
			t.Errorf("%s: only the CPU computes %q", c.cnn, given)
		}
		if given, _ := cfg.OnlyCPU(train.PolicyMLP); given != "" {
			t.Errorf("%s with MlpPolicy: only the CPU computes %q", c.cnn, given)
		}
	}
}

// Planes of 0 and 1 reach the network as they are.
func TestPlanesAreNotDivided(t *testing.T) {
	cfg := DefaultConfig()
	for high, raw := range map[float32]bool{1: true, 2: false, 255: false} {
		obs := env.ObsSpec{Shape: []int{4, 10, 10}, Low: []float32{0}, High: []float32{high}}
		if net := cfg.network(env.Spec{Obs: obs, Action: env.ActionSpec{N: 3}}); net.RawImages != raw {
			t.Errorf("images up to %v: raw %v", high, net.RawImages)
		}
	}
}

func TestSmallImagesTrain(t *testing.T) {
	d := newDQN(t, cartpole(func(c *Config) { c.Env, c.Policy, c.CNN = "Mini-Breakout-v0", train.PolicyCNN, "minatar" }))
	check(t, d.Run(200, 0))
	if s := d.Stats(); s.Updates == 0 {
		t.Errorf("%+v", s)
	}
	_, err := newTrial(cartpole(func(c *Config) { c.Env, c.Policy = "Mini-Breakout-v0", train.PolicyCNN }), nil)
	if err == nil || !strings.Contains(err.Error(), "of at least 36x36 for nature_cnn") {
		t.Errorf("%v", err)
	}
}
