package dqn

import "math"

// clock counts. Every count is part of a checkpoint.
type clock struct {
	Warmup  int64 // agent steps taken with random actions before t = 0
	WarmAt  int64 // Warmup at which the warm-up is over: N
	Warm    bool  // the warm-up is over
	T       int64 // t: agent steps after the warm-up
	Windows int64 // boundaries passed, the one at t = 0 included
	Due     int64 // t at which the next window begins
	Copies  int64 // multiples of C that have refreshed theta-minus
	Begun   int64 // updates that were done when this count of steps began
	End     int64 // Warmup + T at which the course of learning ends
}

// steps is what users know as num_timesteps.
func (c *clock) steps() int64 { return c.Warmup + c.T }

// changePeriods makes the counts go on from here where the periods are others
// than before: nothing is made up for or left out because of it.
func (c *clock) changePeriods(from, to *Config) {
	c.Begun += from.updatesDue(c.T) - to.updatesDue(c.T)
	if c.Copies >= 0 && to.targetInterval() != from.targetInterval() {
		c.Copies = c.T / to.targetInterval()
	}
}

// schedule holds the straight lines along which settings change. They are
// fixed when a course of learning begins and belong to the checkpoint.
type schedule struct {
	EpsFrom, EpsTo float64
	EpsSteps       int64 // steps after the warm-up
	RateFrom       float64
	RateTo         float64
	RateSteps      int64 // steps, warm-up included
}

func newSchedule(c *Config, total int64) schedule {
	s := schedule{
		EpsFrom: c.ExplorationInitial, EpsTo: c.ExplorationFinal,
		EpsSteps: int64(c.ExplorationSteps),
		RateFrom: c.LearningRate, RateTo: c.LearningRateFinal,
		RateSteps: total,
	}
	if s.EpsSteps == 0 {
		s.EpsSteps = int64(math.Round(c.ExplorationFraction * float64(total)))
	}
	if math.IsNaN(s.RateTo) {
		s.RateTo = s.RateFrom
	}
	return s
}

func line(from, to float64, at, steps int64) float64 {
	if at >= steps {
		return to
	}
	return from + (to-from)*float64(at)/float64(steps)
}

// epsilon is the chance of a random action at the step that t counts so far.
func (s *schedule) epsilon(t int64) float64 { return line(s.EpsFrom, s.EpsTo, t, s.EpsSteps) }

// rate is the learning rate of an update that became due after so many steps,
// warm-up included.
func (s *schedule) rate(steps int64) float64 { return line(s.RateFrom, s.RateTo, steps, s.RateSteps) }

// updatesDue is floor(t / F), the number of updates that t steps ask for;
// F = train_freq / gradient_steps is kept as that fraction, so nothing drifts.
func (c *Config) updatesDue(t int64) int64 {
	return t/int64(c.TrainFreq)*int64(c.GradientSteps) +
		t%int64(c.TrainFreq)*int64(c.GradientSteps)/int64(c.TrainFreq)
}

// dueAt is the smallest t with updatesDue(t) >= u.
func (c *Config) dueAt(u int64) int64 {
	f, g := int64(c.TrainFreq), int64(c.GradientSteps)
	return u/g*f + (u%g*f+g-1)/g
}

// targetInterval is C as it acts: theta-minus changes only between windows when
// training is concurrent.
func (c *Config) targetInterval() int64 {
	if c.Concurrent {
		return int64(max(c.TargetUpdateInterval, c.Window))
	}
	return int64(c.TargetUpdateInterval)
}
