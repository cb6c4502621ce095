package dqn

import (
	"errors"
	"fmt"
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

// crowd counts the threads that compute at the same time. want is the expected number.
type crowd struct {
	now, most atomic.Int64
	want      int64
}

func (c *crowd) compute() {
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	for range 20 {
		runtime.Gosched() // let other goroutines run
	}
	// On a busy machine a helper may wake late.
	for began := time.Now(); c.most.Load() < c.want && time.Since(began) < time.Millisecond; {
		runtime.Gosched()
	}
}

// busyEnv and busyUpdates count in a crowd: steps and resets, and updates on all threads of the
// trainer's pool.
type busyEnv struct {
	env.Env
	*crowd
}

func (b *busyEnv) Reset(obs []byte) error {
	b.compute()
	return b.Env.Reset(obs)
}

func (b *busyEnv) Step(action int32, obs []byte) (float32, env.End, error) {
	b.compute()
	return b.Env.Step(action, obs)
}

type busyUpdates struct {
	nn.QStepper
	*crowd
	updates *offpolicy.Updates
}

func (b *busyUpdates) Update(theta, target *nn.Params, t *experience.Transitions, lr float64, r *nn.Report) error {
	if err := b.updates.Pool.Do(4, func(_, _ int) error { b.compute(); return nil }); err != nil {
		panic(err)
	}
	return b.QStepper.Update(theta, target, t, lr, r)
}

func busy(d *trial) *crowd {
	c := &crowd{}
	wrap(d, func(s nn.QStepper) nn.QStepper { return &busyUpdates{s, c, d.m.Updates} })
	return c
}

// allCores fails the test unless exactly all cores can be acquired.
func allCores(t testing.TB, d *trial) {
	t.Helper()
	var last chan struct{}
	for k := range d.m.Updates.Cores.Cores() + 1 {
		taken := make(chan struct{})
		last = taken
		go func() { d.m.Updates.Cores.Acquire(); close(taken) }()
		patience := 10 * time.Second
		if k == d.m.Updates.Cores.Cores() {
			patience = 5 * time.Millisecond
		}
		select {
		case <-taken:
			if k == d.m.Updates.Cores.Cores() {
				t.Errorf("there are more than %d cores", k)
			}
		case <-time.After(patience):
			if k < d.m.Updates.Cores.Cores() {
				t.Errorf("%d of %d cores were not released", d.m.Updates.Cores.Cores()-k, d.m.Updates.Cores.Cores())
			}
		}
	}
	for range d.m.Updates.Cores.Cores() + 1 {
		d.m.Updates.Cores.Release(1) // also releases the core of the last goroutine
	}
	<-last // otherwise there is one core too many until the goroutine ends
}

// Exactly num_threads threads compute at once.
func TestExactlyNumThreadsCompute(t *testing.T) {
	for name, edit := range fourModes {
		for n := 1; n <= 3; n++ {
			c := crowd{want: int64(n)}
			d := must(newTrial(cartpole(edit, func(c *Config) { c.NumThreads, c.GradientSteps = n, 1 }), func(i int) (env.Env, error) {
				e, err := env.Make("CartPole-v1", nil)
				e.Seed(uint64(i))
				return &busyEnv{e, &c}, err
			}))(t)
			wrap(d, func(s nn.QStepper) nn.QStepper { return &busyUpdates{s, &c, d.m.Updates} })
			check(t, d.Begin(1500, 0))
			for s := d.Stats(); s.Steps < s.Total; s = d.Stats() {
				check(t, d.Run(90, 0))
				if s.Steps > 700 { // often updates are left, which then run alone
					check(t, d.Save(filepath.Join(t.TempDir(), "a"), true))
				}
			}
			if most := c.most.Load(); most != int64(n) {
				t.Errorf("%s, num_threads %d: %d threads computed at once", name, n, most)
			}
			check(t, d.Close())
			allCores(t, d)
		}
	}
}

// Exactly num_threads threads compute at once where the host steps. During Act and Observe the main
// thread counts as one; between the calls updates may use all cores.
func TestExactlyNumThreadsComputeIfTheHostSteps(t *testing.T) {
	for _, concurrent := range []bool{true, false} {
		for n := 1; n <= 3; n++ {
			h := newHost(t, cartpole(func(c *Config) { c.Concurrent, c.NumThreads = settings.SwitchOf(concurrent), n }), vec.SameStep, traintest.MakeWalk(1))
			c := busy(h.d)
			c.want = int64(n)
			h.Begin(t, 2000)
			for h.d.Stats().Steps < 1000 {
				h.Round(t)
			}
			check(t, h.d.Settle())
			if most := c.most.Load(); most != int64(n) {
				t.Errorf("concurrent %v, num_threads %d: %d threads computed at once", concurrent, n, most)
			}
			allCores(t, h.d)

			// During a call updates have one core less.
			if !concurrent {
				continue
			}
			h.d.m.Updates.Cores.Acquire() // as in a call
			done := h.d.m.Updates.Done()
			c.most.Store(0)
			c.want = int64(n - 1)
			check(t, h.d.m.Updates.Release(done+20))
			if n > 1 {
				for h.d.m.Updates.Done() < done+20 {
					runtime.Gosched()
				}
			} else if time.Sleep(pause); h.d.m.Updates.Done() > done {
				t.Error("an update began though the main thread has the only core")
			}
			if most := c.most.Load(); most != int64(n-1) {
				t.Errorf("num_threads %d: %d threads computed during a call of the main thread", n, most)
			}
			h.d.m.Updates.Cores.Release(1)
			check(t, h.d.Settle())
		}
	}
}

// With one core for both, the main thread gets the core between two updates and does not wait for
// all released updates.
func TestMainThreadGetsACoreBetweenUpdates(t *testing.T) {
	h := newHost(t, slowWindows(func(c *Config) { c.NumThreads = 1 }), vec.SameStep, traintest.MakeWalk(1))
	h.Begin(t, 2000)
	for h.d.Stats().Steps < 100+4 {
		h.Round(t)
	}
	slow(h.d, pause)
	check(t, h.d.m.Updates.Release(50))
	first := h.d.Stats().Updates
	for range 4 {
		time.Sleep(pause / 4) // time of the host's environments, in which updates run
		h.Round(t)
	}
	if n := h.d.Stats().Updates - first; n < 3 || n > 40 {
		t.Errorf("%d updates in four rounds, want two or three in each", n)
	}
	stopped := make(chan int64)
	go func() {
		time.Sleep(pause / 2)
		h.d.Stop()
		stopped <- h.d.Stats().Updates
	}()
	check(t, h.d.Settle())
	before := h.d.Stats().Updates
	if n := before - <-stopped; n > 1 {
		t.Errorf("%d updates after Stop, want that in progress", n)
	}
	hashesOf(t, h.d)
	if now := h.d.Stats().Updates; now != before {
		t.Errorf("%d updates were run after a Stop", now-before)
	}
}

// Close, Stop, deadlines, failing environments and reads share one core: no call waits for ever,
// and no core is lost.
func TestNoCallBlocksForEverOnOneCore(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	before := runtime.NumGoroutine()
	for name, edit := range fourModes {
		for round := range rounds {
			d := must(newTrial(cartpole(edit, func(c *Config) {
				c.NumThreads, c.GradientSteps, c.Seed, c.Window = 1, 1, round, 64
			}), func(i int) (env.Env, error) {
				e, err := traintest.MakeWalk(3)(i)
				if i == 1 && round%2 == 0 {
					return &panicker{Env: e, at: 60 + 10*round}, err
				}
				return e, err
			}))(t)
			o := slow(d, time.Duration(round%4)*200*time.Microsecond)
			check(t, d.Begin(1<<30, 0))
			var callers sync.WaitGroup
			call := func(f func() error) {
				callers.Add(1)
				go func() {
					defer callers.Done()
					for {
						err := f()
						var e *env.Error
						var p *fault.Panic
						switch {
						case errors.Is(err, fault.ErrClosed):
							return
						case err != nil && !errors.Is(err, fault.ErrBusy) && !errors.As(err, &e) && !errors.As(err, &p):
							t.Error(err)
							return
						}
						runtime.Gosched()
					}
				}()
			}
			path := filepath.Join(t.TempDir(), "a")
			call(func() error { return d.Run(0, time.Duration(round)*time.Millisecond) })
			call(d.Settle)
			call(func() error { time.Sleep(time.Millisecond); return d.Save(path, true) })
			call(func() error { time.Sleep(time.Millisecond); _, err := d.Notice(); return err })
			call(func() error { d.Stop(); time.Sleep(3 * time.Millisecond); _, err := d.Hashes(); return err })
			time.Sleep(time.Duration(10+3*round) * time.Millisecond)
			if round%3 == 2 {
				o.panic.Store(true) // from now on every call returns the panic, until Close
				time.Sleep(5 * time.Millisecond)
			}
			closed := make(chan error)
			go func() { closed <- d.Close() }()
			select {
			case err := <-closed:
				check(t, err)
			case <-time.After(30 * time.Second):
				buf := make([]byte, 1<<20)
				t.Fatalf("%s: Close does not come back:\n%s", name, buf[:runtime.Stack(buf, true)])
			}
			callers.Wait()
			allCores(t, d)
		}
	}
	goroutines(t, before)
}

// One seed gives one result also where threads share the work of an update and the host steps.
func TestNumThreadsChangesNothingWhereTheHostSteps(t *testing.T) {
	var want Hashes
	for _, n := range []int{1, 2, 3, 0} {
		h := newHost(t, cartpole(func(c *Config) { c.NumThreads, c.BatchSize, c.NetArch = n, 33, []int{64, 48} }), vec.NextStep, traintest.MakeWalk(1))
		h.Begin(t, 2000)
		for h.d.Stats().Steps < 2000 {
			h.Round(t)
		}
		got := hashesOf(t, h.d)
		if n == 1 {
			want = got
		} else if got != want {
			t.Errorf("num_threads %d: %+v, want %+v", n, got, want)
		}
	}
}

func TestNumThreadsSetsCoresAndPool(t *testing.T) {
	for n, want := range map[int]int{0: runtime.GOMAXPROCS(0), 1: 1, 5: 5} {
		d := newDQN(t, cartpole(func(c *Config) { c.NumThreads = n }))
		if got := fmt.Sprint(d.m.Updates.Cores.Cores(), d.m.Updates.Pool.Threads()); got != fmt.Sprint(want, want) {
			t.Errorf("num_threads %d: %s cores and trainer's threads, want %d each", n, got, want)
		}
	}
}
