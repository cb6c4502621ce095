// Package experience says what one step of one environment is, and what takes
// it: a replay memory, a rollout or a queue. core/actor produces steps and knows
// no more than this of where they go.
package experience

import "github.com/paceline-rl/paceline/core/env"

// Step is what happened between two observations of one environment.
type Step struct {
	Action int32
	Reward float32
	End    env.End
	// Mask is the action mask that Action was chosen under, NextMask that of the observation
	// after the step, which may be anything where the step terminated. nil where masks are
	// not used. A sink copies what it wants of them.
	Mask, NextMask []byte
	// Updates is how many updates the parameters that chose Action had seen, so
	// that the age of experience is measured.
	Updates uint64
	// Columns are what the chooser recorded beside the action, in the order of
	// policy.Chooser.Columns. A sink copies them.
	Columns []float32
}

// Sink takes the steps of a number of environments. Calls for one environment
// come one after the other, those for different environments at any time from
// any goroutines.
type Sink interface {
	// Begin starts a segment (an episode, or what follows a Cut) of environment
	// i with its first observation, which stays the caller's.
	Begin(i int, obs []byte) error
	// Add takes one step. next is the observation after it: after an end the last
	// one of the episode; where the step terminated it may be anything. After an
	// end, Begin must follow. An error changes nothing.
	Add(i int, s *Step, next []byte) error
	// Open reports whether a segment of environment i is in progress.
	Open(i int) bool
	// Cut ends environment i's segment in progress from outside, as a truncation
	// after its last step. Where there is none it does nothing.
	Cut(i int)
}
