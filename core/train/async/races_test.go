package async_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// racers are runs of two learners of one environment, where a slice of a step has the round of one
// learner.
func racers() []applied {
	two := func(method string, settings ...string) applied {
		return applied{method: method, settings: append(settings, "env", "CartPole-v1", "num_envs", "2", "learners", "2", "learning_rate_final", "0")}
	}
	return []applied{
		two("a3c", "n_steps", "8", "net_arch_pi", "8", "net_arch_vf", "8"),
		two("appo", "n_steps", "32", "batch_size", "16", "n_epochs", "1", "net_arch_pi", "8", "net_arch_vf", "8"),
		two("dqn", "learning_starts", "4", "buffer_size", "400", "batch_size", "2", "train_freq", "100", "exploration_steps", "0", "exploration_fraction", "0.5", "net_arch", "8"),
	}
}

// throughRuns takes three runs to their ends and those of their rollouts, in slices of a step or
// whole.
func throughRuns(t *testing.T, tr *train.Trainer, sliced bool) string {
	t.Helper()
	end := int64(0)
	for _, flags := range []train.Flags{0, 0, train.ResetEnvs} {
		check(t, tr.Begin(60, flags))
		end = tr.Stats().Steps + 60
		most := int64(1)
		if !sliced {
			most = 1 << 20
		}
		for tr.Stats().Steps < end {
			check(t, tr.Run(min(most, end-tr.Stats().Steps), 0))
		}
		for calls := 0; traintest.Metric(t, tr, "async/unfinished") > 0; calls++ {
			if calls > 1000 {
				t.Fatalf("at %d steps, %v learners never end their rollouts", tr.Stats().Steps, traintest.Metric(t, tr, "async/unfinished"))
			}
			check(t, tr.RunRollouts(1, most, 0))
		}
	}
	check(t, tr.Settle(0))
	return digest(t, tr)
}

// The record of a race says where every learner was when a run began or ended, whatever the slices
// of the race and of its repetition.
func TestRacesThroughSeveralRunsAreRepeated(t *testing.T) {
	seeds := 30
	if testing.Short() {
		seeds = 6
	}
	for _, a := range racers() {
		for seed := range seeds {
			sliced := seed%3 > 0
			path := filepath.Join(t.TempDir(), fmt.Sprint(a.method, seed))
			race := traintest.NewTrainer(t, configOfRun(t, a, "seed", strconv.Itoa(seed), "schedule", "race"), nil)
			want := throughRuns(t, race, sliced)
			check(t, race.SaveOrder(path))
			for _, slicedToo := range []bool{true, false} {
				tr := traintest.NewTrainer(t, configOfRun(t, a, "seed", strconv.Itoa(seed), "schedule", "recorded", "order", path), nil)
				if got := throughRuns(t, tr, slicedToo); got != want {
					t.Errorf("%s, seed %d, slices of a step %v, repeated %v: %s\nthe race %s", a.method, seed, sliced, slicedToo, got, want)
				}
			}
		}
	}
}
