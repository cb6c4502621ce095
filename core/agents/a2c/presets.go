package a2c

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// sb3 has the defaults of Stable-Baselines3's A2C, with eight environments.
var sb3 = []settings.Row{
	{"num_envs", "8"},
	{"policy", "auto"},
	{"cnn", "nature"},
	{"net_arch_pi", "64,64"},
	{"net_arch_vf", "64,64"},
	{"trunk", onpolicy.TrunkAuto},
	{"activation_fn", "tanh"},
	{"ortho_init", "true"},
	{"learning_rate", "0.0007"},
	{"learning_rate_final", ""},
	{"learning_rate_schedule", ""},
	{"n_steps", "5"},
	{"gamma", "0.99"},
	{"gae_lambda", "1"},
	{"ent_coef", "0"},
	{"vf_coef", "0.5"},
	{"max_grad_norm", "0.5"},
	{"normalize_advantage", "false"},
	{"use_rms_prop", "true"},
	{"rms_prop_alpha", "0.99"},
	{"rms_prop_eps", "1e-05"},
	{"rms_prop_eps_inside", "false"},
	{"rms_prop_first", "0"},
	{"vtrace", "false"},
	{"vtrace_groups", "1"},
	{"vtrace_steps", "1"},
	{"vtrace_rho", "1"},
	{"vtrace_c", "1"},
}

// stookeAbbeel is A2C of the code of Stooke & Abbeel 2018: 16 environments, five rounds, the small
// network of Mnih et al. 2016. The squared error of the value has the factor 1/4, and RMSProp has
// eps inside the root. Settings that our notes of their code do not name (initial weights, the
// learning rate's schedule) are those of sb3.
var stookeAbbeel = append(slices.Clone(sb3), []settings.Row{
	{"num_envs", "16"},
	{"policy", "CnnPolicy"},
	{"cnn", "small"},
	{"ent_coef", "0.01"},
	{"vf_coef", "0.25"},
	{"rms_prop_alpha", "0.9"},
	{"rms_prop_eps", "1e-06"},
	{"rms_prop_eps_inside", "true"},
}...)

// cule is A2C with V-trace of CuLE's example (Dalton et al. 2020): 120 environments, a window of 20
// rounds, and 20 groups, one of which learns after every round. Games begin with up to 400 random
// steps. CuLE does not cut the trace at the ends of episodes; this library does.
var cule = append(slices.Clone(sb3), []settings.Row{
	{"num_envs", "120"},
	{"policy", "CnnPolicy"},
	{"cnn", "cule"},
	{"learning_rate", "0.00065"},
	{"n_steps", "20"},
	{"ent_coef", "0.01"},
	{"vtrace", "true"},
	{"vtrace_groups", "20"},
	{"vtrace_steps", "1"},
}...)

// tuned holds settings that solve a built-in environment.
var tuned = map[string][]settings.Row{
	// 500 on each of 20 seeds after 300,000 steps.
	"CartPole-v1": append(slices.Clone(sb3), []settings.Row{
		{"n_steps", "32"},
		{"gamma", "0.98"},
		{"gae_lambda", "0.95"},
		{"normalize_advantage", "true"},
		{"learning_rate", "0.003"},
		{"learning_rate_final", "0"},
	}...),
	// Every ball on each of 6 seeds after 40,000 steps.
	"Catch-v0": append(slices.Clone(sb3), []settings.Row{
		{"policy", "CnnPolicy"},
		{"n_steps", "8"},
		{"ent_coef", "0.01"},
		{"learning_rate", "0.0015"},
		{"learning_rate_final", "0"},
	}...),
}

// presets are documented tables of settings.
var presets = []settings.Preset{
	{Name: "tuned", Doc: "values that solve a built-in environment", Envs: []string{"CartPole-v1", "Catch-v0"},
		Rows: func(envID string) ([]settings.Row, error) { return tuned[envID], nil }},
	{Name: "sb3", Doc: "Stable-Baselines3's defaults, with eight environments", Rows: settings.Fixed(sb3...)},
	{Name: "cule", Doc: "A2C with V-trace of Dalton et al. 2020, as their example has it", Rows: train.InGames(`{"decorrelation_steps": 400}`, cule)},
	{Name: "stooke_abbeel", Doc: "Stooke & Abbeel 2018, as their code has it", Rows: train.InGames(train.StookeAbbeelGames, stookeAbbeel)},
}
