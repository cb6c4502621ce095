package dqn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
	"github.com/paceline-rl/paceline/core/vec"
)

func hashesOf(t testing.TB, d *trial) Hashes {
	t.Helper()
	return must(d.Hashes())(t)
}

func learn(t testing.TB, c Config, steps int64, emulate offpolicy.Order) Hashes {
	t.Helper()
	d := newDQN(t, c)
	if emulate != offpolicy.Concurrently {
		d.m.Emulate(emulate)
	}
	check(t, d.Begin(steps, 0))
	check(t, d.Run(0, 0))
	return hashesOf(t, d)
}

// textbook is DQN of Mnih et al. 2015, with a list as replay memory: one environment, an update
// every F steps, a copy every C steps.
func textbook(t *testing.T, c Config, steps int) (weights, target string) {
	t.Helper()
	type transition struct {
		obs, next  []byte
		action     int32
		reward     float32
		terminated bool
	}
	e := must(env.Make(c.Env, nil))(t)
	e.Seed(vec.SeedFor(uint64(c.Seed), 0))
	explore, draws := rng.New(uint64(c.Seed), "explore", 0), rng.New(uint64(c.Seed), "replay", 0)
	c.Policy = train.PolicyMLP
	spec := c.network(e.Spec())
	theta := must(spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t)
	minus := theta.Clone()
	net := must(cpu(t).Network(spec, 1))(t)
	learner := must(cpu(t).Learner(spec, c.BatchSize, nn.TD{Kind: c.Loss, Reduction: c.LossReduction}))(t)
	device := cpu(t)
	adam := must(device.Optimizer(nn.OptimizerConfig{Name: "adam"}, theta.Layout.Size))(t)
	grad := make([]float32, theta.Layout.Size)
	size := e.Spec().Obs.Bytes()
	obs := make([]byte, size)
	check(t, e.Reset(obs))
	var memory []transition
	for n := range steps {
		tt := n - c.LearningStarts // agent steps after the warm-up
		var action int32
		if tt < 0 {
			action = int32(explore.Intn(e.Spec().Action.N))
		} else if explore.Float64() < train.Line(c.ExplorationInitial, c.ExplorationFinal, int64(c.ExplorationSteps)).At(int64(tt)) {
			action = int32(explore.Intn(e.Spec().Action.N))
		} else {
			action = nn.Argmax(qValues(t, net, theta, obs), nil)
		}
		next := make([]byte, size)
		reward, end, err := e.Step(action, next)
		check(t, err)
		memory = append(memory, transition{slices.Clone(obs), slices.Clone(next), action, reward, end&env.Terminated != 0})
		memory = memory[max(0, len(memory)-c.BufferSize):]
		if end != 0 {
			check(t, e.Reset(next))
		}
		obs = next
		if tt++; tt > 0 && tt%c.TrainFreq == 0 {
			b := &minibatch{}
			for range c.BatchSize {
				m := memory[draws.Intn(len(memory))]
				discount := float32(c.Gamma)
				if m.terminated {
					discount, m.next = 0, make([]byte, size)
				}
				b.obs, b.next = append(b.obs, m.obs...), append(b.next, m.next...)
				b.actions, b.rewards, b.discounts = append(b.actions, m.action), append(b.rewards, m.reward), append(b.discounts, discount)
			}
			b.gradient(t, net, learner, theta, minus, false, grad)
			_, factor := device.ClipGradNorm(grad, c.MaxGradNorm)
			adam.Apply(theta, grad, factor, c.LearningRate)
		}
		if tt > 0 && tt%c.TargetUpdateInterval == 0 {
			minus.CopyFrom(theta)
		}
	}
	return train.HashFloats(theta.Host()), train.HashFloats(minus.Host())
}

func TestStandardModeIsTextbookDQN(t *testing.T) {
	for _, x := range textbookRuns() {
		c, steps := x.c, int(x.steps)
		h := learn(t, c, x.steps, offpolicy.Concurrently)
		if weights, target := textbook(t, c, steps); h.Weights != weights || h.Target != target {
			t.Errorf("%s, F = %d: theta %.8s, theta-minus %.8s; textbook DQN has %.8s, %.8s",
				c.Env, c.TrainFreq, h.Weights, h.Target, weights, target)
		}
	}
}

