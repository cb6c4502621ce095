package dqn

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
)

// nSteps returns the transition over n steps from transition k of a list on. ok is false if it goes
// beyond the list.
func nSteps(list []transition, k, n int, gamma float64) (x transition, discount float32, ok bool) {
	x = list[k]
	sum, factor := float64(x.reward), gamma
	for m := 1; m < n && x.end == 0; m++ {
		if k+m == len(list) {
			return x, 0, false
		}
		next := list[k+m]
		sum += float64(factor * float64(next.reward))
		factor *= gamma
		x.next, x.mask, x.end, x.terminated = next.next, next.mask, next.end, next.terminated
	}
	x.reward = float32(sum)
	if !x.terminated {
		discount = float32(factor)
	}
	return x, discount, true
}

// Trap: the exponents of a formula are those of its own code.
func TestFormulasHaveTheirExponents(t *testing.T) {
	for name, want := range map[string][4]float64{
		"stooke_abbeel": {0.6, 0.4, 1, 50_000_000},
		"dqn_zoo":       {0.6, 0.4, 1, 0},
		"dopamine":      {0.5, 0.5, 0.5, 0},
		"kaixhin":       {0.5, 0.4, 1, 0},
		"cule":          {0.7, 0.5, 1, 0},
	} {
		c := cartpole(func(c *Config) { c.Prioritized = name })
		if _, err := c.Resolve(); err != nil || [4]float64{c.Alpha, c.Beta, c.BetaFinal, float64(c.BetaSteps)} != want {
			t.Errorf("%s: %+v, %v, want %v", name, c.Drawing, err, want)
		}
		c = cartpole(func(c *Config) { c.Prioritized, c.Alpha, c.Beta, c.BetaFinal, c.BetaSteps = name, 0.1, 0.2, 0.3, 40 })
		if _, err := c.Resolve(); err != nil || [4]float64{c.Alpha, c.Beta, c.BetaFinal, float64(c.BetaSteps)} != [4]float64{0.1, 0.2, 0.3, 40} {
			t.Errorf("%s: %+v, %v", name, c.Drawing, err)
		}
	}
	if len(exponents) != len(replay.FormulaNames) {
		t.Errorf("%d formulas have exponents", len(exponents))
	}
}

func TestBadDrawingIsRefused(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"n_steps: 6, must be at most 5, the share of buffer_size (20) of each of 4 environments": func(c *Config) { c.NSteps, c.BufferSize, c.BatchSize = 6, 20, 8 },
		"prioritized: dqn_zoo, must be none where learners is 2":                                 func(c *Config) { c.Prioritized, c.Learners = "dqn_zoo", 2 },
		"n_step_tails: ": func(c *Config) { c.NStepTails = "some" },
		"prioritized: ":  func(c *Config) { c.Prioritized = "per" },
	} {
		c := cartpole(edit)
		if _, err := c.Resolve(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c := cartpole(func(c *Config) { c.NSteps, c.LearningStarts = 9, 20 })
	if said, err := c.Resolve(); err != nil || c.LearningStarts != 36 || len(said) != 1 || !strings.HasPrefix(said[0], "learning_starts: 20 is below n_steps times num_envs and acts as 36") {
		t.Errorf("%d, %q, %v", c.LearningStarts, said, err)
	}
}

// Where all segments have become shorter than n steps, and are truncated, nothing can be drawn: the
// error says so, what was learned can be read and saved, and updates go on with other experience.
func TestNothingToDrawLosesNothing(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"concurrent":     func(*Config) {},
		"not concurrent": func(c *Config) { c.Concurrent = settings.Off },
		"learners":       func(c *Config) { c.Learners = 2 },
	} {
		t.Run(name, func(t *testing.T) { nothingToDraw(t, edit) })
	}
}

