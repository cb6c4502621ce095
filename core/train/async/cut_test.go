package async_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// slow is a method whose updates are long, so that limits and stops cut them.
func slow(t *testing.T, method string, more ...string) *train.Config {
	t.Helper()
	a := applied{method: method, settings: []string{"num_envs", "4", "learners", "2", "seed", "1", "pull_period", "0"}}
	if method == "dqn" {
		a.settings = []string{"num_envs", "4", "learners", "2", "seed", "1", "net_arch", "128,128", "learning_starts", "24", "buffer_size", "400",
			"batch_size", "32", "train_freq", "4", "gradient_steps", "6", "concurrent", "false"}
	}
	return configOfRun(t, a, more...)
}

// cutRuns are runs of several learners with several gradients in an update.
func cutRuns(t *testing.T) map[string]*train.Config {
	nets := []string{"n_steps", "16", "batch_size", "8", "net_arch_pi", "128,128", "net_arch_vf", "128"}
	return map[string]*train.Config{
		"appo gradient": slow(t, "appo", append(nets, "rule", "gradient")...),
		"appo several":  slow(t, "appo", append(nets, "rule", "multi_step_adam", "sync_period", "8")...),
		"dqn gradient":  slow(t, "dqn", "rule", "gradient"),
		"dqn mean":      slow(t, "dqn", "rule", "mean"),
		"dqn several":   slow(t, "dqn", "rule", "multi_step_adam", "sync_period", "3"),
	}
}

func cartPole(i int) (env.Env, error) {
	e, err := env.Make("CartPole-v1", nil)
	if err == nil {
		e.Seed(vec.SeedFor(7, i))
	}
	return e, err
}

// until repeats a call with longer limits until none cuts it, and returns how many did. A limit
// that is too short for one gradient makes no progress.
func until(t *testing.T, call func(limit time.Duration) error) (cuts int) {
	t.Helper()
	for limit := 50 * time.Microsecond; ; limit += limit / 8 {
		err := call(limit)
		if err == nil {
			return cuts
		}
		if !errors.Is(err, fault.ErrTimedOut) {
			t.Fatal(err)
		}
		cuts++
	}
}

