package a3c_test

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// Settings that differ from the defaults, which are A2C's with one learner.
func TestPresetsHaveTheValuesOfTheirSources(t *testing.T) {
	// Mnih et al. 2016: 16 threads, t_max 5, gamma .99, shared RMSProp with alpha
	// .99, a learning rate that falls to 0, beta .01, convolutions of 16 and 32 outputs and a layer of
	// 256. Babaeizadeh et al. 2017 give eps .1, inside the root. Losses are sums over 5 rounds.
	mnih := map[string]string{
		"num_envs": "16", "learners": "16", "rule": "gradient", "n_steps": "5", "gamma": "0.99", "gae_lambda": "1",
		"learning_rate": "0.0007", "learning_rate_final": "0", "use_rms_prop": "true", "rms_prop_alpha": "0.99", "rms_prop_eps": "0.004",
		"rms_prop_eps_inside": "true", "rms_prop_first": "0", "ent_coef": "0.01", "vf_coef": "1", "max_grad_norm": "0",
		"normalize_advantage": "false", "policy": "CnnPolicy", "cnn": "small",
	}
	// Stooke & Abbeel 2018, sections 4.3 and 5.3: learners of 16 environments overwrite the store's
	// parameters in shards; "no hyperparameter adjustments". The rest is A2C's preset.
	stookeAbbeel := map[string]string{
		"num_envs": "128", "learners": "8", "rule": "overwrite", "n_steps": "5", "learning_rate": "0.0007", "learning_rate_final": "",
		"rms_prop_alpha": "0.9", "rms_prop_eps": "1e-06", "rms_prop_eps_inside": "true", "rms_prop_first": "0",
		"max_grad_norm": "0.5", "vf_coef": "0.25", "ent_coef": "0.01", "normalize_advantage": "false", "gae_lambda": "1",
		"policy": "CnnPolicy", "cnn": "small",
	}
	games := map[string]string{"env_options": `{"recipe": "stooke_abbeel", "decorrelation_steps": 2000}`}
	catch := map[string]string{"num_envs": "64", "learners": "8", "policy": "CnnPolicy", "n_steps": "8", "ent_coef": "0.01", "learning_rate": "0.0007", "learning_rate_final": "0"}
	traintest.Presets(t, "a3c", map[string]map[string]string{
		"mnih2016 CartPole-v1":         mnih,
		"mnih2016 atari/breakout":      traintest.With(mnih, map[string]string{"env_options": `{"recipe": "mnih2015"}`}),
		"stooke_abbeel CartPole-v1":    stookeAbbeel,
		"stooke_abbeel atari/breakout": traintest.With(stookeAbbeel, games),
		// A2C's: see presets.go.
		"tuned CartPole-v1": {"num_envs": "64", "learners": "8", "n_steps": "32", "gamma": "0.98", "gae_lambda": "0.9", "normalize_advantage": "true",
			"learning_rate": "0.002", "learning_rate_final": "0", "max_grad_norm": "0.2"},
		"tuned Catch-v0":  catch,
		"tuned Bricks-v0": catch,
		"tuned Pong":      traintest.With(stookeAbbeel, map[string]string{"rule": "gradient", "env_options": `{"recipe": "stooke_abbeel"}`}),
	})
}

func TestPresetsResolve(t *testing.T) { traintest.PresetsResolve(t, "a3c") }

func TestBadSettingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		edits []string
		want  string
	}{
		{[]string{"num_envs", "1", "learners", "8"}, "num_envs: 1, must be a multiple of learners (8)"},
		{[]string{"num_envs", "12", "learners", "8"}, "num_envs: 12, must be a multiple of learners (8)"},
		{[]string{"num_envs", "4", "learners", "4", "groups", "2"}, "groups: 2, must be at most num_envs / learners (1)"},
		{[]string{"rule", "multi_step_adam"}, "rule: multi_step_adam, must be another where the optimiser is rmsprop"},
		{[]string{"sync_period", "2"}, "sync_period: 2, must be 1 with rule gradient"},
		{[]string{"schedule", "recorded"}, "order: empty, must name a file with schedule recorded"},
		{[]string{"order", "x"}, `order: "x", must be empty with schedule virtual`},
		{[]string{"n_steps", "16385", "num_envs", "8", "learners", "2"}, "n_steps: 16385, must be at most 16384 with num_envs / learners 4: n_steps * num_envs / learners rows are one rollout of up to 65536"},
		{[]string{"n_steps", "1", "num_envs", "2", "learners", "2", "normalize_advantage", "true"}, "n_steps: 1, must be more with num_envs / learners 1 and normalize_advantage: one advantage has no deviation"},
		{[]string{"device", "cuda"}, "device: cuda, must be auto or cpu for a3c"},
	} {
		cfg := traintest.Must(train.NewConfig("a3c"))(t)
		for i := 0; i < len(c.edits); i += 2 {
			if err := cfg.Set(c.edits[i], c.edits[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		tr, err := train.New(cfg, traintest.MakeWalk(1))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.edits, err, c.want)
		}
		if err == nil {
			tr.Close()
		}
	}
	for _, edit := range [][]string{{"learners", "0"}, {"learners", "101"}, {"schedule", "hogwild"}, {"rule", "sum"}, {"shards", "65"}, {"adam_time", "now"}, {"latency_push", "0"}, {"latency_push", "1:3"}} {
		cfg := traintest.Must(train.NewConfig("a3c"))(t)
		if err := cfg.Set(edit[0], edit[1]); err == nil || !strings.HasPrefix(err.Error(), edit[0]+": ") || !strings.Contains(err.Error(), "must be ") {
			t.Errorf("%v: %v", edit, err)
		}
	}
}

func TestUnusedSettingsAreNoticed(t *testing.T) {
	traintest.Notices(t, "a3c", traintest.ActorCriticNotices)
	traintest.Notices(t, "a3c", [][2][]string{
		{{"num_envs", "4", "n_steps", "4", "vtrace_groups", "2", "vtrace_steps", "2"}, {"vtrace_groups: 2 is not used where vtrace is false", "vtrace_steps: 2 is not used where vtrace is false"}},
		{{"num_envs", "4", "n_steps", "4", "vtrace_groups", "2", "vtrace_steps", "2", "vtrace", "true"}, nil},
		{{"schedule", "race", "latency_push", "1", "latency_file", "durations.json"}, {"latency_push: 1 is not used where schedule is race", "latency_file: durations.json is not used where schedule is race"}},
		{{"latency_push", "1", "latency_file", "durations.json"}, nil},
		{{"adam_time", "local"}, {"adam_time: local is not used where use_rms_prop is true"}},
		{{"adam_time", "local", "use_rms_prop", "false"}, nil},
	})
}
