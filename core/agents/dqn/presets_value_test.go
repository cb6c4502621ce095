package dqn

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/settings"
)

// The values of settings that differ between the presets of the value family.
var ofPublications = map[string]map[string]string{
	"dqn_dopamine":     {"learning_rate": "6.25e-05", "optimizer_eps": "0.00015", "loss": "squared", "distribution": "none", "n_steps": "1", "prioritized": "none"},
	"c51_dopamine":     {"learning_rate": "0.00025", "optimizer_eps": "0.0003125", "distribution": "categorical", "n_steps": "1", "prioritized": "none"},
	"qr_dopamine":      {"learning_rate": "5e-05", "optimizer_eps": "0.0003125", "distribution": "quantile", "n_quantiles": "200", "n_steps": "3", "prioritized": "dopamine"},
	"rainbow_dopamine": {"learning_rate": "6.25e-05", "optimizer_eps": "0.00015", "distribution": "categorical", "n_steps": "3", "prioritized": "dopamine", "double_q": "false"},
	"iqn_dopamine":     {"learning_rate": "5e-05", "optimizer_eps": "0.0003125", "distribution": "implicit", "n_tau_act": "32", "n_steps": "3", "prioritized": "none", "max_grad_norm": "0"},
	"iqn_zoo":          {"learning_rate": "5e-05", "optimizer_eps": "0.0003125", "distribution": "implicit", "n_tau_act": "64", "n_steps": "1", "learning_starts": "20000", "max_grad_norm": "0"},
	"rainbow_hessel": {"learning_rate": "6.25e-05", "optimizer_eps": "0.00015", "noisy": "true", "noisy_sigma": "0.5", "n_steps": "3", "dueling": "true", "double_q": "true",
		"distribution": "categorical", "priority_alpha": "0.5", "target_update_interval": "8000", "exploration_initial_eps": "0"},
	"der_100k": {"cnn": "der", "learning_rate": "0.0001", "optimizer_eps": "0.00015", "n_steps": "10", "train_freq": "1", "learning_starts": "1600", "target_update_interval": "2000",
		"buffer_size": "100000", "noisy": "true", "noisy_sigma": "0.1", "dueling": "true", "double_q": "true", "distribution": "categorical", "prioritized": "dqn_zoo", "max_grad_norm": "10"},
	"c51_zoo": {"learning_rate": "0.00025", "optimizer_eps": "0.0003125", "max_grad_norm": "10", "distribution": "categorical", "target_update_interval": "10000"},
	"qr_zoo":  {"learning_rate": "5e-05", "optimizer_eps": "0.0003125", "max_grad_norm": "10", "n_quantiles": "201", "n_steps": "1", "prioritized": "none"},
	"prioritized_zoo": {"learning_rate": "6.25e-05", "optimizer": "rmsprop_mnih", "optimizer_eps": "6.103515625e-07", "double_q": "true", "prioritized": "dqn_zoo",
		"target_update_interval": "30000", "learning_starts": "50000", "exploration_steps": "1000000"},
	"dqn_stooke_abbeel":     {"learning_rate": "0.00075", "optimizer": "rmsprop_lasagne", "batch_size": "512", "num_envs": "32", "exploration_final_eps": "0.1"},
	"catdqn_stooke_abbeel":  {"learning_rate": "0.00042", "optimizer_eps": "4.8828125e-06", "batch_size": "2048", "num_envs": "64", "max_grad_norm": "0"},
	"rainbow_stooke_abbeel": {"learning_rate": "6.25e-05", "optimizer_eps": "9.765625e-06", "batch_size": "512", "dueling_rescaled": "true", "exploration_steps": "42500"},
}

func TestPresetsOfPublications(t *testing.T) {
	if len(ofPublications) != len(ofValues) {
		t.Errorf("%d presets, want %d", len(ofValues), len(ofPublications))
	}
	for name, want := range ofPublications {
		c := DefaultConfig()
		v := Settings.Over(&c)
		check(t, v.Preset(name, "atari/breakout"))
		for setting, value := range want {
			if got := must(v.Get(setting))(t); got != value {
				t.Errorf("%s: %s %s, must be %s", name, setting, got, value)
			}
		}
		var options map[string]any
		if err := json.Unmarshal([]byte(c.EnvOptions), &options); err != nil || options["recipe"] == nil {
			t.Errorf("%s: env_options %s: %v", name, c.EnvOptions, err)
		}
		if of := strings.HasSuffix(name, "_dopamine"); of != (c.CNN == Dopamine) || of != strings.Contains(c.EnvOptions, `"dopamine"`) {
			t.Errorf("%s: cnn %s, env_options %s", name, c.CNN, c.EnvOptions)
		}
		// A transition is used 8 times, or 32 times with an update a step.
		if uses := float64(c.BatchSize*c.GradientSteps) / float64(c.TrainFreq); uses != 8 && (name != "der_100k" || uses != 32) {
			t.Errorf("%s: a transition is used %v times", name, uses)
		}
		if said, err := c.Resolve(); err != nil || said != nil || c.Concurrent != settings.Off {
			t.Errorf("%s: %q, %v, concurrent %v", name, said, err, c.Concurrent)
		}
		check(t, v.Preset(name, "Catch-v0"))
		if c.EnvOptions != "" {
			t.Errorf("%s in Catch-v0: env_options %s", name, c.EnvOptions)
		}
	}
}

// Epsilon of Stooke & Abbeel is on the line from 1 at step 0 when the first update comes.
func TestEpsilonOfStookeAbbeel(t *testing.T) {
	for name, all := range map[string]int{"dqn_stooke_abbeel": 1_000_000, "catdqn_stooke_abbeel": 1_000_000, "rainbow_stooke_abbeel": 62_500} {
		c := DefaultConfig()
		check(t, Settings.Over(&c).Preset(name, "atari/pong"))
		share := float64(c.LearningStarts) / float64(all)
		if want := share*c.ExplorationFinal + (1 - share); c.ExplorationInitial-want > 1e-9 || want-c.ExplorationInitial > 1e-9 || c.ExplorationSteps != all-c.LearningStarts {
			t.Errorf("%s: epsilon from %v over %d steps, want from %v", name, c.ExplorationInitial, c.ExplorationSteps, want)
		}
	}
}
