// Package onpolicy is what methods share that act for a number of rounds with one set of
// parameters, learn from these rounds and give them up: A2C, PPO, PQN, REINFORCE. A method embeds
// a Run, which is train.Method and train.Pushed but for Metrics, and brings its network,
// its optimiser and its Update.
//
// # What holds for a Run
//
//   - An update is due at the round that fills the rollout, and is done before the next
//     action is chosen, or before the parameters are read: they do not change during a
//     rollout, and what a reader gets is a function of the seed and the step. (With
//     Config.Slide the rollout is a window that moves on, and older rows in it are of older
//     parameters.)
//   - An update is one minibatch or several, one after the other. A Stop or a time limit
//     ends a call between two of them, and the next call that steps or settles goes on
//     with the rest, from a checkpoint, too.
//   - Minibatches name rows of the rollout, whose observations are brought to the device once
//     for all of them; of a window that moves on, each observation once. A2C's only minibatch
//     without V-trace is the whole rollout, as it lies in memory.
//   - Advance ends at the first round end at or past its step, wherever in a rollout that
//     is. The rollout goes on in the next call, and is in a checkpoint that holds
//     experience.
//   - An update that fails ends training: none is done after it. Where a loss was not
//     finite, a new run and a write of the parameters let it go on, with the next rollout.
//   - A checkpoint's parts, and their order, are the same for every method.
//
// A Run belongs to its train.Trainer and is called by one goroutine at a time.
package onpolicy

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
)

// Config is what a method brings.
type Config struct {
	Net        nn.Spec
	NetSetting string // what decides about its size, for errors: "policy: MlpPolicy"
	// Policy says how Theta acts for whoever has a copy of it; its Set, Env and Net are Run's
	// to fill in. Chooser chooses while learning, and Value is V of every row by what Theta
	// computed of it, in memory that is used until the next call; rollouts record it.
	Policy  policy.Spec
	Chooser policy.Chooser
	Value   func(nn.Outputs) []float32
	Horizon int // rounds of a rollout: n_steps
	// Slide is how many rounds, the oldest ones, are given up after an update; 0: all.
	Slide int
	// Batch is the rows of a minibatch, Minibatches how many an update has at most.
	Batch, Minibatches int
	Loss               nn.Loss
	Optimizer          nn.OptimizerConfig
	MaxGradNorm        float64 // 0: gradients are not clipped
	// Rate is the learning rate from step 0 to the end of a run.
	Rate func(end int64) train.Schedule
	// Schedules are further values from step 0 to the end of a run.
	Schedules []Schedule
}

// Schedule is a value from step 0 to the end of a run.
type Schedule struct {
	Name   string
	Most   float64 // of the values
	Of     func(end int64) train.Schedule
	Learns bool // where the value is 0, an update changes next to nothing
}

// Method is what Run asks of the method that embeds it.
type Method interface {
	// Filled is called when the rollout has become full, and gives weight 0 to rows that
	// are not to be learnt from. Where no other row is left there is no update.
	Filled()
	// Update learns from minibatch k of the rollout, which is full: 0, 1 ... of
	// Config.Minibatches. done says that none is to follow before its time.
	Update(k int) (done bool, err error)
	// Divergence is what the minibatches of the update in progress have come to, where the rest
	// of it depends on that. Resume sets it, for an update that was loaded.
	Divergence() float64
	Resume(divergence float64)
}

func (c *Config) rollout(spec env.Spec, envs int) rollout.Config {
	return rollout.Config{Obs: spec.Obs, Actions: spec.Action.N, Horizon: c.Horizon, Envs: envs, Masks: spec.Masks, Columns: c.Chooser.Columns()}
}

// Memory lists what Init will allocate.
func (c *Config) Memory(s *train.Setup) ([]limits.Part, error) {
	envs := s.Common.NumEnvs
	var list []limits.Part
	var err error
	add := func(setting string, own int64, n nn.Needs) {
		bytes, nerr := s.Device.Bytes(c.Net, n)
		err = errors.Join(err, nerr)
		list = append(list, limits.Part{Setting: setting, Bytes: own + bytes})
	}
	add(fmt.Sprintf("n_steps: %d", c.Horizon), c.rollout(s.Spec, envs).Bytes(), nn.Needs{LearnerRows: []int{c.Batch}})
	add(fmt.Sprintf("num_envs: %d", envs), 2*int64(envs*s.Spec.Obs.Bytes()), nn.Needs{NetworkRows: []int{envs}})
	add(c.NetSetting, 0, nn.Needs{Sets: 2, Optimizer: c.Optimizer}) // theta and the gradient
	return list, err
}
