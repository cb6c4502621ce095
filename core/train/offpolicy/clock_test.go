package offpolicy

import "testing"

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
