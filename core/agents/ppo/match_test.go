package ppo

import (
	"testing"

	"github.com/paceline-rl/paceline/core/train/traintest"
)

// PPO finds the optimum of every kind of actions.
func TestEveryKindOfActionIsLearned(t *testing.T) {
	traintest.Matches(t, "ppo", 60_000, map[string]string{
		"num_envs": "8", "n_steps": "64", "batch_size": "64", "n_epochs": "10",
		"gamma": "0.5", "learning_rate": "0.001", "learning_rate_final": "0", "log_std_init": "-1",
	})
}
