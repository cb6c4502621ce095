package a3c_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/paceline-rl/paceline/core/agents/appo"
	_ "github.com/paceline-rl/paceline/core/agents/ppo"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// parameters trains and returns the parameters.
func parameters(t *testing.T, method string, steps int64, edits ...string) []float32 {
	t.Helper()
	tr := trainer(t, method, edits...)
	if err := tr.Begin(steps, 0); err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(steps, 0); err != nil {
		t.Fatal(err)
	}
	to := make([]float32, tr.ParameterSets()[0].Size)
	if _, err := tr.GetParameters("policy", to); err != nil {
		t.Fatal(err)
	}
	return to
}

// With rule mean, learners take the step of one learner with all of their environments.
func TestMeanIsOneLearner(t *testing.T) {
	a2c := []string{"env", "CartPole-v1", "num_envs", "16", "seed", "3", "ent_coef", "0.01"}
	ppo := append(a2c, "n_steps", "8", "batch_size", "128", "n_epochs", "1", "normalize_advantage", "true")
	for _, c := range []struct {
		one, several string
		steps        int64
		edits        []string
	}{
		{"a2c", "a3c", 80, a2c},
		{"a2c", "a3c", 80, append(a2c, "normalize_advantage", "true", "max_grad_norm", "0.05")},
		{"ppo", "appo", 128, ppo},
	} {
		want := parameters(t, c.one, c.steps, c.edits...)
		before := parameters(t, c.one, 16, c.edits...)
		for _, learners := range []string{"2", "4"} {
			edits := append(c.edits, "learners", learners, "rule", "mean")
			if c.several == "appo" {
				edits = append(edits, "pull_period", "0")
			}
			got := parameters(t, c.several, c.steps, edits...)
			largest, off, moved := 0.0, 0.0, 0.0
			for i := range want {
				largest = max(largest, math.Abs(float64(want[i])))
				off = max(off, math.Abs(float64(want[i]-got[i])))
				moved = max(moved, math.Abs(float64(want[i]-before[i])))
			}
			if off > 1e-6*largest || moved < 1e-4*largest {
				t.Errorf("%s, %s learners, %v: off by %g of %g, the step is %g", c.several, learners, c.edits, off, largest, moved)
			}
		}
	}
}

// With rule mean a learner may have one row: its advantage is normalised with those of all
// learners.
func TestMeanOfLearnersWithOneRow(t *testing.T) {
	base := []string{"env", "CartPole-v1", "num_envs", "4", "n_steps", "1", "seed", "3", "normalize_advantage", "true"}
	several := []string{"learners", "4", "rule", "mean"}
	want := parameters(t, "a2c", 80, base...)
	near(t, "a3c", want, parameters(t, "a3c", 80, append(base[:len(base):len(base)], several...)...))
	base = append(base, "n_epochs", "1")
	want = parameters(t, "ppo", 80, append(base[:len(base):len(base)], "batch_size", "4")...)
	near(t, "appo", want, parameters(t, "appo", 80, append(append(base[:len(base):len(base)], several...), "batch_size", "1", "pull_period", "0")...))
}

// near fails if a parameter differs by more than 1e-4.
func near(t *testing.T, what string, want, got []float32) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(want[i]-got[i])) > 1e-4 {
			t.Errorf("%s: parameter %d is %g, of one learner %g", what, i, got[i], want[i])
			return
		}
	}
}

// short truncates episodes after a number of steps.
type short struct {
	env.Env
	length, steps int
}

func (s *short) Reset(obs []byte) error {
	s.steps = 0
	return s.Env.Reset(obs)
}

func (s *short) Step(action int32, obs []byte) (reward float32, end env.End, err error) {
	reward, end, err = s.Env.Step(action, obs)
	if s.steps++; s.steps == s.length && !end.Over() {
		end |= env.Truncated
	}
	return reward, end, err
}

// pushed trains in environments that the host steps and that reset in the next step. Every first
// call of Act in a round has a time limit; 0: none.
func pushed(t *testing.T, rounds int, limit time.Duration, method string, edits ...string) *train.Trainer {
	t.Helper()
	cfg := traintest.Must(train.NewConfig(method))(t)
	for i := 0; i < len(edits); i += 2 {
		traintest.Check(t, cfg.Set(edits[i], edits[i+1]))
	}
	h := traintest.NewHost(t, cfg, vec.NextStep, func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(3)(i)
		return &short{Env: e, length: 3 + i/2}, err
	})
	h.Begin(t, 10_000)
	for range rounds {
		err := h.Trainer.Act(h.Rows, h.Actions, limit)
		if errors.Is(err, fault.ErrTimedOut) {
			err = h.Act()
		}
		traintest.Check(t, err)
		traintest.Check(t, h.Vec.Step(h.Actions, h.Rows))
		traintest.Check(t, h.Observe())
	}
	traintest.Check(t, h.Trainer.Settle(0))
	return h.Trainer
}

