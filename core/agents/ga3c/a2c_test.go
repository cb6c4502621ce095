package ga3c_test

import (
	"fmt"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/a2c"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// trainer makes a trainer of built-in environments.
func trainer(t testing.TB, method string, edits ...string) *train.Trainer {
	t.Helper()
	cfg := traintest.Must(train.NewConfig(method))(t)
	for i := 0; i < len(edits); i += 2 {
		traintest.Check(t, cfg.Set(edits[i], edits[i+1]))
	}
	tr := traintest.Must(train.New(cfg, nil))(t)
	t.Cleanup(func() { traintest.Check(t, tr.Close()) })
	return tr
}

// run trains in slices, and returns digests of the parameters and the segments, and counts.
func run(t testing.TB, tr *train.Trainer, steps ...int64) string {
	t.Helper()
	total := int64(0)
	for _, n := range steps {
		total += n
	}
	traintest.Check(t, tr.Begin(total, 0))
	at := int64(0)
	for _, n := range steps {
		if at += n; at > tr.Stats().Steps {
			traintest.Check(t, tr.Run(at-tr.Stats().Steps, 0))
		}
	}
	return digests(t, tr)
}

func digests(t testing.TB, tr *train.Trainer) string {
	t.Helper()
	policy, segments := traintest.Must(tr.Hash("policy"))(t), traintest.Must(tr.Hash("segments"))(t)
	s := tr.Stats()
	return fmt.Sprint(policy[:16], " ", segments[:8], " ", s.Steps, s.Updates, s.Episodes, s.MeanReturn)
}

// One agent that waits for its updates, one predictor and one trainer, with the exact loss and its
// mean, are A2C with one environment, bit for bit, where segments end with A2C's rollouts: with
// n_steps 1, and in Catch-v0, whose episodes have eleven steps.
func TestOneAgentIsA2C(t *testing.T) {
	for _, edits := range [][]string{
		{"env", "CartPole-v1", "n_steps", "1"},
		{"env", "CartPole-v1", "n_steps", "1", "use_rms_prop", "false", "max_grad_norm", "0"},
		{"env", "Catch-v0", "n_steps", "11", "policy", "MlpPolicy", "gae_lambda", "0.9", "normalize_advantage", "true", "learning_rate_final", "0.001"},
	} {
		const steps = 220
		edits = append(edits, "num_envs", "1", "seed", "3", "ent_coef", "0.01", "learning_rate", "0.002")
		want := trainer(t, "a2c", edits...)
		traintest.Check(t, want.Begin(steps, 0))
		traintest.Check(t, want.Run(0, 0))
		tr := trainer(t, "ga3c", append(edits, "predictors", "1", "trainers", "1", "wait_for_update", "true", "loss_reduction", "mean", "regulariser", "exact", "rms_prop", "custom")...)
		traintest.Check(t, tr.Begin(steps, 0))
		traintest.Check(t, tr.Run(0, 0))
		traintest.Check(t, tr.Run(1, 0)) // the last update comes before this step
		a, b := traintest.Must(want.Hash("policy"))(t), traintest.Must(tr.Hash("policy"))(t)
		if a != b || want.Stats().Updates != tr.Stats().Updates {
			t.Errorf("%v: %.16s after %d updates, A2C's %.16s after %d", edits, b, tr.Stats().Updates, a, want.Stats().Updates)
		}
		if lag := traintest.Metric(t, tr, "ga3c/lag_most"); lag != 0 {
			t.Errorf("%v: lag %v", edits, lag)
		}
	}
}

// A lost life ends a segment and not the episode: the same where lives are lost.
func TestOneAgentThatLosesLivesIsA2C(t *testing.T) {
	const steps = 300
	lives := func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(7)(i)
		e.(*traintest.Walk).Lives = true
		return e, err
	}
	run := func(method string, edits ...string) *train.Trainer {
		cfg := traintest.Must(train.NewConfig(method))(t)
		edits = append(edits, "num_envs", "1", "n_steps", "1", "seed", "3", "ent_coef", "0.01", "learning_rate", "0.002")
		for i := 0; i < len(edits); i += 2 {
			traintest.Check(t, cfg.Set(edits[i], edits[i+1]))
		}
		tr := traintest.NewTrainer(t, cfg, lives)
		traintest.Check(t, tr.Begin(steps, 0))
		traintest.Check(t, tr.Run(0, 0))
		return tr
	}
	want := run("a2c")
	tr := run("ga3c", "predictors", "1", "trainers", "1", "wait_for_update", "true", "loss_reduction", "mean", "regulariser", "exact", "rms_prop", "custom")
	traintest.Check(t, tr.Run(1, 0)) // the last update comes before this step
	a, b := traintest.Must(want.Hash("policy"))(t), traintest.Must(tr.Hash("policy"))(t)
	if a != b || want.Stats().Updates != tr.Stats().Updates {
		t.Errorf("%.16s after %d updates, A2C's %.16s after %d", b, tr.Stats().Updates, a, want.Stats().Updates)
	}
}

// An agent that waits for its update has a lag of other agents' updates. There are none where each
// update learns from the segments of all agents.
func TestLagOfWaitingAgents(t *testing.T) {
	for least, late := range map[string]bool{"20": false, "10": true, "1": true} {
		tr := trainer(t, "ga3c", "env", "CartPole-v1", "num_envs", "4", "n_steps", "5", "seed", "1", "trainers", "1", "wait_for_update", "true", "min_training_batch", least)
		run(t, tr, 600)
		if lag := traintest.Metric(t, tr, "ga3c/lag_most"); lag > 0 != late {
			t.Errorf("min_training_batch %s: the largest lag is %v", least, lag)
		}
	}
}

// The virtual schedule has one result for any number of threads and any slices.
func TestVirtualRepeats(t *testing.T) {
	for _, more := range [][]string{
		{},
		{"predictors", "3", "trainers", "3", "min_training_batch", "7", "latency_step", "0.003:1"},
		{"prediction_queue", "3", "prediction_batch_max", "2", "training_queue", "2", "latency_update", "0.01:0.5", "trainers", "1"},
		{"latency_step", "0.001", "latency_predict", "0.001", "latency_update", "0.001"},
	}[:traintest.Times(4, 2)] {
		edits := append([]string{"env", "CartPole-v1", "num_envs", "8", "seed", "3", "learning_rate", "0.003", "learning_rate_final", "0"}, more...)
		want := run(t, trainer(t, "ga3c", append(edits, "num_threads", "1")...), 3000)
		for _, steps := range [][]int64{{2, 4, 2, 992, 2000}, {3000}, {1000, 2000}} {
			for _, threads := range []string{"2", "1", "4"} {
				if got := run(t, trainer(t, "ga3c", append(edits, "num_threads", threads)...), steps...); got != want {
					t.Errorf("%v, %s threads, slices %v: %s, want %s", more, threads, steps, got, want)
				}
			}
		}
	}
}
