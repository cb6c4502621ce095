// Package appo is asynchronous proximal policy optimization of Stooke & Abbeel 2018, "Accelerated
// Methods for Deep Reinforcement Learning", section 5.3: learners of PPO (package ppo) around one
// store of parameters. Each takes sync_period steps of Adam between two pushes, by the rule of
// appendix A (package param), and pulls parameters every pull_period rounds while it samples.
// Read algorithm.go next to the paper.
//
// A pull inside a rollout changes the parameters that act from there on. A step keeps the action,
// log-probability and value of the parameters it was taken with; the rollout's last value is of
// those that the learner holds at its end.
//
// With rule gradient, sync_period 1 and no pulls inside rollouts, one learner is bit-identical to
// PPO.
package appo
