// Package dqn is Deep Q-learning with Concurrent Training and Synchronized Execution: Algorithm 1
// of "Human-Level Control without Server-Grade Hardware". The algorithm is in algorithm.go, to be
// read beside the paper. Package offpolicy has the replay memory's windows, the trainer thread and
// the checkpoint.
//
// # Names
//
//	paper            here                          what
//	D                DQN.Memory                    replay memory
//	theta            DQN.Theta                     parameters that are learned
//	theta-minus      DQN.ThetaMinus                target parameters
//	W                Config.NumEnvs                environments
//	N                Config.LearningStarts         warm-up
//	C                Config.TargetUpdateInterval   target period
//	                 Config.Tau                    1: theta-minus is copied, else averaged
//	F                Config.TrainFreq / GradientSteps   train period: see "Which updates are due"
//	t                Clock.T                       agent steps after the warm-up
//	main thread      DQN.Advance (algorithm.go)    the caller of Run, or of Act and Observe
//	sampler threads  DQN.Samplers                  the threads of a threads.Pool; see package actor
//	trainer thread   DQN.Updates                   one goroutine; see offpolicy.Updates
//	temporary buffer the staged part of D          see package replay
//
// # Time
//
// t counts agent steps after the warm-up. A round is one step of each of the W environments. A row
// that only resets its environment (NextStep autoreset) is no step: it draws no random number and
// is not stored, so one environment gives the same replay bytes in every autoreset mode. Everything
// periodic happens at the first round end at or past its due t, and the next due t does not move.
// So no period needs to divide another, and W = 1 works: as printed, Algorithm 1 would never
// compute Q-values there, and would flush in the middle of a round.
//
// The warm-up's steps count in num_timesteps and in the length of a run, as in Stable-Baselines3,
// and environments continue from it. Epsilon is a function of t, the learning rate one of
// num_timesteps.
//
// A run ends at End = num_timesteps + total, both as they are when it begins. The learning rate is
// a line or a curve from step 0 to End. Epsilon falls over exploration_fraction of End steps, or
// over exploration_steps, which no run changes. So a further run raises both again, as in
// Stable-Baselines3, and the rest of an interrupted run has the same End and the same bits.
// Warm-up, windows and copies of theta depend on counts of steps, which continue.
//
// # Windows
//
// In the paper everything happens every C steps. Here the length of a window is a setting. At the
// boundary of a window the following happens, in this order:
//
//  1. The window's updates are finished.
//  2. The samplers' experience enters D, also of unfinished episodes.
//  3. If t has reached or passed a multiple of C, theta-minus <- theta. With tau below 1,
//     theta-minus <- tau theta + (1 - tau) theta-minus, once for each multiple.
//  4. The snapshot is refreshed.
//  5. The next window's updates may begin.
//
// Inside a window D and theta-minus do not change, so the window's updates and the samplers' steps
// are defined at its start and do not depend on the speed of threads. This is why one seed gives
// the same bits for any number of threads, and for the same schedule on one thread
// (offpolicy.Order, a test).
//
// If the settings do not name its length, a window is no longer than the acting policy may stay the
// same (Config.steadySteps).
//
// A boundary is passed before the next step, not after the last one, so that Run can return without
// waiting for the trainer thread.
//
// Without concurrency every experience enters D before the next update, and theta-minus is updated
// at the first round end at or past each multiple of C. With W = 1, and with
// Concurrent and Synchronized false, this is textbook DQN.
//
// # Which updates are due
//
// GradientSteps updates are due at every multiple of TrainFreq, as in Stable-Baselines3: burst(t) =
// floor(t / TrainFreq) GradientSteps in all. Without concurrency they are done at that step. A
// concurrent window, in which D and theta-minus do not change, spreads them, so that the trainer
// thread is never idle: min(floor(t GradientSteps / TrainFreq), burst(end)) are due at t, where end
// is the window's boundary. At the boundary this is burst(end) again, and with GradientSteps 1 it
// is burst(t). All updates of a burst have the learning rate of its step.
//
// # Targets
//
// A target is r + gamma max_a Q(s', a; theta-minus); with double_q (van Hasselt et al. 2016) it is
// r + gamma Q(s', argmax_a Q(s', a; theta); theta-minus). Of equal values the first counts.
//
// Options that change targets: distribution.go, munchausen.go, noisy.go.
//
// With n_steps = n the reward is r_1 + gamma r_2 + ... + gamma^(n-1) r_n, s' the observation after
// the n steps, and the discount gamma^n. A tail has the m steps up to the end of its episode, and
// gamma^m, or 0 after a termination. A transition can be drawn when its n steps are in D or its
// episode has ended.
//
// # Draws
//
// Minibatches are drawn uniformly, or with prioritized by priorities (replay.Prioritised,
// drawing.go). A transition enters with the priority of those that were never drawn, at the flush
// that makes it drawable. Each update draws by the priorities that the updates before it have set,
// also inside a window. With priority_update: window it draws by those of the latest flush: that of
// the window's beginning, or without concurrency that before the updates that are due together. A
// weight multiplies the loss of its row, or with dqn_zoo and the loss huber the squared error,
// whose gradient is then clipped.
//
// Where environments have action masks, only allowed actions are chosen, drawn (each with the same
// probability, by one number as without masks) and compared in targets. D stores the mask of s',
// which a terminal s' does not need.
//
// # Learners
//
// With the setting learners, several DQNs share one store of parameters (learners.go, package
// async).
//
// # What a reader sees
//
// Run returns between rounds and leaves the trainer thread at work; package train says which
// updates a reader waits for. Between Act and Observe the step that counts is the one at which the
// round in progress will end.
//
// Stop and a time limit interrupt every wait for the trainer thread, between two updates. There is
// one exception: if samplers run unsynchronised and training is not concurrent, the updates inside
// a round are finished first. Samplers that run unsynchronised stop at the end of the furthest
// round that any of them has begun.
//
// One thing is no function of the seed: how far the other samplers come when an environment fails
// while they run unsynchronised.
//
// # On a GPU
//
// With replay_device cuda the GPU's memory has a copy of D's frames, which is updated after each
// flush (replay.Mirror). At a window's start the trainer thread draws the minibatches of all its
// updates, in their order and from the same stream, and uploads the slots of their frames. The GPU
// gathers the minibatches and does the released updates one after the other (nn.StackStepper). Stop
// and Close wait for at most some 20 milliseconds of updates. A checkpoint has the stream as it is
// after the updates that are done. If the call in progress reaches the window's end and has no time
// limit, no reader can run before that end, and the whole window is released at its start. The bits
// are those of one update at a time. With prioritized every draw waits for the errors of the update
// before it, as on the CPU, and the GPU waits for every draw. With priority_update: window no draw
// waits.
//
// At every boundary a copy of the parameters, the optimiser and the counts is begun. When the GPU
// is lost, readers and checkpoints get this copy.
//
// # Threads
//
// At most num_threads threads compute at any time. The main thread holds a core inside a call,
// except while it waits for the trainer thread. The trainer thread holds a core during each update.
// Helpers hold the remaining cores for the time of a loop or a layer. The samplers' helpers step
// environments and compute the Q-values of a round. The trainer's helpers copy minibatches and
// compute parts of updates. If acting is cheap, all cores work on updates; if environments are
// slow, all cores step them. With one core, updates are done while the main thread waits at a
// window's end, or while the host computes.
//
// If steps wait (env.Spec.Waits), each environment has a thread, which holds no core during a step.
// The main thread releases its core when the steps of a round begin, and acquires one when all are
// done. So updates use all cores during the wait. Samplers that run unsynchronised act while others
// wait.
package dqn
