// Package param holds the parameters that several learners train together: the central parameters
// of A3C (Mnih et al. 2016), of the asynchronous methods of Stooke & Abbeel 2018 and of Gorila
// (Nair et al. 2015).
//
// # Learner, store, shard
//
// A learner has a copy of the parameters, computes gradients with its copy, and visits the Store to
// push a gradient and to pull newer parameters. The Store has the central parameters and the state
// of their optimiser. Both are cut into shards: ranges of the flat array of nn.Params, without
// gaps.
//
//   - A visit is one Push or one Pull of one shard, under the lock of that shard. A whole push is a
//     visit to each shard, from 0 to Shards()-1, and so is a whole pull.
//   - The version of a shard is the number of pushes that were applied to it. Push and Pull return
//     it. Different shards have different versions while a push is in progress, and a pull may see
//     different versions of different shards, as in Stooke & Abbeel, section 4.3. No visit sees a
//     part of another visit.
//   - The lag of a push to a shard is the number of pushes that other learners applied to the shard
//     after this learner read it: the version before the push, less Push.Seen. The lag of a
//     gradient is the largest lag over the shards.
//   - An update is a push that was applied to the last shard. Updates is the version of the last
//     shard, and only a visit to the last shard sets nn.Params.Updates.
//   - Adam's t of a shard is the number of optimiser steps in the pushes that were applied to the
//     shard: one for each push, or with multi_step_adam the n steps of the push. With
//     Rule.LocalSteps it is the pushing learner's own count of steps.
//
// The caller decides the order of the visits. The result is a function of that order alone: a visit
// depends on its arguments and on its own shard, never on another shard or on the time. Two visits
// to different shards may therefore change places. This is how one seed has one result, and how a
// recorded order repeats a run (core/train/order).
//
// # Locks
//
// Lock-free updates (Hogwild) are refused. Without a lock a learner may read the first half of a
// vector register's floats before a concurrent write and the second half after it. No record of an
// order can repeat such torn reads. A lock of a shard is held for one pass over the shard, so
// learners rarely wait where there are several shards.
//
// # Rules
//
// A Rule says what a push does:
//
//	gradient         The Store takes a step of its optimiser along the pushed gradient. The learner's
//	                 copy does not change; the learner pulls. A3C with shared RMSProp.
//	overwrite        The same step, and the learner's copy of the shard becomes the result in the same
//	                 visit. Stooke & Abbeel, 4.3, with the optimiser's state in the Store.
//	multi_step_adam  The learner takes n steps of Adam with its own copy (Local). A push moves the
//	                 central parameters by the sum of these steps and blends the moments.
//	                 Stooke & Abbeel, appendix A.
//	mean             All learners contribute to each step, which waits for the slowest (Mean).
//	                 Stooke & Abbeel, 4.2.
//
// One learner with gradient, overwrite or mean is bit-identical to an nn.Optimizer. One learner
// with multi_step_adam has the numbers of Adam, up to the rounding of the sum of steps.
//
// # Learners in other processes
//
// A Range is a Store of a range of the parameters, for a program that carries gradients and
// parameters between processes. It knows pushes by keys, so that one that arrives twice is applied
// once, and it has a file of its own. Several ranges are the shards of Gorila's parameter server.
//
// # What a learner does
//
// The factor that clips the norm of a gradient comes from the learner, which has the whole
// gradient; the Store sees one shard of it. For the same reason the learner refuses a gradient
// whose norm is not finite, and pushes nothing then. The Store checks the factor and the learning
// rate, and does not read a gradient a second time to look for NaN. Mean clips the combined
// gradient and checks its norm.
//
// # Goroutines
//
// Push and Pull, and all methods of a Range, may be called by any goroutines at any time. A Local
// and a Mean belong to one goroutine at a time. Params and the checkpoint parts may be used only
// while no visit is in progress.
package param
