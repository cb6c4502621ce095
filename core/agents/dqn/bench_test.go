package dqn

import (
	"testing"

	"github.com/paceline-rl/paceline/core/settings"
)

// The cost of the main loop, where environments and network cost almost nothing: steps/s of
// CartPole, updates included. allocs/op is of one step.
func BenchmarkCartPole(b *testing.B) {
	for _, x := range []struct {
		name         string
		envs         int
		concurrent   bool
		synchronized bool
		freq         int
	}{
		{"standard W=1", 1, false, false, 4},
		{"standard W=1 no updates", 1, false, false, 1 << 40},
		{"synchronized W=1 no updates", 1, false, true, 1 << 40},
		{"both W=8", 8, true, true, 4},
		{"both W=8 no updates", 8, true, true, 1 << 40},
		{"concurrent W=8 no updates", 8, true, false, 1 << 40},
	} {
		b.Run(x.name, func(b *testing.B) {
			d := newDQN(b, cartpole(func(c *Config) {
				c.NumEnvs, c.Concurrent, c.Synchronized, c.TrainFreq = x.envs, settings.SwitchOf(x.concurrent), x.synchronized, x.freq
				c.NetArch, c.BatchSize, c.BufferSize = []int{64, 64}, 32, 10_000
				c.TargetUpdateInterval, c.Window, c.ExplorationSteps = 1000, 1000, 1
			}))
			check(b, d.Begin(1<<40, 0))
			check(b, d.Run(1000, 0))
			b.ReportAllocs()
			b.ResetTimer()
			check(b, d.Run(int64(b.N), 0))
			check(b, d.Settle())
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}
