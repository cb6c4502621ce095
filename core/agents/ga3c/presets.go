package ga3c

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// paper has the settings of the paper and of the authors' code: the small network of Mnih et al.
// 2016, 32 agents, two predictors and two trainers (section 4.2's rule of thumb), and no gradient
// clipping (section 4.4). The learning rate is the larger of the two of Figure 6.
var paper = []settings.Row{
	{"num_envs", "32"},
	{"policy", "auto"},
	{"cnn", "small"},
	{"trunk", onpolicy.TrunkAuto},
	{"learning_rate", "0.0003"},
	{"learning_rate_final", ""},
	{"learning_rate_schedule", ""},
	{"n_steps", "5"},
	{"gamma", "0.99"},
	{"gae_lambda", "1"},
	{"ent_coef", "0.01"},
	{"vf_coef", "0.5"},
	{"max_grad_norm", "0"},
	{"normalize_advantage", "false"},
	{"use_rms_prop", "true"},
	{"rms_prop", rmsPropTF1},
	{"rms_prop_alpha", "0.99"},
	{"rms_prop_eps", "0.1"},
	{"predictors", "2"},
	{"trainers", "2"},
	{"prediction_batch_max", "128"},
	{"prediction_queue", "0"},
	{"training_queue", "100"},
	{"min_training_batch", "1"},
	{"wait_for_update", "false"},
	{"regulariser", regulariserPaper},
	{"log_eps", "1e-06"},
	{"loss_reduction", reductionSum},
}

// inGames are env_options of Atari games: the frames, clipped rewards and lives of Mnih et al.,
// whose results the paper compares with. The authors' code leaves out the maximum of two frames.
const inGames = `{"recipe": "mnih2015"}`

// large is paper with one of the networks of section 5.1's footnote: 32 filters in the first layer
// and a third convolution of 64 4x4 filters with stride 2. stride is that of the first layer.
func large(stride string) settings.Preset {
	rows := append(slices.Clone(paper), settings.Row{"policy", "CnnPolicy"}, settings.Row{"cnn", "ga3c_" + stride})
	return settings.Preset{Name: "paper_large_" + stride, Doc: "paper, with the large network whose first layer has stride " + stride, Rows: train.InGames(inGames, rows)}
}

// solved is preset tuned: settings that solve an environment with the default virtual latencies,
// near those of A2C's preset, with 16 agents, and segments joined to batches of at least 64 steps.
// Other settings are paper's.
var solved = map[string][]settings.Row{
	// 500 on each of seeds 1 to 6 after 500,000 steps, on avx2 (and of 1 to 3 on generic and go), with
	// a mean lag of 2.1 updates. With batches of 256 steps of 8 agents and a learning rate of 0.003,
	// on 5 of them (280 on seed 5).
	"CartPole-v1": append(slices.Clone(paper), []settings.Row{
		{"num_envs", "16"},
		{"cnn", "nature"},
		{"n_steps", "16"},
		{"gamma", "0.98"},
		{"gae_lambda", "0.95"},
		{"ent_coef", "0"},
		{"max_grad_norm", "0.5"},
		{"normalize_advantage", "true"},
		{"learning_rate", "0.001"},
		{"learning_rate_final", "0"},
		{"rms_prop", rmsPropCustom},
		{"rms_prop_eps", "1e-05"},
		{"rms_prop_eps_inside", "false"},
		{"rms_prop_first", "0"},
		{"training_queue", "1024"},
		{"min_training_batch", "64"},
		{"loss_reduction", reductionMean},
	}...),
	// Every ball on each of seeds 1 to 3 after 200,000 steps, on amx, with a mean lag of 1.0 updates.
	// With MlpPolicy 0.54 and 0.92 on seeds 1 and 2.
	"Catch-v0": append(slices.Clone(paper), []settings.Row{
		{"num_envs", "16"},
		{"policy", "CnnPolicy"},
		{"cnn", "nature"},
		{"n_steps", "8"},
		{"max_grad_norm", "0.5"},
		{"learning_rate", "0.0015"},
		{"learning_rate_final", "0"},
		{"rms_prop_eps", "1e-05"},
		{"min_training_batch", "64"},
		{"loss_reduction", reductionMean},
	}...),
	// A mean return of 18.8 over 30 games, and of 18.7 over another 30, after 6.75 of 12 million
	// steps, with seed 1, on amx (examples/python/pong_minutes.py). Other seeds have not been tried.
	"Pong": append(slices.Clone(paper), []settings.Row{
		{"env_options", inGames},
		{"num_envs", "16"},
		{"policy", "CnnPolicy"},
		{"n_steps", "8"},
		{"gae_lambda", "0.95"},
		{"max_grad_norm", "0.5"},
		{"learning_rate", "0.001"},
		{"learning_rate_final", "0"},
		{"rms_prop_eps", "1e-05"},
		{"min_training_batch", "64"},
		{"loss_reduction", reductionMean},
	}...),
}

// presets are documented tables of settings.
var presets = []settings.Preset{
	{Name: "tuned", Doc: "values that solve a built-in environment or Pong", Envs: []string{"CartPole-v1", "Catch-v0", "Pong"},
		Rows: func(envID string) ([]settings.Row, error) { return solved[envID], nil }},
	{Name: "paper", Doc: "Babaeizadeh et al. 2017, with the small network", Rows: train.InGames(inGames, paper)},
	large("1"), large("2"), large("3"), large("4"),
}
