package order

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Learners that share two cores wait little for their turns: of the time in which two cores would
// do all the work, a virtual order uses at least 85 % with 4 learners and 75 % with 64. A race
// would use all of it. The clock is synctest's: the learners sleep instead of computing, and time
// passes when all of them sleep or wait.
func TestTheOrderKeepsTheCoresBusy(t *testing.T) {
	for _, row := range []struct {
		learners int
		sigma    string
		least    float64
	}{{2, ":0.5", 0.6}, {4, "", 0.85}, {4, ":0.5", 0.85}, {4, ":1", 0.85}, {64, "", 0.75}, {64, ":0.5", 0.75}, {64, ":1", 0.75}} {
		t.Run(fmt.Sprint(row.learners, row.sigma), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const round, gradient, visit = 80 * time.Microsecond, 600 * time.Microsecond, 10 * time.Microsecond
				model := &Latency{Step: mustDuration(t, "4e-5"+row.sigma), Forward: mustDuration(t, "4e-5"+row.sigma), Gradient: mustDuration(t, "6e-4"+row.sigma),
					Push: mustDuration(t, "4e-5"+row.sigma), Pull: mustDuration(t, "4e-5"+row.sigma)}
				w := newWorld(programme{rounds: 5, updates: 1}, row.learners, 4, 16, false)
				w.work = func(what string) {
					time.Sleep(map[string]time.Duration{"round": round, "gradient": gradient, "visit": visit}[what])
				}
				turns := newTurns(t, Config{Schedule: Virtual, Latency: model, Seed: 1}, w, 2)
				began := time.Now()
				if err := w.run(turns, 16*5000, nil); err != nil {
					t.Fatal(err)
				}
				work := 5000 * round
				for _, n := range w.versions {
					work += time.Duration(n) * 2 * visit
				}
				work += time.Duration(w.versions[0]) * gradient
				busy := float64(work) / 2 / float64(time.Since(began))
				if t.Logf("%.3f", busy); busy < row.least {
					t.Errorf("the cores compute for %.3f of the time, must be %.2f", busy, row.least)
				}
			})
		})
	}
}
