package gorila

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// paper is Nair et al. 2015. "Ours" are values that the paper does not give. "Ours, by runs" were
// chosen on Pong, Breakout and Seaquest with four bundles: docs/pages/papers/gorila.md.
var paper = []settings.Row{
	{"num_envs", "100"}, // N_act = N_learn = 100, section 5.1
	{bundles, "100"},
	{"shards", "31"}, // N_param = 31
	{"policy", "CnnPolicy"},
	{"cnn", "nature"},                   // "the same preprocessing and network architecture" as Mnih et al. 2015
	{"buffer_size", "1000000"},          // "Replay memory size D = 1 million frames"; ours: of all bundles together
	{"train_freq", "1"},                 // Algorithm 1: a minibatch after every step
	{"gradient_steps", "1"},             // Algorithm 1
	{"target_update_interval", "60000"}, // "after every 60K parameter updates performed in the parameter server"
	{"tau", "1"},                        // Algorithm 1: a copy
	{"exploration_initial_eps", "1"},    // "annealed from 1 to 0.1 over the first one million global updates"
	{"exploration_final_eps", "0.1"},    // the same
	{"exploration_steps", "1000000"},    // the same
	{"optimizer", "adagrad"},            // section 4.2
	{"learning_rate", "0.01"},           // ours, by runs
	{"learning_rate_final", ""},         // ours: constant
	{"optimizer_eps", "0.01"},           // ours, by runs. With 1e-10 the first steps change every weight by the learning rate
	{"max_staleness", "1000"},           // ours: ten updates of every bundle, which seldom matters in the runs. Section 4.2 has no number
	{"outliers", "6"},                   // ours, by runs. Section 4.2: "several standard deviations"
	{"batch_size", "32"},                // Mnih et al. 2015, whose "experimental setup" section 5.1 follows closely
	{"gamma", "0.99"},                   // Mnih et al. 2015
	{"learning_starts", "50000"},        // Mnih et al. 2015; of all bundles together
	{"loss", "huber"},                   // Mnih et al. 2015 clip the error to 1; Algorithm 1 has the square, as theirs does
	{"loss_reduction", "mean"},          // ours; optimizer_eps was chosen with it
	{"max_grad_norm", "0"},              // ours: no clipping, as in Mnih et al. 2015
	{"double_q", "false"},
}

// small has what the tuned presets share: four bundles and three shards. The learning rate falls to
// 0 with the updates that the run asks for.
var small = []settings.Row{
	{"num_envs", "4"},
	{bundles, "4"},
	{"shards", "3"},
	{"gamma", "0.99"},
	{"buffer_size", "100000"},
	{"learning_starts", "1000"},
	{"optimizer", "adagrad"},
	{"max_staleness", "20"},
}

// tuned holds settings that learn a built-in environment. In CartPole-v1 the mean return after
// 100,000 steps is 500 on each of seeds 1 to 8 on amx and 1 to 3 on avx2, and 454, 500 and 130 on
// seeds 1 to 3 on generic. In Catch-v0 every ball is caught after 10,000 steps, on seeds 1 to 3.
// With a learning rate of 0.01, no double_q and a norm of 10 CartPole-v1 had 217 after 60,000
// steps.
var tuned = map[string][]settings.Row{
	"CartPole-v1": append(slices.Clone(small), []settings.Row{
		{"policy", "MlpPolicy"},
		{"net_arch", "128,128"},
		{"batch_size", "64"},
		{"train_freq", "2"},
		{"target_update_interval", "128"},
		{"learning_rate", "0.05"},
		{"learning_rate_final", "0"},
		{"loss", "squared"},
		{"double_q", "true"},
		{"max_grad_norm", "1"},
		{"exploration_final_eps", "0.04"},
		{"exploration_steps", "4000"},
		{"outliers", "6"},
	}...),
	"Catch-v0": append(slices.Clone(small), []settings.Row{
		{"policy", "CnnPolicy"},
		{"cnn", "small"},
		{"batch_size", "32"},
		{"train_freq", "4"},
		{"target_update_interval", "125"},
		{"learning_rate", "0.01"},
		{"loss", "huber"},
		{"exploration_final_eps", "0.05"},
		{"exploration_steps", "1500"},
		{"outliers", "6"},
	}...),
}

// presets are documented tables of settings.
var presets = []settings.Preset{
	{Name: "tuned", Doc: "values that learn a built-in environment, with four bundles and three shards", Envs: []string{"CartPole-v1", "Catch-v0"},
		Rows: func(envID string) ([]settings.Row, error) { return tuned[envID], nil }},
	{Name: "nair2015", Doc: "the settings of Nair et al. 2015: 100 bundles, 31 shards", Rows: train.InGames(`{"recipe": "mnih2015"}`, paper)},
}
