package dqn

import (
	"math"

	"github.com/paceline-rl/paceline/core/train"
)

// clock counts. Every count is part of a checkpoint.
type clock struct {
	Warmup  int64 `json:"warmup"`  // agent steps taken with random actions before t = 0
	WarmAt  int64 `json:"warm_at"` // Warmup at which the warm-up is over: N
	Warm    bool  `json:"warm"`    // the warm-up is over
	T       int64 `json:"t"`       // t: agent steps after the warm-up
	Windows int64 `json:"windows"` // boundaries passed, the one at t = 0 included
	Due     int64 `json:"due"`     // t at which the next window begins
	Copies  int64 `json:"copies"`  // multiples of C that have moved theta-minus
	Begun   int64 `json:"begun"`   // updates that were done when this count of steps began
	End     int64 `json:"end"`     // Warmup + T at which the run and the schedules end
	// Refill is how much of WarmAt was added because a file without experience was loaded.
	Refill int64 `json:"refill,omitempty"`
}

// refill begins a warm-up of so many steps, because a file without experience was loaded.
func (c *clock) refill(steps int64) {
	own := max(c.ownWarmAt(), c.Warmup)
	c.Warm, c.WarmAt = false, c.Warmup+steps
	c.Refill = max(0, c.WarmAt-own)
}

// ownWarmAt is WarmAt without what refill added.
func (c *clock) ownWarmAt() int64 { return c.WarmAt - c.Refill }

// refilled ends what refill began: the steps that were taken in it stay.
func (c *clock) refilled() {
	c.WarmAt, c.Refill = max(c.ownWarmAt(), c.Warmup), 0
}

// notifyRefill says once that updates wait for experience that the file loaded did not have.
func (d *DQN) notifyRefill() {
	if d.announce && d.clock.Refill > 0 {
		d.announce = false
		d.host.Notify("the file loaded has no experience: %d steps with random actions fill the replay memory before updates go on; "+
			"a file saved with its experience, or experience loaded after it, needs none", d.clock.WarmAt-d.clock.Warmup)
	}
}

// steps is what users know as num_timesteps.
func (c *clock) steps() int64 { return c.Warmup + c.T }

// periods are the settings that counts are in terms of.
type periods struct {
	TrainFreq      int   `json:"train_freq"`
	GradientSteps  int   `json:"gradient_steps"`
	TargetInterval int64 `json:"target_interval"`
	Window         int64 `json:"window"`
}

func (c *Config) periods() periods {
	return periods{c.TrainFreq, c.GradientSteps, c.targetInterval(), int64(c.Window)}
}

// changePeriods makes the counts go on from here where other settings ask for updates
// and copies at other steps: due updates were, and stay, due at this step, and no copy
// is added or left out. A shorter window ends where it ends.
func (c *clock) changePeriods(due int64, from periods, cfg *Config) {
	if w := int64(cfg.Window); w < from.Window {
		c.Due = min(c.Due, (c.T/w+1)*w)
	}
	c.Begun = due - cfg.updatesDue(c.T, c.Due)
	if to := cfg.targetInterval(); c.Copies >= 0 && to != from.TargetInterval {
		c.Copies = c.T / to
	}
}

// schedule holds the lines along which settings change, from step 0 to the end of the
// run. Every Begin makes them anew. They belong to the checkpoint.
type schedule struct {
	Epsilon train.Schedule `json:"epsilon"`       // by t
	Rate    train.Schedule `json:"learning_rate"` // by steps, warm-up included
}

func newSchedule(c *Config, end int64) schedule {
	steps := int64(c.ExplorationSteps)
	if steps == 0 {
		steps = int64(math.Round(c.ExplorationFraction * float64(end)))
	}
	return schedule{
		Epsilon: train.Line(c.ExplorationInitial, c.ExplorationFinal, steps),
		Rate:    c.LearningRateCurve.Rate(c.LearningRate, c.LearningRateFinal, end),
	}
}

// burst is how many updates t steps ask for: gradient_steps at every multiple of
// train_freq.
func (p periods) burst(t int64) int64 { return t / int64(p.TrainFreq) * int64(p.GradientSteps) }

// spread is floor(t / F), F = train_freq / gradient_steps being kept as that fraction,
// so that nothing drifts: it is never less than burst.
func (p periods) spread(t int64) int64 {
	return p.burst(t) + t%int64(p.TrainFreq)*int64(p.GradientSteps)/int64(p.TrainFreq)
}

// updatesDue is how many updates are due at t, where the window's boundary is end. A
// concurrent window spreads its bursts, so that the trainer thread never idles, and
// has those up to its end.
func (c *Config) updatesDue(t, end int64) int64 {
	p := c.periods()
	if !c.Concurrent {
		return p.burst(t)
	}
	return min(p.spread(t), p.burst(max(t, end)))
}

// burstAt is the t of the burst that update u is of.
func (c *Config) burstAt(u int64) int64 {
	g := int64(c.GradientSteps)
	return (u + g - 1) / g * int64(c.TrainFreq)
}

// targetInterval is C as it acts: theta-minus changes only between windows when
// training is concurrent, where one copy is as good as many.
func (c *Config) targetInterval() int64 {
	if c.Concurrent && c.Tau == 1 {
		return int64(max(c.TargetUpdateInterval, c.Window))
	}
	return int64(c.TargetUpdateInterval)
}
