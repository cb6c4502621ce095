// Package a3c is asynchronous advantage actor-critic, Algorithm S3 of Mnih et al. 2016,
// "Asynchronous Methods for Deep Reinforcement Learning": several learners, each with environments
// and a copy of the parameters, around one store of parameters. A learner is A2C (package a2c),
// whose updates go to the store. Stooke & Abbeel 2018, "Accelerated Methods for Deep Reinforcement
// Learning", section 4.3, run it with learners of sixteen environments and overwrite the store's
// parameters in shards (rule overwrite). Read algorithm.go next to the papers.
//
// # Names
//
//	paper                here                    what
//	theta, theta_v       the store's             the parameters that the learners share
//	theta', theta'_v     a learner's Theta       its copy
//	thread               a learner               learners, each with num_envs / learners environments
//	T, T_max             Turns.Steps, Begin      steps of all learners
//	t_max                Config.NSteps           rounds before an update
//	g                    the store's optimiser   RMSProp's average, which the learners share
//
// # What the papers leave open
//
// Which learner comes when is a schedule's decision (package async): the default, virtual, draws
// latencies from the seed, so a seed has one result for any number of threads. A learner reads T,
// and with it the learning rate, when it pulls parameters. The learners' gradients are not applied
// without locks, as Mnih et al. do: a torn read cannot be repeated. Each shard has a lock instead.
//
// Gradients are means over a learner's rollout, as in package a2c; the norm is clipped by the
// learner.
//
// One learner is bit-identical to A2C with the same settings.
package a3c
