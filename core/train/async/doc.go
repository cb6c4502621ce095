// Package async runs several learners of a method around one store of parameters. A3C, APPO, DQN
// with learners and Gorila embed its Method. A learner is a whole A2C, PPO or DQN (train.Learner),
// with environments of its own and a copy of the parameters. Package param is the store. Package
// order decides which learner visits the store next.
//
// # A learner's life
//
//	rounds            learner.run: the learner's own method takes them
//	update            learner.visits: the learner's own method, whose optimiser is the link
//	  before each gradient, the visits of the step before (link.begin)
//	  the gradient, and a step that only says what to push (link.Apply)
//	visits            link.visit: push every shard, pull every shard
//
// With pull_period the rounds are interrupted by pulls. With rule mean the visits push to no shard,
// and the pulls wait for all learners (mean.go).
//
// # What holds for a Method
//
//   - A learner's parameters change only in its visits, and the visits end before the learner reads
//     the parameters again. So what a learner computes between two visits is a function of what it
//     pulled, and the order of visits is all that a record needs.
//   - T, the steps of all learners, is known to a learner as of its latest pull (learner.setTotal).
//     Its schedules follow that T and its own steps since.
//   - A slice (Advance, Settle) ends just before a round in the order. A push that comes later in
//     the order waits for the next slice; its gradient stays where it is, and is a part of a
//     checkpoint.
//   - Episodes are reported in the order of events at the end of a slice.
//   - One learner is bit-identical to its method.
//
// Learners are on the CPU. Each has one thread, and gives up its core while it waits (order.Turns).
package async
