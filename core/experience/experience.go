// Package experience defines Step, a step of an environment, and Sink, the interface of everything
// that stores steps: replay memory, rollout, queue. core/actor stores steps through Sink only.
package experience

import "github.com/paceline-rl/paceline/core/env"

// Step is the transition between two observations of one environment. Its slices belong to the
// caller of Sink.Add: a sink must copy what it keeps.
type Step struct {
	// Action has the integers of the action: one, or one for each branch (env.ActionSpec.Ints).
	Action []int32
	// Continuous is the box of the action (env.ActionSpec.Floats), as the chooser sampled it. The
	// environment takes a copy that is clipped to the bounds.
	Continuous []float32
	Reward     float32
	End        env.End
	// Mask is the action mask under which Action was chosen. NextMask is the action mask of the
	// next observation; it is arbitrary if the step terminated. Both are nil if masks are not used.
	Mask, NextMask []byte
	// Updates is the number of updates that had been applied to the parameters that chose Action.
	// It gives the age of the experience.
	Updates uint64
	// Columns are the numbers that the chooser recorded with the action, in the order of
	// policy.Chooser.Columns.
	Columns []float32
}

// Sink stores the steps of a number of environments. Calls for one environment must not overlap.
// Calls for different environments may come from any goroutines at the same time.
type Sink interface {
	// Begin starts a segment of environment i: an episode, or its rest after a Cut. obs is the
	// first observation; the sink must not keep the slice.
	Begin(i int, obs []byte) error
	// Add adds a step to the segment. next is the observation after the step; after an end, the
	// last one of the episode. If the step terminated, next is arbitrary. Begin must follow an end.
	// After env.Lost alone the value is 0, and the next step begins at next without a Begin.
	// An error changes nothing.
	Add(i int, s *Step, next []byte) error
	// Open reports whether a segment of environment i is in progress.
	Open(i int) bool
	// Cut ends environment i's segment as a truncation after its last step. It does nothing if no
	// segment is in progress.
	Cut(i int)
}