// The result depends neither on the number of threads nor on timing.
func TestOneSeedOneResult(t *testing.T) {
	for _, x := range seedRuns() {
		t.Run(x.name, func(t *testing.T) {
			if testing.Short() && x.c.Env == "Catch-v0" {
				t.Skip("left out by -short")
			}
			if kernel.ISA() == "go" && x.c.Env == "Catch-v0" {
				x.steps = 500 // two windows; seven runs of 2,000 steps take a minute in Go
			}
			x.c.NumThreads = 1
			want := learn(t, x.c, x.steps, offpolicy.Concurrently)
			t.Logf("replay %.16s weights %.16s", want.Replay, want.Weights)
			same := func(how string, got Hashes) {
				t.Helper()
				if got != want {
					t.Errorf("%s: %+v, want %+v", how, got, want)
				}
			}
			for _, threads := range []int{2, 3, 8} {
				c := x.c
				c.NumThreads = threads
				same(fmt.Sprintf("%d threads", threads), learn(t, c, x.steps, offpolicy.Concurrently))
			}
			same("all updates before the window's steps, on one thread", learn(t, x.c, x.steps, offpolicy.UpdatesFirst))
			same("all updates after the window's steps, on one thread", learn(t, x.c, x.steps, offpolicy.UpdatesLast))
			same("interrupted and continued", interrupted(t, x.c, x.steps))
			if x.c.Env == "Catch-v0" {
				return
			}
			other := x.c
			other.Seed++
			if got := learn(t, other, x.steps, offpolicy.Concurrently); got == want {
				t.Error("another seed gives the same result: the test proves nothing")
			}
		})
	}
}

// interrupted runs the steps in pieces that end inside windows. Between two pieces a new DQN loads
// a checkpoint, Stop is called, and the host reads.
func interrupted(t *testing.T, c Config, steps int64) Hashes {
	t.Helper()
	d := newDQN(t, c)
	check(t, d.Begin(steps, 0))
	piece := steps / 5
	check(t, d.Run(piece, 0))
	for k := range 3 {
		path := t.TempDir() + "/mid.paceline"
		if k == 1 {
			at := d.Stats().Steps
			d.Stop()
			check(t, d.Run(0, 0))
			if d.Stats().Steps != at {
				t.Fatal("Stop was not heeded")
			}
		}
		check(t, d.Save(path, true))
		if k == 2 {
			// Reads between two pieces change nothing.
			p := must(d.Policy())(t)
			_, err := p.Evaluate(c.Env, nil, policy.EvalOptions{Episodes: 2, Epsilon: 0.05, Seed: 1})
			check(t, err)
			hashesOf(t, d)
		}
		next := newDQN(t, must(loadConfig(path))(t))
		check(t, next.Load(path))
		check(t, d.Close())
		d = next
		check(t, d.Run(piece+int64(k)*13, 0))
	}
	check(t, d.Run(0, 0))
	return hashesOf(t, d)
}

func TestReplayAndTargetDoNotChangeInsideAWindow(t *testing.T) {
	for _, synchronized := range []bool{true, false} {
		d := newDQN(t, cartpole(func(c *Config) { c.Synchronized = synchronized }))
		var atStart Hashes
		windows := 0
		d.m.Watch = func(e offpolicy.WindowEvent) {
			now := d.look()
			switch {
			case e == offpolicy.WindowBegins:
				atStart = now
				windows++
			case windows > 0:
				if now.Replay != atStart.Replay || now.Target != atStart.Target {
					t.Errorf("window %d: D or theta-minus changed inside", windows)
				}
				if now.Weights == atStart.Weights {
					t.Errorf("window %d: theta did not change inside", windows)
				}
			}
		}
		check(t, d.Begin(3000, 0))
		check(t, d.Run(0, 0))
		if want := (3000 - 100 + 31) / 32; windows != want {
			t.Errorf("%d windows, want %d", windows, want)
		}
	}
}

// Pushed environments give the result of built-in ones in every autoreset mode, because rows that
// only reset are not used.
func TestPushedEqualsBuiltIn(t *testing.T) {
	c := cartpole()
	const steps = 3000
	want := learn(t, c, steps, offpolicy.Concurrently)
	mk := func(i int) (env.Env, error) {
		e, err := env.Make("CartPole-v1", nil)
		if err == nil {
			e.Seed(vec.SeedFor(uint64(c.Seed), i))
		}
		return e, err
	}
	h := newHost(t, c, vec.SameStep, mk)
	h.Begin(t, steps)
	for h.d.Stats().Steps < steps {
		h.Round(t)
	}
	if got := hashesOf(t, h.d); got != want {
		t.Errorf("pushed: %+v, built in: %+v", got, want)
	}

	c.NumEnvs = 1
	want = learn(t, c, steps, offpolicy.Concurrently)
	for _, mode := range []vec.Autoreset{vec.SameStep, vec.NextStep} {
		h := newHost(t, c, mode, mk)
		h.Begin(t, steps)
		for h.d.Stats().Steps < steps {
			h.Round(t)
		}
		if got := hashesOf(t, h.d); got != want {
			t.Errorf("one environment, %v: %+v, built in: %+v", mode, got, want)
		}
	}
}