func nothingToDraw(t *testing.T, edit func(*Config)) {
	c := cartpole(edit, func(c *Config) {
		c.Env, c.NSteps, c.NStepTails, c.BufferSize, c.Window = "", 5, "drop_truncated", 200, 32
	})
	shrinking := func(i int) (env.Env, error) {
		e := newCounter(i)
		e.ends, e.lengths = slices.Repeat([]env.End{env.Truncated}, 10_000), slices.Repeat([]int{4}, 10_000)
		for k := range 12 {
			e.lengths[k] = 20
		}
		return e, nil
	}
	made := func(c Config) *trainer {
		tr := must(train.New(trainConfig(c), shrinking))(t)
		t.Cleanup(func() { check(t, tr.Close()) })
		return &trainer{tr}
	}
	d, folder := made(c), t.TempDir()
	full, empty := filepath.Join(folder, "full"), filepath.Join(folder, "empty")
	check(t, d.Begin(4000, 0))
	check(t, d.Run(400, 0))
	check(t, d.Save(full, true))
	says := "n_step_tails: drop_truncated, no transition can be drawn: no episode among the "
	refuses(t, d.all(), says)
	refuses(t, d.Run(10, 0), says)
	stats := d.Stats()
	if stats.Updates < 100 {
		t.Errorf("%d updates before", stats.Updates)
	}

	weights := make([]float32, d.ParameterSets()[0].Size)
	updates := must(d.GetParameters("q_net", weights))(t)
	if int64(updates) != stats.Updates {
		t.Errorf("parameters of %d updates, must be of %d", updates, stats.Updates)
	}
	must(d.Policy())(t)
	check(t, d.Save(empty, true))
	c.NStepTails = "keep"
	next := made(c)
	check(t, next.Load(empty))
	check(t, next.Run(200, 0))
	check(t, next.Settle(0))
	if now := next.Stats(); now.Updates <= stats.Updates {
		t.Errorf("loaded with other tails: %d updates after %d", now.Updates, stats.Updates)
	}

	goesOn := func(what string) {
		t.Helper()
		before := d.Stats().Updates
		refuses(t, d.all(), says)
		if now := d.Stats().Updates; now <= before {
			t.Errorf("%s: %d updates, before %d", what, now, before)
		}
	}
	x := rowsOf(*d.Spec(), c.NumEnvs)
	for i := range x.Terminated {
		x.Terminated[i] = true
	}
	check(t, d.AddTransitions(x))
	goesOn("added transitions")
	check(t, d.LoadExperience(full))
	check(t, d.Begin(2000, train.ResetEnvs))
	goesOn("loaded experience")
	check(t, d.Load(full))
	goesOn("loaded")
	refuses(t, d.Begin(4000, 0), says)
	check(t, d.Begin(4000, train.ResetTimesteps))
	check(t, d.Run(int64(c.LearningStarts)/2, 0))
	refuses(t, d.all(), says)
}

// An update that fails between the steps of two samplers ends the round.
func TestARoundEndsWithAnUpdateThatFails(t *testing.T) {
	c := cartpole(func(c *Config) {
		c.Env, c.NumEnvs, c.Concurrent, c.Synchronized, c.TrainFreq, c.NSteps, c.NStepTails = "", 3, settings.Off, false, 1, 2, "drop"
	})
	d := must(train.New(trainConfig(c), counters(func(c *counter) { c.lengths, c.ends = []int{1}, []env.End{env.Truncated} })))(t)
	t.Cleanup(func() { check(t, d.Close()) })
	check(t, d.Begin(2000, 0))
	refuses(t, d.Run(0, 0), "n_step_tails: drop, no transition can be drawn")
	if steps := d.Stats().Steps; steps%3 == 0 {
		t.Errorf("failed after %d steps, must be inside a round", steps)
	}
	check(t, d.Begin(2000, train.ResetTimesteps|train.ResetEnvs))
	check(t, d.Run(1, 0))
	if steps := d.Stats().Steps; steps != 3 {
		t.Errorf("%d steps, must be a round of 3", steps)
	}
}

// trainer is a Trainer with or without learners.
type trainer struct{ *train.Trainer }

// all takes all steps of the run and does all of their updates.
func (d *trainer) all() error {
	if err := d.Run(0, 0); err != nil {
		return err
	}
	return d.Settle(0)
}

// judge is a stepper that reports large errors of transitions with action 0, and of others none.
type judge struct {
	nn.QStepper
	t       *testing.T
	weights []float32
	zeros   []int // transitions with action 0, of each minibatch
}

func (j *judge) Update(theta, target *nn.Params, x *experience.Transitions, lr float64, r *nn.Report) error {
	if len(r.Rows) != len(x.Actions) || slices.Max(x.Weights) != 1 || slices.Min(x.Weights) <= 0 {
		j.t.Errorf("%d errors are wanted, weights %v", len(r.Rows), x.Weights)
	}
	j.weights = append(j.weights, x.Weights...)
	err := j.QStepper.Update(theta, target, x, lr, r)
	zeros := 0
	for row, a := range x.Actions {
		r.Rows[row] = 1e-3
		if a == 0 {
			r.Rows[row] = 1
			zeros++
		}
	}
	j.zeros = append(j.zeros, zeros)
	return err
}

