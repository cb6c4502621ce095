// Package onpolicy is what on-policy methods share: they act for a number of rounds with one set of
// parameters, learn from these rounds and discard them. A2C, PPO, PQN and REINFORCE embed a Run,
// which is train.Method and train.Pushed except for Metrics, and add their network, their optimiser
// and their Update.
//
// A Worker (worker.go) is what one learner has: environments and their latest rounds (Window,
// window.go), the network that acts and what computes gradients. A Run (run.go) is a Worker with
// counts, schedules, updates of the parameters (update.go), and a checkpoint (method.go).
//
// # What holds for a Run
//
//   - An update is due at the round that fills the rollout. It is done before the next action is
//     chosen and before the parameters are read. So parameters do not change during a rollout, and
//     what a reader gets is a function of the seed and the step. (With Config.Slide the rollout is
//     a window that slides, whose older rows are of older parameters.)
//   - An update is one minibatch or several, one after the other. A Stop or a time limit ends a
//     call between two of them, and the next call that steps or settles continues with the rest,
//     also after a load.
//   - Minibatches refer to rows of the rollout, whose observations are uploaded once for all of
//     them; of a window that slides, each observation is uploaded once. A2C's only minibatch
//     without V-trace is the whole rollout, as it lies in memory.
//   - Advance ends at the first round end at or past its step, anywhere in a rollout. The rollout
//     continues in the next call, and a checkpoint with experience holds it.
//   - An update that fails ends training. After a loss that is not finite, a new run or a write of
//     the parameters lets training continue, with the next rollout.
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
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
)

// Config is what a method brings.
type Config struct {
	Net        nn.Spec
	NetSetting string // the setting that decides its size, for errors: "policy: MlpPolicy"
	// Policy says how frozen copies of Theta act; Run fills in its Set, Env and Net. Chooser
	// chooses during training. Value returns V of every row from the outputs of Theta, in memory
	// that the next call overwrites; rollouts record V.
	Policy  policy.Spec
	Chooser policy.Chooser
	Value   func(nn.Outputs) []float32
	// Normalize says what is normalised before the network and the rollout get it.
	Normalize Normalize
	Horizon   int // rounds of a rollout: n_steps
	// Slide is how many of the oldest rounds are discarded after an update; 0: all.
	Slide int
	// Batch is the number of rows of a minibatch, Minibatches the most minibatches of an update.
	Batch, Minibatches int
	Loss               nn.Loss
	Optimizer          nn.OptimizerConfig
	MaxGradNorm        float64 // 0: gradients are not clipped
	// Rate is the learning rate of a run that ends at a step.
	Rate func(end int64) train.Schedule
	// Schedules are further values of a run.
	Schedules []Schedule
}

// Normalize says whether observations and rewards are normalised by running statistics. Gamma
// discounts the returns whose variance scales rewards.
type Normalize struct {
	Obs, Reward bool
	Gamma       float64
}

// Schedule is a value of a run that ends at a step.
type Schedule struct {
	Name   string
	Most   float64 // the largest value
	Of     func(end int64) train.Schedule
	Learns bool // at value 0 an update changes almost nothing
}

// Method is what Run asks of the method that embeds it.
type Method interface {
	// Filled is called when the rollout has become full. It gives weight 0 to rows that are not
	// learned from. If no row has another weight, there is no update.
	Filled()
	// Update learns from minibatch k of a full rollout, 0 to Config.Minibatches-1. done ends the
	// update before its last minibatch.
	Update(k int) (done bool, err error)
	// Divergence is the divergence after the minibatches of the update in progress, if the rest of
	// the update depends on it. Resume sets it in an update that was loaded.
	Divergence() float64
	Resume(divergence float64)
}

func (c *Config) rollout(spec env.Spec, envs int) rollout.Config {
	return rollout.Config{Obs: spec.Obs, Action: spec.Action, Horizon: c.Horizon, Envs: envs, Masks: spec.Masks, Columns: c.Chooser.Columns()}
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
	rows := 2 // the environments' observations, and the last ones of their episodes
	if c.Normalize.Obs {
		rows++
		list = append(list, limits.Part{Setting: "normalize_obs: true", Bytes: 2 * normalize.Bytes(s.Spec.Obs.Len())}) // and a copy
	}
	add(fmt.Sprintf("num_envs: %d", envs), int64(rows)*int64(envs*s.Spec.Obs.Bytes()), nn.Needs{NetworkRows: []int{envs}})
	add(c.NetSetting, 0, nn.Needs{Sets: 2, Optimizer: c.Optimizer}) // theta and the gradient
	return list, err
}
