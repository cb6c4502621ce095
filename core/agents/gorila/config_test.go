package gorila_test

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func TestPresetsResolve(t *testing.T) { traintest.PresetsResolve(t, "gorila") }

// Settings that differ from the defaults, which are DQN's but for those in gorila.go.
func TestPresetsHaveTheValuesOfTheirSources(t *testing.T) {
	// Nair et al. 2015, section 5.1: N_param = 31, N_learn = N_act = 100, D = 1 million frames,
	// epsilon from 1 to 0.1 over a million global updates, a target every 60,000 updates; section 4.2:
	// AdaGrad. Of Mnih et al. 2015, whose setup they follow: the network, the minibatch, gamma,
	// replay_start_size, the clipped error. The thresholds, the learning rate and the constant are
	// ours.
	nair := map[string]string{
		"num_envs": "100", "bundles": "100", "shards": "31", "policy": "CnnPolicy", "target_update_interval": "60000", "exploration_final_eps": "0.1",
		"exploration_steps": "1000000", "learning_starts": "50000", "max_staleness": "1000", "max_grad_norm": "0", "optimizer_eps": "0.01",
	}
	both := map[string]string{"num_envs": "4", "bundles": "4", "shards": "3", "buffer_size": "100000", "learning_starts": "1000", "max_staleness": "20"}
	traintest.Presets(t, "gorila", map[string]map[string]string{
		"nair2015 CartPole-v1":    nair,
		"nair2015 atari/breakout": traintest.With(nair, map[string]string{"env_options": `{"recipe": "mnih2015"}`}),
		"tuned CartPole-v1": traintest.With(both, map[string]string{"policy": "MlpPolicy", "net_arch": "128,128", "batch_size": "64", "train_freq": "2",
			"target_update_interval": "128", "learning_rate": "0.05", "learning_rate_final": "0", "loss": "squared", "double_q": "true", "max_grad_norm": "1",
			"exploration_final_eps": "0.04", "exploration_steps": "4000"}),
		"tuned Catch-v0": traintest.With(both, map[string]string{"policy": "CnnPolicy", "cnn": "small", "train_freq": "4", "target_update_interval": "125", "exploration_steps": "1500"}),
	})
}

// The settings of Algorithm 1 cannot be changed, and messages name the settings of Gorila.
func TestBadSettingsAreRefused(t *testing.T) {
	cfg := must(train.NewConfig("gorila"))(t)
	for _, name := range []string{"learners", "rule", "sync_period", "adam_time", "clock", "concurrent", "synchronized", "actor", "window", "noisy", "updates", "outside_learners"} {
		if err := cfg.Set(name, "1"); err == nil || !strings.Contains(err.Error(), "is not known") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct{ edit, want string }{
		{"bundles=0", "bundles: 0, must be 1 to 100"},
		{"bundles=101", "bundles: 101, must be 1 to 100"},
		{"outliers=-1", "outliers: -1, must be 0 to 1e+06"},
	} {
		name, value, _ := strings.Cut(c.edit, "=")
		if err := cfg.Set(name, value); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, c := range []struct{ edit, want string }{
		{"bundles=3", "num_envs: 4, must be a multiple of bundles (3)"},
		{"groups=2", "groups: 2, must be at most num_envs / bundles (1)"},
		{"buffer_size=16", "buffer_size: 16, must be at least 32 with 4 bundles, which share it"},
		{"schedule=recorded", "order: empty, must name a file with schedule recorded"},
		{"device=cuda", "device: cuda, must be auto or cpu for gorila"},
	} {
		tr, err := train.New(gorila(t, c.edit), traintest.MakeWalk(1))
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
		if err == nil {
			tr.Close()
		}
	}
}
