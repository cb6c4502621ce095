package a2c

import (
	"testing"

	"github.com/paceline-rl/paceline/core/train/traintest"
)

// A2C finds the optimum of every kind of actions.
func TestEveryKindOfActionIsLearned(t *testing.T) {
	traintest.Matches(t, "a2c", 120_000, map[string]string{
		"num_envs": "8", "n_steps": "8", "normalize_advantage": "true", "use_rms_prop": "false",
		"gamma": "0.5", "gae_lambda": "0.95", "learning_rate": "0.003", "learning_rate_final": "0", "log_std_init": "-1",
	})
}
