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

// Steps and updates have at least the share of all cores' time that the test measures within them.
// On an idle machine these shares add up to almost 1, so none can be too large either. A step that
// sleeps holds its core; a step of an environment with Waits holds none. The second of two cores
// waits while one environment steps.
func TestUtilisationEqualsMeasuredTimes(t *testing.T) {
	for name, c := range map[string]struct {
		step    func(time.Duration)
		waits   bool
		threads int
		update  time.Duration
	}{
		"steps that compute":                 {spin, false, 1, 0},
		"steps that sleep":                   {time.Sleep, false, 1, 0},
		"steps that wait":                    {time.Sleep, true, 1, 0},
		"steps that compute, two cores":      {spin, false, 2, 0},
		"updates as long as their steps":     {spin, false, 1, 5 * stepTime},
		"updates as long as steps that wait": {time.Sleep, true, 1, 5 * stepTime},
	} {
		t.Run(name, func(t *testing.T) {
			got, least := measured(t, c.step, c.waits, c.threads, c.update)
			sum := 0.0
			for _, share := range got {
				sum += share
			}
			if len(got) != 4 || math.Abs(sum-1) > 1e-9 {
				t.Fatalf("shares %v, must be four that add up to 1", got)
			}
			for of, want := range least {
				if got[of] < want-1e-6 {
					t.Errorf("share %s: %v of %v, must be at least %v", of, got[of], got, want)
				}
			}
			t.Logf("%v, at least %v", got, least)
		})
	}
}

// measured runs steps of one environment, and after every five steps an update that begins with a
// spin. It returns the reported shares and the least possible ones.
func measured(t *testing.T, step func(time.Duration), waits bool, threads int, update time.Duration) (got, least map[string]float64) {
	var stepping, learning time.Duration
	timed := func(sum *time.Duration, work func()) {
		began := time.Now()
		work()
		*sum += time.Since(began)
	}
	tr := newTrainer(t, small(func(x *Config) { x.NumEnvs, x.NSteps, x.NumThreads = 1, 5, threads }), func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(1)(i)
		if err == nil {
			e.(*traintest.Walk).Waits = waits
			e.(*traintest.Walk).BeforeStep = func() error {
				timed(&stepping, func() { step(stepTime) })
				return nil
			}
		}
		return e, err
	})
	a := tr.Method().(*A2C)
	a.Stepper = &traintest.HookedStepper{Stepper: a.Stepper, Before: func() { timed(&learning, func() { spin(update) }) }}
	began := time.Now()
	check(t, tr.Begin(1000, 0))
	check(t, tr.Run(50, 0))
	got = shares(tr)
	all := float64(time.Since(began)) * float64(threads)
	least = map[string]float64{"learn": float64(learning) / all, "wait": 1 - 1/float64(threads)}
	if waits {
		least["wait"] += float64(stepping) / all
	} else {
		least["step"] = float64(stepping) / all
	}
	return got, least
}
