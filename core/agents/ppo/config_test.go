package ppo

import (
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// The defaults are those of Stable-Baselines3's PPO.
func TestDefaultsEqualStableBaselines3(t *testing.T) {
	cfg := must(train.NewConfig("ppo"))(t)
	for name, want := range map[string]string{
		"policy": "auto", "learning_rate": "0.0003", "n_steps": "2048", "batch_size": "64", "n_epochs": "10", "gamma": "0.99",
		"gae_lambda": "0.95", "clip_range": "0.2", "clip_range_schedule": "", "clip_range_vf": "", "clip_range_vf_schedule": "",
		"clip_range_vf_largest": "false", "normalize_advantage": "true", "ent_coef": "0", "vf_coef": "0.5", "max_grad_norm": "0.5",
		"target_kl": "", "target_kl_check": "minibatch", "use_rms_prop": "false", "adam_eps": "1e-05",
		"net_arch_pi": "64,64", "net_arch_vf": "64,64", "activation_fn": "tanh", "ortho_init": "true", "learning_rate_final": "",
	} {
		if got := must(cfg.Get(name))(t); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Every preset runs without a notice, and has as many updates as its source.
func TestPresetsHaveTheUpdatesOfTheirSources(t *testing.T) {
	updates := map[string]int{"fast": 3 * 8, "sb3": 10 * 256, "cleanrl": 4 * 4, "stooke_abbeel": 4 * 4}
	for _, p := range Settings.Presets() {
		envs := p.Envs
		if envs == nil {
			envs = []string{"CartPole-v1", "atari/pong"}
		}
		for _, id := range envs {
			cfg := must(train.NewConfig("ppo"))(t)
			check(t, cfg.Preset(p.Name, id))
			c := cfg.Struct().(*Config)
			if notices, err := c.Resolve(); err != nil || notices != nil {
				t.Errorf("%s for %s: %v, %v", p.Name, id, notices, err)
			}
			run, err := c.run(&train.Setup{Spec: (&traintest.Walk{}).Spec()})
			if c.Policy != train.PolicyCNN {
				check(t, err)
			}
			if want := updates[p.Name]; want != 0 && run.Minibatches != want {
				t.Errorf("%s for %s: %d updates a rollout, want %d", p.Name, id, run.Minibatches, want)
			}
		}
	}
	cfg := must(train.NewConfig("ppo"))(t)
	check(t, cfg.Preset("stooke_abbeel", "atari/pong"))
	if got := must(cfg.Get("env_options"))(t); got != `{"recipe": "stooke_abbeel", "decorrelation_steps": 2000}` {
		t.Errorf("env_options: %q", got)
	}
}

func TestBadSettingsAreRefusedOrNoticed(t *testing.T) {
	settings := func(edit func(*Config)) *Config {
		c := *Settings.Defaults().Struct().(*Config)
		c.NumEnvs, c.NSteps = 4, 16
		edit(&c)
		return &c
	}
	for _, c := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.NSteps = 0 }, "n_steps: 0, must be 1 to 65536"},
		{func(c *Config) { c.NumEnvs, c.NSteps = 1000, 66 }, "n_steps: 66, must be at most 65 with num_envs 1000: n_steps * num_envs rows are one rollout of up to 65536"},
		{func(c *Config) { c.NumEnvs, c.NSteps = 1, 1 }, "n_steps: 1, must be more with num_envs 1 and normalize_advantage: one advantage has no deviation"},
		{func(c *Config) { c.BatchSize = 1 }, "batch_size: 1, must be more with normalize_advantage: one advantage has no deviation"},
		{func(c *Config) { c.NEpochs = 1001 }, "n_epochs: 1001, must be 1 to 1000"},
		{func(c *Config) { c.ClipRange = -0.1 }, "clip_range: -0.1, must be 0 to 1e+06"},
		{func(c *Config) { c.TargetKLCheck = "never" }, `target_kl_check: "never", must be minibatch, epoch`},
	} {
		if _, err := settings(c.edit).Resolve(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, c := range []struct {
		batch int
		want  []string
	}{
		{64, nil}, {2, nil},
		{63, []string{"batch_size: 63 does not divide n_steps * num_envs (64); every epoch ends with a minibatch of 1 steps"}},
		{30, []string{"batch_size: 30 does not divide n_steps * num_envs (64); every epoch ends with a minibatch of 4 steps"}},
		{65, []string{"batch_size: 65 is more than n_steps * num_envs; minibatches are whole rollouts of 64 steps"}},
	} {
		cfg := settings(func(c *Config) { c.BatchSize = c.NSteps * c.NumEnvs })
		cfg.BatchSize = c.batch
		if notices := must(cfg.Resolve())(t); !slices.Equal(notices, c.want) {
			t.Errorf("batch_size %d: %q, want %q", c.batch, notices, c.want)
		}
	}
}

func TestUnusedSettingsAreNoticed(t *testing.T) {
	traintest.Notices(t, "ppo", traintest.ActorCriticNotices)
	traintest.Notices(t, "ppo", [][2][]string{
		{{"use_rms_prop", "true", "adam_eps", "0.1"}, {"adam_eps: 0.1 is not used where use_rms_prop is true"}},
		{{"use_rms_prop", "true", "rms_prop_eps", "0.1"}, nil},
		{{"use_rms_prop", "false", "adam_eps", "0.1"}, nil},
		{{"vtrace", "true", "vtrace_rho", "0.1"}, nil},
		{{"clip_range_vf_largest", "true"}, {"clip_range_vf_largest: true is not used where clip_range_vf is empty"}},
		{{"clip_range_vf_largest", "true", "clip_range_vf", "0.2"}, nil},
		{{"clip_range_vf_largest", "true", "clip_range_vf_schedule", "0:0.2,1:0"}, nil},
	})
}
