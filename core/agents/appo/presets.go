package appo

import (
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train/async"
)

// learnersOf are those of a preset: a number of learners that share num_envs environments.
func learnersOf(learners, numEnvs, adamTime string) []settings.Row {
	return []settings.Row{
		{"learners", learners},
		{"num_envs", numEnvs},
		{"shards", "4"},
		{"rule", "multi_step_adam"},
		{"sync_period", "1"},
		{"pull_period", "64"},
		{"adam_time", adamTime},
	}
}

// stookeAbbeel is APPO of Stooke & Abbeel 2018, section 5.3, with a learner on each of eight GPUs
// (Table 2). A learner is PPO of eight environments as their code has it, with gradients clipped to
// the norm that A2C has, a quarter of the learning rate, and neither it nor the clip range falling.
// They tried 1 to 4 steps of Adam between two pushes. t of Adam's bias correction is a learner's
// own in their code.
var stookeAbbeel = append(learnersOf("8", "64", "local"), []settings.Row{
	{"learning_rate", "0.00025"},
	{"learning_rate_final", ""},
	{"clip_range", "0.2"},
	{"clip_range_schedule", ""},
	{"max_grad_norm", "0.5"},
}...)

// tuned are the sources of the preset of this name: presets of PPO, each for one learner. That of
// Pong is preset fast.
var tuned = map[string]func(string) ([]settings.Row, error){
	// 500 on each of seeds 1 to 3 after 100,000 steps, on avx2 and on generic.
	"CartPole-v1": async.PresetOf("appo", "ppo", "tuned", learnersOf("4", "32", "global")...),
	// Every ball on seeds 1 and 2 after 40,000 steps, on avx2.
	"Catch-v0": async.PresetOf("appo", "ppo", "tuned", learnersOf("4", "32", "global")...),
	// 26.3, 22.0 and 27.4 on seeds 1 to 3 after 100,000 steps, on amx.
	"Bricks-v0": async.PresetOf("appo", "ppo", "tuned", learnersOf("4", "32", "global")...),
	// Not measured.
	"Pong": async.PresetOf("appo", "ppo", "fast", learnersOf("4", "64", "global")...),
}

// presets are documented tables of settings.
var presets = []settings.Preset{
	{Name: "tuned", Doc: "PPO's values for a built-in environment, with four learners", Envs: []string{"CartPole-v1", "Catch-v0", "Bricks-v0", "Pong"},
		Rows: func(envID string) ([]settings.Row, error) { return tuned[envID](envID) }},
	{Name: "stooke_abbeel", Doc: "Stooke & Abbeel 2018: eight learners of eight environments",
		Rows: async.PresetOf("appo", "ppo", "stooke_abbeel", stookeAbbeel...)},
}
