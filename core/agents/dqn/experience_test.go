package dqn

import (
	"bytes"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

func refuses(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, must say %q", err, text)
	}
}

// A run can go on with the experience of another run. Its weights, counts and random numbers stay,
// and its episodes in progress are truncated.
func TestExperienceOfAnotherRunIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.paceline")
	from := newDQN(t, cartpole())
	check(t, from.Run(700, 0))
	check(t, from.Save(path, true))
	loaded := must(from.Hashes())(t)

	to := newDQN(t, cartpole(func(c *Config) { c.Seed = 8 }))
	check(t, to.Run(400, 0))
	before, stats := must(to.Hashes())(t), to.Stats()
	check(t, to.LoadExperience(path))
	after := must(to.Hashes())(t)
	if after.Replay != loaded.Replay {
		t.Error("the experience differs")
	}
	if after.Weights != before.Weights || after.Target != before.Target || to.Stats().Steps != stats.Steps || to.Stats().Updates != stats.Updates {
		t.Error("weights, counts or random numbers were loaded")
	}
	refuses(t, to.Run(10, 0), "begin with PACELINE_RESET_ENVS")
	refuses(t, to.Begin(10, 0), "pass PACELINE_RESET_ENVS")
	check(t, to.Begin(3000, train.ResetEnvs))
	check(t, to.Run(0, 0))

	check(t, from.Save(path, false))
	refuses(t, to.LoadExperience(path), `part "replay.bin": missing`)
	check(t, to.Begin(4, 0)) // the refused load has changed nothing
}

// Experience does not depend on the network that chose the actions, but on what the replay memory
// holds.
func TestExperienceOfAnotherNetworkIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.paceline")
	from := newDQN(t, cartpole(quantile))
	check(t, from.Run(700, 0))
	check(t, from.Save(path, true))
	to := newDQN(t, cartpole(func(c *Config) { c.NetArch, c.Dueling, c.Actor = []int{8}, true, ActorTarget }))
	check(t, to.LoadExperience(path))
	if got, want := must(to.Hashes())(t), must(from.Hashes())(t); got.Replay != want.Replay {
		t.Error("the experience differs")
	}
	check(t, to.Begin(3000, train.ResetEnvs))
	check(t, to.Run(300, 0))
	refuses(t, newDQN(t, cartpole(func(c *Config) { c.Munchausen.Munchausen = true })).LoadExperience(path), `munchausen: the checkpoint has "false"`)
	refuses(t, newDQN(t, cartpole()).Load(path), `distribution: the checkpoint has "quantile"`)
}

// Experience is loaded with its priorities. If they are other ones than those of the trainer, or
// the file has none, its transitions have the priority of new ones, and a notice names the setting.
func TestExperienceIsLoadedWithItsPriorities(t *testing.T) {
	priorities := func(path string) (all []byte) {
		r := must(checkpoint.Open(path))(t)
		defer r.Close()
		must(r.Load([]checkpoint.Part{{Name: "priorities.bin", Version: 1, Read: func(in io.Reader, _ int64) (_ func(), err error) {
			all, err = io.ReadAll(in)
			return nil, err
		}}}))(t)
		return all
	}
	folder := t.TempDir()
	first, second := filepath.Join(folder, "a.paceline"), filepath.Join(folder, "b.paceline")
	set := func(c *Config) { c.Prioritized, c.NSteps, c.NStepTails = "kaixhin", 2, "drop_truncated" }
	from := newDQN(t, cartpole(set))
	check(t, from.Run(700, 0))
	check(t, from.Save(first, true))
	uniform := filepath.Join(folder, "c.paceline")
	without := newDQN(t, cartpole())
	check(t, without.Run(700, 0))
	check(t, without.Save(uniform, true))

	for _, x := range []struct {
		path, says string
		edit       func(c *Config)
	}{
		{first, "", func(c *Config) { c.NetArch, c.PriorityUpdate = []int{8}, ByWindow }},
		{first, "prioritized: priorities saved with kaixhin, must be dopamine", func(c *Config) { c.Prioritized, c.Alpha = "dopamine", 0.5 }},
		{first, "priority_alpha: priorities saved with 0.5, must be 0.6", func(c *Config) { c.Alpha = 0.6 }},
		{first, "distribution: priorities saved from the errors of other heads", func(c *Config) { quantile(c) }},
		{first, "n_steps: priorities saved with 2, must be 3", func(c *Config) { c.NSteps = 3 }},
		{first, "n_step_tails: priorities saved with drop_truncated, must be keep", func(c *Config) { c.NStepTails = "keep" }},
		{uniform, "prioritized: none in the file", func(*Config) {}},
	} {
		to := newDQN(t, cartpole(set, x.edit, func(c *Config) { c.Seed = 8 }))
		check(t, to.Run(400, 0))
		for text := "."; text != ""; {
			text = must(to.Notice())(t)
		}
		check(t, to.LoadExperience(x.path))
		if notice := must(to.Notice())(t); !strings.HasPrefix(notice, x.says) || (x.says == "") != (notice == "") {
			t.Errorf("notice %q, must be %q", notice, x.says)
		}
		check(t, to.Save(second, true))
		if x.path == first && bytes.Equal(priorities(first), priorities(second)) != (x.says == "") {
			t.Errorf("%q: the priorities of the file: %v, must be %v", x.says, x.says != "", x.says == "")
		}
		check(t, to.Begin(500, train.ResetEnvs))
		check(t, to.Run(0, 0))
		check(t, to.Settle())
	}
}

