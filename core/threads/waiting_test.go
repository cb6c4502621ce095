package threads

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

func newWaiting(t testing.TB, threads int, b *Budget) *Pool {
	t.Helper()
	p, err := NewWaiting(threads, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// All indices block at the same time, for any budget. The caller's core is free until the last
// index is done.
func TestWaitingReleasesTheCore(t *testing.T) {
	for _, cores := range []int{1, 2, 3} {
		b := newBudget(t, cores)
		for _, threads := range []int{1, 4, 8} {
			p := newWaiting(t, threads, b)
			if p.Budget() != b {
				t.Error("another budget")
			}
			b.Acquire()
			var arrived atomic.Int64
			if err := p.Do(threads, func(_, i int) error {
				arrived.Add(1)
				eventually(t, "start of all indices", func() bool { return arrived.Load() == int64(threads) })
				if free := b.free.Load(); free != int64(cores) {
					return fmt.Errorf("%d cores are free, want all %d", free, cores)
				}
				return nil
			}); err != nil {
				t.Errorf("%d cores, %d threads: %v", cores, threads, err)
			}
			if free := b.free.Load(); free != int64(cores-1) {
				t.Errorf("%d cores, %d threads: %d free after Do, want %d", cores, threads, free, cores-1)
			}
			b.Release(1)
		}
	}
	p := newWaiting(t, 2, nil)
	if err := p.Do(5, func(_, _ int) error { return nil }); err != nil || p.Budget() != nil {
		t.Errorf("without a budget: %v, %v", err, p.Budget())
	}
	if _, err := NewWaiting(0, nil); err == nil {
		t.Error("no threads were accepted")
	}
}

// Do of a Pool of NewWaiting returns when it has a core again, not before.
func TestWaitingAcquiresAgain(t *testing.T) {
	b := newBudget(t, 1)
	p := newWaiting(t, 3, b)
	b.Acquire()
	acquired, returned := make(chan struct{}), make(chan error)
	go func() {
		returned <- p.Do(3, func(_, i int) error {
			<-acquired
			return nil
		})
	}()
	b.Acquire() // the core that Do has released
	close(acquired)
	select {
	case <-returned:
		t.Error("Do returned without a core")
	case <-time.After(20 * time.Millisecond):
	}
	b.Release(1)
	if err := <-returned; err != nil {
		t.Error(err)
	}
	b.Release(1)
	if free := b.free.Load(); free != 1 {
		t.Errorf("%d cores free in the end", free)
	}
}

// Threads acquire a core to compute, and fail, panic and misuse the Pool. They never use more cores
// than the budget has, and no core is lost.
func TestWaitingHammer(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 50
	}
	for _, cores := range []int{1, 2} {
		b := newBudget(t, cores)
		p, other := newWaiting(t, 6, b), newShared(t, 3, b)
		var c concurrency
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() { // the trainer
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				b.Acquire()
				_ = other.Do(6, func(_, _ int) error {
					c.begin()
					defer c.end()
					return nil
				})
				b.Release(1)
			}
		}()
		for round := range rounds {
			b.Acquire()
			c.begin()
			c.end()
			err := p.Do(9, func(_, i int) error {
				if (round+i)%3 == 0 {
					time.Sleep(50 * time.Microsecond)
				}
				b.Acquire()
				defer b.Release(1)
				c.begin()
				defer c.end()
				switch {
				case i == 4 && round%2 == 0:
					panic("boom")
				case i == 6:
					return fmt.Errorf("index %d", i)
				}
				return nil
			})
			want := "index 6"
			if round%2 == 0 {
				want = "index 4: panic: boom"
			}
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			b.Release(1)
		}
		close(stop)
		<-done
		b.Acquire()
		if got := panicOf(func() { _ = p.Do(2, func(_, i int) error { return p.Do(1, nil) }) }); got != "<nil>" {
			t.Errorf("a nested Do: %s", got) // the panic of the inner Do is the error of its index
		}
		p.Close()
		if got := panicOf(func() { _ = p.Do(1, func(_, _ int) error { return nil }) }); got != "threads: Do on a pool that is closed" {
			t.Errorf("Do after Close: panic %q", got)
		}
		b.Release(1)
		if most := c.max.Load(); most > int64(cores) {
			t.Errorf("%d cores: %d computed at once", cores, most)
		}
		if free := b.free.Load(); free != int64(cores) {
			t.Errorf("%d cores: %d free in the end", cores, free)
		}
	}
}

func TestWaitingAllocates(t *testing.T) {
	b := newBudget(t, 1)
	p := newWaiting(t, 4, b)
	b.Acquire()
	f := func(_, _ int) error { return nil }
	if got := testing.AllocsPerRun(500, func() { _ = p.Do(8, f) }); got != 0 {
		t.Errorf("%v allocations a call, want 0", got)
	}
}

func BenchmarkWaiting(b *testing.B) {
	budget := newBudget(b, 2)
	p := newWaiting(b, 8, budget)
	f := func(_, _ int) error {
		budget.Acquire()
		budget.Release(1)
		time.Sleep(time.Millisecond)
		return nil
	}
	budget.Acquire()
	for b.Loop() {
		_ = p.Do(8, f)
	}
}
