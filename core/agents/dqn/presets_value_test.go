package dqn

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// ofPublications returns what the presets of the value family change, by their sources: the gin
// files of Dopamine's jax/agents, run_atari.py of DQN Zoo's agents, accel_rl's algos/dqn and
// scripts, and the papers.
func ofPublications() map[string]map[string]string {
	type values = map[string]string
	with := traintest.With
	// A step acts with the online network, and an update of 32 comes every 4 steps: the defaults.
	all := values{"policy": "CnnPolicy", "actor": "online", "concurrent": "false", "device": "cpu"}

	// min_replay_history 20,000, target_update_period 8,000, epsilon_decay_period 250,000,
	// epsilon_train 0.01, no clipping; the accumulator yields no tail of a truncated episode.
	dopamine := with(all, values{"cnn": "dopamine", "learning_starts": "20000", "target_update_interval": "8000", "exploration_steps": "250000",
		"exploration_final_eps": "0.01", "max_grad_norm": "0", "n_step_tails": "drop_truncated"})
	// min_replay_capacity_fraction 0.05 of 1e6, target_network_update_period 4e4 frames, epsilon to
	// 0.01 in 0.02 of 200 million frames, optimizer_epsilon 0.01/32, max_global_grad_norm 10 (the
	// default).
	zoo := with(all, values{"learning_starts": "50000", "exploration_steps": "1000000", "exploration_final_eps": "0.01", "optimizer_eps": "0.0003125"})
	// Prioritised replay with beta from 0.4 to 1.
	prioritized := values{"prioritized": "dqn_zoo", "priority_alpha": "0.5", "priority_beta": "0.4", "priority_beta_final": "1"}
	// Hessel et al. 2018, table 1, and sigma 0.5 of factorised noise; no epsilon; clipping at 10, the
	// default.
	rainbow := with(with(all, prioritized), values{"distribution": "categorical", "double_q": "true", "dueling": "true", "noisy": "true",
		"exploration_initial_eps": "0", "exploration_final_eps": "0", "exploration_steps": "1000000", "learning_rate": "6.25e-05", "optimizer_eps": "0.00015",
		"n_steps": "3", "learning_starts": "20000", "target_update_interval": "8000"})
	// min_steps_learn 50,000, target_update_steps 10,000 (the default); 1,000,000 steps of epsilon, of
	// which 50,000 are before the first update.
	stookeAbbeel := with(all, values{"learning_starts": "50000", "exploration_steps": "950000", "max_grad_norm": "0"})
	large := values{"batch_size": "512", "num_envs": "32", "train_freq": "128", "gradient_steps": "2"}
	return map[string]map[string]string{
		"dqn_dopamine": with(dopamine, values{"learning_rate": "6.25e-05", "optimizer_eps": "0.00015", "loss": "squared"}),
		"c51_dopamine": with(dopamine, values{"learning_rate": "0.00025", "optimizer_eps": "0.0003125", "distribution": "categorical"}),
		// train() of quantile_agent.py has no weights.
		"qr_dopamine": with(dopamine, values{"learning_rate": "5e-05", "optimizer_eps": "0.0003125", "distribution": "quantile", "n_steps": "3",
			"prioritized": "dopamine", "priority_beta": "0", "priority_beta_final": "0"}),
		"rainbow_dopamine": with(dopamine, values{"learning_rate": "6.25e-05", "optimizer_eps": "0.00015", "distribution": "categorical", "n_steps": "3",
			"prioritized": "dopamine"}),
		"iqn_dopamine": with(dopamine, values{"learning_rate": "5e-05", "optimizer_eps": "0.0003125", "distribution": "implicit", "n_steps": "3"}),

		"c51_zoo": with(zoo, values{"learning_rate": "0.00025", "distribution": "categorical"}),
		"qr_zoo":  with(zoo, values{"learning_rate": "5e-05", "distribution": "quantile", "n_quantiles": "201"}),
		// min_replay_capacity_fraction 0.02, no clipping.
		"iqn_zoo": with(zoo, values{"learning_rate": "5e-05", "distribution": "implicit", "n_tau_act": "64", "learning_starts": "20000", "max_grad_norm": "0"}),
		// 2.5e-4/4, eps 0.01/32^2/16, alpha 0.6, a target every 1.2e5 frames.
		"prioritized_zoo": with(with(zoo, prioritized), values{"learning_rate": "6.25e-05", "optimizer": "rmsprop_mnih", "optimizer_eps": "6.103515625e-07",
			"double_q": "true", "priority_alpha": "0.6", "priority_beta_steps": "50000000", "target_update_interval": "30000", "max_grad_norm": "0"}),

		// Beta rises over 200 million frames, as in DQN Zoo.
		"rainbow_hessel": with(rainbow, values{"priority_beta_steps": "50000000"}),
		// 1,600 steps, an update a step, 2,000 updates; DER.gin: 1e-4 (the default), ten steps.
		"der_100k": with(rainbow, values{"cnn": "der", "learning_rate": "0.0001", "n_steps": "10", "noisy_sigma": "0.1", "train_freq": "1", "buffer_size": "100000",
			"learning_starts": "1600", "target_update_interval": "2000"}),

		// Section 5 of the paper: 7.5e-4 for 512; the code: rho 0.95, eps 1e-6, to 0.1.
		"dqn_stooke_abbeel": with(with(stookeAbbeel, large), values{"optimizer": "rmsprop_lasagne", "learning_rate": "0.00075", "optimizer_eps": "1e-06",
			"exploration_initial_eps": "0.955", "exploration_final_eps": "0.1"}),
		// The paper: 4.2e-4, 2,048; eps 0.01/2,048.
		"catdqn_stooke_abbeel": with(stookeAbbeel, values{"batch_size": "2048", "num_envs": "64", "train_freq": "256", "learning_rate": "0.00042",
			"optimizer_eps": "4.8828125e-06", "distribution": "categorical", "least_prob": "1e-06", "exploration_initial_eps": "0.9505", "exploration_final_eps": "0.01"}),
		// 20,000 steps, 62,500 steps of epsilon, eps 0.005/512, clipping at 10 (the default), beta over
		// 50 million steps.
		"rainbow_stooke_abbeel": with(with(with(stookeAbbeel, large), prioritized), values{"prioritized": "stooke_abbeel", "priority_beta_steps": "50000000",
			"learning_rate": "6.25e-05", "optimizer_eps": "9.765625e-06", "distribution": "categorical", "least_prob": "1e-06", "double_q": "true", "dueling": "true", "dueling_rescaled": "true",
			"n_steps": "3", "learning_starts": "20000", "target_update_interval": "8000", "exploration_steps": "42500", "exploration_initial_eps": "0.6832",
			"exploration_final_eps": "0.01", "max_grad_norm": "10"}),
	}
}

