package dqn

import (
	"maps"
	"testing"

	"github.com/paceline-rl/paceline/core/train/traintest"
)

// One seed gives one result on every processor.
func TestPortable(t *testing.T) {
	s := traintest.Subject{Method: "dqn", Digests: []string{"replay", "q_net", "q_net_target"}, Settings: map[string]string{
		"env": "CartPole-v1", "num_envs": "4", "seed": "11", "learning_starts": "200", "batch_size": "32", "buffer_size": "3000",
		"train_freq": "2", "target_update_interval": "128", "window": "64", "learning_rate": "0.001", "exploration_steps": "1500"}}
	catch := func(precision string) map[string]string {
		return map[string]string{"env": "Catch-v0", "train_freq": "8", "batch_size": "8", "learning_rate": "0.0001", "precision": precision}
	}
	der := catch("fp32")
	der["cnn"] = "der"
	implicit := func(more map[string]string) map[string]string {
		m := map[string]string{"distribution": "implicit", "net_arch": "32,24", "n_tau": "8", "n_tau_target": "6", "n_tau_act": "5", "n_cosines": "16"}
		maps.Copy(m, more)
		return m
	}
	traintest.Portable(t, s, []traintest.PortableRun{
		{Name: "CartPole, Adam, 1000 updates", Steps: 2200, Updates: 1000},
		{Name: "CartPole, RMSProp, 1000 updates", Settings: map[string]string{"optimizer": "rmsprop_mnih", "activation_fn": "tanh"}, Steps: 2200, Updates: 1000},
		{Name: "CartPole, munchausen, 1000 updates", Settings: map[string]string{"munchausen": "true", "n_steps": "3"}, Steps: 2200, Updates: 1000},
		{Name: "CartPole, Rainbow with noise, 300 updates", Settings: map[string]string{"noisy": "true", "exploration_initial_eps": "0", "exploration_final_eps": "0", "double_q": "true", "dueling": "true", "n_steps": "3",
			"distribution": "categorical", "v_min": "0", "v_max": "100", "prioritized": "dqn_zoo"}, Steps: 800, Updates: 300},
		{Name: "CartPole, implicit quantiles, 300 updates", Settings: implicit(nil), Steps: 800, Updates: 300},
		{Name: "CartPole, munchausen with implicit quantiles, 300 updates", Settings: implicit(map[string]string{"munchausen": "true"}), Steps: 800, Updates: 300},
		{Name: "CartPole, implicit quantiles with noise, 300 updates", Settings: implicit(map[string]string{"noisy": "true", "exploration_initial_eps": "0", "exploration_final_eps": "0"}), Steps: 800, Updates: 300},
		{Name: "Catch, Nature CNN, 20 updates", Settings: catch("fp32"), Steps: 360, Updates: 20},
		{Name: "Catch, Nature CNN, bf16, 20 updates", Settings: catch("bf16"), Steps: 360, Updates: 20},
		{Name: "Catch, cnn der, 20 updates", Settings: der, Steps: 360, Updates: 20},
		{Name: "Catch, Nature CNN, 1000 updates", Settings: catch("fp32"), Steps: 8200, Updates: 1000, Slow: true},
	})
}
