// Package a2c is synchronous advantage actor-critic. It is Algorithm S3 (A3C) of Mnih et al. 2016,
// "Asynchronous Methods for Deep Reinforcement Learning", with all actors in lockstep and one
// learner. Stooke & Abbeel 2018, "Accelerated Methods for Deep Reinforcement Learning", section
// 5.1, describe this variant. Read algorithm.go next to the paper.
//
// # Names
//
//	paper                here                       what
//	theta, theta_v       A2C.Theta                  one set of parameters, on one trunk or two
//	pi(a | s; theta)     head "pi", softmax         the policy
//	V(s; theta_v)        head "v"                   the value of a state
//	t_max                Config.NSteps              rounds before an update: the rollout's Horizon
//	T, T_max             Clock.Steps, Clock.End     agent steps of all environments
//	R                    rollout.Batch.Returns      n-step return; GAE(lambda) where lambda < 1
//	R - V                rollout.Batch.Advantages   recorded V, no gradient flows through it
//	beta                 Config.EntCoef             weight of the entropy bonus
//	gamma                Config.Gamma               discount factor
//	alpha, eta, epsilon  Config.RMSPropAlpha, LearningRate, RMSPropEps
//	actor-learner thread an environment of Actors   W = Config.NumEnvs of them
//
// # An update
//
// After n_steps rounds the rollout is full. Then the loss
//
//	mean(-log pi(a|s) (R - V)) + vf_coef mean((R - V(s))^2) - ent_coef mean(H(pi(.|s)))
//
// over its rows gives one gradient, whose norm is clipped, and one step of RMSProp or Adam. The
// loss is that of Stable-Baselines3's A2C; Mnih et al. have sums instead of means. There is no 1/2
// before the square. The learning rate is a line over num_timesteps, read at the last step of the
// rollout.
//
// An end cuts the trace of returns. After a termination the value is 0, after a truncation it is V
// of the true last observation. At the end of the rollout it is V of the first observation of the
// next rollout. All of these values are computed by the parameters that acted, which do not change
// during a rollout.
//
// A row that only resets its environment (autoreset next_step) is no step: it draws no random
// number and has weight 0 in every mean and in the normalisation of advantages. The rollout is
// counted in rounds, so that the update is due at the same time for all environments. A rollout
// without any step gives no update.
//
// Actions that a mask forbids have no probability, in acting, in the loss and in the entropy. With
// V-trace (vtrace.go) the rollout is a window that slides.
//
// # Time
//
// Package onpolicy says when an update is due and where Advance ends.
//
// Episodes that a new run, a load or a failing environment ends are truncations. SetParameters
// leaves the rollout as it is: Updates of its rows says which parameters acted.
//
// # Random numbers
//
// Environment i's stream "explore" gives one number for each step, by which the action is drawn
// from the softmax; "weights" gives the initial parameters.
//
// # Goroutines
//
// An A2C belongs to its train.Trainer and is called by one goroutine at a time. The threads of the
// budget step environments and share the layers' work; their number changes no result.
package a2c
