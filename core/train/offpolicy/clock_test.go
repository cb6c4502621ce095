package offpolicy

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Bursts are exact at window ends and, without concurrency, at every step. In a concurrent window
// updates are spread, and the count never decreases.
func TestUpdatesDueFollowTheBursts(t *testing.T) {
	for f := 1; f <= 9; f++ {
		for g := 1; g <= 9; g++ {
			c := Config{Periods: Periods{TrainFreq: f, GradientSteps: g}}
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
				if at := c.Periods.burstAt(u); burst(at) < u || burst(at-1) >= u {
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
	// No reachable number of steps overflows.
	c := Config{Periods: Periods{TrainFreq: 1, GradientSteps: 1 << 20}}
	if got := c.updatesDue(1<<42, 0); got != 1<<62 {
		t.Fatalf("%d", got)
	}
}

// RoundsToUpdate says when a walk from round to round meets the next update.
func TestLacksIsAWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		some := func(n int64) int64 { return r.Int64N(n) }
		w, period := 1+some(9), 1+some(40)
		c := Config{Concurrent: r.IntN(4) > 0, Periods: Periods{TrainFreq: 1 + r.IntN(90), GradientSteps: 1 + r.IntN(12), Window: period}}
		run := &Run{cfg: c, envs: int(w), hold: math.MaxInt64, Updates: &Updates{}}
		k := &run.Clock
		k.T, k.WarmAt, k.Warm = some(30)*w, some(30), r.IntN(8) > 0
		k.Warmup = k.WarmAt + some(w)
		if !k.Warm {
			k.Warmup = some(k.WarmAt + 1)
		}
		k.NextWindow = max(0, k.T-w+1) + some(w+period-1) // also that of windows of another length
		k.NextWindow = min(k.NextWindow, (k.T/period+1)*period)
		k.UpdatesBefore = some(20) - 5
		run.Updates.done = max(0, k.UpdatesBefore+c.updatesDue(k.T, k.NextWindow)-some(3)+some(20))

		want, walk := 0, *k
		if walk.Warm && run.asked(walk.T) > run.Updates.done {
			want = -1
		} else if !walk.Warm {
			for ; walk.Warmup < walk.WarmAt; walk.Warmup += w {
				want++
			}
			walk.NextWindow = walk.T
		}
		for begun := want; want == begun || walk.UpdatesBefore+c.updatesDue(walk.T, walk.NextWindow) <= run.Updates.done; want++ {
			if walk.T >= walk.NextWindow {
				walk.NextWindow = (walk.T/period + 1) * period
			}
			walk.T += w
			if want < 0 {
				break
			}
		}
		if got := run.RoundsToUpdate(); got != max(0, want) {
			t.Fatalf("%+v, %d environments, %+v, %d updates done: %d rounds, want %d", c.Periods, w, *k, run.Updates.done, got, max(0, want))
		}
	}
	// The longest period of updates.
	run := &Run{cfg: Config{Concurrent: true, Periods: Periods{TrainFreq: 1 << 40, GradientSteps: 1, Window: 8}}, envs: 8, hold: math.MaxInt64, Updates: &Updates{}}
	run.Clock.Warm = true
	if got := run.RoundsToUpdate(); got != 1<<37 {
		t.Errorf("%d rounds, want 2^37", got)
	}
}
