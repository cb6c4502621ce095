package dqn

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// nature is Mnih et al. 2015, Extended Data Table 1, with the optimiser of the authors' code: the
// gradient is a sum over the minibatch, and eps is inside the root.
var nature = []settings.Row{
	{"policy", "CnnPolicy"},
	{"num_envs", "1"},
	{"concurrent", "false"},
	{"synchronized", "true"},
	{"actor", "online"},
	{"batch_size", "32"},
	{"buffer_size", "1000000"},
	{"learning_starts", "50000"},
	{"train_freq", "4"},
	{"gradient_steps", "1"},
	{"target_update_interval", "10000"},
	{"gamma", "0.99"},
	{"optimizer", "rmsprop_mnih"},
	{"learning_rate", "0.00025"},
	{"loss", "huber"},
	{"loss_reduction", "sum"},
	{"max_grad_norm", "0"},
	{"exploration_initial_eps", "1"},
	{"exploration_final_eps", "0.1"},
	{"exploration_steps", "1000000"},
}

// sb3 has the defaults of Stable-Baselines3's DQN: W = 1, and neither concurrent nor synchronized.
// DQN's initial weights are always those of PyTorch.
var sb3 = []settings.Row{
	{"policy", "auto"},
	{"cnn", "nature"},
	{"net_arch", "64,64"},
	{"activation_fn", "relu"},
	{"normalize_images", "true"},
	{"num_envs", "1"},
	{"precision", "fp32"},
	{"isa", "auto"},
	{"concurrent", "false"},
	{"synchronized", "false"},
	{"actor", "online"},
	{"window", "0"},
	{"learning_rate", "0.0001"},
	{"learning_rate_final", ""},
	{"learning_rate_schedule", ""},
	{"buffer_size", "1000000"},
	{"learning_starts", "100"},
	{"batch_size", "32"},
	{"n_steps", "1"},
	{"n_step_tails", "keep"},
	{"prioritized", "none"},
	{"tau", "1"},
	{"double_q", "false"},
	{"munchausen", "false"},
	{"noisy", "false"},
	{"distribution", "none"},
	{"dueling", "false"},
	{"dueling_rescaled", "false"},
	{"gamma", "0.99"},
	{"train_freq", "4"},
	{"gradient_steps", "1"},
	{"target_update_interval", "10000"},
	{"exploration_fraction", "0.1"},
	{"exploration_initial_eps", "1"},
	{"exploration_final_eps", "0.05"},
	{"exploration_steps", "0"},
	{"clock", "steps"},
	{"max_grad_norm", "10"},
	{"outliers", "0"},
	{"optimizer", "adam"},
	{"optimizer_eps", "1e-08"},
	{"loss", "huber"},
	{"loss_reduction", "mean"},
	{"stats_window_size", "100"},
}

// natureGames are env_options of both papers, of which fast DQN's follows the other's procedures.
const natureGames = `{"recipe": "mnih2015"}`

// fastDQN is the paper's fast DQN: nature, concurrent and synchronized, with eight environments
// that act by theta-minus (table 5 and section 5.1; the optimiser of appendix B has eps outside the
// root).
var fastDQN = append(slices.Clone(nature), []settings.Row{
	{"num_envs", "8"},
	{"concurrent", "true"},
	{"synchronized", "true"},
	{"actor", "target"},
	{"window", "10000"},
	{"optimizer", "rmsprop_keras"},
	{"loss_reduction", "mean"},
}...)

// small has the settings that the tuned presets share.
var small = []settings.Row{
	{"num_envs", "8"},
	{"concurrent", "true"},
	{"synchronized", "true"},
	{"optimizer", "adam"},
	{"gamma", "0.99"},
	{"buffer_size", "100000"},
	{"learning_starts", "1000"},
}

var pixels = append(slices.Clone(small), []settings.Row{
	{"policy", "CnnPolicy"},
	{"batch_size", "32"},
	{"train_freq", "4"},
	{"target_update_interval", "500"},
	{"window", "500"},
	{"learning_rate", "0.00025"},
	{"loss", "huber"},
	{"exploration_final_eps", "0.05"},
}...)

// tuned holds settings that solve a built-in environment.
var tuned = map[string][]settings.Row{
	"CartPole-v1": append(slices.Clone(small), []settings.Row{
		{"policy", "MlpPolicy"},
		{"net_arch", "128,128"},
		{"batch_size", "64"},
		{"train_freq", "2"},
		{"target_update_interval", "128"},
		{"window", "32"},
		{"learning_rate", "0.001"},
		{"learning_rate_final", "0"},
		{"loss", "squared"},
		{"max_grad_norm", "10"},
		{"exploration_final_eps", "0.04"},
		{"exploration_steps", "8000"},
	}...),
	"Catch-v0":  append(slices.Clone(pixels), settings.Row{"exploration_steps", "6000"}),
	"Bricks-v0": append(slices.Clone(pixels), settings.Row{"exploration_steps", "8000"}),
}

// presets are documented tables of settings.
var presets = append([]settings.Preset{
	{Name: "tuned", Doc: "values that solve a built-in environment", Envs: []string{"Bricks-v0", "CartPole-v1", "Catch-v0"},
		Rows: func(envID string) ([]settings.Row, error) { return tuned[envID], nil }},
	{Name: "sb3", Doc: "Stable-Baselines3's defaults and semantics", Rows: settings.Fixed(sb3...)},
	{Name: "mnih2015", Doc: "the settings of the Nature paper", Rows: train.InGames(natureGames, nature)},
	{Name: "fastdqn", Doc: "those of the paper's fast DQN", Rows: train.InGames(natureGames, fastDQN)},
}, ofValues...)
