package ppo

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// sb3 has the defaults of Stable-Baselines3's PPO, with eight environments.
var sb3 = []settings.Row{
	{"num_envs", "8"},
	{"policy", "auto"},
	{"cnn", "nature"},
	{"net_arch_pi", "64,64"},
	{"net_arch_vf", "64,64"},
	{"trunk", onpolicy.TrunkAuto},
	{"activation_fn", "tanh"},
	{"ortho_init", "true"},
	{"learning_rate", "0.0003"},
	{"learning_rate_final", ""},
	{"learning_rate_schedule", ""},
	{"n_steps", "2048"},
	{"batch_size", "64"},
	{"n_epochs", "10"},
	{"gamma", "0.99"},
	{"gae_lambda", "0.95"},
	{"clip_range", "0.2"},
	{"clip_range_schedule", ""},
	{"clip_range_vf", ""},
	{"clip_range_vf_schedule", ""},
	{"clip_range_vf_largest", "false"},
	{"normalize_advantage", "true"},
	{"ent_coef", "0"},
	{"vf_coef", "0.5"},
	{"max_grad_norm", "0.5"},
	{"target_kl", ""},
	{"target_kl_check", onpolicy.AtMinibatch},
	{"use_rms_prop", "false"},
	{"adam_eps", "1e-05"},
}

// cleanRL is ppo.py of CleanRL, with the 37 implementation details (Huang et al. 2022), for
// observations that are not images: four environments. CleanRL's loss has 0.5 times half of the
// larger squared error; ours has no half, so vf_coef is 0.25. The learning rate is that of a
// rollout's end, in CleanRL that of its beginning.
var cleanRL = append(slices.Clone(sb3), []settings.Row{
	{"num_envs", "4"},
	{"learning_rate", "0.00025"},
	{"learning_rate_final", "0"},
	{"n_steps", "128"},
	{"batch_size", "128"},
	{"n_epochs", "4"},
	{"clip_range_vf", "0.2"},
	{"clip_range_vf_largest", "true"},
	{"ent_coef", "0.01"},
	{"vf_coef", "0.25"},
	{"target_kl_check", onpolicy.AtEpoch},
}...)

// cleanRLAtari is ppo_atari.py of CleanRL. A life is an episode (EpisodicLifeEnv). The recipe "ale"
// replaces the other wrappers: up to 30 NOOPs, FIRE, maximum of two frames of four, clipped
// rewards, four frames of 84 x 84.
var cleanRLAtari = append(slices.Clone(cleanRL), []settings.Row{
	{"num_envs", "8"},
	{"policy", "CnnPolicy"},
	{"batch_size", "256"},
	{"clip_range", "0.1"},
	{"clip_range_vf", "0.1"},
	{"env_options", `{"episodic_life": true}`},
}...)

// stookeAbbeel is PPO of the code of Stooke & Abbeel 2018: eight environments, 256 rounds,
// minibatches of 512. The clip range falls with the learning rate. Values and gradients are not
// clipped, advantages not normalised. Settings that our notes of their code do not name are those
// of Schulman et al. 2017 (entropy) and of sb3 (initial weights).
var stookeAbbeel = append(slices.Clone(sb3), []settings.Row{
	{"policy", "CnnPolicy"},
	{"learning_rate", "0.001"},
	{"learning_rate_final", "0"},
	{"n_steps", "256"},
	{"batch_size", "512"},
	{"n_epochs", "4"},
	{"clip_range_schedule", "0:0.2,1:0"},
	{"normalize_advantage", "false"},
	{"ent_coef", "0.01"},
	{"vf_coef", "1"},
	{"max_grad_norm", "0"},
}...)

