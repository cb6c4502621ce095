package dqn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/env"
)

// setting is one line of a preset.
type setting struct{ name, value string }

// nature is Mnih et al. 2015, Extended Data Table 1, with the optimiser as in
// the authors' code: the gradient is summed and eps stands inside the root.
var nature = []setting{
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

// fastDQN is the paper's fast DQN: the same, with both ideas on and eight
// environments that act by theta-minus (its table 5 and section 5.1; the
// optimiser as in its appendix B, eps outside the root).
var fastDQN = append(slices.Clone(nature), []setting{
	{"num_envs", "8"},
	{"concurrent", "true"},
	{"synchronized", "true"},
	{"actor", "target"},
	{"window", "10000"},
	{"optimizer", "rmsprop_keras"},
	{"loss_reduction", "mean"},
}...)

// small is what the tuned presets share.
var small = []setting{
	{"num_envs", "8"},
	{"concurrent", "true"},
	{"synchronized", "true"},
	{"optimizer", "adam"},
	{"gamma", "0.99"},
	{"buffer_size", "100000"},
	{"learning_starts", "1000"},
}

var pixels = append(slices.Clone(small), []setting{
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
var tuned = map[string][]setting{
	"CartPole-v1": append(slices.Clone(small), []setting{
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
	"Catch-v0":  append(slices.Clone(pixels), setting{"exploration_steps", "6000"}),
	"Bricks-v0": append(slices.Clone(pixels), setting{"exploration_steps", "8000"}),
}

// Presets are the names that ApplyPreset knows.
var Presets = []string{"tuned", "mnih2015", "fastdqn"}

// ApplyPreset sets a documented table of settings on top of the others, and
// the environment with its options.
func (c *Config) ApplyPreset(preset, envID string) error {
	var table []setting
	switch preset {
	case "tuned":
		var ok bool
		if table, ok = tuned[envID]; !ok {
			var known []string
			for id := range tuned {
				known = append(known, id)
			}
			slices.Sort(known)
			return fmt.Errorf("env: %q, preset tuned exists for %s", envID, strings.Join(known, ", "))
		}
	case "mnih2015":
		table = nature
	case "fastdqn":
		table = fastDQN
	default:
		return fmt.Errorf("preset: %q, must be %s", preset, strings.Join(Presets, ", "))
	}
	next := *c
	for _, s := range table {
		if err := next.Set(s.name, s.value); err != nil {
			return fmt.Errorf("preset %s: %w", preset, err)
		}
	}
	next.Env, next.EnvOptions = envID, ""
	if preset == "mnih2015" && strings.HasPrefix(env.Canonical(envID), "atari/") {
		next.EnvOptions = `{"recipe": "mnih2015"}`
	}
	*c = next
	return nil
}
