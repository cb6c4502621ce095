package pqn

import (
	"testing"

	"github.com/paceline-rl/paceline/core/train/traintest"
)

// Values of the sources, and other settings that differ from the defaults.
func TestPresetsHaveTheValuesOfTheirSources(t *testing.T) {
	// purejaxql's pqn_atari.py and config/alg/pqn_atari.yaml have 128 environments x 32 steps and 2
	// epochs x 32 minibatches. RAdam: lr 2.5e-4 constant, gradient clip 10. Loss: lambda .65, half
	// of the squared error. Epsilon: 1 to .001 over a tenth. Network: flax's LayerNorm (over
	// channels, eps 1e-6), he-normal weights. Environments: episodic_life: True.
	authors := map[string]string{
		"num_envs": "128", "n_steps": "32", "n_epochs": "2", "batch_size": "128", "q_lambda": "0.65", "gamma": "0.99", "learning_rate": "0.00025",
		"learning_rate_final": "", "max_grad_norm": "10", "exploration_initial_eps": "1", "exploration_final_eps": "0.001", "exploration_fraction": "0.1",
		"layer_norm": "channels", "layer_norm_eps": "1e-06", "init": "he_normal", "loss_coef": "0.5", "radam_eps": "1e-08", "cnn": "nature",
	}
	// CleanRL's pqn_atari_envpool.py has 8 environments x 128 steps and 4 epochs x 4 minibatches.
	// RAdam: lr 2.5e-4 to 0, gradient clip 10. Loss: lambda .65, the whole mse_loss. Epsilon: 1 to
	// .01 over a tenth. Network: torch's LayerNorm (over all outputs, eps 1e-5), orthogonal
	// weights, and pqn.py's layers of 120 and 84 units. Environments: episodic_life=True.
	cleanRL := map[string]string{
		"num_envs": "8", "n_steps": "128", "n_epochs": "4", "batch_size": "256", "q_lambda": "0.65", "gamma": "0.99", "learning_rate": "0.00025",
		"learning_rate_final": "0", "max_grad_norm": "10", "exploration_initial_eps": "1", "exploration_final_eps": "0.01", "exploration_fraction": "0.1",
		"layer_norm": "all", "layer_norm_eps": "1e-05", "init": "orthogonal", "loss_coef": "1", "radam_eps": "1e-08", "cnn": "nature", "net_arch": "120,84",
	}
	games := map[string]string{"env_options": `{"episodic_life": true}`}
	// Our own values: see presets.go.
	tuned := map[string]string{"num_envs": "8", "layer_norm_eps": "1e-06", "batch_size": "64", "learning_rate": "0.0005", "learning_rate_final": "0"}
	traintest.Presets(t, "pqn", map[string]map[string]string{
		"pqn CartPole-v1":            authors,
		"pqn atari/breakout":         traintest.With(authors, games),
		"pqn_cleanrl CartPole-v1":    cleanRL,
		"pqn_cleanrl atari/breakout": traintest.With(cleanRL, games),
		"tuned CartPole-v1": traintest.With(tuned, map[string]string{"n_steps": "64", "n_epochs": "4", "q_lambda": "0.95",
			"exploration_final_eps": "0.05", "exploration_fraction": "0.3"}),
		"tuned Catch-v0": traintest.With(tuned, map[string]string{"cnn": "small", "n_steps": "16", "n_epochs": "4",
			"exploration_final_eps": "0.01", "exploration_fraction": "0.3"}),
		"tuned Bricks-v0": traintest.With(tuned, map[string]string{"exploration_final_eps": "0.01", "exploration_fraction": "0.2"}),
	})
}
