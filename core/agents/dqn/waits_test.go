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

// waiting makes a run with one core of four walks whose steps wait, for as long as nap says.
func waiting(t *testing.T, nap *atomic.Int64, edits ...func(*Config)) *trial {
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
			time.Sleep(time.Duration(nap.Load()))
			return nil
		}
		return w, nil
	}))(t)
	check(t, d.Begin(2000, 0))
	check(t, d.Run(200, 0)) // the warm-up, and some updates
	return d
}

// While steps wait, the trainer thread has the only core: where both switches are on, the
// updates of a round take place in its wait. One after the other they would take a nap each.
func TestTrainerComputesWhileStepsWait(t *testing.T) {
	const nap, rounds = 20 * time.Millisecond, 20
	for _, synchronized := range []bool{true, false} {
		var length atomic.Int64
		d := waiting(t, &length, func(c *Config) { c.Synchronized, c.Window, c.TargetUpdateInterval = synchronized, 40, 40 })
		slow(d, nap/2)
		length.Store(int64(nap))
		before, began := d.Stats(), time.Now()
		check(t, d.Run(4*rounds, 0))
		took, after := time.Since(began), d.Stats()
		if n := after.Updates - before.Updates; n < rounds/2 {
			t.Errorf("synchronized %v: %d updates in %d rounds", synchronized, n, rounds)
		}
		// In turns with the updates it would be a nap and a half a round; without a thread each, four.
		if most := rounds * nap * 14 / 10; after.Steps-before.Steps != 4*rounds || took > most {
			t.Errorf("synchronized %v: %d steps in %v, want %d in at most %v", synchronized, after.Steps-before.Steps, took, 4*rounds, most)
		}
		check(t, d.Close())
		allCores(t, d)
	}
}

// Stop and Close in the middle of a wait come back after it, in every mode, and no core and
// no goroutine stays behind.
func TestStopAndCloseWhileStepsWait(t *testing.T) {
	const nap = 50 * time.Millisecond
	before := runtime.NumGoroutine()
	for name, edit := range fourModes {
		var length atomic.Int64
		d := waiting(t, &length, edit)
		length.Store(int64(nap))
		for _, end := range []func() error{func() error { d.Stop(); return nil }, d.Close} {
			came := make(chan error, 1)
			go func() { came <- d.Run(0, 0) }()
			time.Sleep(nap / 2)
			at := time.Now()
			check(t, end())
			if err := <-came; err != nil && !errors.Is(err, fault.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
			// The step in progress, and where rows run by themselves the round that has begun.
			if took := time.Since(at); took > 20*nap {
				t.Errorf("%s: it took %v", name, took)
			}
		}
		allCores(t, d)
	}
	goroutines(t, before)
}

// Whether steps wait is part of no state: a run goes on with the same bits as the other kind.
func TestWaitsIsPartOfNoState(t *testing.T) {
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
