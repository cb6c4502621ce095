package dqn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
)

// recorder records the learning rate of every update, in millionths.
type recorder struct {
	nn.QStepper
	rates *[]string
}

func (r *recorder) Update(theta, target *nn.Params, t *experience.Transitions, rate float64, report *nn.Report) error {
	*r.rates = append(*r.rates, fmt.Sprintf("%.4g", 1e6*rate))
	return r.QStepper.Update(theta, target, t, rate, report)
}

// The learning rate of an update of step t is that of the remaining progress 1 - t/end, where end
// is that of the latest Begin. Epsilon's line also depends on this end and begins after the
// warm-up: learning_starts counts once, and exploration_steps are absolute.
func TestRatesFollowTheRemainingProgress(t *testing.T) {
	for name, edit := range fourModes {
		for _, absolute := range []int{0, 250} {
			d := newDQN(t, cartpole(edit, func(c *Config) {
				c.NumEnvs, c.LearningStarts, c.BatchSize, c.TrainFreq, c.GradientSteps = 2, 40, 8, 4, 1
				c.LearningRate, c.LearningRateFinal = 1e-3, 0
				c.ExplorationFraction, c.ExplorationFinal, c.ExplorationSteps = 0.75, 0.1, absolute
			}))
			var got, want []string
			wrap(d, func(s nn.QStepper) nn.QStepper { return &recorder{s, &got} })
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

func TestEpsilonAndRateAreLines(t *testing.T) {
	c := DefaultConfig()
	c.ExplorationSteps, c.ExplorationFinal = 100, 0.1
	c.LearningRate, c.LearningRateFinal = 2, 0
	epsilon, rate := c.epsilon(1000), c.rate(1000)
	for at, want := range map[int64]float64{0: 1, 50: 0.55, 100: 0.1, 5000: 0.1} {
		if got := epsilon.At(at); got != want {
			t.Errorf("epsilon(%d) = %v, want %v", at, got, want)
		}
	}
	for at, want := range map[int64]float64{0: 2, 500: 1, 1000: 0, 2000: 0} {
		if got := rate.At(at); got != want {
			t.Errorf("rate(%d) = %v, want %v", at, got, want)
		}
	}
	c.ExplorationSteps, c.ExplorationFraction = 0, 0.25
	if s := c.epsilon(1000); s[1].Step != 250 {
		t.Errorf("exploration_fraction 0.25 of 1000: %d steps", s[1].Step)
	}
}