// The counter's episodes have 3, 1, 4, 3, 1, ... steps and end terminated, truncated, both, and so
// on. The expected tuples are written by hand.
func counterTuples(index, steps int, actions func(step int) int32) []tuple {
	lengths, ends := []int{3, 1, 4}, []bool{true, false, true} // whether the end counts as terminated
	var list []tuple
	for episode := 0; len(list) < steps; episode++ {
		for step := 1; step <= lengths[episode%3] && len(list) < steps; step++ {
			at := func(s int) [3]float32 { return [3]float32{float32(index), float32(episode), float32(s)} }
			tu := tuple{obs: at(step - 1), next: at(step), reward: float32(100*episode + step), action: actions(len(list))}
			if step == lengths[episode%3] && ends[episode%3] {
				tu.terminated, tu.next = true, [3]float32{}
			}
			list = append(list, tu)
		}
	}
	return list
}

func TestReplayHasTheTuplesOfACounter(t *testing.T) {
	mk := func(i int) (env.Env, error) { return newCounter(i), nil }
	for _, w := range []int{1, 3} {
		config := func(c *Config) {
			c.NumEnvs, c.LearningStarts, c.Window, c.BufferSize = w, 30, 12, 600
		}
		// Each environment's own stream gives its actions. The first 30 steps, over all
		// environments, are random.
		for name, run := range map[string]func(rounds int) *trial{
			"built in": func(rounds int) *trial {
				d := must(newTrial(cartpole(config), mk))(t)
				check(t, d.Begin(int64(rounds*w), 0))
				check(t, d.Run(0, 0))
				return d
			},
			"same step": func(rounds int) *trial {
				h := newHost(t, cartpole(config), vec.SameStep, mk)
				h.Begin(t, 1000)
				for range rounds {
					h.Round(t)
				}
				return h.d
			},
			"next step": func(rounds int) *trial {
				h := newHost(t, cartpole(config), vec.NextStep, mk)
				h.Begin(t, 1000)
				for h.d.Stats().Steps < int64(rounds*w) {
					h.Round(t)
				}
				return h.d
			},
		} {
			t.Run(fmt.Sprintf("W=%d %s", w, name), func(t *testing.T) {
				d := run(30)
				defer d.Close()
				d.m.Updates.Halt()
				d.m.Memory.Flush()
				got := contents(d.m.Memory)
				var want []tuple
				for i := range w {
					explore := rng.New(7, "explore", i)
					n := 0
					for _, tu := range got {
						if tu.obs[0] == float32(i) {
							n++
						}
					}
					if name != "next step" && n != 30 {
						t.Fatalf("environment %d: %d transitions, want 30", i, n)
					}
					random := 30/w + (30%w+w-1)/w
					if name == "next step" && w > 1 {
						random = 0 // the warm-up's steps are not divided evenly
					}
					var rest []int32
					for _, tu := range got {
						if tu.obs[0] == float32(i) {
							rest = append(rest, tu.action)
						}
					}
					want = append(want, counterTuples(i, n, func(step int) int32 {
						if step < random {
							return int32(explore.Intn(2))
						}
						return rest[step] // chosen by the network
					})...)
				}
				if !slices.Equal(got, want) {
					for k := range got {
						if got[k] != want[k] {
							t.Fatalf("transition %d: %+v, want %+v", k, got[k], want[k])
						}
					}
					t.Fatalf("%d transitions, want %d", len(got), len(want))
				}
			})
		}
	}
}

func TestUpdateToStepRatioIsExact(t *testing.T) {
	for _, x := range []struct{ w, f, g, window int }{{8, 4, 1, 32}, {3, 7, 2, 50}, {1, 1, 1, 10}, {5, 2, 3, 11}} {
		for _, concurrent := range []bool{true, false} {
			for _, synchronized := range []bool{true, false} {
				d := newDQN(t, cartpole(func(c *Config) {
					c.NumEnvs, c.TrainFreq, c.GradientSteps, c.Window = x.w, x.f, x.g, x.window
					c.Concurrent, c.Synchronized = settings.SwitchOf(concurrent), synchronized
				}))
				check(t, d.Begin(1000, 0))
				check(t, d.Run(0, 0))
				s := d.Stats()
				after := s.Steps - d.m.Clock.Warmup
				want := after / int64(x.f) * int64(x.g)
				if concurrent { // updates are spread, up to those of the window's end
					want = min(after*int64(x.g)/int64(x.f), max(after, d.m.Clock.NextWindow)/int64(x.f)*int64(x.g))
				}
				if s.Updates != want || s.UpdatesDue != want {
					t.Errorf("%+v concurrent %v synchronized %v: %d updates after %d steps, %d due, want %d", x, concurrent, synchronized, s.Updates, after, s.UpdatesDue, want)
				}
				if s.Steps < 1000 || s.Steps >= 1000+int64(x.w) {
					t.Errorf("%+v: ended at step %d, want the first round end from 1000", x, s.Steps)
				}
			}
		}
	}
}

