package dqn

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
)

// This file is about how minibatches are drawn from D: over how many steps, and by which
// priorities.

// Drawing holds the settings of draws.
type Drawing struct {
	NSteps      int
	NStepTails  string
	Prioritized string  // a name of replay.FormulaNames, or Uniform
	Alpha       float64 // NaN: the formula's, as of Beta and BetaFinal
	Beta        float64
	BetaFinal   float64
	BetaSteps   int // 0: the formula's
	// PriorityUpdate is ByUpdate or ByWindow.
	PriorityUpdate string
}

// Uniform is the value of prioritized without priorities.
const Uniform = "none"

// The values of priority_update: when the errors of updates change priorities.
const (
	ByUpdate = "update"
	ByWindow = "window"
)

// ofDrawing are the settings of Drawing.
func ofDrawing() []settings.Setting {
	field := func(c *Config) *Drawing { return &c.Drawing }
	return settings.Within(field, []settings.Setting{
		settings.Int("n_steps", 1, 1, 1000, "n: steps of a target, r_1 + gamma r_2 + ... + gamma^n max_a Q. At the end of an episode the steps that are left count", func(d *Drawing) *int { return &d.NSteps }),
		settings.Text("n_step_tails", replay.TailNames[replay.KeepTails], "transitions with fewer than n_steps steps, m, at the end of an episode: keep (they are drawn, with gamma^m after a truncation), drop_truncated (those before a truncation are not drawn, as in Dopamine) or drop (none is drawn, as in CleanRL)", replay.TailNames, func(d *Drawing) *string { return &d.NStepTails }),
		settings.Text("prioritized", Uniform, "Prioritised replay (Schaul et al. 2016) with the formula of a publication's code: stooke_abbeel, dqn_zoo, dopamine and kaixhin draw in proportion to priorities, cule by rank; none: uniform draws", append([]string{Uniform}, replay.FormulaNames...), func(d *Drawing) *string { return &d.Prioritized }),
		settings.OptionalFloat("priority_alpha", 0, 2, "exponent of priorities, with cule of ranks; empty: the formula's (0.6, 0.6, 0.5, 0.5, 0.7 in the order of prioritized)", func(d *Drawing) *float64 { return &d.Alpha }),
		settings.OptionalFloat("priority_beta", 0, 1, "exponent of importance weights at step 0; empty: the formula's (0.4, with dopamine and cule 0.5)", func(d *Drawing) *float64 { return &d.Beta }),
		settings.OptionalFloat("priority_beta_final", 0, 1, "exponent of importance weights after priority_beta_steps, reached on a straight line; empty: the formula's (1, with dopamine 0.5)", func(d *Drawing) *float64 { return &d.BetaFinal }),
		settings.Int("priority_beta_steps", 0, 0, 1<<40, "steps after which priority_beta_final is reached; 0: the formula's (with stooke_abbeel 50,000,000, else the end of the run)", func(d *Drawing) *int { return &d.BetaSteps }),
		settings.Text("priority_update", ByUpdate, "when the errors of an update change priorities: update (after it) or window (when experience next enters the replay memory: at the end of the window, without concurrent before the next updates). With window no draw waits for an update: a GPU does many updates without the host", []string{ByUpdate, ByWindow}, func(d *Drawing) *string { return &d.PriorityUpdate }),
	})
}

// published are the exponents of a formula.
type published struct {
	alpha, beta, final float64
	steps              int // 0: to the end of the run
}

// exponents are those of the code of each replay.Formula:
//
//	stooke_abbeel  accel_rl algos/dqn/dqn.py and cat_dqn.py; epsilon-Rainbow has alpha 0.5
//	dqn_zoo        prioritized/run_atari.py; Rainbow has alpha 0.5
//	dopamine       p is the root of the loss, weights are its inverse root
//	kaixhin        main.py
//	cule           examples/dqn/dqn_main.py
var exponents = [...]published{
	replay.StookeAbbeel: {0.6, 0.4, 1, 50_000_000},
	replay.DQNZoo:       {0.6, 0.4, 1, 0},
	replay.Dopamine:     {0.5, 0.5, 0.5, 0},
	replay.Kaixhin:      {0.5, 0.4, 1, 0},
	replay.CuLE:         {0.7, 0.5, 1, 0},
}

// dropExponents empties the exponents of a formula where nothing is prioritised: those of a run
// that was saved with the formula and is loaded without it. Others were given, and a notice says
// that they are not used.
func (c *Config) dropExponents() {
	d := &c.Drawing
	if d.Prioritized == Uniform && slices.Contains(exponents[:], published{d.Alpha, d.Beta, d.BetaFinal, d.BetaSteps}) {
		d.Alpha, d.Beta, d.BetaFinal, d.BetaSteps = math.NaN(), math.NaN(), math.NaN(), 0
	}
}

// resolveDrawing checks the settings of draws, and replaces those that are empty.
func (c *Config) resolveDrawing() (notices []string, err error) {
	if most := c.BufferSize / c.NumEnvs; c.NSteps > most {
		return nil, fmt.Errorf("n_steps: %d, must be at most %d, the share of buffer_size (%d) of each of %d environments", c.NSteps, most, c.BufferSize, c.NumEnvs)
	}
	if least := c.NSteps * c.NumEnvs; c.NSteps > 1 && c.LearningStarts < least {
		notices = append(notices, fmt.Sprintf("learning_starts: %d is below n_steps times num_envs and acts as %d, because the first minibatch is drawn from the warm-up", c.LearningStarts, least))
		c.LearningStarts = least
	}
	if c.Prioritized == Uniform {
		return notices, nil
	}
	if c.Learners > 0 {
		return nil, fmt.Errorf("prioritized: %s, must be none where learners is %d", c.Prioritized, c.Learners)
	}
	f, err := replay.ParseFormula(c.Prioritized)
	if err != nil {
		return nil, err
	}
	e := exponents[f]
	for _, x := range []struct {
		value   *float64
		formula float64
	}{{&c.Alpha, e.alpha}, {&c.Beta, e.beta}, {&c.BetaFinal, e.final}} {
		if math.IsNaN(*x.value) {
			*x.value = x.formula
		}
	}
	if c.BetaSteps == 0 {
		c.BetaSteps = e.steps
	}
	return notices, nil
}

// setDrawing sets n_steps, the priorities and the weighted loss of a run.
func (c *Config) setDrawing(run *offpolicy.Config, loss nn.TD) {
	run.NSteps, run.Tails, run.Loss = c.NSteps, replay.Tails(slices.Index(replay.TailNames, c.NStepTails)), loss
	f, err := replay.ParseFormula(c.Prioritized)
	if err != nil {
		return // uniform
	}
	run.Priorities = &replay.Priorities{Formula: f, Alpha: c.Alpha, Deferred: c.PriorityUpdate == ByWindow}
	run.Beta = func(end int64) train.Schedule {
		if c.BetaSteps > 0 {
			end = int64(c.BetaSteps)
		}
		return train.Line(c.Beta, c.BetaFinal, end)
	}
	loss.Importance = nn.ImportanceLoss
	if f == replay.DQNZoo && loss.Kind == "huber" {
		loss.Importance = nn.ImportanceGradient
	}
	run.Loss = loss
}