// After a load of a file without experience, random steps come before updates, and a notice says so
// once. A later load of experience ends these steps, but not a warm-up of the file's own run.
func TestExperienceEndsRandomSteps(t *testing.T) {
	for _, concurrent := range []bool{false, true} {
		for _, x := range []struct {
			saved, filling int64 // steps before the file was saved, and between the two loads
			left           int64 // random steps left after them
		}{{1012, 0, 0}, {1012, 40, 0}, {40, 0, 60}, {40, 80, 20}} {
			c := cartpole(func(c *Config) { c.Concurrent = settings.SwitchOf(concurrent) })
			from := newDQN(t, c)
			check(t, from.Begin(2000, 0))
			check(t, from.Run(x.saved, 0))
			model, experience := filepath.Join(t.TempDir(), "a.paceline"), filepath.Join(t.TempDir(), "b.paceline")
			check(t, from.Save(model, false))
			check(t, from.Save(experience, true))

			to := newDQN(t, c)
			check(t, to.Load(model))
			if x.filling > 0 {
				check(t, to.Run(x.filling, 0))
				refuses(t, errors.New(must(to.Notice())(t)), "has no experience: 100 steps with random actions")
			}
			again := filepath.Join(t.TempDir(), "c.paceline") // the file holds the counts
			check(t, to.Save(again, false))
			if x.filling == 0 {
				to = newDQN(t, c)
				check(t, to.Load(again))
			}
			check(t, to.LoadExperience(experience))
			before := to.Stats()
			check(t, to.Begin(500, train.ResetEnvs))
			if x.left > 0 {
				check(t, to.Run(x.left, 0))
				if now := to.Stats(); now.Updates != before.Updates {
					t.Errorf("%+v: updates in the warm-up: %+v", x, now)
				}
			}
			check(t, to.Run(16, 0))
			check(t, to.Settle())
			if now := to.Stats(); now.Epsilon == 1 || now.Updates <= before.Updates {
				t.Errorf("%+v: concurrent %v, no update 16 steps later: %+v, before %+v", x, concurrent, now, before)
			}
			if text := must(to.Notice())(t); text != "" {
				t.Errorf("%+v: notice %q", x, text)
			}
			check(t, to.Run(0, 0))
			check(t, to.Save(again, true))
			check(t, newDQN(t, c).Load(again))
		}
	}
}

