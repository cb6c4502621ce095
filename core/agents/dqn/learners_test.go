package dqn

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// learners trains on a small CartPole in slices, and returns digests of the parameters and the
// replay memories, and counts. If path is not empty, it saves a checkpoint in the end.
func learners(t *testing.T, path string, steps []int64, edits ...string) string {
	t.Helper()
	cfg := must(train.NewConfig("dqn"))(t)
	for _, edit := range append([]string{"env=CartPole-v1", "num_envs=4", "seed=3", "net_arch=16", "learning_starts=100", "batch_size=8", "buffer_size=2000",
		"target_update_interval=64", "window=32", "learning_rate=0.001", "learning_rate_final=0", "exploration_steps=600"}, edits...) {
		name, value, _ := strings.Cut(edit, "=")
		check(t, cfg.Set(name, value))
	}
	tr := must(train.New(cfg, nil))(t)
	defer tr.Close()
	total := int64(0)
	for _, n := range steps {
		total += n
	}
	check(t, tr.Begin(total, 0))
	for _, n := range steps {
		check(t, tr.Run(n, 0))
	}
	q, replay, target := must(tr.Hash("q_net"))(t), must(tr.Hash("replay"))(t), must(tr.Hash("q_net_target"))(t)
	if path != "" {
		check(t, tr.Save(path, true))
	}
	s := tr.Stats()
	return fmt.Sprint(q[:16], replay[:8], target[:8], " ", s.Steps, s.Updates, s.Episodes, s.MeanReturn)
}

// The way to an update that is 2^40 steps away is neither walked nor planned.
func TestLearnersWithRareUpdates(t *testing.T) {
	for _, edits := range [][]string{{"concurrent=false"}, {"concurrent=true", "rule=mean"}, {"schedule=race"}} {
		got := learners(t, "", []int64{300, 300}, append(edits, "learners=2", "train_freq=1099511627776")...)
		if !strings.Contains(got, " 600 0 ") {
			t.Errorf("%v: %s, want 600 steps and no update", edits, got)
		}
	}
}

// One learner is bit-identical to DQN.
func TestOneLearnerIsDQN(t *testing.T) {
	for _, edits := range [][]string{
		{},
		{"concurrent=false"},
		{"concurrent=false", "tau=0.5", "train_freq=3", "gradient_steps=2", "double_q=true"},
		{"actor=target", "window=64", "gradient_steps=3", "train_freq=10", "loss_reduction=sum", "optimizer=rmsprop_mnih"},
	} {
		want := learners(t, "", []int64{1500}, edits...)
		for _, rule := range []string{"gradient", "overwrite", "mean"} {
			for _, schedule := range []string{"virtual", "race"} {
				got := learners(t, "", []int64{1500}, append(edits, "learners=1", "rule="+rule, "schedule="+schedule)...)
				if got != want {
					t.Errorf("%s, %s, %v: %s, want DQN's %s", rule, schedule, edits, got, want)
				}
			}
		}
	}
}

// The virtual schedule has one result for any number of threads and any slices.
func TestLearnersRepeat(t *testing.T) {
	for _, edits := range [][]string{{"rule=gradient"}, {"rule=overwrite", "concurrent=false"}, {"rule=mean"}, {"rule=multi_step_adam", "sync_period=3"}} {
		edits = append(edits, "num_envs=8", "learners=4")
		want := learners(t, "", []int64{3000}, append(edits, "num_threads=1")...)
		for i, steps := range [][]int64{{2, 4, 2, 1992, 1000}, {3000}}[:traintest.Times(2, 1)] {
			if got := learners(t, "", steps, append(edits, fmt.Sprint("num_threads=", 2+2*i))...); got != want {
				t.Errorf("%v, slices %v: %s, want %s", edits, steps, got, want)
			}
		}
	}
}

// A race that was recorded can be repeated, bit for bit.
func TestRaceOfLearnersRepeats(t *testing.T) {
	for _, edits := range [][]string{{"rule=gradient"}, {"rule=overwrite", "concurrent=false"}, {"rule=mean"}} {
		edits = append(edits, "num_envs=8", "learners=4")
		path := filepath.Join(t.TempDir(), "race")
		slices := []int64{1200, 900}
		want := learners(t, path, slices, append(edits, "schedule=race")...)
		for _, threads := range []string{"1", "2"} {
			got := learners(t, "", slices, append(edits, "schedule=recorded", "order="+path, "num_threads="+threads)...)
			if got != want {
				t.Errorf("%v, %s threads: %s, the race %s", edits, threads, got, want)
			}
		}
	}
}

func TestSuiteOfLearners(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"one learner":           {"learners": "1"},
		"learners":              {"learners": "2"},
		"learners, mean":        {"learners": "2", "rule": "mean", "concurrent": "false"},
		"learners, three steps": {"learners": "2", "rule": "multi_step_adam", "sync_period": "3", "double_q": "true"},
	} {
		if traintest.Few() && name != "learners" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := subject(nil)
			maps.Copy(s.Settings, edit)
			s.Alone = edit["learners"] != "1"
			s.Hook = func(m train.Method, before func()) { m.(interface{ HookGradients(func()) }).HookGradients(before) }
			s.Digests = []string{"replay", "q_net", "q_net_target"}
			traintest.Run(t, s)
		})
	}
}

func TestBadLearnersAreRefused(t *testing.T) {
	for _, c := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.Learners = 3 }, "num_envs: 8, must be a multiple of learners (3)"},
		{func(c *Config) { c.Synchronized = false }, "synchronized: false, must be true where learners is 2: a learner takes whole rounds"},
		{func(c *Config) { c.BufferSize, c.BatchSize = 50, 32 }, "buffer_size: 50, must be at least 64 with 2 learners, which share it"},
		{func(c *Config) { c.Learners, c.Schedule = 0, "race" }, "schedule: race, must be virtual where learners is 0"},
		{func(c *Config) { c.Learners, c.Order = 0, "a" }, `order: "a", must be empty where learners is 0`},
		{func(c *Config) { c.Rule, c.Optimizer = "multi_step_adam", "rmsprop" }, "rule: multi_step_adam, must be another where the optimiser is rmsprop: it takes steps of Adam"},
	} {
		cfg := *Settings.Defaults().Struct().(*Config)
		cfg.NumEnvs, cfg.Learners = 8, 2
		c.edit(&cfg)
		if _, err := cfg.Resolve(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestAnOrderNeedsLearners(t *testing.T) {
	refuses(t, newDQN(t, cartpole()).SaveOrder(filepath.Join(t.TempDir(), "order")), "order: learners is 0, must be at least 1 with schedule race or recorded")
}
