// Package gorila is Gorila DQN of Nair et al. 2015, "Massively Parallel Methods for Deep
// Reinforcement Learning", in one process: bundles of an actor, a replay memory and a learner
// around a store of parameters in shards. A bundle is DQN (package dqn), as one of several learners
// (package async), and the store is that of package param. Gorila is the method "dqn" with other
// settings, which this package takes from the registry. Read algorithm.go next to the paper.
//
// # Names
//
//	paper                    here                        what
//	theta+                   the store's                 parameters of the server
//	theta, theta-            a bundle's Theta, ThetaMinus  its copy, and its target network
//	N_learn, N_act           Config.Learners             bundles, each with num_envs / bundles actors
//	N_param                  Config.Shards               shards, each with a lock, AdaGrad's sums and a version
//	N                        target_update_interval      updates of the server between two copies of theta-
//	D, P                     Memory, buffer_size         the replay memories; buffer_size is that of all bundles
//	delay                    lag                         updates of others between a bundle's pull and its push
//
// # Which updates count
//
// An update of the server is a gradient that the last shard has applied. The target network,
// epsilon and the learning rate follow their number, as the bundle knows it from its latest pull
// (the setting clock of DQN). A gradient that a shard has refused, or that the bundle has dropped
// because of its loss, is an update that the bundle has made and the server has not.
//
// # What the paper leaves open
//
// A bundle pushes and pulls when its gradient is computed. So theta is that of the server before
// every acting step (section 4.1) and has this bundle's own latest gradient. The gradient after the
// step is computed with the same theta; Algorithm 1 pulls once more between the two.
//
// Which bundle visits which shard when is decided as in all asynchronous methods: by a model of
// latencies (one seed, one result), as a race that is recorded, or by a recorded order.
//
// Every shard decides by itself whether a gradient is too old. The paper gives neither the
// threshold nor the number of deviations, and no learning rate. presets.go says whose the values
// are.
//
// # Bits
//
// One bundle with one shard is bit-identical to DQN with the same settings, clock "updates" and
// concurrent false.
package gorila
