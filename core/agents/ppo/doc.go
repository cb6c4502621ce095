// Package ppo is proximal policy optimization with the clipped objective, in lockstep: Algorithm 1
// of Schulman et al. 2017, "Proximal Policy Optimization Algorithms". Details are those of Huang et
// al. 2022, "The 37 Implementation Details of Proximal Policy Optimization". algorithm.go follows
// the paper line by line.
//
// # Names
//
//	paper              here                        what
//	theta              PPO.Theta                   policy and value, on one trunk or two
//	theta_old          rollout column "log_prob"   the policy that acted, as its log-probabilities
//	N actors           Config.NumEnvs              environments stepped together
//	T                  Config.NSteps               rounds of a rollout
//	K epochs           Config.NEpochs              passes over a rollout
//	M                  Config.BatchSize            steps of a minibatch, M <= N T
//	A_t                rollout.Batch.Advantages    GAE(lambda)
//	epsilon            Config.ClipRange            how far from 1 the ratio r_t(theta) counts
//	c_1                Config.VfCoef               weight of the value's squared error, which has no 1/2
//	c_2                Config.EntCoef              weight of the entropy bonus
//
// # An update
//
// After n_steps rounds the rollout is full. Advantages and returns are computed once, with the
// values of the parameters that acted. Then, n_epochs times, its steps are shuffled and cut into
// minibatches of batch_size steps; the last one has the remaining steps. The loss
//
//	mean(-min(r A, clamp(r, 1-clip_range, 1+clip_range) A)) + vf_coef mean((R - V)^2) - ent_coef mean(H)
//
// gives a gradient, whose norm is clipped before the step of Adam. normalize_advantage applies to
// each minibatch. A last minibatch of one step keeps its advantage (Stable-Baselines3), and a
// batch_size of 1 is refused. With clip_range_vf the squared error is that of the value clamped to
// clip_range_vf around the recorded value (Stable-Baselines3), or the larger of this error and the
// unclamped one (clip_range_vf_largest: OpenAI Baselines, CleanRL). With target_kl an update ends
// early: before the step of a minibatch whose estimated divergence exceeds 1.5 target_kl
// (Stable-Baselines3), or after an epoch whose last minibatch has a divergence above target_kl
// (CleanRL: target_kl_check "epoch"). Learning rate and clip ranges are read at the last step of
// the rollout.
//
// An end cuts the trace of returns. After a termination the value is 0. After a truncation it is V
// of the true last observation; in CleanRL a truncation is a termination. At the end of the rollout
// it is V of the first observation of the next rollout. A row that only resets its environment
// (autoreset next_step) is no step: it is in no minibatch, mean or normalisation. Minibatches
// consist of steps, so there may be fewer of them.
//
// Actions that a mask forbids have no probability, in acting, in the ratio and in the entropy.
//
// Forty updates agree with PyTorch's in float64 to 1e-5 of the largest weight if no ReLU is at its
// kink and no ratio at the end of its range (python/tests/on_policy_torch.py).
//
// # Time
//
// Package onpolicy says when an update is due, where Advance ends and what a Stop inside an update
// leaves. UpdatesDue counts Config.NEpochs times the number of minibatches; an update that ends
// early has done fewer.
//
// # Random numbers
//
// Environment i's stream "explore" gives one number for each step, which draws the action from the
// softmax. Stream "weights" gives the initial parameters. Stream e of "minibatches" shuffles the
// e-th epoch of the whole training.
//
// # Goroutines
//
// A PPO belongs to its train.Trainer and is called by one goroutine at a time. The threads
// of the budget step environments and share the layers' work; their number changes no
// result.
package ppo