// A learner whose rows only reset their environments contributes nothing to the round of the
// others: learners take the step of one learner with all of their environments.
func TestMeanWithoutTheRowsThatReset(t *testing.T) {
	base := []string{"num_envs", "4", "seed", "3", "n_steps", "1", "learning_rate", "0.01"}
	for _, c := range []struct {
		one, several string
		edits        []string
	}{
		{"a2c", "a3c", nil},
		{"a2c", "a3c", []string{"normalize_advantage", "true"}},
		{"ppo", "appo", []string{"batch_size", "4", "n_epochs", "2", "normalize_advantage", "false"}},
		{"ppo", "appo", []string{"batch_size", "4", "n_epochs", "2", "normalize_advantage", "true"}},
	} {
		edits := append(base[:len(base):len(base)], c.edits...)
		const rounds = 60
		one := pushed(t, rounds, 0, c.one, edits...)
		edits = append(edits, "learners", "2", "rule", "mean")
		if c.several == "appo" {
			edits = append(edits, "pull_period", "0")
		}
		parameters := func(tr *train.Trainer) []float32 {
			to := make([]float32, tr.ParameterSets()[0].Size)
			traintest.Must(tr.GetParameters("policy", to))(t)
			return to
		}
		want, got := parameters(one), parameters(pushed(t, rounds, 0, c.several, edits...))
		near(t, fmt.Sprint(c.several, c.edits), want, got)
		digest := func(tr *train.Trainer) string {
			return traintest.Must(tr.Hash("policy"))(t) + fmt.Sprint(tr.Stats().Steps, tr.Stats().Updates)
		}
		alone := digest(pushed(t, 200, 0, c.several, append(edits, "num_threads", "1")...))
		if got := digest(pushed(t, 200, 20*time.Microsecond, c.several, append(edits, "num_threads", "3")...)); got != alone {
			t.Errorf("%s %v: %s with interrupts, %s without", c.several, c.edits, got, alone)
		}
		path := filepath.Join(t.TempDir(), "race.order")
		race := pushed(t, 200, 0, c.several, append(edits, "schedule", "race")...)
		traintest.Check(t, race.SaveOrder(path))
		if got := digest(pushed(t, 200, 0, c.several, append(edits, "schedule", "recorded", "order", path)...)); got != digest(race) {
			t.Errorf("%s %v: %s repeated, the race %s", c.several, c.edits, got, digest(race))
		}
	}
}

// With rule mean an update is a gradient of every learner, also after a Begin that discards
// rollouts of which some learners have got further than others: after a Stop inside an update, or
// inside a rollout.
func TestMeanBeginsAgainTogether(t *testing.T) {
	const rollout, minibatches, learners = 64, 6, 2
	check := func(normalize string, flags train.Flags, at int, steps int64) {
		t.Helper()
		tr := trainer(t, "appo", "env", "CartPole-v1", "num_envs", "4", "learners", "2", "seed", "3", "rule", "mean", "n_steps", "16",
			"batch_size", "16", "n_epochs", "3", "pull_period", "0", "normalize_advantage", normalize, "num_threads", "1")
		defer tr.Close()
		gradients, stop := 0, at
		tr.Method().(interface{ HookGradients(func()) }).HookGradients(func() {
			if gradients++; gradients == stop {
				tr.Stop()
			}
		})
		traintest.Check(t, tr.Begin(100_000, 0))
		traintest.Check(t, tr.Run(steps, 0))
		traintest.Check(t, tr.Begin(100_000, flags))
		gradients, stop = 0, 0
		before := tr.Stats().Updates
		for n := 1; n <= 3; n++ {
			traintest.Check(t, tr.Run(rollout, 0))
			traintest.Check(t, tr.Settle(0))
			now := tr.Stats()
			if want := before + int64(n*minibatches); now.Updates != want || now.UpdatesDue != want || gradients != n*minibatches*learners {
				t.Errorf("normalize_advantage %s, flags %d, stopped at %d, %d steps, rollout %d: %d updates, %d due, %d gradients, want %d updates", normalize, flags, at, steps, n, now.Updates, now.UpdatesDue, gradients, want)
				return
			}
		}
	}
	for _, normalize := range []string{"false", "true"} {
		for _, flags := range []train.Flags{train.ResetTimesteps, train.ResetEnvs, train.ResetTimesteps | train.ResetEnvs} {
			for stop := 1; stop < learners*minibatches; stop++ {
				check(normalize, flags, stop, 640)
			}
		}
		for _, flags := range []train.Flags{train.ResetTimesteps, train.ResetTimesteps | train.ResetEnvs} {
			for steps := int64(2); steps < 2*rollout; steps += 6 {
				check(normalize, flags, 0, steps)
			}
		}
	}
}
