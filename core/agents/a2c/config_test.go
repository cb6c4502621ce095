package a2c

import (
	"fmt"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// The defaults are those of Stable-Baselines3's A2C.
func TestDefaultsEqualStableBaselines3(t *testing.T) {
	cfg := must(train.NewConfig("a2c"))(t)
	for name, want := range map[string]string{
		"policy": "auto", "learning_rate": "0.0007", "n_steps": "5", "gamma": "0.99", "gae_lambda": "1", "ent_coef": "0",
		"vf_coef": "0.5", "max_grad_norm": "0.5", "rms_prop_eps": "1e-05", "use_rms_prop": "true", "normalize_advantage": "false",
		"rms_prop_alpha": "0.99", "rms_prop_eps_inside": "false", "rms_prop_first": "0", "adam_eps": "1e-05",
		"net_arch_pi": "64,64", "net_arch_vf": "64,64", "activation_fn": "tanh", "ortho_init": "true", "learning_rate_final": "",
	} {
		if got := must(cfg.Get(name))(t); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestPresetsResolve(t *testing.T) {
	traintest.PresetsResolve(t, "a2c")
	cfg := must(train.NewConfig("a2c"))(t)
	check(t, cfg.Preset("stooke_abbeel", "atari/pong"))
	if got := must(cfg.Get("env_options"))(t); got != `{"recipe": "stooke_abbeel", "decorrelation_steps": 2000}` {
		t.Errorf("env_options: %q", got)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.NSteps = 0 }, "n_steps: 0, must be 1 to 65536"},
		{func(c *Config) { c.NumEnvs, c.NSteps = 1000, 66 }, "n_steps: 66, must be at most 65 with num_envs 1000: n_steps * num_envs rows are one rollout of up to 65536"},
		{func(c *Config) { c.NumEnvs, c.NSteps, c.NormalizeAdvantage = 1, 1, true }, "n_steps: 1, must be more with num_envs 1 and normalize_advantage: one advantage has no deviation"},
		{func(c *Config) { c.GAELambda = 1.1 }, "gae_lambda: 1.1, must be 0 to 1"},
		{func(c *Config) { c.CNN = "resnet" }, `cnn: "resnet", must be nature, small, cule, minatar, ga3c_1, ga3c_2, ga3c_3, ga3c_4`},
		{func(c *Config) { c.RMSPropFirst = 2 }, "rms_prop_first: 2, must be 0 to 1"},
	} {
		cfg := small(c.edit)
		if _, err := cfg.Resolve(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	cfg := small(func(c *Config) { c.Policy, c.Trunk, c.NetArchVf = "MlpPolicy", "shared", []int{4} })
	if _, err := cfg.Network(&cfg.Common, (&traintest.Walk{}).Spec()); err == nil || err.Error() != "net_arch_vf: [4], must be net_arch_pi ([8]) where trunk is shared" {
		t.Error(err)
	}
}

// A GPU that the caller names is refused before it is opened, if it has no kernels for the cnn.
func TestGPURefusesTheStridesOfGA3C(t *testing.T) {
	for _, cnn := range []string{"ga3c_1", "ga3c_2", "ga3c_3"} {
		c := small(func(c *Config) { c.Policy, c.CNN = train.PolicyCNN, cnn })
		if given, must := c.OnlyCPU(c.Policy); given != "cnn: "+cnn || must != "another" {
			t.Errorf("%q, %q", given, must)
		}
		if given, _ := c.OnlyCPU(train.PolicyMLP); given != "" { // cnn is not used
			t.Errorf("%q", given)
		}
	}
	for _, cnn := range []string{"nature", "ga3c_4"} {
		c := small(func(c *Config) { c.Policy, c.CNN = train.PolicyCNN, cnn })
		if given, _ := c.OnlyCPU(c.Policy); given != "" {
			t.Errorf("%q", given)
		}
	}
}

// Stable-Baselines3's MlpPolicy has two trunks, its CnnPolicy one.
func TestNetworksEqualStableBaselines3(t *testing.T) {
	image := env.Spec{Obs: env.ObsSpec{Shape: []int{4, 84, 84}}, Action: env.ActionSpec{N: 6}}
	for _, c := range []struct {
		spec env.Spec
		edit func(*Config)
		want string // the trunks, and the heads with trunk and gain
	}{
		{(&traintest.Walk{}).Spec(), func(*Config) {}, "mlp[8]tanh mlp[8]tanh pi 3@0*0.01 v 1@1*1"},
		{(&traintest.Walk{}).Spec(), func(c *Config) { c.Trunk, c.ActivationFn = "shared", "relu" }, "mlp[8]relu pi 3@0*0.01 v 1@0*1"},
		{(&traintest.Walk{}).Spec(), func(c *Config) { c.NetArchPi, c.NetArchVf, c.OrthoInit = nil, []int{5, 4}, false }, "mlp[]tanh mlp[5 4]tanh pi 3@0*0 v 1@1*0"},
		{image, func(c *Config) { c.Policy = "CnnPolicy" }, "nature_cnn[] pi 6@0*0.01 v 1@0*1"},
		{image, func(c *Config) { c.Policy, c.CNN, c.Trunk = "CnnPolicy", "small", "separate" }, "small_cnn[] small_cnn[] pi 6@0*0.01 v 1@1*1"},
		{image, func(c *Config) { c.Policy = "MlpPolicy" }, "mlp[8]tanh mlp[8]tanh pi 6@0*0.01 v 1@1*1"},
	} {
		cfg := small(c.edit)
		net := must(cfg.Network(&cfg.Common, c.spec))(t)
		got := ""
		for _, x := range net.Trunks {
			got += fmt.Sprintf("%s%v%s ", x.Arch, x.Hidden, x.Activation)
		}
		for _, h := range net.Heads {
			got += fmt.Sprintf("%s %d@%d*%g ", h.Name, h.Out, h.Trunk, h.Gain)
		}
		if got != c.want+" " {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if !slices.Contains(train.Methods(), "a2c") {
		t.Error("a2c is not registered")
	}
}

func TestUnusedSettingsAreNoticed(t *testing.T) {
	traintest.Notices(t, "a2c", traintest.ActorCriticNotices)
	traintest.Notices(t, "a2c", [][2][]string{
		{{"use_rms_prop", "true", "adam_eps", "0.1"}, {"adam_eps: 0.1 is not used where use_rms_prop is true"}},
		{{"use_rms_prop", "true", "rms_prop_eps", "0.1"}, nil},
		{{"use_rms_prop", "false", "adam_eps", "0.1"}, nil},
		{{"num_envs", "4", "n_steps", "4", "vtrace_groups", "2", "vtrace_steps", "2"}, {"vtrace_groups: 2 is not used where vtrace is false", "vtrace_steps: 2 is not used where vtrace is false"}},
		{{"num_envs", "4", "n_steps", "4", "vtrace_groups", "2", "vtrace_steps", "2", "vtrace", "true"}, nil},
	})
}
