// Package reinforce is REINFORCE: Williams 1992, "Simple Statistical Gradient-Following Algorithms
// for Connectionist Reinforcement Learning", the smallest method and a pattern for new ones. The
// algorithm is in algorithm.go, to be read beside the paper.
//
// The package is for Go programs: neither the C library nor the Python package has the method. It
// has no presets, no action masks and dense networks only.
//
// # Names
//
//	paper          here                     what
//	w              Reinforce.Theta          the policy's weights
//	g(x, a, w)     head "pi", softmax       the probability of an action
//	r              rollout.Batch.Returns    the discounted rewards from a step to the episode's end
//	b              mean                     the baseline
//	alpha          Config.LearningRate      with Adam
//
// # An update
//
// After n_steps rounds the rollout is full. Every step whose episode has ended in the rollout has
// its whole return; the others have weight 0 and are never learned from. The loss is the mean of
// -log pi(a|s) (r - b), where b is the mean of r. A truncated episode counts as a whole one.
//
// When an update is due and where Advance ends is onpolicy.Run's: its documentation says so.
package reinforce
