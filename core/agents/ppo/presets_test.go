package ppo

import (
	"testing"

	"github.com/paceline-rl/paceline/core/train/traintest"
)

// Settings that differ from the defaults, which are Stable-Baselines3's
// (TestDefaultsEqualStableBaselines3).
func TestPresetsHaveTheValuesOfTheirSources(t *testing.T) {
	// CleanRL's ppo.py has 4 environments x 128 steps and 4 epochs x 4 minibatches. Adam: lr 2.5e-4
	// to 0, eps 1e-5, gradient clip .5. Loss: clip .2 of ratios and values (the larger error),
	// value 1/2 x .5, entropy .01. Advantages: lambda .95, normalised in each minibatch. target_kl
	// is checked after an epoch. Network: two trunks of 64-64 Tanh, orthogonal weights (sqrt 2,
	// .01, 1).
	cleanRL := map[string]string{
		"num_envs": "4", "n_steps": "128", "learning_rate": "0.00025", "learning_rate_final": "0", "use_rms_prop": "false", "adam_eps": "1e-05",
		"n_epochs": "4", "batch_size": "128", "clip_range": "0.2", "clip_range_schedule": "", "clip_range_vf": "0.2", "clip_range_vf_largest": "true",
		"vf_coef": "0.25", "ent_coef": "0.01", "gae_lambda": "0.95", "gamma": "0.99", "max_grad_norm": "0.5", "normalize_advantage": "true",
		"target_kl": "", "target_kl_check": "epoch", "net_arch_pi": "64,64", "net_arch_vf": "64,64", "activation_fn": "tanh", "ortho_init": "true",
	}
	// Its ppo_atari.py: 8 environments, clip .1, one Nature trunk, EpisodicLifeEnv.
	games := map[string]string{
		"num_envs": "8", "batch_size": "256", "clip_range": "0.1", "clip_range_vf": "0.1", "policy": "CnnPolicy", "cnn": "nature",
		"env_options": `{"episodic_life": true}`,
	}
	// accel_rl at d1de8ee has 8 simulators x 256 steps and 4 epochs of minibatches of 512. Adam: lr
	// 1e-3, eps 1e-5. Loss: value 1.0 x err^2, no clipping of values and gradients. Ratios: clip .2
	// times the learning rate's multiplier, which falls to 0. Advantages: lambda .95, not
	// normalised.
	stookeAbbeel := map[string]string{
		"num_envs": "8", "n_steps": "256", "learning_rate": "0.001", "learning_rate_final": "0", "adam_eps": "1e-05", "n_epochs": "4", "batch_size": "512",
		"clip_range_schedule": "0:0.2,1:0", "clip_range_vf": "", "gae_lambda": "0.95", "vf_coef": "1", "max_grad_norm": "0", "normalize_advantage": "false",
		"ent_coef": "0.01", "policy": "CnnPolicy", "cnn": "nature",
	}
	sb3 := map[string]string{"num_envs": "8"} // Stable-Baselines3 has no default
	// Our own values, here and in tuned: see presets.go.
	fast := map[string]string{
		"num_envs": "16", "n_steps": "128", "precision": "bf16", "policy": "CnnPolicy", "cnn": "nature", "learning_rate": "0.0005", "learning_rate_final": "0.00015",
		"batch_size": "256", "n_epochs": "3", "clip_range_schedule": "0:0.2,1:0.05", "ent_coef": "0.01",
	}
	traintest.Presets(t, "ppo", map[string]map[string]string{
		"sb3 CartPole-v1":              sb3,
		"sb3 atari/breakout":           sb3,
		"cleanrl CartPole-v1":          cleanRL,
		"cleanrl atari/breakout":       traintest.With(cleanRL, games),
		"stooke_abbeel CartPole-v1":    stookeAbbeel,
		"stooke_abbeel atari/breakout": traintest.With(stookeAbbeel, map[string]string{"env_options": `{"recipe": "stooke_abbeel", "decorrelation_steps": 2000}`}),
		"fast CartPole-v1":             fast,
		"fast atari/breakout":          fast,
		"tuned CartPole-v1": {"num_envs": "8", "n_steps": "32", "batch_size": "256", "n_epochs": "20", "gamma": "0.98", "gae_lambda": "0.8",
			"learning_rate": "0.001", "learning_rate_final": "0", "clip_range_schedule": "0:0.2,1:0"},
		"tuned Catch-v0": {"num_envs": "8", "policy": "CnnPolicy", "cnn": "small", "n_steps": "32", "batch_size": "64", "n_epochs": "4", "ent_coef": "0.01",
			"learning_rate": "0.0005"},
		"tuned Bricks-v0": {"num_envs": "8", "policy": "CnnPolicy", "n_steps": "32", "batch_size": "64", "n_epochs": "3", "ent_coef": "0.01",
			"learning_rate": "0.001", "learning_rate_final": "0"},
		"tuned Pendulum-v1": {"num_envs": "8", "n_steps": "256", "gamma": "0.95", "learning_rate": "0.001", "learning_rate_final": "0",
			"normalize_reward": "true"},
	})
}
