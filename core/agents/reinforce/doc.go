// Package reinforce is REINFORCE: Williams 1992, "Simple Statistical Gradient-Following Algorithms
// for Connectionist Reinforcement Learning", the smallest method and a pattern for new ones.
// Read algorithm.go next to the paper.
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
// After n_steps rounds the rollout is full. Steps whose episode has not ended in the rollout have
// weight 0 and are never learned from, because their return is unknown. The loss is the mean of
// -log pi(a|s) (r - b), where b is the mean of r. A truncated episode counts as a whole one.
//
// Package onpolicy says when an update is due and where Advance ends.
package reinforce
