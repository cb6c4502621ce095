package gorila_test

import (
	"maps"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// subject is Gorila for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{
		"policy": "MlpPolicy", "net_arch": "16", "learning_starts": "60", "batch_size": "8", "buffer_size": "600", "bundles": "2", "shards": "3",
		"target_update_interval": "16", "train_freq": "4", "learning_rate": "0.01", "learning_rate_final": "0", "exploration_steps": "80", "loss": "squared",
	}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "gorila", Settings: settings, Digests: []string{"replay", "q_net", "q_net_target"}, Set: "q_net",
		Large: []string{"buffer_size", "4000000000"}, Alone: settings["bundles"] != "1", ByUpdates: true,
		Hook: func(m train.Method, before func()) { m.(interface{ HookGradients(func()) }).HookGradients(before) },
	}
}

// The suite of every method.
func TestSuite(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"bundles":              {"max_staleness": "2", "outliers": "2"},
		"one bundle":           {"bundles": "1"},
		"bundles, three steps": {"loss": "huber", "n_steps": "3", "double_q": "true"},
	} {
		if traintest.Few() && name != "bundles" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := subject(edit)
			s.Masked = name == "bundles"
			traintest.Run(t, s)
		})
	}
}

// One seed gives one result on every processor.
func TestPortable(t *testing.T) {
	s := traintest.Subject{Method: "gorila", Digests: []string{"replay", "q_net", "q_net_target"}, Settings: map[string]string{
		"env": "CartPole-v1", "num_envs": "4", "bundles": "4", "shards": "3", "seed": "11", "learning_starts": "200", "batch_size": "32", "buffer_size": "3000",
		"train_freq": "2", "target_update_interval": "64", "exploration_steps": "500", "max_staleness": "4", "outliers": "2"}}
	traintest.Portable(t, s, []traintest.PortableRun{{Name: "CartPole, 4 bundles, 849 updates applied", Steps: 2200, Updates: 849}})
}
