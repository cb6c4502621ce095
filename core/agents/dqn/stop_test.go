package dqn

import (
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// slowUpdates makes updates so slow that the samplers always wait for them.
type slowUpdates struct {
	nn.QStepper
	pause  atomic.Int64 // nanoseconds
	begun  atomic.Int64 // updates
	panic  atomic.Bool
	before func() // called before every update; nil: not
}

func (s *slowUpdates) Update(theta, target *nn.Params, t *experience.Transitions, lr float64, r *nn.Report) error {
	if s.panic.Load() {
		panic("the optimiser is broken")
	}
	if s.before != nil {
		s.before()
	}
	s.begun.Add(1)
	time.Sleep(time.Duration(s.pause.Load()))
	return s.QStepper.Update(theta, target, t, lr, r)
}

// another waits until another update has begun.
func (s *slowUpdates) another() {
	for n := s.begun.Load(); s.begun.Load() == n; {
		time.Sleep(time.Millisecond)
	}
}

func slow(d *trial, pause time.Duration) *slowUpdates {
	s := &slowUpdates{}
	s.pause.Store(int64(pause))
	wrap(d, func(own nn.QStepper) nn.QStepper {
		s.QStepper = own
		return s
	})
	return s
}

// pause is the time of an update in tests that wait for 100 updates, two seconds in all.
const pause = 20 * time.Millisecond

// updatesLeft fails the test unless some due updates are left.
func updatesLeft(t *testing.T, d *trial, after string) stats {
	t.Helper()
	s := d.Stats()
	if s.Updates >= s.UpdatesDue {
		t.Errorf("%s: no update is left: %d updates of %d", after, s.Updates, s.UpdatesDue)
	}
	return s
}

func slowWindows(edit ...func(*Config)) Config {
	return cartpole(append([]func(*Config){func(c *Config) {
		c.Window, c.TargetUpdateInterval, c.TrainFreq = 400, 400, 4
	}}, edit...)...)
}

// fourModes are the four modes, with about 100 updates between two waits.
var fourModes = map[string]func(*Config){
	"both":         func(*Config) {},
	"concurrent":   func(c *Config) { c.Synchronized = false },
	"synchronized": func(c *Config) { c.Concurrent, c.GradientSteps = settings.Off, 100 },
	"standard": func(c *Config) { // updates are due inside a round, where no wait is interrupted
		c.Concurrent, c.Synchronized, c.TrainFreq, c.GradientSteps = settings.Off, false, 100, 100
	},
}

// While the samplers wait for updates at a window's end, a deadline, Stop, Save and reads do not
// wait. Updates that were left are done when steps go on, with the same result.
func TestStopAndDeadlineDoNotWaitForTheTrainer(t *testing.T) {
	for name, edit := range fourModes {
		t.Run(name, func(t *testing.T) {
			c := slowWindows(edit)
			whole := learn(t, c, 1000, offpolicy.Concurrently)
			d := newDQN(t, c)
			o := slow(d, pause)
			check(t, d.Begin(1000, 0))
			for o.begun.Load() == 0 {
				check(t, d.Run(0, 20*time.Millisecond))
			}
			updatesLeft(t, d, "a run of 20 ms")
			go func() { o.another(); d.Stop() }()
			check(t, d.Run(0, 0))
			s := updatesLeft(t, d, "a run with a Stop")
			path := filepath.Join(t.TempDir(), "a")
			check(t, d.Save(path, true))
			must(d.Policy())(t)
			must(d.GetParameters("q_net", make([]float32, d.m.Theta.Layout.Size)))(t)
			hashesOf(t, d)
			if now := d.Stats(); now.Updates != s.Updates {
				t.Errorf("%d updates were run after a Stop", now.Updates-s.Updates)
			}
			o.pause.Store(0)
			next := newDQN(t, must(loadConfig(path))(t))
			check(t, next.Load(path))
			for _, d := range []*trial{d, next} {
				check(t, d.Run(0, 0))
				if got := hashesOf(t, d); got != whole {
					t.Errorf("continued %+v, in one go %+v", got, whole)
				}
			}
		})
	}
}

// In a host that runs in pieces, Ctrl-C comes between two calls of Run.
func TestAStopBetweenRunsEndsTheNextRun(t *testing.T) {
	c := slowWindows()
	whole := learn(t, c, 1000, offpolicy.Concurrently)
	d := newDQN(t, c)
	o := slow(d, pause)
	check(t, d.Begin(1000, 0))
	check(t, d.Run(480, 0))
	check(t, d.Run(0, time.Millisecond))
	d.Stop()
	hashesOf(t, d)
	s := updatesLeft(t, d, "a read after a Stop")
	path := filepath.Join(t.TempDir(), "a")
	check(t, d.Save(path, true))
	check(t, d.Run(0, 0))
	if now := updatesLeft(t, d, "the next run"); now.Steps != s.Steps {
		t.Errorf("%d steps after a Stop", now.Steps-s.Steps)
	}
	// The file records the Stop.
	next := newDQN(t, c)
	check(t, next.Load(path))
	hashesOf(t, next)
	updatesLeft(t, next, "a read after a load")
	// Stop also ends a read that waits.
	check(t, d.Run(0, time.Millisecond))
	go func() { o.another(); d.Stop() }()
	check(t, d.Settle())
	updatesLeft(t, d, "a Settle with a Stop")
	o.pause.Store(0)
	check(t, d.Run(0, 0)) // Stop ends this Run at once
	check(t, d.Run(0, 0))
	if got := hashesOf(t, d); got != whole {
		t.Errorf("continued %+v, in one go %+v", got, whole)
	}
}

func TestStopEndsAWaitIfTheHostSteps(t *testing.T) {
	c := slowWindows()
	mk := func(i int) (env.Env, error) {
		e, err := env.Make("CartPole-v1", nil)
		e.Seed(vec.SeedFor(uint64(c.Seed), i))
		return e, err
	}
	whole := learn(t, c, 1000, offpolicy.Concurrently)
	h := newHost(t, c, vec.SameStep, mk)
	o := slow(h.d, pause)
	h.Begin(t, 1000)
	var stopped atomic.Int64
	for h.d.Stats().Steps < 1000 {
		err := h.Act()
		for ; errors.Is(err, fault.ErrStopped); err = h.Act() {
			stopped.Add(1)
			s := h.d.Stats()
			must(h.d.Policy())(t)
			if now := updatesLeft(t, h.d, "a read after a Stop"); now.Updates > s.Updates+1 {
				t.Errorf("%d updates were run after a Stop", now.Updates-s.Updates)
			}
			o.pause.Store(0)
		}
		check(t, err)
		if h.d.Stats().Steps == 100+400-4 { // the next Act waits
			go func() {
				for stopped.Load() == 0 { // a Stop before the Act is forgotten
					time.Sleep(5 * time.Millisecond)
					h.d.Stop()
				}
			}()
		}
		check(t, h.Vec.Step(h.Actions, h.Rows))
		check(t, h.Observe())
	}
	if n := stopped.Load(); n < 1 || n > 2 {
		t.Errorf("Stop ended %d waits, want 1, or 2 where it was called again meanwhile", n)
	}
	if got := hashesOf(t, h.d); got != whole {
		t.Errorf("pushed with a Stop %+v, built in %+v", got, whole)
	}
}

// goroutines waits until goroutines that are ending have ended.
func goroutines(t *testing.T, want int) {
	t.Helper()
	for range 3000 {
		if runtime.NumGoroutine() <= want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), want, buf[:runtime.Stack(buf, true)])
}

