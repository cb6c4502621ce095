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
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/vec"
)

// slowOptimizer makes updates so slow that the samplers always wait for them,
// and counts.
type slowOptimizer struct {
	nn.Optimizer
	pause atomic.Int64 // nanoseconds
	panic atomic.Bool
}

func (o *slowOptimizer) Apply(theta, grad []float32, lr float64) {
	if o.panic.Load() {
		panic("the optimiser is ill")
	}
	time.Sleep(time.Duration(o.pause.Load()))
	o.Optimizer.Apply(theta, grad, lr)
}

func slow(d *DQN, pause time.Duration) *slowOptimizer {
	o := &slowOptimizer{Optimizer: d.trainer.optimizer}
	o.pause.Store(int64(pause))
	d.trainer.optimizer = o
	return o
}

// within fails the test if f takes longer than an update or two would.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v, must take less than %v", what, took, limit)
	}
}

const (
	pause  = 5 * time.Millisecond   // of an update
	prompt = 400 * time.Millisecond // far below the 100 updates of a window
)

func slowWindows(edit ...func(*Config)) Config {
	c := cartpole(edit...)
	c.Window, c.TargetUpdateInterval, c.TrainFreq = 400, 400, 4
	return c
}

var threeModes = map[string]func(*Config){
	"both":       func(*Config) {},
	"concurrent": func(c *Config) { c.Synchronized = false },
	"standard":   func(c *Config) { c.Concurrent, c.Synchronized, c.GradientSteps = false, true, 100 },
}

// The samplers stand at a window's end and wait for the trainer: neither the
// deadline nor Stop, Save or a look at the weights waits with them. What was
// left undone is done when steps go on, with the same result.
func TestStopAndDeadlineDoNotWaitForTheTrainer(t *testing.T) {
	for name, edit := range threeModes {
		t.Run(name, func(t *testing.T) {
			c := slowWindows(edit)
			whole := learn(t, c, 1000, notEmulated)
			d := newDQN(t, c)
			o := slow(d, pause)
			check(t, d.Begin(1000, 0))
			within(t, prompt, "a run of 20 ms", func() { check(t, d.Run(0, 20*time.Millisecond)) })
			go func() { time.Sleep(20 * time.Millisecond); d.Stop() }()
			within(t, prompt, "a run with a Stop", func() { check(t, d.Run(0, 0)) })
			s := d.Stats()
			if s.Updates >= s.UpdatesDue || s.Updates == 0 {
				t.Fatalf("the test shows nothing: %+v", s)
			}
			path := filepath.Join(t.TempDir(), "a")
			within(t, prompt, "saving, acting and reading after a Stop", func() {
				check(t, d.Save(path, true))
				must(d.Policy())(t)
				check(t, d.GetParameters(make([]float32, 2*d.theta.Layout.Size)))
				hashesOf(t, d)
			})
			if now := d.Stats(); now.Updates != s.Updates {
				t.Errorf("%d updates were made up for after a Stop", now.Updates-s.Updates)
			}
			o.pause.Store(0)
			next := newDQN(t, must(LoadConfig(path))(t))
			check(t, next.Load(path))
			for _, d := range []*DQN{d, next} {
				check(t, d.Run(0, 0))
				if got := hashesOf(t, d); got != whole {
					t.Errorf("continued %+v, in one go %+v", got, whole)
				}
			}
		})
	}
}

// Ctrl-C in a host that runs in pieces comes between two runs.
func TestStopBetweenRuns(t *testing.T) {
	c := slowWindows()
	whole := learn(t, c, 1000, notEmulated)
	d := newDQN(t, c)
	o := slow(d, pause)
	check(t, d.Begin(1000, 0))
	check(t, d.Run(480, 0))
	check(t, d.Run(0, time.Millisecond))
	d.Stop()
	within(t, prompt, "a look after Stop", func() { hashesOf(t, d) })
	s := d.Stats()
	within(t, prompt, "the next run", func() { check(t, d.Run(0, 0)) })
	if now := d.Stats(); now.Steps != s.Steps || s.Updates >= s.UpdatesDue {
		t.Errorf("%d steps after a Stop; %+v", now.Steps-s.Steps, s)
	}
	// A Stop ends a look that is waiting, too.
	check(t, d.Run(4, 0))
	go func() { time.Sleep(10 * time.Millisecond); d.Stop() }()
	within(t, prompt, "a Settle with a Stop", func() { check(t, d.Settle()) })
	o.pause.Store(0)
	check(t, d.Run(0, 0)) // this is the run that Stop ends at once
	check(t, d.Run(0, 0))
	if got := hashesOf(t, d); got != whole {
		t.Errorf("continued %+v, in one go %+v", got, whole)
	}
}

func TestStopWhereTheHostSteps(t *testing.T) {
	c := slowWindows()
	mk := func(i int) (env.Env, error) {
		e, err := env.Make("CartPole-v1")
		e.Seed(vec.SeedFor(uint64(c.Seed), i))
		return e, err
	}
	whole := learn(t, c, 1000, notEmulated)
	h := newHost(t, c, vec.SameStep, mk)
	o := slow(h.d, pause)
	h.begin(t, 1000)
	stopped := 0
	for h.d.Stats().Steps < 1000 {
		err := h.d.Act()
		for ; errors.Is(err, ErrStopped); err = h.d.Act() {
			stopped++
			s := h.d.Stats()
			within(t, prompt, "a look after Stop", func() { must(h.d.Policy())(t) })
			if now := h.d.Stats(); now.Updates > s.Updates+1 || now.Updates >= now.UpdatesDue {
				t.Errorf("made up for after a Stop: %+v, %+v", s, now)
			}
			o.pause.Store(0)
		}
		check(t, err)
		if o.pause.Load() > 0 && h.d.Stats().Steps == 100+400 { // the coming Act waits
			go func() { time.Sleep(20 * time.Millisecond); h.d.Stop() }()
		}
		check(t, h.vec.Step(h.actions, h.rows))
		check(t, h.d.Observe())
	}
	if stopped != 1 {
		t.Errorf("Stop ended %d waits, want 1", stopped)
	}
	if got := hashesOf(t, h.d); got != whole {
		t.Errorf("pushed with a Stop %+v, built in %+v", got, whole)
	}
}

