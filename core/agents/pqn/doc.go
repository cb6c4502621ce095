// Package pqn is the parallelised Q-network: Gallici et al. 2025, "Simplifying Deep Temporal
// Difference Learning" (Algorithm 1): Q-learning without a replay memory and without a target
// network, which layer normalisation makes stable. Read algorithm.go next to the paper.
//
// # Names
//
//	paper         here                         what
//	theta         PQN.Theta                    Q, a network with layer normalisation
//	I             Config.NumEnvs               environments stepped together
//	T             Config.NSteps                rounds of a rollout
//	Q_lambda(s)   rollout.Batch.Returns        R_t = r_t + gamma (lambda R_t+1 + (1-lambda) max_a Q(s_t+1, a))
//	lambda        Config.QLambda
//	epsilon       Clock.Schedules["epsilon"]   falls over exploration_fraction of the steps up to the end of the run
//	epochs        Config.NEpochs               passes over a rollout
//
// # An update
//
// After n_steps rounds the rollout is full. Its returns are computed once, backward, from the
// Q-values that were recorded while acting and, for the observations after the last step, from
// Q-values of the same parameters. Then, n_epochs times, its steps are shuffled and cut into
// minibatches of batch_size steps; the last one has the remaining steps. The loss is
//
//	loss_coef mean((Q(s, a) - R)^2)
//
// The authors have loss_coef 1/2, CleanRL has 1. The gradient's norm is clipped before the step of
// RAdam. The learning rate is read at the last step of the rollout.
//
// An end cuts the returns. After a termination the value is 0, after a truncation it is the largest
// Q of the true last observation. The preset pqn_cleanrl does the same, although in CleanRL's file
// a return includes that of the next episode and a truncation is a termination. A row that only
// resets its environment (autoreset next_step) is no step: it is in no minibatch. Minibatches
// consist of steps, so there may be fewer of them.
//
// # Time
//
// Package onpolicy says when an update is due, where Advance ends and what a Stop inside an update
// leaves. Each minibatch is one update.
//
// # Random numbers
//
// Environment i's stream "explore" gives one number for each step, and a second one if the action
// is random. Stream "weights" gives the initial parameters. Stream e of "minibatches" shuffles the
// e-th epoch of the whole training.
//
// # Goroutines
//
// A PQN belongs to its train.Trainer and is called by one goroutine at a time. The threads of
// the budget step environments and share the layers' work; their number changes no result.
package pqn
