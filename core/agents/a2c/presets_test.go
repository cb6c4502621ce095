package a2c

import (
	"testing"

	"github.com/paceline-rl/paceline/core/train/traintest"
)

// Settings that differ from the defaults, which are Stable-Baselines3's
// (TestDefaultsEqualStableBaselines3).
func TestPresetsHaveTheValuesOfTheirSources(t *testing.T) {
	// CuLE's examples/vtrace uses the arguments of Dalton et al. 2020, section 5.2. Windows: 120
	// environments, N = 20, 20 groups, SPU 1, 400 random steps at the start. RMSProp: lr 6.5e-4,
	// alpha .99, eps 1e-5 outside the root, gradient clip .5. Loss: value .5 x mean err^2, entropy
	// .01. Network: convolutions of 32, 64 and 32 outputs and a layer of 512.
	cule := map[string]string{
		"num_envs": "120", "n_steps": "20", "vtrace": "true", "vtrace_groups": "20", "vtrace_steps": "1", "vtrace_rho": "1", "vtrace_c": "1",
		"use_rms_prop": "true", "learning_rate": "0.00065", "rms_prop_alpha": "0.99", "rms_prop_eps": "1e-05", "rms_prop_eps_inside": "false",
		"ent_coef": "0.01", "vf_coef": "0.5", "max_grad_norm": "0.5", "gae_lambda": "1", "policy": "CnnPolicy", "cnn": "cule",
	}
	// accel_rl at d1de8ee has a horizon of 5; the paper has 16 environments. RMSProp: lr 7e-4, rho
	// .9, eps 1e-6 inside the root, gradient clip .5. Loss: value .25 x err^2 without a half,
	// entropy .01. Advantages: lambda 1, not normalised. Network: convolutions of 16 and 32 outputs
	// and a layer of 256.
	stookeAbbeel := map[string]string{
		"num_envs": "16", "n_steps": "5", "use_rms_prop": "true", "learning_rate": "0.0007", "learning_rate_final": "",
		"rms_prop_alpha": "0.9", "rms_prop_eps": "1e-06", "rms_prop_eps_inside": "true", "rms_prop_first": "0",
		"max_grad_norm": "0.5", "vf_coef": "0.25", "ent_coef": "0.01", "normalize_advantage": "false", "gae_lambda": "1",
		"policy": "CnnPolicy", "cnn": "small",
	}
	sb3 := map[string]string{"num_envs": "8"} // Stable-Baselines3 has no default
	traintest.Presets(t, "a2c", map[string]map[string]string{
		"sb3 CartPole-v1":              sb3,
		"sb3 atari/breakout":           sb3,
		"cule CartPole-v1":             cule,
		"cule atari/breakout":          traintest.With(cule, map[string]string{"env_options": `{"decorrelation_steps": 400}`}),
		"stooke_abbeel CartPole-v1":    stookeAbbeel,
		"stooke_abbeel atari/breakout": traintest.With(stookeAbbeel, map[string]string{"env_options": `{"recipe": "stooke_abbeel", "decorrelation_steps": 2000}`}),
		// Our own values: see presets.go.
		"tuned CartPole-v1": {"num_envs": "8", "n_steps": "32", "gamma": "0.98", "gae_lambda": "0.95", "normalize_advantage": "true",
			"learning_rate": "0.003", "learning_rate_final": "0"},
		"tuned Catch-v0": {"num_envs": "8", "policy": "CnnPolicy", "n_steps": "8", "ent_coef": "0.01", "learning_rate": "0.0015", "learning_rate_final": "0"},
	})
}