// goroutines waits for those that are ending.
func goroutines(t *testing.T, want int) {
	t.Helper()
	for range 100 {
		if runtime.NumGoroutine() <= want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), want, buf[:runtime.Stack(buf, true)])
}

func TestCloseWhileRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, edit := range threeModes {
		c := slowWindows(edit)
		c.NumThreads = 2
		d := must(New(c, nil))(t)
		slow(d, pause)
		check(t, d.Begin(1000, 0))
		done := make(chan error)
		go func() { // a host that polls
			for {
				if err := d.Run(0, 10*time.Millisecond); err != nil {
					done <- err
					return
				}
			}
		}()
		time.Sleep(30 * time.Millisecond)
		within(t, prompt, name+": Close", func() { check(t, d.Close()) })
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("%s: the next run: %v", name, err)
		}
	}
	goroutines(t, before)
}

// A bug below the interface ends in an error; the object it happened in
// refuses all further work and can be closed.
func TestPanicsAreErrorsAndSpoilOneObject(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, spoil := range map[string]func(d *DQN){
		"in an update":       func(d *DQN) { slow(d, 0).panic.Store(true) },
		"at a boundary":      func(d *DQN) { d.watch = func(windowEvent) { panic("no such window") } },
		"in a sampler":       func(d *DQN) { d.samplers.finished = nil },
		"in a forward pass":  func(d *DQN) { d.samplers.joint, d.samplers.alone = nil, nil },
		"in the replay":      func(d *DQN) { d.samplers.coins[0] = nil },
		"between two rounds": func(d *DQN) { d.samplers.returns = nil },
	} {
		for mode, edit := range threeModes {
			d := must(New(cartpole(edit), nil))(t)
			check(t, d.Begin(100_000, 0))
			check(t, d.Run(500, 0))
			spoil(d)
			err := d.Run(0, 0)
			var p *env.PanicError
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

func TestPanicWhereTheHostSteps(t *testing.T) {
	h := newHost(t, cartpole(), vec.SameStep, makeWalk(1))
	slow(h.d, 0).panic.Store(true)
	h.begin(t, 100_000)
	var err error
	for k := 0; err == nil && k < 1000; k++ {
		if err = h.d.Act(); err == nil {
			check(t, h.vec.Step(h.actions, h.rows))
			err = h.d.Observe()
		}
	}
	var p *env.PanicError
	if !errors.As(err, &p) || h.d.Act() != err || h.d.Observe() != err {
		t.Errorf("%v, then %v", err, h.d.Act())
	}
}

// An environment's panic is its own affair: it is reset, the others go on.
func TestPanickingEnvironment(t *testing.T) {
	for name, edit := range threeModes {
		var bad *panicker
		d := must(New(cartpole(edit, func(c *Config) { c.BufferSize = 8000 }), func(i int) (env.Env, error) {
			w, err := makeWalk(3)(i)
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
		// What others see is the same at every look; every step counted is there.
		if a, b := hashesOf(t, d), hashesOf(t, d); a != b {
			t.Errorf("%s: two looks, two results", name)
		}
		check(t, d.Run(0, 0))
		d.memory.Flush()
		if s := d.Stats(); s.Steps < 2000 || int64(d.memory.Len()) != s.Steps {
			t.Errorf("%s: %d steps counted, %d stored", name, s.Steps, d.memory.Len())
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

// Everything that may be called at any time, at once.
func TestManyCallers(t *testing.T) {
	for name, edit := range threeModes {
		t.Run(name, func(t *testing.T) {
			d := newDQN(t, cartpole(edit, func(c *Config) { c.NumThreads = 3 }))
			check(t, d.Begin(6000, 0))
			check(t, d.Run(200, 0))
			p := must(d.Policy())(t)
			obs := append([]byte(nil), d.samplers.rows.Obs...)
			want := make([]int32, 4)
			check(t, p.Act(4, obs, want, nil))
			var busy, ran atomic.Int64
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
					if err := p.Act(4, obs, got, nil); err != nil || got[0] != want[0] || got[3] != want[3] {
						t.Errorf("%v, %v, want %v", got, err, want)
					}
				})
			}
			for _, f := range []func() error{
				func() error { return d.Run(40, 0) },
				func() error { return d.Settle() },
				func() error { _, err := d.Policy(); return err },
				func() error { _, err := d.Hashes(); return err },
			} {
				call(func() {
					switch err := f(); {
					case errors.Is(err, ErrBusy):
						busy.Add(1)
						runtime.Gosched()
					case err != nil:
						t.Error(err)
					default:
						ran.Add(1)
					}
				})
			}
			for until := time.Now().Add(20 * time.Second); d.Stats().Steps < 2000 && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
			}
			close(over)
			callers.Wait()
			if busy.Load() == 0 || ran.Load() == 0 {
				t.Errorf("%d calls refused, %d made: the test shows nothing", busy.Load(), ran.Load())
			}
			for d.Stats().Steps < 6000 {
				check(t, d.Run(0, 0))
			}
			if got, want := hashesOf(t, d), learn(t, d.Config(), 6000, notEmulated); got != want {
				t.Errorf("%+v, undisturbed %+v", got, want)
			}
		})
	}
}
