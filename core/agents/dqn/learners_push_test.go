package dqn

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// meanConfig is a configuration of learners with rule mean. edits are name, value and so on.
func meanConfig(t *testing.T, edits ...string) *train.Config {
	t.Helper()
	cfg := must(train.NewConfig("dqn"))(t)
	edits = append([]string{"learners", "2", "rule", "mean", "num_envs", "4", "seed", "3", "net_arch", "16", "learning_starts", "40", "batch_size", "8", "buffer_size", "2000",
		"target_update_interval", "64", "window", "32", "train_freq", "4", "learning_rate", "0.001", "exploration_steps", "600"}, edits...)
	for i := 0; i < len(edits); i += 2 {
		check(t, cfg.Set(edits[i], edits[i+1]))
	}
	return cfg
}

// digest returns digests of the learners, and the updates.
func digest(t *testing.T, tr *train.Trainer) string {
	t.Helper()
	text := ""
	for _, part := range []string{"q_net", "replay", "q_net_target"} {
		text += must(tr.Hash(part))(t)[:12] + " "
	}
	return text + fmt.Sprint(tr.Stats().Steps, tr.Stats().Updates)
}

// pushRounds runs a host to a number of steps. It returns the steps of each environment.
func pushRounds(t *testing.T, h *traintest.Host, steps int64) []int64 {
	t.Helper()
	taken := make([]int64, h.Vec.Len())
	h.Begin(t, steps)
	for h.Trainer.Stats().Steps < steps {
		check(t, h.Act())
		for i, end := range h.Rows.Ends {
			if end == 0 || h.Trainer.Config().Common().Autoreset == "same_step" {
				taken[i]++
			}
		}
		check(t, h.Vec.Step(h.Actions, h.Rows))
		check(t, h.Observe())
	}
	return taken
}

// Rounds in which the rows of all learners only reset their environments change nothing: the
// run is bit-identical to one whose environments the library steps.
func TestRoundsOfResetsChangeNoMean(t *testing.T) {
	mk := counters(func(*counter) {})
	for _, concurrent := range []string{"true", "false"} {
		cfg := meanConfig(t, "concurrent", concurrent)
		native := traintest.NewTrainer(t, cfg, mk)
		check(t, native.Begin(1200, 0))
		check(t, native.Run(0, 0))
		want := digest(t, native)
		for _, mode := range []vec.Autoreset{vec.SameStep, vec.NextStep} {
			h := traintest.NewHost(t, cfg, mode, mk)
			pushRounds(t, h, 1200)
			if got := digest(t, h.Trainer); got != want {
				t.Errorf("concurrent %s, %v: %s, the library's %s", concurrent, mode, got, want)
			}
		}
	}
}

// Where rows only reset at different times, an update waits for the learner with the fewest steps,
// as it does where the library steps the environments. The result does not depend on threads, and a
// race is repeated.
func TestTheMeanWaitsForRowsThatReset(t *testing.T) {
	mk := counters(func(c *counter) { c.lengths = c.lengths[c.index%3:] })
	for _, c := range []struct{ envs, learners int64 }{{2, 2}, {3, 3}, {6, 3}} {
		for _, concurrent := range []string{"true", "false"} {
			edits := []string{"num_envs", fmt.Sprint(c.envs), "learners", fmt.Sprint(c.learners), "concurrent", concurrent, "learning_starts", "48"}
			run := func(more ...string) (*traintest.Host, string) {
				h := traintest.NewHost(t, meanConfig(t, slices.Concat(edits, more)...), vec.NextStep, mk)
				taken, least := pushRounds(t, h, 1500), int64(1<<62)
				for k := range c.learners {
					steps, envs := int64(0), c.envs/c.learners
					for _, n := range taken[k*envs : (k+1)*envs] {
						steps += n
					}
					warm := 48 / c.learners
					if off := warm % envs; off > 0 {
						warm += envs - off
					}
					least = min(least, (steps-warm)/4)
				}
				text := digest(t, h.Trainer)
				if st := h.Trainer.Stats(); st.Updates < least-1 || st.Updates > least || st.Updates != st.UpdatesDue {
					t.Errorf("%v, %v: %d updates, %d due, must be %d or 1 less; steps %v", c, concurrent, st.Updates, st.UpdatesDue, least, taken)
				}
				return h, text
			}
			_, want := run("num_threads", "1")
			if _, got := run("num_threads", "3"); got != want {
				t.Errorf("%v, %s: %s on three threads, %s on one", c, concurrent, got, want)
			}
			path := filepath.Join(t.TempDir(), "race")
			race, want := run("schedule", "race")
			check(t, race.Trainer.SaveOrder(path))
			if _, got := run("schedule", "recorded", "order", path); got != want {
				t.Errorf("%v, %s: %s repeated, the race %s", c, concurrent, got, want)
			}
		}
	}
}