func TestCloseEndsARun(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, edit := range fourModes {
		c := slowWindows(edit)
		c.NumThreads = 2
		d := must(newTrial(c, nil))(t)
		o := slow(d, pause)
		check(t, d.Begin(1000, 0))
		done := make(chan error)
		go func() { // the host polls
			for {
				if err := d.Run(0, 10*time.Millisecond); err != nil {
					done <- err
					return
				}
			}
		}()
		o.another()
		if c.Concurrent != settings.Off { // the trainer thread may be ahead of samplers that have no core
			for s := d.Stats(); s.UpdatesDue < s.Updates+2; s = d.Stats() {
				time.Sleep(time.Millisecond)
			}
		}
		check(t, d.Close())
		updatesLeft(t, d, name+": Close")
		if err := <-done; !errors.Is(err, fault.ErrClosed) {
			t.Errorf("%s: the next run: %v", name, err)
		}
	}
	goroutines(t, before)
}

// A panic in the library is an error. The Trainer refuses all later calls and can be closed.
func TestPanicsAreErrorsAndSpoilOneObject(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, spoil := range map[string]func(d *trial, o *slowUpdates){
		"in an update":       func(_ *trial, o *slowUpdates) { o.panic.Store(true) },
		"at a boundary":      func(d *trial, _ *slowUpdates) { d.m.Watch = func(offpolicy.WindowEvent) { panic("no such window") } },
		"in a sampler":       func(d *trial, _ *slowUpdates) { d.m.Samplers.Sink = nil },
		"in a choice":        func(d *trial, _ *slowUpdates) { d.m.explore.Epsilon = nil },
		"in a round":         func(d *trial, _ *slowUpdates) { d.m.Samplers.Source = nil },
		"between two rounds": func(d *trial, _ *slowUpdates) { d.m.Memory = nil },
	} {
		for mode, edit := range fourModes {
			d := must(newTrial(cartpole(edit, func(c *Config) { c.GradientSteps = 1 }), nil))(t)
			optimizer := slow(d, 0)
			check(t, d.Begin(100_000, 0))
			check(t, d.Run(500, 0))
			spoil(d, optimizer)
			err := d.Run(0, 0)
			var p *fault.Panic
			if !errors.As(err, &p) || len(p.Stack) == 0 {
				t.Errorf("%s, %s: %v", name, mode, err)
			}
			for what, call := range map[string]func() error{
				"run":   func() error { return d.Run(1, 0) },
				"begin": func() error { return d.Begin(1, 0) },
				"save":  func() error { return d.Save(filepath.Join(t.TempDir(), "a"), false) },
				"act":   func() error { _, err := d.Policy(); return err },
			} {
				if again := call(); again != err {
					t.Errorf("%s, %s: %s afterwards: %v", name, mode, what, again)
				}
			}
			d.Stop()
			d.Stats()
			check(t, d.Close())
		}
	}
	goroutines(t, before)
}

