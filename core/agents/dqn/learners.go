package dqn

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train/async"
	"github.com/paceline-rl/paceline/core/train/order"
)

// This file is DQN by several learners around a store of parameters (Stooke & Abbeel 2018, section
// 4.3). A learner is a DQN with its share of the environments, of the replay memory, of the warm-up
// and of a window. The period C and the exploration follow the steps of all learners. A learner's
// updates are done between its rounds, by the learner's own thread; where training is concurrent,
// the replay memory and theta-minus do not change inside its windows all the same.
//
// Where the host steps the environments, a row that only resets its environment (NextStep autoreset) is
// no step, so learners may have taken different numbers of steps. With rule mean an update then waits for
// the learner with the fewest steps, while the others go on acting.

// ofLearners are the settings of learners. Parameters that act change at the ends of windows alone, so
// there is no pull_period.
func ofLearners() []settings.Setting {
	list := async.SettingsOf(async.Settings{Shards: 4, Rule: param.RuleGradient, SyncPeriod: 1}, func(c *Config) *async.Settings { return &c.Settings })
	return slices.DeleteFunc(list, func(s settings.Setting) bool { return s.Name == "pull_period" })
}

// checkLearners refuses settings with which learners cannot work.
func (c *Config) checkLearners() error {
	k := c.Learners
	switch {
	case k == 0 && c.Order != "":
		return fmt.Errorf("order: %q, must be empty where learners is 0", c.Order)
	case k == 0 && c.Schedule != string(order.Virtual):
		return fmt.Errorf("schedule: %s, must be virtual where learners is 0", c.Schedule)
	case k == 0:
		return nil
	case !c.Synchronized:
		return fmt.Errorf("synchronized: false, must be true where learners is %d: a learner takes whole rounds", k)
	}
	if err := c.async().Check(&c.Common); err != nil {
		return err
	}
	least := max(c.BatchSize, c.NumEnvs/k)
	if c.BufferSize/k < least {
		return fmt.Errorf("buffer_size: %d, must be at least %d with %d learners, which share it", c.BufferSize, k*least, k)
	}
	return nil
}

// async is the run of learners that resolved settings ask for.
func (c *Config) async() *async.Config {
	k := c.Learners
	values := Settings.Over(c).Map()
	for name, value := range map[string]int{
		"learners":        0,
		"buffer_size":     c.BufferSize / k,
		"learning_starts": max((c.LearningStarts+k-1)/k, c.BatchSize),
		"window":          max(c.Window/k, c.NumEnvs/k),
	} {
		values[name] = strconv.Itoa(value)
	}
	values["schedule"], values["order"] = string(order.Virtual), ""
	if c.Concurrent == settings.Auto {
		values["concurrent"] = "auto"
	}
	return &async.Config{
		Settings: c.Settings, Worker: "dqn", Values: values, Optimizer: c.optimizer(), MaxGradNorm: c.MaxGradNorm,
		Summed: c.LossReduction == "sum",
	}
}