// An act that a limit cuts changes nothing; one that returns has chosen all actions, after all
// updates that are due. A settle that returns has left none.
func TestCutActsAndSettlesAreContinued(t *testing.T) {
	for name, c := range cutRuns(t) {
		run := func(limits bool) string {
			h := traintest.NewHost(t, c, vec.SameStep, cartPole)
			h.Begin(t, 136)
			cuts := 0
			for round := range 34 {
				for i := range h.Actions.Discrete {
					h.Actions.Discrete[i] = 77
				}
				switch {
				case !limits:
					check(t, h.Act())
				case round%2 == 0:
					cuts += until(t, h.Trainer.Settle)
					updates := h.Trainer.Stats().Updates
					check(t, h.Trainer.Settle(0))
					if now := h.Trainer.Stats().Updates; now != updates {
						t.Fatalf("%s: a settle left %d updates", name, now-updates)
					}
					check(t, h.Act())
				default:
					cuts += until(t, func(limit time.Duration) error { return h.Trainer.Act(h.Rows, h.Actions, limit) })
				}
				if slices.Contains(h.Actions.Discrete, 77) {
					t.Fatalf("%s, round %d: an act without actions: %v", name, round, h.Actions.Discrete)
				}
				check(t, h.Vec.Step(h.Actions, h.Rows))
				check(t, h.Observe())
			}
			t.Logf("%s: %d cuts", name, cuts)
			check(t, h.Trainer.Settle(0))
			return digest(t, h.Trainer)
		}
		if want, got := run(false), run(true); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
}

// stopInUpdates runs until updates that are due are left, and stops.
func stopInUpdates(t *testing.T, tr *train.Trainer) {
	t.Helper()
	for limit := 50 * time.Microsecond; ; limit += limit / 8 {
		check(t, tr.Run(0, limit))
		if s := tr.Stats(); s.UpdatesDue > s.Updates {
			break
		}
	}
	tr.Stop()
	check(t, tr.Run(0, 0))
}

// A new run after a stop in an update counts from 0. It learns from a full rollout of the previous
// run, and drops updates that come from a replay memory.
func TestANewRunAfterAStopInAnUpdate(t *testing.T) {
	runs := cutRuns(t)
	runs["a3c"] = slow(t, "a3c", "net_arch_pi", "32", "net_arch_vf", "32", "latency_pull", "1e-05:1", "latency_push", "1e-05:1") // many visits
	for name, c := range runs {
		check(t, c.Set("env", "CartPole-v1"))
		check(t, c.Set("shards", "64")) // stops between two shards are likely
		check(t, c.Set("learning_rate_final", "0"))
		first := must(strconv.ParseFloat(must(c.Get("learning_rate"))(t), 64))(t)
		tr := traintest.NewTrainer(t, c, nil)
		attempts, steps := 3, int64(40)
		if name == "a3c" {
			attempts, steps = 40, 100
		}
		for range attempts {
			check(t, tr.Begin(1<<40, 0)) // the run goes on until a limit cuts an update
			stopInUpdates(t, tr)
			check(t, tr.Begin(2000, train.ResetTimesteps|train.ResetEnvs))
			check(t, tr.Run(4, 0))
			now, rate := tr.Stats().Steps, traintest.Metric(t, tr, "train/learning_rate")
			if want := first * (1 - float64(now)/2000); now > 100 || rate < want-1e-12 {
				t.Errorf("%s: %d steps, a learning rate of %v, want at least %v", name, now, rate, want)
			}
			check(t, tr.Run(steps, 0))
		}
	}
}

// A new run of updates from outside begins without an update of the previous one that was due.
func TestANewRunOfUpdatesFromOutside(t *testing.T) {
	a := applied{method: "dqn", settings: []string{"num_envs", "8", "learning_starts", "40", "buffer_size", "200", "batch_size", "8",
		"train_freq", "4", "concurrent", "false", "updates", "outside"}}
	for _, taken := range []int{1, 2, 3, 4} {
		h := traintest.NewHost(t, configOfRun(t, a, "gradient_steps", "2"), vec.SameStep, cartPole)
		grad := make([]float32, h.Trainer.ParameterSets()[0].Size)
		next := func() train.GradientInfo {
			for {
				info := must(h.Trainer.Gradient(grad, 0))(t)
				if info.State != train.GradientLater {
					return info
				}
				h.Round(t)
			}
		}
		h.Begin(t, 400)
		var infos []train.GradientInfo
		for range taken {
			infos = append(infos, next())
		}
		must(h.Trainer.Hash("q_net"))(t) // a read leaves the update that is due
		check(t, h.Vec.Reset(h.Rows, nil))
		check(t, h.Trainer.Begin(400, train.ResetTimesteps|train.ResetEnvs))
		if info := must(h.Trainer.Gradient(grad, 0))(t); info.State != train.GradientLater {
			t.Errorf("before the first step: %+v", info)
		}
		h.Trainer.Stop() // is for the next Gradient
		h.Round(t)
		if _, err := h.Trainer.Gradient(grad, 0); !errors.Is(err, fault.ErrStopped) {
			t.Errorf("a gradient after a stop before a round: %v", err)
		}
		for _, was := range infos {
			if info := next(); info.Steps != was.Steps || info.Number != was.Number+int64(taken) {
				t.Errorf("after %d gradients: %+v, in the first run %+v", taken, info, was)
			}
		}
	}
}

// Only learners with rollouts end with them.
func TestRolloutsAtTheEndOfARun(t *testing.T) {
	c := slow(t, "dqn", "env", "CartPole-v1")
	tr := traintest.NewTrainer(t, c, nil)
	check(t, tr.Begin(40, 0))
	check(t, tr.RunRollouts(1, 0, 0))
	for want := int64(44); want <= 80; want += 4 {
		check(t, tr.RunRollouts(1, 4, 0))
		if steps := tr.Stats().Steps; steps != want {
			t.Fatalf("%d steps, want %d", steps, want)
		}
	}
	tr = traintest.NewTrainer(t, slow(t, "a3c", "env", "CartPole-v1", "n_steps", "16"), nil)
	check(t, tr.Begin(40, 0))
	check(t, tr.Run(0, 0))
	err := tr.RunRollouts(1, 0, 0)
	if err == nil || err.Error() != "max_steps: 0, must be at least 1 where the run is over and rollouts are to be finished" {
		t.Error(err)
	}
	check(t, tr.RunRollouts(1, 1<<20, 0))
	if unfinished := traintest.Metric(t, tr, "async/unfinished"); unfinished != 0 {
		t.Errorf("%v learners in a rollout", unfinished)
	}
}

// An act that refuses a row has let no learner choose, and a begin without flags keeps a round.
func TestRefusedCallsBetweenActAndObserve(t *testing.T) {
	for name, c := range cutRuns(t) {
		run := func(spoil bool) string {
			h := traintest.NewHost(t, c, vec.SameStep, cartPole)
			h.Begin(t, 80)
			if spoil {
				last := h.Rows.Obs[len(h.Rows.Obs)-4:]
				kept := slices.Clone(last)
				copy(last, []byte{0, 0, 0xc0, 0x7f})
				if err := h.Act(); !errors.Is(err, fault.ErrNotFinite) {
					t.Fatalf("%s: %v", name, err)
				}
				copy(last, kept)
			}
			for range 20 {
				check(t, h.Act())
				if err := h.Trainer.Begin(80, 0); spoil && (err == nil || err.Error() != "begin: between act and observe, must be before act or after observe, or pass PACELINE_RESET_ENVS") {
					t.Fatalf("%s: %v", name, err)
				}
				check(t, h.Vec.Step(h.Actions, h.Rows))
				check(t, h.Observe())
			}
			check(t, h.Trainer.Settle(0))
			return digest(t, h.Trainer)
		}
		if want, got := run(false), run(true); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
}