// A learner may get far behind the others. Their updates wait; a checkpoint has them.
func TestUpdatesThatWaitAreSaved(t *testing.T) {
	mk := counters(func(c *counter) { c.lengths = [][]int{{1}, {50}}[c.index] })
	for _, concurrent := range []string{"true", "false"} {
		cfg, path := meanConfig(t, "num_envs", "2", "concurrent", concurrent), filepath.Join(t.TempDir(), "run")
		h := traintest.NewHost(t, cfg, vec.NextStep, mk)
		pushRounds(t, h, 900)
		before := h.Trainer.Stats()
		if before.Updates < 50 || before.Updates > 75 { // of about 300 steps of the one and 600 of the other
			t.Errorf("%d updates", before.Updates)
		}
		check(t, h.Trainer.Save(path, true))
		again := traintest.NewHost(t, cfg, vec.NextStep, mk)
		check(t, again.Trainer.Load(path))
		if got, want := digest(t, again.Trainer), digest(t, h.Trainer); got != want {
			t.Errorf("loaded %s, saved %s", got, want)
		}
		check(t, again.Vec.Reset(again.Rows, nil))
		check(t, again.Trainer.Begin(900, train.ResetEnvs))
		for range 300 {
			again.Round(t)
		}
		check(t, again.Trainer.Settle(0))
		if now := again.Trainer.Stats(); now.Updates < before.Updates+30 || now.Updates > before.Updates+45 {
			t.Errorf("%d updates after %d, %d steps after %d", now.Updates, before.Updates, now.Steps, before.Steps)
		}
	}
}

// After an update that failed, Begin with ResetTimesteps starts a new run of environments that the
// host steps; also after transitions were added, and in a trainer that loaded the file.
func TestResetAfterNothingToDrawWhereTheHostSteps(t *testing.T) {
	const says = "n_step_tails: drop_truncated, no transition can be drawn"
	mk := counters(func(c *counter) {
		c.ends, c.lengths = slices.Repeat([]env.End{env.Truncated}, 10_000), slices.Repeat([]int{4}, 10_000)
		for k := range 12 {
			c.lengths[k] = 20
		}
	})
	for _, edits := range [][]string{
		{"learners", "2"}, {"learners", "1"}, {"learners", "4", "schedule", "race"}, {"learners", "2", "rule", "overwrite"},
		{"learners", "2", "rule", "multi_step_adam", "sync_period", "3"}, {"learners", "2", "rule", "mean"}, {"learners", "0"},
	} {
		t.Run(strings.Join(edits, " "), func(t *testing.T) {
			cfg := meanConfig(t, slices.Concat([]string{"rule", "gradient", "n_steps", "5", "n_step_tails", "drop_truncated", "buffer_size", "200"}, edits)...)
			// run takes rounds until the run of some steps is over, or a round is refused.
			run := func(h *traintest.Host, flags train.Flags) error {
				check(t, h.Vec.Reset(h.Rows, nil))
				check(t, h.Trainer.Begin(4000, flags))
				for h.Trainer.Stats().Steps < 2000 {
					if err := h.Act(); err != nil {
						return err
					}
					check(t, h.Vec.Step(h.Actions, h.Rows))
					if err := h.Observe(); err != nil {
						return err
					}
				}
				return h.Trainer.Settle(0)
			}
			const anew = train.ResetTimesteps | train.ResetEnvs
			h, path := traintest.NewHost(t, cfg, vec.SameStep, mk), filepath.Join(t.TempDir(), "run")
			refuses(t, run(h, 0), says)
			check(t, h.Trainer.Save(path, true))
			refuses(t, run(h, anew), says)
			if steps := h.Trainer.Stats().Steps; steps < 40 || steps > 100 {
				t.Errorf("after a reset %d steps, must be those of the warm-up", steps)
			}
			x := rowsOf(*h.Trainer.Spec(), h.Vec.Len())
			for i := range x.Terminated {
				x.Terminated[i] = true
			}
			before := h.Trainer.Stats().Updates
			check(t, h.Trainer.AddTransitions(x))
			refuses(t, run(h, anew), says)
			if now := h.Trainer.Stats().Updates; now < before {
				t.Errorf("transitions added: %d updates after %d", now, before)
			}
			check(t, cfg.Set("n_step_tails", "keep"))
			next := traintest.NewHost(t, cfg, vec.SameStep, mk)
			check(t, next.Trainer.Load(path))
			check(t, run(next, anew))
			if now := next.Trainer.Stats().Updates; now < before+100 {
				t.Errorf("loaded with other tails: %d updates after %d", now, before)
			}
		})
	}
}
