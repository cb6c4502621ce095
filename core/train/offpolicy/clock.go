package offpolicy

import "github.com/paceline-rl/paceline/core/train"

// Clock holds every count. All counts are part of a checkpoint.
type Clock struct {
	Warmup         int64 `json:"warmup"`  // steps with random actions before t = 0
	WarmAt         int64 `json:"warm_at"` // the warm-up ends when Warmup reaches this
	Warm           bool  `json:"warm"`    // the warm-up is over
	T              int64 `json:"t"`       // t: steps after the warm-up
	Windows        int64 `json:"windows"` // windows begun
	NextWindow     int64 `json:"due"`     // the t at which the next window begins
	TargetMultiple int64 `json:"copies"`  // the latest multiple of Periods.TargetInterval that updated ThetaMinus; -1: none yet
	UpdatesBefore  int64 `json:"begun"`   // updates done before t = 0
	End            int64 `json:"end"`     // the step, warm-up included, at which the run and the schedules end
	// Refill is the part of WarmAt that a load added, because the file had no experience.
	Refill int64 `json:"refill"`
	// Others are the steps of other learners, as known at the latest pull (train.Learner), and
	// OthersT those after their warm-up.
	Others  int64 `json:"others,omitempty"`
	OthersT int64 `json:"others_t,omitempty"`
	// Applied, with Periods.ByUpdates, is the number of updates of Theta since t = 0, by all learners,
	// that the samplers know: as of the latest update or pull, where training is concurrent as of the
	// window's start. AppliedBefore is the number of those before t = 0.
	Applied       int64 `json:"applied,omitempty"`
	AppliedBefore int64 `json:"applied_before,omitempty"`
}

// Steps is num_timesteps, of this learner.
func (c *Clock) Steps() int64 { return c.Warmup + c.T }

// elapsed is what epsilon and the target network follow: t of all learners, or updates of Theta.
func (c *Clock) elapsed(byUpdates bool) int64 {
	if byUpdates {
		return c.Applied
	}
	return c.T + c.OthersT
}

// refill begins another warm-up of a number of steps.
func (c *Clock) refill(steps int64) {
	own := max(c.ownWarmAt(), c.Warmup)
	c.Warm, c.WarmAt = false, c.Warmup+steps
	c.Refill = max(0, c.WarmAt-own)
}

// ownWarmAt is WarmAt without the steps that refill added.
func (c *Clock) ownWarmAt() int64 { return c.WarmAt - c.Refill }

// refilled ends the warm-up that refill began. The steps that were taken in it stay counted.
func (c *Clock) refilled() {
	c.WarmAt, c.Refill = max(c.ownWarmAt(), c.Warmup), 0
}

// Periods are the settings that counts depend on. A checkpoint holds those of the run that saved
// it.
type Periods struct {
	TrainFreq     int `json:"train_freq"`     // steps between two bursts of updates
	GradientSteps int `json:"gradient_steps"` // updates of a burst
	// TargetInterval is the number of steps, or with ByUpdates of updates of Theta, between two
	// updates of ThetaMinus.
	TargetInterval int64 `json:"target_interval"`
	Window         int64 `json:"window"` // steps of a window
	// ByUpdates says that ThetaMinus, epsilon and the learning rate follow the updates of Theta, by
	// all learners (Nair et al. 2015, section 4.1), and not the steps.
	ByUpdates bool `json:"by_updates,omitempty"`
}

// StepsOf is the number of steps that ask for a number of updates, at least 1.
func (p Periods) StepsOf(updates int64) int64 {
	if most := int64(1) << 40; updates > most/int64(p.TrainFreq) {
		return most
	}
	return max(1, updates*int64(p.TrainFreq)/int64(p.GradientSteps))
}

// burst is how many updates t steps ask for: GradientSteps at every multiple of TrainFreq.
func (p Periods) burst(t int64) int64 { return t / int64(p.TrainFreq) * int64(p.GradientSteps) }

