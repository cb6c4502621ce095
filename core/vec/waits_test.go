package vec

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/threads"
)

const nap = 20 * time.Millisecond

// concurrency counts the environments that wait at the same time, and their largest number.
type concurrency struct {
	now, max atomic.Int64
}

// sleepers makes a Vec of counters with Spec.Waits, on a pool of one thread with a budget of one
// core. The test holds that core. A step and a reset sleep for each.
func sleepers(t *testing.T, mode Autoreset, each *time.Duration, lengths ...int) (*Vec, *Rows, []*counter, *threads.Budget, *concurrency) {
	t.Helper()
	budget, err := threads.NewBudget(1)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := threads.NewPool(1, budget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	budget.Acquire()
	cs, waiting := make([]*counter, len(lengths)), &concurrency{}
	wait := func(*counter) error {
		n := waiting.now.Add(1)
		defer waiting.now.Add(-1)
		for most := waiting.max.Load(); n > most && !waiting.max.CompareAndSwap(most, n); most = waiting.max.Load() {
		}
		time.Sleep(*each)
		return nil
	}
	v, err := New(func(i int) (env.Env, error) {
		cs[i] = newCounter(lengths[i], env.Truncated)
		cs[i].spec.Waits, cs[i].onStep, cs[i].onReset = true, wait, wait
		return cs[i], nil
	}, len(lengths), pool, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v, NewRows(v.Spec().Obs, len(lengths)), cs, budget, waiting
}

// With a single core all environments sleep at the same time, in steps and in resets. Another
// goroutine acquires the core meanwhile.
func TestBlockingStepsRunConcurrently(t *testing.T) {
	each := nap
	v, rows, _, budget, waiting := sleepers(t, SameStep, &each, 3, 4, 5, 6, 7, 8, 9, 10)
	if v.Pool().Threads() != 8 || v.Pool().Budget() != budget {
		t.Errorf("a pool of %d threads", v.Pool().Threads())
	}
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	computed, ended := new(atomic.Int64), make(chan struct{})
	go func() {
		for range 3 {
			budget.Acquire() // while the steps below wait
			time.Sleep(nap / 4)
			computed.Add(1)
			budget.Release(1)
		}
		close(ended)
	}()
	const rounds = 10
	for range rounds {
		if err := v.Step(Actions{Discrete: make([]int32, 8)}, rows); err != nil {
			t.Fatal(err)
		}
	}
	if computed.Load() == 0 {
		t.Errorf("no other goroutine had the core in %d rounds", rounds)
	}
	budget.Release(1) // the test's
	<-ended
	if most := waiting.max.Load(); most <= 4 {
		t.Errorf("at most %d of 8 environments waited at the same time", most)
	}
}

// With Spec.Waits the rows and the failures are the same as without it, and no core is lost.
func TestBlockingStepsEqualPlainSteps(t *testing.T) {
	each := time.Duration(0)
	lengths := []int{3, 4, 5, 2, 7}
	for _, mode := range []Autoreset{NextStep, SameStep} {
		v, rows, cs, budget, _ := sleepers(t, mode, &each, lengths...)
		plain, want, pcs := counters(t, mode, 1, lengths...)
		calls := make([]int, 2*len(lengths))
		for i := range lengths {
			for k, c := range []*counter{cs[i], pcs[i]} {
				at := &calls[2*i+k]
				c.onStep = func(c *counter) error {
					switch *at++; {
					case *at%13 == 9+i:
						return errors.New("lost the line")
					case *at%17 == 3+i:
						panic("out of bounds")
					}
					return nil
				}
			}
		}
		reset := make([]bool, len(lengths))
		for i := range reset {
			reset[i] = true
		}
		for k := range 200 {
			var err, werr error
			if slices.Contains(reset, true) {
				err, werr = v.Reset(rows, reset), plain.Reset(want, reset)
				clear(reset)
			} else {
				a := Actions{Discrete: make([]int32, len(lengths))}
				err, werr = v.Step(a, rows), plain.Step(a, want)
			}
			if fmt.Sprint(err) != fmt.Sprint(werr) {
				t.Fatalf("call %d: %v, want %v", k, err, werr)
			}
			var f *Failure
			if errors.As(err, &f) {
				for _, row := range f.Rows {
					reset[row.Err.Index] = true
				}
			}
			for i := range lengths {
				if !reset[i] && (show(rows.Obs, i) != show(want.Obs, i) || rows.Rewards[i] != want.Rewards[i] || rows.Ends[i] != want.Ends[i] || rows.Starts[i] != want.Starts[i]) {
					t.Fatalf("call %d, row %d: %s %v %v, want %s %v %v", k, i, show(rows.Obs, i), rows.Rewards[i], rows.Ends[i], show(want.Obs, i), want.Rewards[i], want.Ends[i])
				}
			}
		}
		if got := budget.TryAcquire(2); got != 0 {
			t.Errorf("%d cores are free, want 0: the test holds the only one", got)
		}
		budget.Release(1)
		if got := budget.TryAcquire(2); got != 1 {
			t.Errorf("%d cores in the end, want 1", got)
		}
	}
}

// An Async has a thread for each environment, too, and Close waits for steps in progress.
func TestAsyncBlockingStepsRunConcurrently(t *testing.T) {
	each := time.Duration(0)
	v, _, _, _, waiting := sleepers(t, NextStep, &each, 50, 50, 50, 50, 50, 50, 50, 50)
	a, err := v.Async(8, 1, -1)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{0, 1, 2, 3, 4, 5, 6, 7}
	rows := NewRows(v.Spec().Obs, 8)
	rows.IDs = make([]int32, 8)
	const rounds = 8
	for k := range rounds + 1 {
		if err := a.Offer(rows); err != nil {
			t.Fatal(err)
		}
		if k == 0 {
			err = a.SendReset(ids, nil)
		} else {
			err = a.Send(ids, Actions{Discrete: make([]int32, 8)})
		}
		if err == nil {
			_, err = a.Recv(-1)
		}
		if err != nil {
			t.Fatal(err)
		}
		each = nap // no environment reads it: none is under way
	}
	if most := waiting.max.Load(); most <= 4 {
		t.Errorf("at most %d of 8 environments waited at the same time", most)
	}
	if err := errors.Join(a.Offer(rows), a.Send(ids, Actions{Discrete: make([]int32, 8)})); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// The option "waits" replaces Spec.Waits.
func TestWaitsOption(t *testing.T) {
	pool := newPool(t, 2)
	for value, want := range map[string]int{"true": 5, "false": 2, "": 2} {
		options := env.Options{}
		if value != "" {
			options["waits"] = []byte(value)
		}
		v, err := Make("Catch-v0", options, 5, 1, pool, SameStep, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Pool().Threads(); got != want || v.Spec().Waits != (want == 5) {
			t.Errorf("waits %q: %d threads, want %d", value, got, want)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Make("Catch-v0", env.Options{"waits": []byte("3")}, 5, 1, pool, SameStep, nil); err == nil || err.Error() != "waits: 3, must be true or false" {
		t.Errorf("%v", err)
	}
}
