package dqn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
)

// Bursts are exact at window ends and, without concurrency, at every step; inside a
// concurrent window they are spread, and no step asks for fewer than the one before.
func TestUpdatesDue(t *testing.T) {
	for f := 1; f <= 9; f++ {
		for g := 1; g <= 9; g++ {
			c := Config{TrainFreq: f, GradientSteps: g}
			burst := func(steps int64) (u int64) {
				for k := int64(1); k <= steps; k++ {
					if k%int64(f) == 0 {
						u += int64(g)
					}
				}
				return u
			}
			for steps := int64(0); steps < 200; steps++ {
				if got, want := c.updatesDue(steps, 60), burst(steps); got != want {
					t.Fatalf("%d every %d, t = %d: %d updates due, want %d", g, f, steps, got, want)
				}
			}
			for u := int64(1); u < 100; u++ {
				if at := c.burstAt(u); burst(at) < u || burst(at-1) >= u {
					t.Fatalf("%d every %d: update %d is said to be of the burst at t = %d", g, f, u, at)
				}
			}
			c.Concurrent = true
			last := int64(0)
			for steps, window := int64(0), int64(25); steps < 200; steps++ {
				end := (steps + window - 1) / window * window
				got := c.updatesDue(steps, end)
				if want := min(steps*int64(g)/int64(f), burst(end)); got != want || got < last {
					t.Fatalf("%d every %d, t = %d in a window to %d: %d updates due, want %d, not fewer than %d", g, f, steps, end, got, want, last)
				}
				if steps == end && got != burst(end) {
					t.Fatalf("%d every %d: %d updates at the window's end %d, want %d", g, f, got, end, burst(end))
				}
				if g == 1 && got != burst(steps) {
					t.Fatalf("1 every %d, t = %d: %d updates due, want %d", f, steps, got, burst(steps))
				}
				last = got
			}
		}
	}
	// Far from overflow at any count of steps that can be reached.
	c := Config{TrainFreq: 1, GradientSteps: 1 << 20}
	if got := c.updatesDue(1<<42, 0); got != 1<<62 {
		t.Fatalf("%d", got)
	}
}

// Files from before there were bursts do not say how many updates were due: they were
// spread over all steps.
func TestUpdatesDueOfOlderFiles(t *testing.T) {
	s := savedClock{Clock: clock{T: 10, Begun: 3}, Periods: periods{TrainFreq: 4, GradientSteps: 2}}
	if got := s.due(); got != 3+5 {
		t.Errorf("%d updates due, want 8", got)
	}
	due := int64(3 + 4)
	s.UpdatesDue = &due
	if got := s.due(); got != due {
		t.Errorf("%d updates due, want %d", got, due)
	}
}

