package threads

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// Two started loops never use more cores than the budget has. Each index runs once, errors are
// those of Do, and no core is lost.
func TestStartedLoops(t *testing.T) {
	failure := errors.New("failed")
	for _, cores := range []int{1, 2, 3, 5} {
		b := newBudget(t, cores)
		b.Acquire()
		var pools [2]*Pool
		for k := range pools {
			p, err := NewPool(1+k, b)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			pools[k] = p
		}
		var at, most, calls atomic.Int64
		f := func(_, i int) error {
			n := at.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			calls.Add(1)
			time.Sleep(20 * time.Microsecond)
			at.Add(-1)
			if i == 5 {
				return fmt.Errorf("index %d: %w", i, failure)
			}
			return nil
		}
		for k := range 100 {
			n := k % 8
			pools[0].Start(n, f)
			pools[1].Start(n, f)
			for _, p := range pools {
				if err := p.Wait(); errors.Is(err, failure) != (n > 5) {
					t.Fatalf("%d cores, %d indices: %v", cores, n, err)
				}
			}
			if free := b.free.Load(); free != int64(cores-1) {
				t.Fatalf("%d of %d cores are free", free, cores)
			}
			if err := pools[0].Do(1, func(_, _ int) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if want := int64(2 * (12*(0+1+2+3+4+5+6+7) + 0 + 1 + 2 + 3)); calls.Load() != want {
			t.Errorf("%d cores: %d calls, want %d", cores, calls.Load(), want)
		}
		if most.Load() > int64(cores) {
			t.Errorf("%d cores: %d at a time", cores, most.Load())
		}
		if pools[0].Busy() == 0 {
			t.Error("a loop that was started took no time")
		}
		b.Release(1)
	}
}

// Close waits for a started loop.
func TestCloseAfterStart(t *testing.T) {
	for range 50 {
		b := newBudget(t, 2)
		p, err := NewPool(2, b)
		if err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int64
		p.Start(4, func(_, _ int) error {
			time.Sleep(50 * time.Microsecond)
			calls.Add(1)
			return nil
		})
		p.Close()
		p.Close()
		if calls.Load() != 4 || b.free.Load() != 2 {
			t.Errorf("%d calls, %d cores free", calls.Load(), b.free.Load())
		}
	}
}

// In a Pool of NewWaiting, Start returns when every thread has begun a call, for any number of
// indices.
func TestStartOfWaitingPool(t *testing.T) {
	b := newBudget(t, 2)
	b.Acquire()
	defer b.Release(1)
	for _, threads := range []int{2, 8} {
		p := newWaiting(t, threads, b)
		for _, n := range []int{0, 1, threads, 3 * threads} {
			for range 50 {
				end := make(chan struct{})
				p.Start(n, func(_, _ int) error { <-end; return nil })
				begun := int(p.next.Load())
				close(end)
				if err := p.Wait(); err != nil {
					t.Fatal(err)
				}
				if begun != min(n, threads) {
					t.Fatalf("%d threads, %d indices: %d begun when Start returned", threads, n, begun)
				}
			}
		}
	}
}
