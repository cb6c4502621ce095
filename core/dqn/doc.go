// Package dqn is Deep Q-learning with Concurrent Training and Synchronized
// Execution: Algorithm 1 of "Human-Level Control without Server-Grade Hardware".
// The algorithm is in algorithm.go, to be read beside the paper.
//
// # Names
//
//	paper            here                          what
//	D                DQN.memory                    replay memory
//	theta            DQN.theta                     parameters being learnt
//	theta-minus      DQN.thetaMinus                target parameters
//	W                Config.NumEnvs                environments
//	N                Config.LearningStarts         warm-up
//	C                Config.TargetUpdateInterval   target period
//	F                Config.TrainFreq / GradientSteps   train period, an exact fraction
//	t                clock.T                       agent steps after the warm-up
//	main thread      DQN.learn (algorithm.go)      the caller of Run, or of Act and Observe
//	sampler threads  samplers (sampler.go)         the threads of a threads.Pool
//	trainer thread   trainer (trainer.go)          one goroutine
//	temporary buffer the staged part of D          see package replay
//
// # Time
//
// t counts agent steps after the warm-up. A round is one step of each of the W
// environments. A row that only resets its environment (NextStep autoreset) is
// no step: it draws no random number and enters nothing, so one environment
// gives the same replay bytes in every autoreset mode. Whatever has a period
// falls on the first round end at or past its due t, and the next due t does
// not move for it. So nothing need divide anything, and W = 1 works: as printed,
// Algorithm 1 would never compute Q-values there, and flush in mid-round.
//
// The warm-up's steps count in num_timesteps and in the length of a course of
// learning, as in Stable-Baselines3, and environments go on from it. Epsilon is
// a function of t, the learning rate one of num_timesteps.
//
// # Windows
//
// The paper does everything every C steps. Here the window is a number of its
// own. At its boundary, in this order: the window's updates are finished; what
// the samplers saw enters D, unfinished episodes too; theta-minus <- theta if a
// multiple of C was reached or passed; the snapshot is refreshed; the next
// window's updates may begin. Inside a window D and theta-minus do not change,
// so its updates are fully defined at its start, and the samplers' steps at
// theirs: neither depends on who is faster. That is the reason for everything
// else: one seed gives the same bits for any number of threads, and for the
// same schedule run on one thread (the sequential emulation, a test).
//
// A boundary is worked off before the next step, not after the last one, so
// that Run can return without waiting for the trainer.
//
// Without concurrency every experience enters D before the next update, and
// theta-minus is copied at the first round end at or past each multiple of C.
// With W = 1 and both switches off this is textbook DQN.
//
// # What can be seen
//
// Run returns between rounds and leaves the trainer at work. Whoever looks at
// weights or replay (Policy, Save, GetParameters, Hashes, the end of a course)
// first waits for exactly the updates due at that step: what is seen is a
// function of the seed and the step. Between Act and Observe it is the step at
// which the round at hand will end.
//
// Stop and Run's time limit interrupt every wait for the trainer, between two
// updates. After Stop nothing is made up for: the weights are seen as they are.
// The updates that are due are done when steps go on, with the same result.
// (Only in mid-round, where samplers run unsynchronised and training is not
// concurrent, are the round's own updates finished first.)
//
// What is no function of the seed is how far the other samplers come when an
// environment fails and they run unsynchronised.
//
// # Threads
//
// One call at a time on a DQN, from any goroutine (fault.ErrBusy otherwise), except
// for Stop, Stats and Close. A Policy is immutable and shared freely.
//
// At most num_threads threads compute at any time: the cores of a
// threads.Budget. The main thread holds one inside a call, except while it waits
// for the trainer; the trainer's thread holds one during each update. What is left
// of them goes to helpers, for as long as a loop or a layer lasts: the samplers'
// step environments (a threads.Pool) and compute the Q-values of a round (a
// kernel.Team), the trainer's copy minibatches and compute the parts of updates. So where acting is cheap all cores work on updates, where environments
// are slow all step them, and with one core the two take turns: the updates are
// done while the main thread waits at a window's end, or is with its host. What
// a host or a Policy computes by itself does not count.
package dqn
