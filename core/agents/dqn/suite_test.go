package dqn

import (
	"maps"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// subject is DQN for the suite, with further settings.
func subject(edit map[string]string) traintest.Subject {
	settings := map[string]string{
		"policy": "MlpPolicy", "net_arch": "16", "learning_starts": "60", "batch_size": "8", "buffer_size": "600",
		"target_update_interval": "64", "window": "32", "train_freq": "4", "learning_rate": "0.001", "learning_rate_final": "0",
		"exploration_steps": "300", "loss": "squared",
	}
	maps.Copy(settings, edit)
	return traintest.Subject{
		Method: "dqn", Settings: settings, Digests: []string{"replay", "q_net", "q_net_target"}, Set: "q_net",
		Large: []string{"buffer_size", "4000000000"},
		Hook: func(m train.Method, before func()) {
			m.(*DQN).Updates.Wrap(
				func(s nn.QStepper) nn.QStepper { return &hooked{s, before} },
				func(s nn.StackStepper) nn.StackStepper { return &hookedStacks{s, before} },
			)
		},
	}
}

// hooked calls before at the start of every update.
type hooked struct {
	nn.QStepper
	before func()
}

func (h *hooked) Update(theta, target *nn.Params, t *experience.Transitions, lr float64, r *nn.Report) error {
	h.before()
	return h.QStepper.Update(theta, target, t, lr, r)
}

// hookedStacks calls before at the start of every span of updates.
type hookedStacks struct {
	nn.StackStepper
	before func()
}

func (h *hookedStacks) Start(theta, target *nn.Params, first int, rates []float64, masked bool) error {
	h.before()
	return h.StackStepper.Start(theta, target, first, rates, masked)
}

func TestTrainSuite(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"both":         {},
		"concurrent":   {"synchronized": "false"},
		"synchronized": {"concurrent": "false"},
		"standard":     {"concurrent": "false", "synchronized": "false"},
	} {
		t.Run(name, func(t *testing.T) {
			traintest.Short(t, name, "both")
			traintest.Run(t, subject(edit))
		})
		if name == "both" || name == "standard" {
			name += ", masks and double_q"
			t.Run(name, func(t *testing.T) {
				traintest.Short(t, name, "standard, masks and double_q")
				masked := subject(edit)
				masked.Masked, masked.Settings["double_q"] = true, "true"
				traintest.Run(t, masked)
			})
		}
	}
}

// TestTrainSuiteOfOptions is the suite with the draws, targets, heads and noise that the settings
// offer.
func TestTrainSuiteOfOptions(t *testing.T) {
	if kernel.ISA() == "go" {
		t.Skip("the kernels in Go take minutes; the suite of devices has these losses and heads")
	}
	const (
		noise    = "noisy=true exploration_initial_eps=0 exploration_final_eps=0"
		taus     = "distribution=implicit net_arch=16,12 n_tau=4 n_tau_target=3 n_tau_act=5 n_cosines=6"
		standard = "concurrent=false synchronized=false"
	)
	for name, options := range map[string][]string{
		"categorical":           {"distribution=categorical n_atoms=11 v_min=-5 v_max=5 dueling=true dueling_rescaled=true"},
		"quantile":              {standard, "distribution=quantile n_quantiles=5 double_q=true"},
		"implicit":              {taus},
		"implicit, prioritized": {standard, taus, "n_steps=3 prioritized=dopamine double_q=true dueling=true"},
		"implicit, noisy":       {taus, noise, "double_q=true dueling=true prioritized=dopamine"},
		"munchausen, masks":     {"munchausen=true n_steps=3"},
		"munchausen, quantile":  {standard, "munchausen=true distribution=quantile n_quantiles=5"},
		"munchausen, implicit":  {taus, "munchausen=true"},
		"noisy":                 {"concurrent=false", noise},
		"epsilon-Rainbow":       {"n_steps=3 prioritized=stooke_abbeel double_q=true dueling=true distribution=categorical n_atoms=11"},
		"Rainbow":               {noise, "n_steps=3 prioritized=dqn_zoo loss=huber double_q=true dueling=true distribution=categorical n_atoms=11"},
		"updates":               {"clock=updates target_update_interval=16 exploration_steps=80"},
		"updates, outliers":     {standard, "clock=updates outliers=1 target_update_interval=16 exploration_steps=80"},
		"deferred, bursts":      {"concurrent=false", "n_steps=2 prioritized=stooke_abbeel priority_update=window gradient_steps=3"},
		"deferred":              {"n_steps=2 prioritized=stooke_abbeel priority_update=window"},
		"drop_truncated":        {standard, "n_steps=3 n_step_tails=drop_truncated prioritized=dqn_zoo loss=huber"},
	} {
		t.Run(name, func(t *testing.T) {
			traintest.Short(t, name, "Rainbow")
			edit := map[string]string{}
			for _, option := range strings.Fields(strings.Join(options, " ")) {
				key, value, _ := strings.Cut(option, "=")
				edit[key] = value
			}
			s := subject(edit)
			s.ByUpdates = edit["clock"] == "updates"
			s.Masked = name == "munchausen, masks" || name == "munchausen, implicit"
			traintest.Run(t, s)
		})
	}
}

func TestGoldenCheckpoints(t *testing.T) { traintest.Golden(t, subject(nil)) }

// Two modes have the same files and go on differently; a third has priorities.
func TestFuzzLoad(t *testing.T) {
	for name, edit := range map[string]map[string]string{
		"both":       {},
		"standard":   {"concurrent": "false", "synchronized": "false"},
		"priorities": {"n_steps": "2", "prioritized": "kaixhin", "priority_update": "window"},
	} {
		t.Run(name, func(t *testing.T) { traintest.FuzzLoad(t, subject(edit)) })
	}
}

func TestKilledWhileSaving(t *testing.T) { traintest.Kills(t, subject(nil), "TestKilledWhileSaving") }
