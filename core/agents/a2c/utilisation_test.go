package a2c

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

const stepTime = 4 * time.Millisecond

// spin computes for a duration.
func spin(long time.Duration) {
	for began := time.Now(); time.Since(began) < long; {
	}
}

// shares returns the metrics time/utilisation_NAME, by NAME.
func shares(tr *train.Trainer) map[string]float64 {
	of := map[string]float64{}
	for k := 0; ; k++ {
		m, ok := tr.Metric(k)
		if !ok {
			return of
		}
		if name, found := strings.CutPrefix(m.Name, "time/utilisation_"); found {
			of[name] = m.Value
		}
	}
}

// Steps and updates of known durations have the expected shares of all cores. A step that sleeps
// holds its core; a step of an environment with Waits holds none.
func TestUtilisationEqualsKnownTimes(t *testing.T) {
	for name, c := range map[string]struct {
		step    func(time.Duration)
		waits   bool
		threads int
		update  time.Duration
		want    map[string]float64
	}{
		"steps that compute":                 {spin, false, 1, 0, map[string]float64{"step": 1, "learn": 0, "wait": 0}},
		"steps that sleep":                   {time.Sleep, false, 1, 0, map[string]float64{"step": 1, "learn": 0, "wait": 0}},
		"steps that wait":                    {time.Sleep, true, 1, 0, map[string]float64{"step": 0, "learn": 0, "wait": 1}},
		"steps that compute, two cores":      {spin, false, 2, 0, map[string]float64{"step": .5, "learn": 0, "wait": .5}},
		"updates as long as their steps":     {spin, false, 1, 5 * stepTime, map[string]float64{"step": .5, "learn": .5, "wait": 0}},
		"updates as long as steps that wait": {time.Sleep, true, 1, 5 * stepTime, map[string]float64{"step": 0, "learn": .5, "wait": .5}},
	} {
		t.Run(name, func(t *testing.T) {
			var got map[string]float64
			for range 5 { // other processes may use the cores for a while
				got = measured(t, c.step, c.waits, c.threads, c.update)
				sum, most := 0.0, 0.0
				for _, share := range got {
					sum += share
				}
				if len(got) != 4 || math.Abs(sum-1) > 1e-9 {
					t.Fatalf("shares %v, must be four that add up to 1", got)
				}
				for of, want := range c.want { // the remainder is overhead
					most = max(most, math.Abs(got[of]-want))
				}
				if most < .15 {
					return
				}
			}
			t.Errorf("%v, want %v", got, c.want)
		})
	}
}

// measured runs steps of one environment, and after every five steps an update that begins with a
// spin.
func measured(t *testing.T, step func(time.Duration), waits bool, threads int, update time.Duration) map[string]float64 {
	tr := newTrainer(t, small(func(x *Config) { x.NumEnvs, x.NSteps, x.NumThreads = 1, 5, threads }), func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(1)(i)
		if err == nil {
			e.(*traintest.Walk).Waits = waits
			e.(*traintest.Walk).BeforeStep = func() error { step(stepTime); return nil }
		}
		return e, err
	})
	a := tr.Method().(*A2C)
	a.Stepper = &traintest.HookedStepper{Stepper: a.Stepper, Before: func() { spin(update) }}
	check(t, tr.Begin(1000, 0))
	check(t, tr.Run(50, 0))
	return shares(tr)
}
