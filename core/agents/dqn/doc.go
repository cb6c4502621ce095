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
//	                 Config.Tau                    1: theta-minus is copied, else averaged
//	F                Config.TrainFreq / GradientSteps   train period: see "Which updates are due"
//	t                clock.T                       agent steps after the warm-up
//	main thread      DQN.Advance (algorithm.go)    the caller of Run, or of Act and Observe
//	sampler threads  DQN.samplers                  the threads of a threads.Pool; see package actor
//	trainer thread   updates (updates.go)          one goroutine
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
// The warm-up's steps count in num_timesteps and in the length of a run, as in
// Stable-Baselines3, and environments go on from it. Epsilon is a function of t,
// the learning rate one of num_timesteps.
//
// A run ends at End = num_timesteps + total, both as they are when it begins. The learning
// rate is a line or a curve from step 0 to End. Epsilon falls over exploration_fraction of
// End steps, or over exploration_steps, which no run changes. So a run that goes on from
// the one before raises both again, as in Stable-Baselines3, and the rest of a run that
// was interrupted has the same End and the same bits. Warm-up, windows and copies of theta
// go by counts of steps, and go on.
//
// # Windows
//
// The paper does everything every C steps. Here the window is a number of its
// own. At its boundary, in this order: the window's updates are finished; what
// the samplers saw enters D, unfinished episodes too; theta-minus <- theta if a
// multiple of C was reached or passed (with tau below 1, as many steps
// theta-minus <- tau theta + (1 - tau) theta-minus as multiples); the snapshot is refreshed; the next
// window's updates may begin. Inside a window D and theta-minus do not change,
// so its updates are fully defined at its start, and the samplers' steps at
// theirs: neither depends on who is faster. That is the reason for everything
// else: one seed gives the same bits for any number of threads, and for the
// same schedule run on one thread (the sequential emulation, a test).
//
// Unless the settings name its length, a window is no longer than the policy that acts
// in it may stand still (Config.steadySteps).
//
// A boundary is passed before the next step, not after the last one, so that Run
// can return without waiting for the trainer thread.
//
// Without concurrency every experience enters D before the next update, and
// theta-minus is updated at the first round end at or past each multiple of C.
// With W = 1 and both switches off this is textbook DQN.
//
// # Which updates are due
//
// GradientSteps updates are due at every multiple of TrainFreq, as in
// Stable-Baselines3: burst(t) = floor(t / TrainFreq) GradientSteps in all. Without
// concurrency they are done at that step. Inside a concurrent window, where D and
// theta-minus stand still, they are spread, so that the trainer thread never idles:
// min(floor(t GradientSteps / TrainFreq), burst(end)) are due at t, end being the
// window's boundary, where burst is exact again. Where GradientSteps is 1 these are
// the same. All updates of a burst have the learning rate of its step.
//
// # Targets
//
// A target is r + gamma max_a Q(s', a; theta-minus); with double_q (van Hasselt et
// al. 2016) r + gamma Q(s', argmax_a Q(s', a; theta); theta-minus). Of equal values
// the first counts.
//
// Where environments have action masks, only actions that are allowed are chosen,
// drawn (each with the same probability, by one number as without masks) and compared
// in targets. D stores the mask of s', which a terminal s' does not need.
//
// # What can be seen
//
// Run returns between rounds and leaves the trainer thread at work; package train
// says what a call that reads then waits for. Between Act and Observe the step that
// counts is the one at which the round at hand will end.
//
// Stop and a time limit interrupt every wait for the trainer thread, between two
// updates. (Only in mid-round, where samplers run unsynchronised and training is
// not concurrent, are the round's own updates finished first.) Samplers that run
// unsynchronised stop at the end of the furthest round that any of them has begun.
//
// What is no function of the seed is how far the other samplers come when an
// environment fails and they run unsynchronised.
//
// # On a GPU
//
// With replay_device cuda the GPU's memory has a copy of D's frames, which follows the
// flushes (replay.Mirror). At a window's start the trainer thread draws the minibatches of all its
// updates, in their order and from the same stream, and hands over where the frames of each are;
// the GPU then gathers them and does the updates one behind the other (nn.StackStepper), as they
// are released. Stop and Close wait for at most some 20 milliseconds of updates, and a checkpoint
// has the stream as it is behind the updates that are done. Where the call in progress reaches the
// window's end and has no time limit, nobody can look before that, and the whole window is
// released at its start. The bits are those of one update at a time.
//
// At every boundary a copy of the parameters, the optimiser and the counts is begun; when the
// GPU is lost, that is what is read and saved.
//
// # Threads
//
// At most num_threads threads compute at any time. The main thread holds a core
// inside a call, except while it waits for the trainer thread, which holds one
// during each update. The cores that are left go to helpers, for as long as a loop
// or a layer lasts: the samplers' step environments and compute the Q-values of a
// round, the trainer's copy minibatches and compute the parts of updates. So where
// acting is cheap all cores work on updates, where environments are slow all step
// them, and with one core the two take turns: updates are done while the main
// thread waits at a window's end, or is with its host.
//
// Where steps wait (env.Spec.Waits), each environment has a thread, which holds no core
// during a step, and neither does the main thread: it releases its own when the steps of a
// round begin and acquires one when all are done. So updates take place in the wait, with all
// cores, and where samplers run unsynchronised one acts while the others wait.
package dqn