// fast learns Pong in the least time that we know on two cores: 16 environments, three epochs of
// minibatches of 256, bf16. Learning rate and clip range fall over the run, but not to 0: with a
// learning rate that fell to 0, seed 1 ended at 11. The goal is a mean of 18 over 30 games,
// confirmed by another 30. On two cores with AMX Pong reached it after 9.2, 13.1 and 5.9 minutes
// (seeds 1, 2 and 3). On two cores without AMX, of 115 GFLOP/s, it took 17.2, 11.4 and 23.7
// minutes; the last of these runs needed 200,000 steps more than the preset has
// (docs/pages/benchmarks/learning.md).
var fast = append(slices.Clone(sb3), []settings.Row{
	{"num_envs", "16"},
	{"policy", "CnnPolicy"},
	{"precision", "bf16"},
	{"learning_rate", "0.0005"},
	{"learning_rate_final", "0.00015"},
	{"n_steps", "128"},
	{"batch_size", "256"},
	{"n_epochs", "3"},
	{"clip_range_schedule", "0:0.2,1:0.05"},
	{"ent_coef", "0.01"},
}...)

// tuned holds settings that solve a built-in environment: means of `make learn`, on avx512bf16
// where nothing else is said.
var tuned = map[string][]settings.Row{
	// 500 on each of seeds 1 to 3 after 100,000 steps.
	"CartPole-v1": append(slices.Clone(sb3), []settings.Row{
		{"n_steps", "32"},
		{"batch_size", "256"},
		{"n_epochs", "20"},
		{"gamma", "0.98"},
		{"gae_lambda", "0.8"},
		{"learning_rate", "0.001"},
		{"learning_rate_final", "0"},
		{"clip_range_schedule", "0:0.2,1:0"},
	}...),
	// Every ball on each of seeds 1 to 10 after 40,000 steps. (0.84 on seed 3 with a learning rate
	// that falls to 0.)
	"Catch-v0": append(slices.Clone(sb3), []settings.Row{
		{"policy", "CnnPolicy"},
		{"cnn", "small"},
		{"n_steps", "32"},
		{"batch_size", "64"},
		{"n_epochs", "4"},
		{"ent_coef", "0.01"},
		{"learning_rate", "0.0005"},
	}...),
	// 15.8 to 20.4 on seeds 1 to 3 after 100,000 steps. (9.9 to 13.6 with rollouts of 64 steps,
	// minibatches of 128 and half the learning rate.)
	"Bricks-v0": append(slices.Clone(sb3), []settings.Row{
		{"policy", "CnnPolicy"},
		{"n_steps", "32"},
		{"batch_size", "64"},
		{"n_epochs", "3"},
		{"ent_coef", "0.01"},
		{"learning_rate", "0.001"},
		{"learning_rate_final", "0"},
	}...),
	// -147 to -180 on each of 40 seeds after 100,000 steps, on avx2. (-167 to -195 on seeds 1 to 5
	// after 200,000 steps with RL Zoo's gamma, 0.9.)
	"Pendulum-v1": append(slices.Clone(sb3), []settings.Row{
		{"n_steps", "256"},
		{"gamma", "0.95"},
		{"learning_rate", "0.001"},
		{"learning_rate_final", "0"},
		{"normalize_reward", "true"},
	}...),
}

// presets are documented tables of settings.
var presets = []settings.Preset{
	{Name: "tuned", Doc: "values that solve a built-in environment", Envs: []string{"CartPole-v1", "Catch-v0", "Bricks-v0", "Pendulum-v1"},
		Rows: func(envID string) ([]settings.Row, error) { return tuned[envID], nil }},
	{Name: "sb3", Doc: "Stable-Baselines3's defaults, with eight environments", Rows: settings.Fixed(sb3...)},
	{Name: "cleanrl", Doc: "CleanRL's ppo_atari.py for Atari games, ppo.py elsewhere", Rows: func(envID string) ([]settings.Row, error) {
		if train.IsGame(envID) {
			return cleanRLAtari, nil
		}
		return cleanRL, nil
	}},
	{Name: "fast", Doc: "Atari games in the least time that we know", Rows: settings.Fixed(fast...), Steps: 2_000_000},
	{Name: "stooke_abbeel", Doc: "Stooke & Abbeel 2018, as their code has it", Rows: train.InGames(train.StookeAbbeelGames, stookeAbbeel)},
}
