package async

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/order"
)

// Settings are the settings that asynchronous methods share.
type Settings struct {
	Learners int
	Schedule string
	Order    string
	order.Latency
	Shards     int
	Rule       string
	SyncPeriod int
	PullPeriod int
	AdamTime   string
	// MaxStaleness is the largest lag that a shard accepts; 0: there is no limit.
	MaxStaleness int
	// LearnersName is the name of the setting of Learners, if the method has another one than
	// learners.
	LearnersName string
}

// AsyncSettings returns the settings themselves, for methods that change those of another method.
func (s *Settings) AsyncSettings() *Settings { return s }

// LearnersSetting is the name of the setting of Learners, for messages.
func (s *Settings) LearnersSetting() string { return cmp.Or(s.LearnersName, "learners") }

// SettingsOf describes Settings for a method whose struct is C, with defaults d.
func SettingsOf[C any](d Settings, part func(*C) *Settings) []settings.Setting {
	type s = Settings
	learners := "K: learners, each with num_envs / K environments and a copy of the parameters"
	if d.Learners == 0 {
		learners += "; 0: one learner that owns them"
	}
	return settings.Within(part, append([]settings.Setting{
		settings.Int("learners", d.Learners, min(1, d.Learners), MaxLearners, learners, func(c *s) *int { return &c.Learners }),
		settings.Text("schedule", string(order.Virtual), "which learner visits the store next: virtual (as a model of latencies says, so that a seed has one result), race (in the order in which they arrive, recorded), or recorded (as the file in order says)", []string{string(order.Virtual), string(order.Race), string(order.Recorded)}, func(c *s) *string { return &c.Schedule }),
		settings.Text("order", "", "file of the order that schedule recorded repeats", nil, func(c *s) *string { return &c.Order }),
		settings.Int("shards", d.Shards, 1, 64, "parts of the parameters in the store, each with a lock of its own", func(c *s) *int { return &c.Shards }),
		settings.Text("rule", d.Rule, "what a push does: gradient (the store's optimiser takes a step along it; A3C), overwrite (the learner steps the store's parameters under the lock of each shard and takes them; Stooke & Abbeel 2018, section 4.3), multi_step_adam (their appendix A), or mean (all learners wait for the slowest, and one step follows the mean of their gradients; their section 4.2)", []string{param.RuleGradient, param.RuleOverwrite, param.RuleMultiStepAdam, param.RuleMean}, func(c *s) *string { return &c.Rule }),
		settings.Int("sync_period", d.SyncPeriod, 1, 1024, "steps of a learner between two pushes, with rule multi_step_adam", func(c *s) *int { return &c.SyncPeriod }),
		settings.Int("pull_period", d.PullPeriod, 0, 1<<20, "rounds between two pulls of parameters inside a rollout; 0: parameters change only at updates", func(c *s) *int { return &c.PullPeriod }),
		settings.Text("adam_time", "global", "t of Adam's bias correction: global (pushes of all learners) or local (the learner's own)", []string{"global", "local"}, func(c *s) *string { return &c.AdamTime }),
		settings.Int("max_staleness", d.MaxStaleness, 0, 1<<40, "a push to a shard is refused if more pushes than this were applied to it since the learner read it; 0: none is refused", func(c *s) *int { return &c.MaxStaleness }),
	}, settings.Within(func(c *s) *order.Latency { return &c.Latency }, order.LatencySettings)...))
}

// LatencyNames are the names of the settings of an order.Latency.
var LatencyNames = settings.Names(order.LatencySettings)

// Switched lists the settings that are used with some values of another setting only. optimizer is
// the name of the setting that chooses the store's optimiser, adam whether it chooses Adam.
func (s *Settings) Switched(optimizer string, adam bool) []settings.Switched {
	return []settings.Switched{
		{Names: LatencyNames, By: "schedule", Used: s.Schedule == string(order.Virtual)},
		{Names: "adam_time", By: optimizer, Used: adam},
	}
}

// MaxLearners is the most learners. It keeps the parts of a checkpoint below their largest number.
const MaxLearners = 100

// Shape names the settings in which a checkpoint and the trainer that loads it must agree.
var Shape = []string{"learners", "shards", "rule", "sync_period", "adam_time"}

// Config is what a method brings.
type Config struct {
	Settings
	// Worker is the method of a learner, with Values as its settings.
	Worker string
	Values map[string]string
	// Optimizer is the store's. MaxGradNorm clips what it steps along with rule mean; other rules
	// leave that to the learners.
	Optimizer   nn.OptimizerConfig
	MaxGradNorm float64
	// Summed says that the loss is a sum over the rows of a minibatch, not their mean.
	Summed bool
}

// Check refuses settings of a run with which learners cannot work.
func (c *Config) Check(common *train.Common) error {
	switch {
	case common.NumEnvs%c.Learners != 0:
		return fmt.Errorf("num_envs: %d, must be a multiple of %s (%d)", common.NumEnvs, c.LearnersSetting(), c.Learners)
	case common.Groups > common.NumEnvs/c.Learners:
		return fmt.Errorf("groups: %d, must be at most num_envs / %s (%d)", common.Groups, c.LearnersSetting(), common.NumEnvs/c.Learners)
	case c.Rule == param.RuleMultiStepAdam && c.Optimizer.Name != "adam":
		return fmt.Errorf("rule: %s, must be another where the optimiser is %s: it takes steps of Adam", c.Rule, c.Optimizer.Name)
	case c.Rule != param.RuleMultiStepAdam && c.SyncPeriod > 1:
		return fmt.Errorf("sync_period: %d, must be 1 with rule %s, which pushes every gradient", c.SyncPeriod, c.Rule)
	case c.Rule == param.RuleMean && c.PullPeriod > 0:
		return fmt.Errorf("pull_period: %d, must be 0 with rule mean, where parameters change only when all learners have pushed", c.PullPeriod)
	case c.Rule == param.RuleMean && c.MaxStaleness > 0:
		return fmt.Errorf("max_staleness: %d, must be 0 with rule mean, where no gradient is late", c.MaxStaleness)
	case c.Rule == param.RuleMean && c.AdamTime != "global":
		return fmt.Errorf("adam_time: %s, must be global with rule mean, which takes one step for all learners", c.AdamTime)
	case c.Rule == param.RuleMean && c.Learners > 1 && c.Values["target_kl"] != "":
		return fmt.Errorf("target_kl: %s, must be empty with rule mean and several learners, which would end their updates at different minibatches", c.Values["target_kl"])
	case c.Schedule == string(order.Recorded) && c.Order == "":
		return errors.New("order: empty, must name a file with schedule recorded")
	case c.Schedule != string(order.Recorded) && c.Order != "":
		return fmt.Errorf("order: %q, must be empty with schedule %s", c.Order, c.Schedule)
	}
	return nil
}
