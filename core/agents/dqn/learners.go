package dqn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
	"github.com/paceline-rl/paceline/core/train/order"
)

// This file is DQN by several learners around a store of parameters (Stooke & Abbeel 2018, section
// 4.3). A learner is a DQN with its share of the environments, of the replay memory, of the warm-up
// and of a window. The period C and the exploration follow the steps, or with clock updates the
// updates, of all learners. The learner's own thread does its updates between its rounds. If
// training is concurrent, the replay memory and theta-minus still do not change inside a window.
//
// Where the host steps the environments, a row that only resets its environment (NextStep
// autoreset) is no step, so learners may have taken different numbers of steps. With rule mean an
// update then waits for the learner with the fewest steps, while the others go on acting.

// Learners implements train.Method with several learners. The host sees their replay memories as
// one, in the order of the environments: the transitions of the first learner come first.
type Learners struct {
	async.Method
	envs     int
	learners []*DQN
}

func newLearners(s *train.Setup, c *Config) (train.Method, error) {
	l := &Learners{envs: c.NumEnvs}
	if err := l.Init(s, *c.async()); err != nil {
		return nil, err
	}
	for _, w := range l.Workers() {
		l.learners = append(l.learners, w.(*DQN))
	}
	return l, nil
}

// NumTransitions implements train.Replayed.
func (l *Learners) NumTransitions() (sum int) {
	for _, d := range l.learners {
		sum += d.NumTransitions()
	}
	return sum
}

// ReadTransitions implements train.Replayed.
func (l *Learners) ReadTransitions(numbers []int64, to *train.Transitions) {
	first := 0 // number of the learner's first transition
	for _, d := range l.learners {
		stored := d.NumTransitions()
		for row, n := range numbers {
			if at := int(n) - first; at >= 0 && at < stored {
				d.ReadTransitions([]int64{int64(at)}, to.Row(row, len(numbers)))
			}
		}
		first += stored
	}
}

// AddTransitions implements train.Replayed.
func (l *Learners) AddTransitions(from *train.Transitions) error {
	var runs []*offpolicy.Run
	for _, d := range l.learners {
		runs = append(runs, &d.Run)
	}
	n := l.envs / len(runs)
	return offpolicy.AddTransitions(from, l.envs, func(env int) (*offpolicy.Run, int) { return runs[env/n], env % n }, runs...)
}

// Metrics implements train.Method. The numbers of the replay memories are their sums.
func (l *Learners) Metrics(to *train.Metrics) {
	l.Method.Metrics(to)
	for _, d := range l.learners[1:] {
		var own train.Metrics
		d.Metrics(&own)
		to.Sum(&own, "replay_size", "replay_pending", "replay_bytes", "train/outliers")
	}
}

// ofLearners are the settings of learners. Parameters that act change at the ends of windows alone,
// so there is no pull_period.
func ofLearners() []settings.Setting {
	list := async.SettingsOf(async.Settings{Shards: 4, Rule: param.RuleGradient, SyncPeriod: 1}, func(c *Config) *async.Settings { return &c.Settings })
	return slices.DeleteFunc(list, func(s settings.Setting) bool { return s.Name == "pull_period" })
}

// checkLearners refuses settings with which learners cannot work.
func (c *Config) checkLearners() error {
	k := c.Learners
	if err := c.CheckOutside(); err != nil {
		return err
	}
	switch {
	case c.FromOutside() && k > 0:
		return fmt.Errorf("updates: outside, must be own where learners is %d", k)
	case c.FromOutside() && !c.Synchronized:
		return errors.New("synchronized: false, must be true where updates is outside: a learner takes whole rounds")
	case k == 0 && c.Order != "":
		return fmt.Errorf("order: %q, must be empty where learners is 0", c.Order)
	case k == 0 && c.Schedule != string(order.Virtual):
		return fmt.Errorf("schedule: %s, must be virtual where learners is 0", c.Schedule)
	case k == 0:
		return nil
	case !c.Synchronized:
		return fmt.Errorf("synchronized: false, must be true where learners is %d: a learner takes whole rounds", k)
	case c.Outliers > 0 && c.Rule != param.RuleGradient && c.Rule != param.RuleOverwrite:
		return fmt.Errorf("outliers: %g, must be 0 with rule %s, where a step has other gradients than that of a minibatch", c.Outliers, c.Rule)
	}
	if err := c.async().Check(&c.Common); err != nil {
		return err
	}
	least := max(c.BatchSize, c.NumEnvs/k)
	if c.BufferSize/k < least {
		return fmt.Errorf("buffer_size: %d, must be at least %d with %d %s, which share it", c.BufferSize, k*least, k, c.LearnersSetting())
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