func TestAPanicIsReturnedByEveryCallIfTheHostSteps(t *testing.T) {
	h := newHost(t, cartpole(), vec.SameStep, traintest.MakeWalk(1))
	slow(h.d, 0).panic.Store(true)
	h.Begin(t, 100_000)
	var err error
	for k := 0; err == nil && k < 1000; k++ {
		if err = h.Act(); err == nil {
			check(t, h.Vec.Step(h.Actions, h.Rows))
			err = h.Observe()
		}
	}
	var p *fault.Panic
	if !errors.As(err, &p) || h.Act() != err || h.Observe() != err {
		t.Errorf("%v, then %v", err, h.Act())
	}
}

// After a panic in an environment this environment is reset, and the run goes on.
func TestAPanickingEnvironmentIsReset(t *testing.T) {
	for name, edit := range fourModes {
		var bad *panicker
		d := must(newTrial(cartpole(edit, func(c *Config) { c.BufferSize, c.GradientSteps = 8000, 1 }), func(i int) (env.Env, error) {
			w, err := traintest.MakeWalk(3)(i)
			if i == 1 {
				bad = &panicker{Env: w, at: 130}
				return bad, err
			}
			return w, err
		}))(t)
		check(t, d.Begin(2000, 0))
		err := d.Run(0, 0)
		var e *env.Error
		if !errors.As(err, &e) || e.Index != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		// Reads give the same result every time, and every counted step is stored.
		if a, b := hashesOf(t, d), hashesOf(t, d); a != b {
			t.Errorf("%s: two reads differ", name)
		}
		check(t, d.Run(0, 0))
		d.m.Memory.Flush()
		if s := d.Stats(); s.Steps < 2000 || int64(d.m.Memory.Len()) != s.Steps {
			t.Errorf("%s: %d steps counted, %d stored", name, s.Steps, d.m.Memory.Len())
		}
		check(t, d.Close())
	}
}

type panicker struct {
	env.Env
	at int
}

func (p *panicker) Step(action int32, obs []byte) (float32, env.End, error) {
	if p.at--; p.at == 0 {
		panic("division by zero")
	}
	return p.Env.Step(action, obs)
}