// recipeOf returns the env_options of Atari games.
func recipeOf(preset string) string {
	switch {
	case strings.HasSuffix(preset, "_dopamine"):
		return `{"recipe": "dopamine"}` // sticky actions of 0.25, no end with a life, 27,000 steps
	case strings.HasSuffix(preset, "_stooke_abbeel"):
		return `{"recipe": "stooke_abbeel", "decorrelation_steps": 2000}` // section 3.2
	}
	// processors.py and gym_atari.py of DQN Zoo: 1 to 30 NOOPs, the discount is 0 at a lost life,
	// 108,000 frames.
	return `{"recipe": "mnih2015", "noop_min": 1, "noop_max": 31, "first_maxpool": false, "episodic_life": false, "life_loss_info": true, "max_num_frames_per_episode": 108000}`
}

// Trap: one paper's numbers differ between codes and between methods of one code. Rainbow and
// prioritised replay have alphas of 0.5 and 0.6, targets of 8,000 and 30,000 steps. A quarter of
// the learning rate of Mnih et al.'s RMSProp needs a sixteenth of its eps.
func TestPresetsHaveTheValuesOfTheirSources(t *testing.T) {
	// Mnih et al. 2015, Extended Data Table 1, and their code: a sum of gradients without clipping.
	mnih := map[string]string{"policy": "CnnPolicy", "actor": "online", "concurrent": "false", "learning_starts": "50000", "learning_rate": "0.00025",
		"optimizer": "rmsprop_mnih", "loss_reduction": "sum", "max_grad_norm": "0", "exploration_final_eps": "0.1", "exploration_steps": "1000000"}
	// Fast DQN, table 5, section 5.1 and appendix B.
	fast := traintest.With(mnih, map[string]string{"actor": "target", "concurrent": "true", "num_envs": "8", "window": "10000", "optimizer": "rmsprop_keras", "loss_reduction": "mean"})
	inGames := func(values map[string]string) map[string]string {
		return traintest.With(values, map[string]string{"env_options": `{"recipe": "mnih2015"}`})
	}
	// Ours, by what learns.
	tuned := map[string]string{"num_envs": "8", "concurrent": "true", "buffer_size": "100000", "learning_starts": "1000"}
	pixels := traintest.With(tuned, map[string]string{"policy": "CnnPolicy", "target_update_interval": "500", "window": "500", "learning_rate": "0.00025"})
	sb3 := map[string]string{"actor": "online", "concurrent": "false", "synchronized": "false", "optimizer_eps": "1e-08"}
	want := map[string]map[string]string{
		"tuned CartPole-v1": traintest.With(tuned, map[string]string{"policy": "MlpPolicy", "net_arch": "128,128", "batch_size": "64", "train_freq": "2", "target_update_interval": "128",
			"window": "32", "learning_rate": "0.001", "learning_rate_final": "0", "loss": "squared", "exploration_final_eps": "0.04", "exploration_steps": "8000"}),
		"tuned Catch-v0":          traintest.With(pixels, map[string]string{"exploration_steps": "6000"}),
		"tuned Bricks-v0":         traintest.With(pixels, map[string]string{"exploration_steps": "8000"}),
		"sb3 CartPole-v1":         sb3,
		"sb3 atari/breakout":      sb3,
		"mnih2015 CartPole-v1":    mnih,
		"mnih2015 atari/breakout": inGames(mnih),
		"fastdqn CartPole-v1":     fast,
		"fastdqn atari/breakout":  inGames(fast),
	}
	for name, values := range ofPublications() {
		want[name+" CartPole-v1"] = values
		want[name+" atari/breakout"] = traintest.With(values, map[string]string{"env_options": recipeOf(name)})
	}
	traintest.Presets(t, "dqn", want)
}

// A transition is used 8 times, or 32 times with an update a step, and no preset needs a notice.
func TestUsesOfATransition(t *testing.T) {
	for name := range ofPublications() {
		c := DefaultConfig()
		check(t, Settings.Over(&c).Preset(name, "atari/breakout"))
		if uses := float64(c.BatchSize*c.GradientSteps) / float64(c.TrainFreq); uses != 8 && (name != "der_100k" || uses != 32) {
			t.Errorf("%s: a transition is used %v times", name, uses)
		}
		if said, err := c.Resolve(); err != nil || said != nil || c.Concurrent != settings.Off {
			t.Errorf("%s: %q, %v, concurrent %v", name, said, err, c.Concurrent)
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
