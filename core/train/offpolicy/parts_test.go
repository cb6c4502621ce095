package offpolicy_test

import (
	"strconv"
	"testing"

	"github.com/paceline-rl/paceline/core/agents/dqn"
	_ "github.com/paceline-rl/paceline/core/env/classic"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

var check = traintest.Check

// modes are the four combinations of concurrent and synchronized.
var modes = map[string]map[string]string{
	"both":         {},
	"concurrent":   {"synchronized": "false"},
	"synchronized": {"concurrent": "false"},
	"standard":     {"concurrent": "false", "synchronized": "false", "train_freq": "100"},
}

// start makes a DQN on CartPole in which everything happens within a few thousand steps.
func start(t *testing.T, edit map[string]string) (*train.Trainer, *offpolicy.Run) {
	t.Helper()
	c, err := train.NewConfig("dqn")
	check(t, err)
	for _, settings := range []map[string]string{{
		"env": "CartPole-v1", "net_arch": "32", "num_envs": "4", "seed": "7", "learning_starts": "100", "batch_size": "16", "buffer_size": "2000",
		"target_update_interval": "96", "window": "32", "train_freq": "2", "learning_rate": "0.001", "exploration_steps": "1000",
	}, edit} {
		for name, value := range settings {
			check(t, c.Set(name, value))
		}
	}
	tr := traintest.NewTrainer(t, c, nil)
	return tr, &tr.Method().(*dqn.DQN).Run
}

// The counts of a run that counts updates and drops outliers are accepted at every step, forged
// ones are not.
func TestSavedUpdatesAreChecked(t *testing.T) {
	for _, concurrent := range []string{"true", "false"} {
		tr, run := start(t, map[string]string{"concurrent": concurrent, "clock": "updates", "outliers": "1", "train_freq": "1"})
		save := func() (s offpolicy.SavedClock) {
			t.Helper()
			check(t, tr.Settle(0))
			s, err := run.SavedClock()
			check(t, err)
			check(t, s.Check(4))
			return s
		}
		check(t, tr.Begin(1000, 0))
		for range 1000 / 20 {
			check(t, tr.Run(20, 0))
			save()
		}
		type saved = offpolicy.SavedClock
		for k, forge := range []func(*saved){
			func(s *saved) { s.Clock.Applied = -1 }, func(s *saved) { s.Clock.Applied = 1 << 40 }, func(s *saved) { s.Clock.AppliedBefore = -1 },
			func(s *saved) { s.Clock.AppliedBefore = 1 << 62 }, func(s *saved) { s.Clock.TargetMultiple = 1 << 40 }, func(s *saved) { s.Outliers = nil },
			func(s *saved) { s.Outliers.Dropped++ }, func(s *saved) { s.Outliers.Seen = 1 << 40 }, func(s *saved) { s.Outliers.Seen = -1 },
			func(s *saved) { s.Outliers.Mean = -1 }, func(s *saved) { s.Outliers.Variance = -1 }, func(s *saved) { s.Seen["q_net"]++ },
		} {
			s := save()
			forge(&s)
			if err := s.Check(4); err == nil {
				t.Errorf("forgery %d is accepted: %+v", k, s)
			}
		}
	}
}

// The counts that a running method saves are accepted at every step, also after a Stop; counts that
// contradict each other are refused.
func TestSavedCountsAreChecked(t *testing.T) {
	for name, edit := range modes {
		tr, run := start(t, edit)
		envs := tr.Config().Common().NumEnvs
		save := func() offpolicy.SavedClock {
			t.Helper()
			check(t, tr.Settle(0)) // as Save does: an update in progress is counted in part only
			s, err := run.SavedClock()
			check(t, err)
			if err := s.Check(envs); err != nil {
				t.Fatalf("%s: %v: %+v", name, err, s)
			}
			return s
		}
		save()
		check(t, tr.Begin(1000, 0))
		for range 1000 / 20 {
			check(t, tr.Run(20, 0))
			if tr.Stats().Steps%60 == 0 { // some are saved with updates left undone
				tr.Stop()
				check(t, tr.Run(0, 0))
			}
			save()
		}
		// A shorter window, and a target that is updated more often, from here on.
		c := save()
		due := c.Clock.NextWindow
		concurrent, err := strconv.ParseBool(edit["concurrent"])
		shorter := c.Periods
		shorter.Window, shorter.TargetInterval = 8, 8
		c.LoadedBy(concurrent || err != nil, shorter)
		if err := c.Check(envs); err != nil || due == c.Clock.NextWindow {
			t.Errorf("%s: under a shorter window: %v", name, err)
		}
		type saved = offpolicy.SavedClock
		for k, forge := range []func(*saved){
			func(s *saved) { s.Clock.Warmup-- }, func(s *saved) { s.Clock.Warmup += 4 }, func(s *saved) { s.Clock.WarmAt = -1 },
			func(s *saved) { s.Clock.T = -1 }, func(s *saved) { s.Clock.T += 40 }, func(s *saved) { s.Clock.T = 1 << 52 },
			func(s *saved) { s.Clock.Windows = -1 }, func(s *saved) { s.Clock.NextWindow -= 40 }, func(s *saved) { s.Clock.NextWindow += 32 },
			func(s *saved) { s.Clock.TargetMultiple++ }, func(s *saved) { s.Clock.TargetMultiple = -1 }, func(s *saved) { s.Clock.TargetMultiple -= 4 },
			func(s *saved) { s.Clock.UpdatesBefore++ }, func(s *saved) { s.Clock.UpdatesBefore = 1 << 40 }, func(s *saved) { s.Clock.End = -1 },
			func(s *saved) { s.Updates++ }, func(s *saved) { s.Updates, s.OptimizerStep = 0, 0; s.Seen["q_net"] = 0 },
			func(s *saved) { s.OptimizerStep-- }, func(s *saved) { s.Seen["q_net"]-- }, func(s *saved) { s.Seen["q_net_target"] = 1 << 60 },
			func(s *saved) { s.Seen["snapshot"] = 1 << 60 }, func(s *saved) { s.UpdatesDue -= 3 }, func(s *saved) { s.UpdatesDue = -1 },
			func(s *saved) { s.Periods.TrainFreq = 0 }, func(s *saved) { s.Periods.GradientSteps = 1 << 20 }, func(s *saved) { s.Periods.TargetInterval = 0 },
			func(s *saved) { s.Periods.Window = 0 }, func(s *saved) { s.Schedule.Epsilon = nil }, func(s *saved) { s.Schedule.Epsilon[0].Value = 1.5 },
			func(s *saved) { s.Schedule.Rate[0].Value = -1e300 },
		} {
			s := save()
			forge(&s)
			if err := s.Check(envs); err == nil {
				t.Errorf("%s: forgery %d is accepted: %+v", name, k, s)
			}
		}
	}
}