func TestASecondCallDuringARunIsRefused(t *testing.T) {
	d := newDQN(t, cartpole())
	asked := false
	d.m.Watch = func(offpolicy.WindowEvent) { // inside a call
		asked = true
		for what, err := range map[string]error{
			"run": d.Run(1, 0), "begin": d.Begin(1, 0), "settle": d.Settle(), "act": d.Act(nil, vec.Actions{}, 0),
			"save": d.Save(filepath.Join(t.TempDir(), "a"), true), "load": d.Load("a"),
		} {
			if !errors.Is(err, fault.ErrBusy) {
				t.Errorf("%s during a run: %v", what, err)
			}
		}
		d.Stats()
	}
	check(t, d.Begin(200, 0))
	check(t, d.Run(0, 0))
	if !asked {
		t.Error("the test proves nothing")
	}
}

// All calls that are allowed at any time, at the same time.
func TestConcurrentCallsChangeNoResult(t *testing.T) {
	for name, edit := range fourModes {
		t.Run(name, func(t *testing.T) {
			d := newDQN(t, cartpole(edit, func(c *Config) { c.NumThreads, c.GradientSteps = 3, 1 }))
			const total = 1 << 30
			check(t, d.Begin(total, 0))
			check(t, d.Run(200, 0))
			p := must(d.Policy())(t)
			obs := append([]byte(nil), d.m.Samplers.Obs()...)
			want := make([]int32, 4)
			check(t, p.Act(4, obs, nil, vec.Actions{Discrete: want}, nil))
			var ran atomic.Int64
			over := make(chan struct{})
			var callers sync.WaitGroup
			call := func(f func()) {
				callers.Add(1)
				go func() {
					defer callers.Done()
					for {
						select {
						case <-over:
							return
						default:
							f()
						}
					}
				}()
			}
			call(func() {
				if s := d.Stats(); s.Steps < 200 || math.IsNaN(s.Epsilon) {
					t.Errorf("%+v", s)
				}
			})
			call(func() { d.Stop(); time.Sleep(time.Millisecond) })
			for range 2 {
				call(func() {
					got := make([]int32, 4)
					if err := p.Act(4, obs, nil, vec.Actions{Discrete: got}, nil); err != nil || got[0] != want[0] || got[3] != want[3] {
						t.Errorf("%v, %v, want %v", got, err, want)
					}
				})
			}
			try := func(f func() error) {
				if err := f(); err == nil {
					ran.Add(1)
				} else if !errors.Is(err, fault.ErrBusy) {
					t.Error(err)
				}
			}
			call(func() { try(func() error { return d.Run(40, 0) }) })
			for _, look := range []func() error{
				d.Settle,
				func() error { _, err := d.Policy(); return err },
				func() error { _, err := d.Hashes(); return err },
			} {
				call(func() { try(look); time.Sleep(time.Millisecond) })
			}
			for until := time.Now().Add(20 * time.Second); d.Stats().Steps < 3000 && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
			}
			close(over)
			callers.Wait()
			if ran.Load() == 0 {
				t.Error("no call got through: the test proves nothing")
			}
			check(t, d.Run(0, time.Nanosecond)) // consumes the latest Stop
			check(t, d.Run(4, 0))
			steps := d.Stats().Steps
			quiet := newDQN(t, *d.Config().Struct().(*Config))
			check(t, quiet.Begin(total, 0))
			check(t, quiet.Run(steps, 0))
			if got, want := hashesOf(t, d), hashesOf(t, quiet); got != want {
				t.Errorf("%d steps: %+v, undisturbed %+v", steps, got, want)
			}
		})
	}
}

// In a long window a stop leaves many updates undone. The file loads.
func TestAStopInALongWindowIsLoaded(t *testing.T) {
	c := cartpole(func(c *Config) {
		c.NumEnvs, c.Window, c.TargetUpdateInterval, c.TrainFreq, c.NetArch = 64, 8<<20, 8<<20, 1, []int{8}
	})
	d, next, path := newDQN(t, c), newDQN(t, c), filepath.Join(t.TempDir(), "a")
	slow(d, pause)
	check(t, d.Begin(100_000_000, 0))
	check(t, d.Run(1<<20+100_000, 0))
	d.Stop()
	check(t, d.Run(64, 0))
	if s := d.Stats(); s.UpdatesDue-s.Updates < 1<<20 {
		t.Fatalf("%d updates of %d are done", s.Updates, s.UpdatesDue)
	}
	check(t, d.Save(path, true))
	check(t, next.Load(path))
}
