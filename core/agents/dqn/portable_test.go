package dqn

import (
	"maps"
	"testing"

	"github.com/paceline-rl/paceline/core/train/traintest"
)

// One seed gives one result on every processor.
func TestPortable(t *testing.T) {
	with := func(base, more map[string]string) map[string]string {
		base = maps.Clone(base)
		maps.Copy(base, more)
		return base
	}
	cartpole := map[string]string{"env": "CartPole-v1", "num_envs": "4", "seed": "11", "learning_starts": "200", "batch_size": "32",
		"buffer_size": "3000", "train_freq": "2", "target_update_interval": "128", "window": "64", "learning_rate": "0.001", "exploration_steps": "1500"}
	catch := with(cartpole, map[string]string{"env": "Catch-v0", "train_freq": "8", "batch_size": "8", "learning_rate": "0.0001"})
	traintest.Portable(t, traintest.Subject{Method: "dqn", Digests: []string{"replay", "q_net", "q_net_target"}}, []traintest.PortableRun{
		{Name: "CartPole, Adam, 1000 updates", Settings: cartpole, Steps: 2200, Updates: 1000},
		{Name: "CartPole, RMSProp, 1000 updates", Settings: with(cartpole, map[string]string{"optimizer": "rmsprop_mnih", "activation_fn": "tanh"}), Steps: 2200, Updates: 1000},
		{Name: "Catch, Nature CNN, 20 updates", Settings: catch, Steps: 360, Updates: 20},
		{Name: "Catch, Nature CNN, bf16, 20 updates", Settings: with(catch, map[string]string{"precision": "bf16"}), Steps: 360, Updates: 20},
		{Name: "Catch, Nature CNN, 1000 updates", Settings: catch, Steps: 8200, Updates: 1000, Slow: true},
	})
}
