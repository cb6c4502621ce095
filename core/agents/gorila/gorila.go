package gorila

import (
	"slices"

	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
)

// worker is the method of a bundle.
const worker = "dqn"

func init() { train.RegisterFrom(worker, definition) }

// definition makes Gorila of DQN with learners: the same struct of settings and the same method,
// some of whose settings the paper has fixed.
func definition(dqn train.Definition) *train.Definition {
	d := dqn
	d.Name = "gorila"
	d.Doc = "Gorila: bundles of an actor, a replay memory and a DQN learner around one store of parameters in shards"
	d.Settings = dqn.Settings.Change(settings.Change{
		Name: d.Name, Fixed: fixed, Defaults: defaults, More: more, Presets: presets,
		Init: func(c any) { asyncSettings(c).LearnersName = bundles },
	})
	for _, names := range []*[]string{&d.Shape, &d.Experience} {
		*names = append(slices.DeleteFunc(slices.Clone(*names), func(name string) bool {
			return slices.ContainsFunc(fixed, func(r settings.Row) bool { return r[0] == name })
		}), bundles)
	}
	d.Placement, d.OnlyCPU = nil, true
	return &d
}

// bundles is the name of the setting that DQN calls learners.
const bundles = "bundles"

// fixed are the settings of DQN that Algorithm 1 fixes, and those that mean nothing then.
var fixed = []settings.Row{
	{"learners", "1"}, // see bundles
	{"rule", param.RuleGradient},
	{"sync_period", "1"},
	{"adam_time", "global"},
	{"clock", "updates"},
	{"concurrent", "false"},
	{"synchronized", "true"},
	{"actor", "online"},
	{"window", "0"},
	{"replay_device", "cpu"},
	{"noisy", "false"}, // no learners of DQN are noisy or draw by priorities
	{"noisy_sigma", "0.5"},
	{"prioritized", "none"},
	{"priority_alpha", ""},
	{"priority_beta", ""},
	{"priority_beta_final", ""},
	{"priority_beta_steps", "0"},
	{"priority_update", "update"},
	{"updates", "own"}, // bundles in other processes are DQN with updates from outside
	{"outside_learners", "1"},
	{"outside_learner", "0"},
}

// defaults differ from DQN's. train_freq and optimizer are the paper's (Algorithm 1, section 4.2),
// the others ours.
var defaults = []settings.Row{
	{"train_freq", "1"},
	{"optimizer", "adagrad"},
	{"learning_rate", "0.01"},
	{"max_staleness", "100"},
	{"outliers", "6"},
}

var more = settings.Of(asyncSettings, []settings.Setting{
	settings.Int(bundles, 1, 1, async.MaxLearners, "bundles, each of which is an actor, a replay memory and a learner; each has num_envs / bundles of the environments, and its share of buffer_size and learning_starts", func(s *async.Settings) *int { return &s.Learners }),
})

// asyncSettings returns the settings of the learners in a struct of DQN's settings.
func asyncSettings(c any) *async.Settings {
	return c.(interface{ AsyncSettings() *async.Settings }).AsyncSettings()
}
