package dqn

import "testing"

func TestUpdatesDueIsTheFloor(t *testing.T) {
	for f := 1; f <= 9; f++ {
		for g := 1; g <= 9; g++ {
			c := Config{TrainFreq: f, GradientSteps: g}
			for steps := int64(0); steps < 200; steps++ {
				if got, want := c.updatesDue(steps), steps*int64(g)/int64(f); got != want {
					t.Fatalf("F = %d/%d, t = %d: %d updates due, want %d", f, g, steps, got, want)
				}
			}
			for u := int64(0); u < 100; u++ {
				at := c.dueAt(u)
				if c.updatesDue(at) < u || at > 0 && c.updatesDue(at-1) >= u {
					t.Fatalf("F = %d/%d: update %d is said to be due at t = %d", f, g, u, at)
				}
			}
		}
	}
	// Far from overflow at any count of steps that can be reached.
	c := Config{TrainFreq: 1, GradientSteps: 1 << 20}
	if got := c.updatesDue(1 << 42); got != 1<<62 {
		t.Fatalf("%d", got)
	}
}

func TestLines(t *testing.T) {
	c := DefaultConfig()
	c.ExplorationSteps, c.ExplorationFinal = 100, 0.1
	c.LearningRate, c.LearningRateFinal = 2, 0
	s := newSchedule(&c, 1000)
	for at, want := range map[int64]float64{0: 1, 50: 0.55, 100: 0.1, 5000: 0.1} {
		if got := s.Epsilon.At(at); got != want {
			t.Errorf("epsilon(%d) = %v, want %v", at, got, want)
		}
	}
	for at, want := range map[int64]float64{0: 2, 500: 1, 1000: 0, 2000: 0} {
		if got := s.Rate.At(at); got != want {
			t.Errorf("rate(%d) = %v, want %v", at, got, want)
		}
	}
	c.ExplorationSteps, c.ExplorationFraction = 0, 0.25
	if s := newSchedule(&c, 1000); s.Epsilon[1].Step != 250 {
		t.Errorf("exploration_fraction 0.25 of 1000: %d steps", s.Epsilon[1].Step)
	}
}