// The errors of an update decide what later minibatches have, and weights correct for it.
func TestErrorsBecomePriorities(t *testing.T) {
	for _, concurrent := range []settings.Switch{settings.Off, settings.On} {
		d := newDQN(t, cartpole(func(c *Config) {
			c.Prioritized, c.Alpha, c.NSteps, c.Concurrent, c.TrainFreq = "kaixhin", 1, 2, concurrent, 1
			c.BufferSize, c.LearningStarts = 400, 400
		}))
		j := &judge{t: t}
		wrap(d, func(s nn.QStepper) nn.QStepper { j.QStepper = s; return j })
		check(t, d.Begin(900, 0))
		check(t, d.Run(0, 0))
		check(t, d.Settle())
		n, late := d.m.cfg.BatchSize, 0
		for _, zeros := range j.zeros[len(j.zeros)-100:] {
			late += zeros
		}
		if share := float64(late) / float64(100*n); len(j.zeros) < 400 || share < 0.8 {
			t.Errorf("%d updates; %.2f of the late transitions have action 0", len(j.zeros), share)
		}
		if slices.Min(j.weights) > 0.5 {
			t.Error("all weights are near 1")
		}
	}
}

// Inside a window the trainer thread alone changes priorities, in the order of the updates, so the
// result depends neither on threads nor on whether updates come before, after or beside the steps.
func TestPrioritizedIsOneSeedOneResult(t *testing.T) {
	for _, formula := range replay.FormulaNames {
		others := map[string]string{}
		for _, update := range []string{Uniform, ByUpdate, ByWindow} {
			c := cartpole(func(c *Config) { c.Prioritized, c.PriorityUpdate, c.NSteps, c.NumThreads = formula, update, 3, 1 })
			if update == Uniform {
				c.Prioritized, c.PriorityUpdate = Uniform, ByUpdate
			}
			want := learn(t, c, 700, offpolicy.Concurrently)
			if same, ok := others[want.Weights]; ok {
				t.Errorf("%s: %s and %s have the same weights", formula, same, update)
			}
			others[want.Weights] = update
			c.NumThreads = 3
			for _, order := range []offpolicy.Order{offpolicy.Concurrently, offpolicy.UpdatesFirst, offpolicy.UpdatesLast} {
				if got := learn(t, c, 700, order); got != want {
					t.Errorf("%s, %s, order %d: %+v, want %+v", formula, update, order, got, want)
				}
			}
		}
	}
}

// Where experience enters the replay memory after every update, priorities that change then are
// those that change at once.
func TestPrioritiesOfWindowsOfAnUpdate(t *testing.T) {
	for _, concurrent := range []settings.Switch{settings.Off, settings.On} {
		var want Hashes
		for _, update := range []string{ByUpdate, ByWindow} {
			c := cartpole(func(c *Config) {
				c.Prioritized, c.PriorityUpdate, c.Concurrent = "dqn_zoo", update, concurrent
				c.NumEnvs, c.TrainFreq, c.GradientSteps, c.Window = 1, 4, 1, 4
			})
			if got := learn(t, c, 700, offpolicy.Concurrently); want == (Hashes{}) {
				want = got
			} else if got != want {
				t.Errorf("concurrent %v: %+v, must be %+v", concurrent, got, want)
			}
		}
	}
}

// Priorities that stand still do so in the whole burst of updates, also where calls end inside it.
func TestPrioritiesStandStillInABurst(t *testing.T) {
	c := cartpole(func(c *Config) {
		c.Prioritized, c.PriorityUpdate, c.Concurrent = "kaixhin", ByWindow, settings.Off
		c.TrainFreq, c.GradientSteps, c.Window = 40, 20, 400
	})
	want := learn(t, c, 300, offpolicy.Concurrently)
	d := newDQN(t, c)
	o := slow(d, 2*time.Millisecond)
	check(t, d.Begin(300, 0))
	calls := 0
	for ; d.Stats().Steps < 300; calls++ {
		check(t, d.Run(0, 15*time.Millisecond))
	}
	o.pause.Store(0)
	check(t, d.Settle())
	if got := hashesOf(t, d); got != want || calls < 5 {
		t.Errorf("in %d calls %+v, want %+v", calls, got, want)
	}
}