// While random steps fill the memory, rollout/exploration_rate is 1. predict/exploration_rate is
// the schedule's value, and 0 before the first run.
func TestExplorationRatesAfterALoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.paceline")
	d := newDQN(t, cartpole())
	check(t, d.Save(path, false))
	fresh := newDQN(t, cartpole())
	check(t, fresh.Load(path))
	for _, x := range []*trial{d, fresh} {
		if s := x.Stats(); s.Epsilon != 1 || s.Predict != 0 {
			t.Errorf("before a run %+v", s)
		}
	}
	d = trained(t)
	want := d.Stats().Epsilon
	check(t, d.Save(path, false))
	next := newDQN(t, cartpole())
	check(t, next.Load(path))
	for _, steps := range []int64{0, 40} {
		if steps > 0 {
			check(t, next.Run(steps, 0))
		}
		if s := next.Stats(); want >= 1 || s.Epsilon != 1 || s.Predict != want {
			t.Errorf("%d steps after a load %+v, must have the schedule's %v", steps, s, want)
		}
	}
	check(t, next.Begin(2000, train.ResetTimesteps))
	if s := next.Stats(); s.Predict != 1 {
		t.Errorf("a run begun anew %+v", s)
	}
}

// A checkpoint may be saved between a load of experience and the next Begin. No step then leads
// from an observation of one run to an observation of the other.
func TestNoStepLeadsFromOneRunToAnother(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a.paceline"), filepath.Join(t.TempDir(), "b.paceline")
	from := newDQN(t, cartpole())
	check(t, from.Run(700, 0))
	check(t, from.Save(first, true))
	to := newDQN(t, cartpole(func(c *Config) { c.Seed = 8 }))
	check(t, to.Run(400, 0))
	check(t, to.LoadExperience(first))
	check(t, to.Save(second, true))
	for _, d := range []*trial{newDQN(t, cartpole()), to} {
		check(t, d.Load(second))
		before := d.m.Memory.Len()
		check(t, d.Begin(100, 0))
		check(t, d.Run(0, 0))
		if added := d.m.Memory.Len() - before; added < 50 {
			t.Errorf("%d steps were added", added)
		}
		for _, step := range contents(d.m.Memory) { // position, speed, angle
			if want := step.obs[0] + 0.02*step.obs[1]; !step.terminated && math.Abs(float64(step.next[0]-want)) > 1e-5 {
				t.Errorf("a step leads from %v to %v", step.obs, step.next)
			}
		}
	}
}

// Latest shows the rows of environments that are stepped separately with the same actions.
func TestLatestHasTheRowsOfTheRound(t *testing.T) {
	c := cartpole()
	d := newDQN(t, c)
	spec := d.Spec()
	twin := must(vec.Make("CartPole-v1", nil, c.NumEnvs, uint64(c.Seed), d.m.Samplers.Source.Pool(), vec.SameStep, nil))(t)
	defer twin.Close()
	expected, rows := vec.NewRows(spec.Obs, c.NumEnvs), vec.NewRows(spec.Obs, c.NumEnvs)
	refuses(t, d.Latest(rows, vec.Actions{}), "no run was begun")
	check(t, twin.Reset(expected, allOf(c.NumEnvs)))
	actions := make([]int32, c.NumEnvs)
	check(t, d.Begin(600, 0))
	ended := 0
	for range 150 {
		check(t, d.Run(1, 0))
		check(t, d.Latest(rows, vec.Actions{Discrete: actions}))
		check(t, twin.Step(vec.Actions{Discrete: actions}, expected))
		for i, end := range expected.Ends {
			if rows.Ends[i] != end || rows.Rewards[i] != expected.Rewards[i] || rows.Starts[i] != expected.Starts[i] {
				t.Fatalf("row %d: %v %v, must be %v %v", i, rows.Ends[i], rows.Rewards[i], end, expected.Rewards[i])
			}
			if end != 0 {
				ended++
			}
		}
		if string(rows.Obs) != string(expected.Obs) || string(rows.FinalObs) != string(expected.FinalObs) {
			t.Fatal("the observations differ")
		}
	}
	if ended == 0 {
		t.Error("no episode ended")
	}
	list, s := d.Episodes(), d.Stats()
	sum := 0.0
	for _, e := range list {
		sum += e.Return
	}
	if int64(len(list)) != s.Episodes || math.Abs(sum/float64(len(list))-s.MeanReturn) > 1e-9 {
		t.Errorf("%d episodes of mean %v, must be %d of %v", len(list), sum/float64(len(list)), s.Episodes, s.MeanReturn)
	}
}

func allOf(n int) []bool {
	all := make([]bool, n)
	for i := range all {
		all[i] = true
	}
	return all
}