// What a running DQN saves is taken, at every step and whatever fails; counts that
// contradict each other are refused.
func TestClocksAreChecked(t *testing.T) {
	saved := func(d *trial) (s savedClock) {
		check(t, d.Settle()) // as Save does: an update in progress counts only in part
		var b bytes.Buffer
		check(t, d.m.clockPart(new(bool)).Write(&b))
		check(t, json.Unmarshal(b.Bytes(), &s))
		return s
	}
	for name, edit := range fourModes {
		d := newDQN(t, cartpole(edit, func(c *Config) { c.GradientSteps = 1 }))
		look := func(cfg *Config) savedClock {
			s := saved(d)
			if err := s.check(cfg, cfg.NumEnvs); err != nil {
				t.Fatalf("%s: %v: %+v", name, err, s)
			}
			return s
		}
		look(&d.m.cfg)
		check(t, d.Begin(1000, 0))
		for range 1000 / 20 {
			check(t, d.Run(20, 0))
			if d.Stats().Steps%60 == 0 { // some are saved with updates behind
				d.Stop()
				check(t, d.Run(0, 0))
			}
			look(&d.m.cfg)
		}
		// A shorter window, and a target copied more often, from here on.
		shorter := cartpole(edit, func(c *Config) { c.GradientSteps, c.Window, c.TargetUpdateInterval = 1, 8, 8 })
		c := look(&shorter)
		due := c.Clock.Due
		c.Clock.changePeriods(c.due(), c.Periods, &shorter)
		c.Periods = shorter.periods()
		if err := c.check(&shorter, shorter.NumEnvs); err != nil || due == c.Clock.Due {
			t.Errorf("%s: with a shorter window: %v", name, err)
		}
		for k, forge := range []func(*savedClock){
			func(s *savedClock) { s.Clock.Warmup-- }, func(s *savedClock) { s.Clock.Warmup += 4 }, func(s *savedClock) { s.Clock.WarmAt = -1 },
			func(s *savedClock) { s.Clock.T = -1 }, func(s *savedClock) { s.Clock.T += 40 }, func(s *savedClock) { s.Clock.T = 1 << 52 },
			func(s *savedClock) { s.Clock.Windows = -1 }, func(s *savedClock) { s.Clock.Due -= 40 }, func(s *savedClock) { s.Clock.Due += 32 },
			func(s *savedClock) { s.Clock.Copies++ }, func(s *savedClock) { s.Clock.Copies = -1 }, func(s *savedClock) { s.Clock.Copies -= 4 },
			func(s *savedClock) { s.Clock.Begun++ }, func(s *savedClock) { s.Clock.Begun = 1 << 40 }, func(s *savedClock) { s.Clock.End = -1 },
			func(s *savedClock) { s.Updates++ }, func(s *savedClock) { s.Updates, s.OptimizerStep = 0, 0; s.Seen["q_net"] = 0 },
			func(s *savedClock) { s.OptimizerStep-- }, func(s *savedClock) { s.Seen["q_net"]-- }, func(s *savedClock) { s.Seen["q_net_target"] = 1 << 60 },
			func(s *savedClock) { s.Seen["snapshot"] = 1 << 60 }, func(s *savedClock) { *s.UpdatesDue -= 3 }, func(s *savedClock) { *s.UpdatesDue = -1 },
			func(s *savedClock) { s.Periods.TrainFreq = 0 }, func(s *savedClock) { s.Periods.GradientSteps = 1 << 20 }, func(s *savedClock) { s.Periods.TargetInterval = 0 },
			func(s *savedClock) { s.Periods.Window = 0 }, func(s *savedClock) { s.Schedule.Epsilon = nil }, func(s *savedClock) { s.Schedule.Epsilon[0].Value = 1.5 },
			func(s *savedClock) { s.Schedule.Rate[0].Value = -1e300 },
		} {
			s := saved(d)
			forge(&s)
			if err := s.check(&d.m.cfg, d.m.cfg.NumEnvs); err == nil {
				t.Errorf("%s: forgery %d is taken: %+v", name, k, s)
			}
		}
	}
}

// recorder writes down the learning rate of every update, in millionths.
type recorder struct {
	nn.QStepper
	rates *[]string
}

func (r *recorder) Update(theta, target *nn.Params, t *experience.Transitions, rate float64, report *nn.Report) error {
	*r.rates = append(*r.rates, fmt.Sprintf("%.4g", 1e6*rate))
	return r.QStepper.Update(theta, target, t, rate, report)
}

// The learning rate of an update of step t is that of the remaining progress 1 - t/end, the end
// being that of the latest Begin, and so is epsilon's line, which begins after the warm-up:
// learning_starts counts once, and exploration_steps stay where they are.
func TestRatesOverSlices(t *testing.T) {
	for name, edit := range fourModes {
		for _, absolute := range []int{0, 250} {
			d := newDQN(t, cartpole(edit, func(c *Config) {
				c.NumEnvs, c.LearningStarts, c.BatchSize, c.TrainFreq, c.GradientSteps = 2, 40, 8, 4, 1
				c.LearningRate, c.LearningRateFinal = 1e-3, 0
				c.ExplorationFraction, c.ExplorationFinal, c.ExplorationSteps = 0.75, 0.1, absolute
			}))
			var got, want []string
			d.m.updates.stepper = &recorder{d.m.updates.stepper, &got}
			steps := int64(0)
			for _, run := range []struct {
				length int64
				flags  train.Flags
			}{{200, 0}, {200, 0}, {100, 0}, {120, train.ResetTimesteps}} {
				if run.flags != 0 {
					steps = 0
				}
				check(t, d.Begin(run.length, run.flags))
				check(t, d.Run(run.length/2, 0))
				end := steps + run.length
				falls := float64(absolute)
				if absolute == 0 {
					falls = 0.75 * float64(end)
				}
				epsilon := 1 - 0.9*min(1, float64(max(0, steps+run.length/2-40))/falls)
				if got := d.Stats().Epsilon; math.Abs(got-epsilon) > 1e-9 {
					t.Errorf("%s: epsilon %v at step %d of %d, want %v", name, got, steps+run.length/2, end, epsilon)
				}
				check(t, d.Run(0, 0))
				for steps < end {
					if steps += 4; steps > 40 {
						want = append(want, fmt.Sprintf("%.4g", 1000-1000*float64(steps)/float64(end)))
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			check(t, d.Close())
		}
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
