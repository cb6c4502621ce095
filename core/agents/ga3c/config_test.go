package ga3c_test

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func TestPresetsHaveTheValuesOfTheirSources(t *testing.T) {
	// Babaeizadeh et al. 2017: section 3.2 (networks, t_max 5), 4.2 (NP = NT = 2), 4.4 (no clipping),
	// 5.3 (one segment an update, summed gradients), Figure 6 (learning rate). Their code: 32 agents,
	// a prediction batch of at most 128, a queue of 100, RMSProp of TensorFlow 1 with decay .99 and
	// eps .1, beta .01, log_eps 1e-6, and half the squared error.
	paper := map[string]string{
		"num_envs": "32", "cnn": "small", "learning_rate": "0.0003", "n_steps": "5", "gamma": "0.99", "gae_lambda": "1", "ent_coef": "0.01", "vf_coef": "0.5",
		"max_grad_norm": "0", "use_rms_prop": "true", "rms_prop": "tf1", "rms_prop_alpha": "0.99", "rms_prop_eps": "0.1", "predictors": "2", "trainers": "2",
		"prediction_batch_max": "128", "training_queue": "100", "min_training_batch": "1", "regulariser": "paper", "log_eps": "1e-06", "loss_reduction": "sum",
	}
	want := map[string]map[string]string{}
	add := func(name string, values map[string]string) {
		want[name+" CartPole-v1"] = values
		want[name+" atari/breakout"] = traintest.With(values, map[string]string{"env_options": `{"recipe": "mnih2015"}`})
	}
	add("paper", paper)
	for _, stride := range []string{"1", "2", "3", "4"} {
		add("paper_large_"+stride, traintest.With(paper, map[string]string{"policy": "CnnPolicy", "cnn": "ga3c_" + stride}))
	}
	want["tuned CartPole-v1"] = map[string]string{
		"num_envs": "16", "n_steps": "16", "gamma": "0.98", "gae_lambda": "0.95", "normalize_advantage": "true", "learning_rate": "0.001", "learning_rate_final": "0",
		"rms_prop": "custom", "training_queue": "1024", "min_training_batch": "64", "loss_reduction": "mean",
	}
	want["tuned Catch-v0"] = map[string]string{
		"num_envs": "16", "policy": "CnnPolicy", "n_steps": "8", "ent_coef": "0.01", "learning_rate": "0.0015", "learning_rate_final": "0",
		"min_training_batch": "64", "loss_reduction": "mean",
	}
	want["tuned Pong"] = map[string]string{
		"num_envs": "16", "policy": "CnnPolicy", "cnn": "small", "n_steps": "8", "gae_lambda": "0.95", "ent_coef": "0.01", "max_grad_norm": "0.5",
		"learning_rate": "0.001", "learning_rate_final": "0", "rms_prop": "tf1", "rms_prop_eps": "1e-05", "min_training_batch": "64",
		"loss_reduction": "mean", "env_options": `{"recipe": "mnih2015"}`,
	}
	traintest.Presets(t, "ga3c", want)
}

func TestPresetsResolve(t *testing.T) { traintest.PresetsResolve(t, "ga3c") }

func TestBadSettingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		edits []string
		want  string
	}{
		{[]string{"min_training_batch", "20", "training_queue", "19"}, "training_queue: 19, must be at least min_training_batch (20)"},
		{[]string{"n_steps", "1", "normalize_advantage", "true"}, "normalize_advantage: true, must be false where an update has one step"},
		{[]string{"min_training_batch", "65536", "training_queue", "65536"}, "min_training_batch: 65536, must be at most 65532 with n_steps 5"},
		{[]string{"schedule", "recorded"}, "order: empty, must name a file with schedule recorded"},
		{[]string{"order", "x"}, `order: "x", must be empty with schedule virtual`},
		{[]string{"schedule", "recorded", "order", "/none"}, "order: "},
		{[]string{"latency_file", "/none"}, "latency_file: "},
		{[]string{"device", "cuda"}, "device: cuda, must be auto or cpu for ga3c"},
	} {
		cfg := traintest.Must(train.NewConfig("ga3c"))(t)
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
	for _, edit := range [][]string{{"predictors", "0"}, {"trainers", "65"}, {"schedule", "hogwild"}, {"regulariser", "none"}, {"log_eps", "0"}, {"latency_update", "0"}, {"normalize_obs", "true"}, {"mid_batch_reset", "false"}} {
		cfg := traintest.Must(train.NewConfig("ga3c"))(t)
		if err := cfg.Set(edit[0], edit[1]); err == nil || !strings.Contains(err.Error(), edit[0]) {
			t.Errorf("%v: %v", edit, err)
		}
	}
}

func TestUnusedSettingsAreNoticed(t *testing.T) {
	traintest.Notices(t, "ga3c", traintest.ActorCriticNotices)
	traintest.Notices(t, "ga3c", [][2][]string{
		{{"use_rms_prop", "false"}, nil},
		{{"use_rms_prop", "false", "rms_prop", "custom"}, {"rms_prop: custom is not used where use_rms_prop is false"}},
		{{"vtrace", "true", "vtrace_rho", "0.1"}, nil},
		{{"regulariser", "exact", "log_eps", "0.1"}, {"log_eps: 0.1 is not used where regulariser is exact"}},
		{{"tuner_period", "9", "tuner_pairs", "9"}, {"tuner_period: 9 is not used where tuner is none", "tuner_pairs: 9 is not used where tuner is none"}},
		{{"tuner", "authors", "tuner_period", "9", "tuner_pairs", "9"}, {"tuner_pairs: 9 is not used where tuner is authors"}},
		{{"schedule", "race", "latency_cores", "2", "latency_file", "durations.json"}, {"latency_cores: 2 is not used where schedule is race", "latency_file: durations.json is not used where schedule is race"}},
	})
}
