package actor_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

const nap = 20 * time.Millisecond

// inside counts the goroutines inside a section, and their maximum.
type inside struct {
	now, most atomic.Int64
}

func (i *inside) enter() {
	n := i.now.Add(1)
	for most := i.most.Load(); n > most && !i.most.CompareAndSwap(most, n); most = i.most.Load() {
	}
}

func (i *inside) leave() { i.now.Add(-1) }

// sleepers makes a trial of w environments on one core whose steps sleep for a nap.
func sleepers(t *testing.T, w int) (*trial, *inside) {
	t.Helper()
	x, steps := makeTrial(t, w, 1, kind{waits: true}), &inside{}
	for _, walk := range x.walks {
		walk.BeforeStep = func() error {
			steps.enter()
			defer steps.leave()
			time.Sleep(nap)
			return nil
		}
	}
	check(t, x.Reset())
	return x, steps
}

// With one core, the steps of a round wait at the same time, joint and without lockstep, and
// another goroutine can use the core meanwhile.
func TestStepsWaitAtTheSameTime(t *testing.T) {
	const w, rounds = 8, 6
	for _, jointly := range []bool{true, false} {
		x, steps := sleepers(t, w)
		computed, enough := 0, make(chan struct{})
		stop := make(chan struct{})
		go func() { // the trainer: updates of half a nap
			defer close(enough)
			for {
				select {
				case <-stop:
					return
				default:
				}
				x.config.Cores.Acquire()
				time.Sleep(nap / 2)
				computed++
				x.config.Cores.Release(1)
			}
		}()
		if jointly {
			for k := range rounds {
				if ran := must(x.Round(int64(k*w), half(), false))(t); ran.Taken != w {
					t.Errorf("%+v in a round of %d", ran, w)
				}
			}
		} else if ran := must(x.Run(0, 0, w*rounds, half(), nil, func(int64) {}))(t); ran.Taken != w*rounds {
			t.Errorf("%+v", ran)
		}
		close(stop)
		x.config.Cores.Release(1) // the caller's core
		<-enough
		if most := steps.most.Load(); most <= w/2 {
			t.Errorf("jointly %v: at most %d of %d steps waited at the same time", jointly, most, w)
		}
		if computed < rounds {
			t.Errorf("jointly %v: %d times half a nap was computed in %d rounds", jointly, computed, rounds)
		}
		coresLeft(t, x.config.Cores, 1)
	}
}

// coresLeft fails the test unless exactly `want` cores are free.
func coresLeft(t *testing.T, b *threads.Budget, want int) {
	t.Helper()
	got := b.TryAcquire(threads.Max)
	if got != want {
		t.Errorf("%d cores are free, want %d", got, want)
	}
	b.Release(got)
}

// Failures and panics in waiting steps lose no core and take none, and the other rows are recorded.
func TestFailuresDuringWaitsLoseNoCore(t *testing.T) {
	for _, jointly := range []bool{true, false} {
		for _, how := range []string{"error", "panic"} {
			x := makeTrial(t, 5, 2, kind{waits: true})
			calls := 0
			x.walks[3].BeforeStep = func() error {
				switch calls++; {
				case calls%4 != 0:
					return nil
				case how == "panic":
					panic("division by zero")
				}
				return traintest.ErrSimulator
			}
			check(t, x.Reset())
			failed := 0
			for k := range 24 {
				var err error
				if jointly {
					_, err = x.Round(int64(5*k), half(), false)
				} else {
					_, err = x.Run(int64(5*k), 0, 5, half(), nil, func(int64) {})
				}
				var e *env.Error
				if err != nil && (!errors.As(err, &e) || e.Index != 3) {
					t.Fatal(err)
				}
				if err != nil {
					failed++
				}
				check(t, x.Repair())
				coresLeft(t, x.config.Cores, 1)
			}
			if failed != 6 || x.journal.steps() != 24*5-6 {
				t.Errorf("jointly %v, %s: %d failures, %d steps", jointly, how, failed, x.journal.steps())
			}
		}
	}
}
