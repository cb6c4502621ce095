package dqn

import (
	"testing"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
)

// With an update at every step, and one environment, updates and steps are the same clock.
func TestClockOfUpdatesIsThatOfSteps(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"textbook":   func(c *Config) { c.Concurrent, c.Synchronized = settings.Off, false },
		"averages":   func(c *Config) { c.Concurrent, c.Tau = settings.Off, 0.3 },
		"concurrent": func(c *Config) { c.ExplorationInitial, c.ExplorationFinal = 0.2, 0.2 }, // epsilon is that of the window's start
		"actor target": func(c *Config) {
			c.ExplorationInitial, c.ExplorationFinal, c.Actor, c.Window = 0.2, 0.2, ActorTarget, 0
		},
	} {
		of := func(clock string) Hashes {
			return learn(t, cartpole(edit, func(c *Config) { c.NumEnvs, c.TrainFreq, c.Clock = 1, 1, clock }), 900, offpolicy.Concurrently)
		}
		if got, want := of(clockUpdates), of(clockSteps); got != want {
			t.Errorf("%s: %+v, by steps %+v", name, got, want)
		}
	}
}

// Epsilon, the learning rate and the target network follow updates, of which there is one for four
// steps here, and in rounds of three environments.
func TestClockOfUpdates(t *testing.T) {
	for _, synchronized := range []bool{true, false} {
		d := newDQN(t, cartpole(func(c *Config) {
			c.Concurrent, c.Synchronized, c.NumEnvs, c.TrainFreq, c.Clock, c.TargetUpdateInterval = settings.Off, synchronized, 3, 4, clockUpdates, 10
			c.ExplorationSteps, c.ExplorationFinal, c.LearningRateFinal = 100, 0.1, 0
		}))
		check(t, d.Begin(1500, 0))
		all := float64((1500 - 100) / 4)
		targets := 0
		for d.Trainer.Stats().Steps < 1500 {
			before := d.look()
			check(t, d.Run(3, 0))
			if now := d.look(); now.Target != before.Target {
				targets++
				if now.Target != before.Weights && now.Target != now.Weights {
					t.Fatalf("the target is neither theta before nor after the round: %+v, %+v", before, now)
				}
			}
			check(t, d.Settle())
			updates := float64(d.m.Theta.Updates)
			for name, want := range map[string]float64{"rollout/exploration_rate": 1 - 0.9*min(1, updates/100), "train/learning_rate": 1e-3 * (1 - min(1, updates/all))} {
				if d.m.Clock.Warm {
					if got := realMetric(t, d, name); got < want-1e-12 || got > want+1e-12 {
						t.Fatalf("%s: %v after %v updates, want %v", name, got, updates, want)
					}
				}
			}
		}
		if targets < 30 || targets > 36 {
			t.Errorf("%d copies of theta in %d updates", targets, d.m.Theta.Updates)
		}
	}
}

func realMetric(t *testing.T, d *trial, name string) float64 {
	t.Helper()
	for i := 0; ; i++ {
		m, ok := d.Metric(i)
		if !ok {
			t.Fatalf("no metric %s", name)
		}
		if m.Name == name {
			return m.Value
		}
	}
}
