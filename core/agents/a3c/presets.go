package a3c

import (
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
)

// learners are those of a preset: a number of learners that share num_envs environments.
func learners(learners, numEnvs, rule string) []settings.Row {
	return []settings.Row{
		{"learners", learners},
		{"num_envs", numEnvs},
		{"shards", "4"},
		{"rule", rule},
		{"sync_period", "1"},
		{"pull_period", "0"},
		{"adam_time", "global"},
	}
}

// mnih2016 is A3C of Mnih et al. 2016: 16 learners of one environment, five rounds, RMSProp whose
// average the learners share. Their losses are sums over the rounds, ours are means. RMSProp's step
// is the same with eps divided by the square of the rounds: 0.1 (as Babaeizadeh et al. 2017 give
// it) / 25. The paper draws learning rates from 1e-4 to 1e-2 and lets them fall to 0; 7e-4 is
// within. It names no clipping of gradients. What it leaves open (initial weights) is as in A2C's
// preset sb3.
var mnih2016 = append(learners("16", "16", "gradient"), []settings.Row{
	{"policy", "CnnPolicy"},
	{"cnn", "small"},
	{"learning_rate", "0.0007"},
	{"learning_rate_final", "0"},
	{"ent_coef", "0.01"},
	{"vf_coef", "1"},
	{"max_grad_norm", "0"},
	{"rms_prop_alpha", "0.99"},
	{"rms_prop_eps", "0.004"},
	{"rms_prop_eps_inside", "true"},
	{"rms_prop_first", "0"},
}...)

// ofMnih are the rows of mnih2016. Games have the frames of Mnih et al. 2015, as in the paper.
func ofMnih(envID string) ([]settings.Row, error) {
	rows, err := async.PresetOf("a3c", "a2c", "sb3", mnih2016...)(envID)
	if train.IsGame(envID) {
		rows = append(rows, settings.Row{"env_options", `{"recipe": "mnih2015"}`})
	}
	return rows, err
}

// ofCatch catches every ball on each of seeds 1 to 3 after 200,000 steps, on amx. With A2C's
// learning rate of 0.0015 it does not on seeds 2 and 3.
var ofCatch = async.PresetOf("a3c", "a2c", "tuned", append(learners("8", "64", "gradient"), settings.Row{"learning_rate", "0.0007"})...)

// tuned are the sources of the preset of this name: presets of A2C, each for one learner. A2C has
// no preset of this name for Bricks-v0 and Pong; they have the values of Catch-v0 and of Stooke &
// Abbeel.
var tuned = map[string]func(string) ([]settings.Row, error){
	// 475 or more after 500,000 steps on 12, 11 and 11 of seeds 1 to 12, on avx512, avx2 and generic.
	// Without the three last rows on 11 of them on avx2, and not on seed 2 of avx512 (102) and of go
	// (166).
	"CartPole-v1": async.PresetOf("a3c", "a2c", "tuned", append(learners("8", "64", "gradient"), []settings.Row{
		{"learning_rate", "0.002"},
		{"gae_lambda", "0.9"},
		{"max_grad_norm", "0.2"},
	}...)...),
	"Catch-v0": ofCatch,
	// 20.5, 24.6 and 27.0 on seeds 1 to 3 after 200,000 steps, on amx (8.8, 24.4 and 26.9 after
	// 100,000).
	"Bricks-v0": func(string) ([]settings.Row, error) { return ofCatch("Catch-v0") },
	// A mean return of 18.8 over 30 games, and over another 30, after 6.5 of 12 million steps, with
	// seed 1, on amx (examples/python/pong_minutes.py), without random steps at the start. Other seeds
	// have not been tried.
	"Pong": async.PresetOf("a3c", "a2c", "stooke_abbeel", append(learners("8", "128", "gradient"), []settings.Row{
		{"env_options", `{"recipe": "stooke_abbeel"}`},
	}...)...),
}

// presets are documented tables of settings.
var presets = []settings.Preset{
	{Name: "tuned", Doc: "A2C's values for a built-in environment, with eight learners", Envs: []string{"CartPole-v1", "Catch-v0", "Bricks-v0", "Pong"},
		Rows: func(envID string) ([]settings.Row, error) { return tuned[envID](envID) }},
	{Name: "mnih2016", Doc: "the settings of Mnih et al. 2016, with 16 learners", Rows: ofMnih},
	// Section 5.3: A2C of 16 environments is a learner, and no setting changes. Table 2 has a learner
	// on each of eight GPUs.
	{Name: "stooke_abbeel", Doc: "Stooke & Abbeel 2018: eight learners of 16 environments, each A2C as their code has it",
		Rows: async.PresetOf("a3c", "a2c", "stooke_abbeel", learners("8", "128", "overwrite")...)},
}
