package pqn

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// authors is PQN of its authors' code for Atari games: 128 environments, 32 rounds, two epochs of
// 32 minibatches, layer normalisation over channels, half of the squared error.
var authors = []settings.Row{
	{"num_envs", "128"},
	{"policy", "auto"},
	{"cnn", "nature"},
	{"net_arch", "128,128"},
	{"activation_fn", "relu"},
	{"layer_norm", "channels"},
	{"layer_norm_eps", "1e-06"},
	{"init", "he_normal"},
	{"learning_rate", "0.00025"},
	{"learning_rate_final", ""},
	{"learning_rate_schedule", ""},
	{"n_steps", "32"},
	{"batch_size", "128"},
	{"n_epochs", "2"},
	{"gamma", "0.99"},
	{"q_lambda", "0.65"},
	{"loss_coef", "0.5"},
	{"max_grad_norm", "10"},
	{"radam_eps", "1e-08"},
	{"exploration_initial_eps", "1"},
	{"exploration_final_eps", "0.001"},
	{"exploration_fraction", "0.1"},
}

// cleanRL is pqn_atari_envpool.py of CleanRL, except that returns are cut at the ends of episodes.
// It has eight environments, 128 rounds and four epochs of four minibatches. Layer normalisation is
// over all outputs, initial weights are orthogonal, the squared error is whole, and the learning
// rate falls.
var cleanRL = append(slices.Clone(authors), []settings.Row{
	{"num_envs", "8"},
	{"net_arch", "120,84"},
	{"layer_norm", "all"},
	{"layer_norm_eps", "1e-05"},
	{"init", "orthogonal"},
	{"learning_rate_final", "0"},
	{"n_steps", "128"},
	{"batch_size", "256"},
	{"n_epochs", "4"},
	{"loss_coef", "1"},
	{"exploration_final_eps", "0.01"},
}...)

// lives are env_options of both sources: a life is an episode (episodic_life: True in purejaxql's
// config/alg/pqn_atari.yaml, and in pqn_atari_envpool.py). The recipe "ale" has their clipped
// rewards, up to 30 NOOPs and frame skips of four without sticky actions.
const lives = `{"episodic_life": true}`

// tuned holds settings that solve a built-in environment: means of `make learn`, on avx512bf16.
var tuned = map[string][]settings.Row{
	// 500 on each of seeds 1 to 3 after 200,000 steps.
	"CartPole-v1": append(slices.Clone(authors), []settings.Row{
		{"num_envs", "8"},
		{"n_steps", "64"},
		{"batch_size", "64"},
		{"n_epochs", "4"},
		{"q_lambda", "0.95"},
		{"learning_rate", "0.0005"},
		{"learning_rate_final", "0"},
		{"exploration_final_eps", "0.05"},
		{"exploration_fraction", "0.3"},
	}...),
	// Every ball on each of seeds 1 to 3 after 60,000 steps.
	"Catch-v0": append(slices.Clone(authors), []settings.Row{
		{"num_envs", "8"},
		{"cnn", "small"},
		{"n_steps", "16"},
		{"batch_size", "64"},
		{"n_epochs", "4"},
		{"learning_rate", "0.0005"},
		{"learning_rate_final", "0"},
		{"exploration_final_eps", "0.01"},
		{"exploration_fraction", "0.3"},
	}...),
	// 17.5 on seed 1 after 100,000 steps.
	"Bricks-v0": append(slices.Clone(authors), []settings.Row{
		{"num_envs", "8"},
		{"n_steps", "32"},
		{"batch_size", "64"},
		{"learning_rate", "0.0005"},
		{"learning_rate_final", "0"},
		{"exploration_final_eps", "0.01"},
		{"exploration_fraction", "0.2"},
	}...),
}

// presets are documented tables of settings.
var presets = []settings.Preset{
	{Name: "tuned", Doc: "values that solve a built-in environment", Envs: []string{"CartPole-v1", "Catch-v0", "Bricks-v0"},
		Rows: func(envID string) ([]settings.Row, error) { return tuned[envID], nil }},
	{Name: "pqn", Doc: "the authors' settings for Atari games (Gallici et al. 2025)", Rows: train.InGames(lives, authors)},
	{Name: "pqn_cleanrl", Doc: "CleanRL's pqn_atari_envpool.py, but that returns are cut at the ends of episodes", Rows: train.InGames(lives, cleanRL)},
}