// spread is floor(t GradientSteps / TrainFreq), computed without overflow. It is never less than
// burst.
func (p Periods) spread(t int64) int64 {
	return p.burst(t) + t%int64(p.TrainFreq)*int64(p.GradientSteps)/int64(p.TrainFreq)
}

// burstAt is the t of the burst that update u belongs to.
func (p Periods) burstAt(u int64) int64 {
	g := int64(p.GradientSteps)
	return (u + g - 1) / g * int64(p.TrainFreq)
}

// spreadAt is the first t for which spread is at least u.
func (p Periods) spreadAt(u int64) int64 {
	f, g := int64(p.TrainFreq), int64(p.GradientSteps)
	return u/g*f + (u%g*f+g-1)/g
}

// updatesDue is how many updates are due at t, where the window ends at end. A concurrent window
// spreads its bursts, so that the trainer thread is never idle, and has exactly the bursts of its
// end when it ends.
func (c *Config) updatesDue(t, end int64) int64 {
	if !c.Concurrent {
		return c.Periods.burst(t)
	}
	return min(c.Periods.spread(t), c.Periods.burst(max(t, end)))
}

// dueAt returns a t such that update u becomes due at the first round end that is not before it.
// Rounds of w steps follow each other from t = from on, which is in a window that ends at
// windowEnd.
func (c *Config) dueAt(u, from, windowEnd, w int64) int64 {
	p := c.Periods
	burst := p.burstAt(u)
	switch {
	case !c.Concurrent:
		return burst
	case windowEnd >= burst:
		return p.spreadAt(u)
	}
	// The burst's window begins at the first round end that is not before `first`.
	first := max(windowEnd, (burst-1)/p.Window*p.Window)
	begin := from + (first-from+w-1)/w*w
	return max(p.spreadAt(u), min(begin+1, burst))
}

// windowUpdates is the largest number of updates of a window, or, without windows, of a round.
func (c *Config) windowUpdates(envs int) int {
	steps := envs
	if c.Concurrent {
		steps += int(c.Periods.Window)
	}
	return (steps/c.Periods.TrainFreq + 1) * c.Periods.GradientSteps
}

// changePeriods adapts the counts to other Periods. due updates are due at this step before and
// after, and no update of ThetaMinus is added or left out. If windows are shorter now, the window
// in progress ends at the next multiple of their length.
func (c *Clock) changePeriods(due int64, from Periods, cfg *Config) {
	if w := cfg.Periods.Window; w < from.Window {
		c.NextWindow = min(c.NextWindow, (c.T/w+1)*w)
	}
	c.UpdatesBefore = due - cfg.updatesDue(c.T, c.NextWindow)
	if to := cfg.Periods.TargetInterval; c.TargetMultiple >= 0 && to != from.TargetInterval {
		c.TargetMultiple = c.elapsed(cfg.Periods.ByUpdates) / to
	}
}

// Schedule holds the schedules, from step 0 to the end of the run. Begin makes them anew. They are
// part of a checkpoint. With Periods.ByUpdates, Epsilon and Rate go by the updates of Theta since t
// = 0.
type Schedule struct {
	Epsilon train.Schedule `json:"epsilon"`        // by t
	Rate    train.Schedule `json:"learning_rate"`  // by steps, warm-up included
	Beta    train.Schedule `json:"beta,omitempty"` // by steps, warm-up included
}

// schedule returns the schedules of a run that ends at a step of all learners.
func (c *Config) schedule(end int64, learners int) Schedule {
	counted := end
	if c.Periods.ByUpdates { // those that the run asks for
		k := int64(max(1, learners))
		counted = max(1, k*c.Periods.burst(max(0, end/k-int64(c.LearningStarts))))
	}
	s := Schedule{Epsilon: c.Epsilon(counted), Rate: c.Rate(counted)}
	if c.Beta != nil {
		s.Beta = c.Beta(end)
	}
	return s
}
