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

// All indices wait at the same time, whatever the budget, and the caller's core is there
// for others until the last one is done.
func TestWaitingLendsTheCore(t *testing.T) {
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
				soon(t, "all indices' coming", func() bool { return arrived.Load() == int64(threads) })
				if left := b.left.Load(); left != int64(cores) {
					return fmt.Errorf("%d cores are free, want all %d", left, cores)
				}
				return nil
			}); err != nil {
				t.Errorf("%d cores, %d threads: %v", cores, threads, err)
			}
			if left := b.left.Load(); left != int64(cores-1) {
				t.Errorf("%d cores, %d threads: %d left after Do, want %d", cores, threads, left, cores-1)
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

// Do comes back once its caller has a core again, and not before.
func TestWaitingAcquiresAgain(t *testing.T) {
	b := newBudget(t, 1)
	p := newWaiting(t, 3, b)
	b.Acquire()
	taken, back := make(chan struct{}), make(chan error)
	go func() {
		back <- p.Do(3, func(_, i int) error {
			<-taken
			return nil
		})
	}()
	b.Acquire() // that of the Do
	close(taken)
	select {
	case <-back:
		t.Error("Do came back without a core")
	case <-time.After(20 * time.Millisecond):
	}
	b.Release(1)
	if err := <-back; err != nil {
		t.Error(err)
	}
	b.Release(1)
	if left := b.left.Load(); left != 1 {
		t.Errorf("%d cores left in the end", left)
	}
}

// Threads that acquire a core for what they compute, errors, panics and misuse: never one
// core too many is used, and none is lost.
func TestWaitingHammer(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 50
	}
	for _, cores := range []int{1, 2} {
		b := newBudget(t, cores)
		p, beside := newWaiting(t, 6, b), newShared(t, 3, b)
		var c crowd
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
				_ = beside.Do(6, func(_, _ int) error {
					c.in()
					defer c.out()
					return nil
				})
				b.Release(1)
			}
		}()
		for round := range rounds {
			b.Acquire()
			c.in()
			c.out()
			err := p.Do(9, func(_, i int) error {
				if (round+i)%3 == 0 {
					time.Sleep(50 * time.Microsecond)
				}
				b.Acquire()
				defer b.Release(1)
				c.in()
				defer c.out()
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
			t.Errorf("a nested Do: %s", got) // its panic is the index's error
		}
		p.Close()
		if got := panicOf(func() { _ = p.Do(1, func(_, _ int) error { return nil }) }); got != "threads: Do on a pool that is closed" {
			t.Errorf("Do after Close: panic %q", got)
		}
		b.Release(1)
		if most := c.most.Load(); most > int64(cores) {
			t.Errorf("%d cores: %d computed at once", cores, most)
		}
		if left := b.left.Load(); left != int64(cores) {
			t.Errorf("%d cores: %d left in the end", cores, left)
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