func TestALossThatIsNotFiniteIsReportedWithItsStep(t *testing.T) {
	for _, concurrent := range []bool{true, false} {
		d := must(newTrial(cartpole(func(c *Config) { c.Loss, c.Concurrent = "squared", settings.SwitchOf(concurrent) }), func(i int) (env.Env, error) {
			c := newCounter(i)
			c.lengths, c.hugeFrom = []int{1000}, 300 // its square exceeds float32
			return c, nil
		}))(t)
		defer d.Close()
		check(t, d.Begin(50_000, 0))
		err := d.Run(0, 0)
		if !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), "step ") {
			t.Fatalf("concurrent %v: %v", concurrent, err)
		}
		if again := d.Run(10, 0); !errors.Is(again, fault.ErrNotFinite) {
			t.Errorf("a second run: %v", again)
		}
		check(t, d.Save(t.TempDir()+"/nan.paceline", false)) // the earlier parameters can be saved
	}
}

func TestAFailingEnvironmentIsNamedAndNoStepIsLost(t *testing.T) {
	var bad *counter
	d := must(newTrial(cartpole(func(c *Config) { c.NumEnvs, c.BufferSize = 3, 6000 }), func(i int) (env.Env, error) {
		c := newCounter(i)
		c.lengths = []int{1000}
		if i == 1 {
			c.failAt = 200
			bad = c
		}
		return c, nil
	}))(t)
	defer d.Close()
	check(t, d.Begin(3000, 0))
	err := d.Run(0, 0)
	var e *env.Error
	if !errors.As(err, &e) || e.Index != 1 || !strings.Contains(err.Error(), "caught fire") {
		t.Fatal(err)
	}
	before := d.Stats()
	if before.Steps != 3*200-1 {
		t.Errorf("%d steps, want 599: the other environments' steps count", before.Steps)
	}
	bad.failAt = 0
	check(t, d.Run(0, 0)) // the failed environment was reset, the others go on
	if s := d.Stats(); s.Steps < 3000 || s.Updates <= before.Updates {
		t.Errorf("%+v", s)
	}
	seen := 0
	for _, tu := range contents(d.m.Memory) {
		if tu.obs[0] == 1 && tu.obs[1] == 0 {
			seen++
		}
	}
	if seen != 199 {
		t.Errorf("%d transitions of the cut episode, want 199", seen)
	}
}

func TestANaNRewardIsRefused(t *testing.T) {
	d := must(newTrial(cartpole(), func(i int) (env.Env, error) {
		c := newCounter(i)
		c.lengths, c.nanAt = []int{50}, 20
		return c, nil
	}))(t)
	defer d.Close()
	check(t, d.Begin(1000, 0))
	if err := d.Run(0, 0); err == nil || !strings.Contains(err.Error(), "environment 0: reward: NaN") {
		t.Fatal(err)
	}
}

func TestCloseClosesEnvironments(t *testing.T) {
	closed := 0
	mk := func(i int) (env.Env, error) {
		c := newCounter(i)
		c.closed = &closed
		if i == 2 {
			return c, errors.New("no more licences")
		}
		return c, nil
	}
	if _, err := newTrial(cartpole(), mk); err == nil || !strings.Contains(err.Error(), "no more licences") {
		t.Fatal(err)
	}
	if closed != 2 {
		t.Errorf("%d environments closed, want the 2 that were made", closed)
	}
	closed = 0
	d := must(newTrial(cartpole(func(c *Config) { c.NumEnvs = 2 }), mk))(t)
	check(t, d.Close())
	check(t, d.Close())
	if closed != 2 {
		t.Errorf("%d closed, want 2", closed)
	}
	for name, call := range map[string]func() error{
		"run":   func() error { return d.Run(10, 0) },
		"begin": func() error { return d.Begin(10, 0) },
		"save":  func() error { return d.Save("x", true) },
		"act":   func() error { return d.Act(nil, vec.Actions{}, 0) },
	} {
		if err := call(); !errors.Is(err, fault.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	d.Stop()
	d.Stats()
}
