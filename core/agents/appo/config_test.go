package appo_test

import (
	"strings"
	"testing"

	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// Settings that differ from the defaults, which are PPO's with one learner.
func TestPresetsHaveTheValuesOfTheirSources(t *testing.T) {
	// Stooke & Abbeel 2018, section 5.3: PPO of 8 simulators x 256 steps, 4 epochs of 4 minibatches;
	// gradients are clipped (to .5, as in their A2C), the learning rate is a quarter, nothing falls,
	// parameters are pulled every 64 steps. Their code counts Adam's t by learner. The rest is PPO's
	// preset.
	stookeAbbeel := map[string]string{
		"num_envs": "64", "learners": "8", "rule": "multi_step_adam", "sync_period": "1", "pull_period": "64", "adam_time": "local",
		"n_steps": "256", "learning_rate": "0.00025", "learning_rate_final": "", "adam_eps": "1e-05", "n_epochs": "4", "batch_size": "512",
		"clip_range": "0.2", "clip_range_schedule": "", "clip_range_vf": "", "gae_lambda": "0.95", "vf_coef": "1", "max_grad_norm": "0.5",
		"normalize_advantage": "false", "ent_coef": "0.01", "policy": "CnnPolicy", "cnn": "nature",
	}
	traintest.Presets(t, "appo", map[string]map[string]string{
		"stooke_abbeel CartPole-v1":    stookeAbbeel,
		"stooke_abbeel atari/breakout": traintest.With(stookeAbbeel, map[string]string{"env_options": `{"recipe": "stooke_abbeel", "decorrelation_steps": 2000}`}),
		// PPO's: see presets.go.
		"tuned CartPole-v1": {"num_envs": "32", "learners": "4", "n_steps": "32", "batch_size": "256", "n_epochs": "20", "gamma": "0.98", "gae_lambda": "0.8",
			"learning_rate": "0.001", "learning_rate_final": "0", "clip_range_schedule": "0:0.2,1:0"},
		"tuned Catch-v0": {"num_envs": "32", "learners": "4", "policy": "CnnPolicy", "cnn": "small", "n_steps": "32", "batch_size": "64", "n_epochs": "4",
			"ent_coef": "0.01", "learning_rate": "0.0005"},
		"tuned Bricks-v0": {"num_envs": "32", "learners": "4", "policy": "CnnPolicy", "n_steps": "32", "batch_size": "64", "n_epochs": "3", "ent_coef": "0.01",
			"learning_rate": "0.001", "learning_rate_final": "0"},
		"tuned Pong": {"num_envs": "64", "learners": "4", "n_steps": "128", "precision": "bf16", "policy": "CnnPolicy", "learning_rate": "0.0005",
			"learning_rate_final": "0.00015", "batch_size": "256", "n_epochs": "3", "clip_range_schedule": "0:0.2,1:0.05", "ent_coef": "0.01"},
	})
}

func TestPresetsResolve(t *testing.T) { traintest.PresetsResolve(t, "appo") }

func TestBadSettingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		edits []string
		want  string
	}{
		{[]string{"batch_size", "1"}, "batch_size: 1, must be more with normalize_advantage: one advantage has no deviation"},
		{[]string{"n_steps", "1", "num_envs", "4", "learners", "4"}, "n_steps: 1, must be more with num_envs / learners 1 and normalize_advantage: one advantage has no deviation"},
		{[]string{"n_steps", "16385", "num_envs", "8", "learners", "2"}, "n_steps: 16385, must be at most 16384 with num_envs / learners 4"},
		{[]string{"num_envs", "6", "learners", "4"}, "num_envs: 6, must be a multiple of learners (4)"},
		{[]string{"use_rms_prop", "true"}, "rule: multi_step_adam, must be another where the optimiser is rmsprop"},
		{[]string{"rule", "overwrite", "sync_period", "4"}, "sync_period: 4, must be 1 with rule overwrite"},
		{[]string{"device", "cuda:1"}, "device: cuda:1, must be auto or cpu for appo"},
	} {
		cfg := traintest.Must(train.NewConfig("appo"))(t)
		for i := 0; i < len(c.edits); i += 2 {
			traintest.Check(t, cfg.Set(c.edits[i], c.edits[i+1]))
		}
		tr, err := train.New(cfg, traintest.MakeWalk(1))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.edits, err, c.want)
		}
		if err == nil {
			tr.Close()
		}
	}
	for _, edit := range [][]string{{"sync_period", "0"}, {"sync_period", "1025"}, {"pull_period", "-1"}} {
		cfg := traintest.Must(train.NewConfig("appo"))(t)
		if err := cfg.Set(edit[0], edit[1]); err == nil || !strings.HasPrefix(err.Error(), edit[0]+": ") || !strings.Contains(err.Error(), "must be ") {
			t.Errorf("%v: %v", edit, err)
		}
	}
}

func TestUnusedSettingsAreNoticed(t *testing.T) {
	traintest.Notices(t, "appo", traintest.ActorCriticNotices)
	traintest.Notices(t, "appo", [][2][]string{
		{{"num_envs", "4", "learners", "2", "n_steps", "16", "batch_size", "64"}, {"batch_size: 64 is more than n_steps * num_envs / learners; minibatches are whole rollouts of 32 steps"}},
		{{"vtrace", "true", "vtrace_rho", "0.1"}, nil},
		{{"clip_range_vf_largest", "true"}, {"clip_range_vf_largest: true is not used where clip_range_vf is empty"}},
		{{"schedule", "race", "latency_push", "1", "latency_file", "durations.json"}, {"latency_push: 1 is not used where schedule is race", "latency_file: durations.json is not used where schedule is race"}},
		{{"latency_push", "1", "latency_file", "durations.json"}, nil},
		{{"adam_time", "local"}, nil},
		{{"adam_time", "local", "use_rms_prop", "true", "rule", "gradient"}, {"adam_time: local is not used where use_rms_prop is true"}},
	})
}
