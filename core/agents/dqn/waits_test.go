package dqn

import (
	"errors"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// waiting makes a run with one core and four walks whose steps wait for nap nanoseconds. inStep
// counts the walks inside a step.
func waiting(t *testing.T, nap, inStep *atomic.Int64, edits ...func(*Config)) *trial {
	t.Helper()
	c := cartpole(append([]func(*Config){func(c *Config) {
		c.Env, c.NumThreads, c.NumEnvs, c.TrainFreq = "", 1, 4, 4
	}}, edits...)...)
	d := must(newTrial(c, func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(c.Seed)(i)
		if err != nil {
			return nil, err
		}
		w := e.(*traintest.Walk)
		w.Waits = true
		w.BeforeStep = func() error {
			inStep.Add(1)
			defer inStep.Add(-1)
			time.Sleep(time.Duration(nap.Load()))
			return nil
		}
		return w, nil
	}))(t)
	check(t, d.Begin(2000, 0))
	check(t, d.Run(200, 0)) // the warm-up, and some updates
	return d
}

// While steps wait, the trainer thread has the only core: most updates begin while several
// environments are inside a step.
func TestUpdatesRunWhileStepsWait(t *testing.T) {
	const nap, rounds = 20 * time.Millisecond, 20
	for _, synchronized := range []bool{true, false} {
		var length, inStep atomic.Int64
		d := waiting(t, &length, &inStep, func(c *Config) { c.Synchronized, c.Window, c.TargetUpdateInterval = synchronized, 40, 40 })
		updates := slow(d, nap/2)
		var together atomic.Int64
		updates.before = func() {
			if inStep.Load() > 1 {
				together.Add(1)
			}
		}
		length.Store(int64(nap))
		before := d.Stats()
		check(t, d.Run(4*rounds, 0))
		after := d.Stats()
		if n := after.Updates - before.Updates; n < rounds/2 || together.Load() < n/2 {
			t.Errorf("synchronized %v: %d updates in %d rounds, %d of them while steps waited", synchronized, n, rounds, together.Load())
		}
		if after.Steps-before.Steps != 4*rounds {
			t.Errorf("synchronized %v: %d steps, want %d", synchronized, after.Steps-before.Steps, 4*rounds)
		}
		check(t, d.Close())
		allCores(t, d)
	}
}

// Stop and Close during a wait return after it, in every mode, and no core and no goroutine is
// lost.
func TestStopAndCloseWhileStepsWait(t *testing.T) {
	const nap = 50 * time.Millisecond
	before := runtime.NumGoroutine()
	for name, edit := range fourModes {
		var length, inStep atomic.Int64
		d := waiting(t, &length, &inStep, edit)
		length.Store(int64(nap))
		for _, end := range []func() error{func() error { d.Stop(); return nil }, d.Close} {
			came := make(chan error, 1)
			go func() { came <- d.Run(0, 0) }()
			time.Sleep(nap / 2)
			check(t, end())
			at := d.Stats().Steps
			if err := <-came; err != nil && !errors.Is(err, fault.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
			// The round in progress, and the next one.
			if more := d.Stats().Steps - at; more > 8 {
				t.Errorf("%s: %d more steps", name, more)
			}
		}
		allCores(t, d)
	}
	goroutines(t, before)
}

// Spec.Waits is not part of a checkpoint. A run whose steps wait and a run whose steps do not can
// continue each other with the same bits.
func TestWaitsIsNotSaved(t *testing.T) {
	options := []string{"", `{"waits": true}`, `{ "waits":false }`}
	path := filepath.Join(t.TempDir(), "a")
	var want Hashes
	for k, text := range options {
		d := newDQN(t, cartpole(func(c *Config) { c.EnvOptions = text }))
		if k == 0 {
			check(t, d.Begin(1000, 0))
			check(t, d.Run(500, 0))
			check(t, d.Save(path, true))
		} else {
			check(t, d.Load(path))
		}
		check(t, d.Run(0, 0))
		if got := hashesOf(t, d); k == 0 {
			want = got
		} else if got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	d := newDQN(t, cartpole(func(c *Config) { c.EnvOptions = `{"decorrelation_steps": 3, "waits": true}` }))
	refuses(t, d.Load(path), "env_options: the checkpoint has")
}
