package threads

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newBudget(t testing.TB, cores int) *Budget {
	t.Helper()
	b, err := NewBudget(cores)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newShared(t testing.TB, threads int, b *Budget) *Pool {
	t.Helper()
	p, err := NewPool(threads, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// soon fails the test if ok does not become true within seconds.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: did not happen", what)
		}
	}
}

func TestBudgetSize(t *testing.T) {
	for _, cores := range []int{-1, 0, Max + 1} {
		if _, err := NewBudget(cores); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cores: %d, must be 1 to 1024", cores)) {
			t.Errorf("NewBudget(%d): %v", cores, err)
		}
	}
	if b := newBudget(t, 3); b.Cores() != 3 {
		t.Errorf("%d cores, want 3", b.Cores())
	}
}

// crowd counts those who compute at the same time.
type crowd struct{ now, most atomic.Int64 }

func (c *crowd) in() {
	now := c.now.Add(1)
	for {
		most := c.most.Load()
		if now <= most || c.most.CompareAndSwap(most, now) {
			return
		}
	}
}

func (c *crowd) out() { c.now.Add(-1) }

// Several goroutines, each with a pool of more threads than there are cores:
// never one core more is used, and all are there in the end.
func TestBudgetIsKept(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for _, cores := range []int{1, 2, 3, 5} {
		b := newBudget(t, cores)
		var c crowd
		var callers sync.WaitGroup
		for k := range 4 {
			p := newShared(t, 4, b)
			callers.Add(1)
			go func() {
				defer callers.Done()
				for round := range rounds {
					b.Acquire()
					c.in()
					c.out()
					if err := p.Do(9, func(_, i int) error {
						c.in()
						defer c.out()
						if (round+i+k)%8 == 0 {
							time.Sleep(20 * time.Microsecond)
						}
						if i == 7 {
							panic("boom")
						}
						return nil
					}); err == nil {
						t.Error("no error")
					}
					b.Release(1)
				}
			}()
		}
		callers.Wait()
		if most := c.most.Load(); most > int64(cores) || cores > 1 && most < 2 {
			t.Errorf("%d cores: %d computed at once", cores, most)
		}
		if left := b.left.Load(); left != int64(cores) {
			t.Errorf("%d cores: %d left in the end", cores, left)
		}
	}
}

// A Do gets as many helpers as there are cores free, and releases each one's core when
// it has nothing more to do.
func TestDoAcquiresWhatIsFree(t *testing.T) {
	for cores := 1; cores <= 6; cores++ {
		b := newBudget(t, cores)
		p := newShared(t, 4, b)
		for n := 1; n <= 5; n++ {
			want := int64(min(cores, n, p.Threads()))
			b.Acquire()
			var c crowd
			var ended atomic.Int64
			if err := p.Do(n, func(_, i int) error {
				c.in()
				soon(t, "the others' coming", func() bool { return c.most.Load() >= want })
				c.out()
				ended.Add(1)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if most := c.most.Load(); most != want {
				t.Errorf("%d cores, %d indices: %d threads, want %d", cores, n, most, want)
			}
			if left := b.left.Load(); left != int64(cores-1) {
				t.Errorf("%d cores, %d indices: %d left, want %d", cores, n, left, cores-1)
			}
			b.Release(1)
		}
	}

	b := newBudget(t, 3)
	p := newShared(t, 3, b)
	b.Acquire()
	if err := p.Do(3, func(_, i int) error {
		if i == 0 {
			soon(t, "the helpers' leaving", func() bool { return b.left.Load() == 2 })
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A loop that began with no core free gets those that become free, one helper for each, as
// long as it has indices left; and none of them is lost.
func TestLateHelpers(t *testing.T) {
	for round := range 50 {
		b := newBudget(t, 3)
		p, other := newShared(t, 3, b), newShared(t, 2, b)
		for range 3 {
			b.Acquire() // the caller's, and two of others
		}
		var c crowd
		var started atomic.Int64
		loop := make(chan error)
		go func() {
			loop <- p.Do(5, func(_, i int) error {
				c.in()
				defer c.out()
				if started.Add(1) <= 3 {
					soon(t, "the helpers' coming", func() bool { return c.most.Load() == 3 })
				}
				return nil
			})
		}()
		soon(t, "the caller's beginning", func() bool { return started.Load() == 1 })
		if most := c.most.Load(); most != 1 {
			t.Fatalf("%d threads with one core", most)
		}
		if round%2 == 0 {
			b.Release(2)
		} else {
			b.Release(1)
			soon(t, "the first helper's coming", func() bool { return c.most.Load() == 2 })
			b.Release(1)
		}
		if err := <-loop; err != nil {
			t.Fatal(err)
		}
		// Nobody is let into a loop that is over.
		if err := other.Do(2, func(_, _ int) error { return nil }); err != nil {
			t.Fatal(err)
		}
		b.Release(1)
		soon(t, "all cores' return", func() bool { return b.left.Load() == 3 })
		p.Close()
		if pools := *b.pools.Load(); len(pools) != 1 || pools[0] != other {
			t.Errorf("%d pools are listed after a Close", len(pools))
		}
	}
}

// A goroutine that waits gets the first core that becomes free, a helper's or
// another goroutine's; those behind it wait their turn; and meanwhile no Do
// takes a helper.
func TestAcquireGoesFirst(t *testing.T) {
	b := newBudget(t, 2)
	p := newShared(t, 2, b)
	b.Acquire()
	var order []int
	var waiting sync.WaitGroup
	queue := func(i int) {
		before := b.left.Load()
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			b.Acquire()
			order = append(order, i) // the next one is let in after this
			b.Release(1)
		}()
		soon(t, "waiting in Acquire", func() bool { return b.left.Load() == before-1 })
		time.Sleep(2 * time.Millisecond) // from the count to the slot in the queue
	}
	var helped atomic.Bool
	release := make(chan struct{})
	if err := p.Do(2, func(worker, i int) error {
		if worker == 0 {
			soon(t, "a helper's coming", helped.Load)
			queue(0) // no core is free
			queue(1)
			queue(2)
			close(release)
			waiting.Wait() // they have the helper's core, one after the other
			return nil
		}
		helped.Store(true)
		<-release
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(order) != "[0 1 2]" {
		t.Errorf("order of Acquire: %v", order)
	}

	// With one core less than asked for, and somebody waiting, there is no helper.
	b.Acquire()
	queue(3)
	if got := b.TryAcquire(1); got != 0 {
		t.Errorf("TryAcquire while somebody waits: %d cores", got)
	}
	b.Release(1)
	waiting.Wait()
	if got := b.TryAcquire(5); got != 1 {
		t.Errorf("TryAcquire: %d cores, want the one that is left", got)
	}
	b.Release(1)
}

func TestSharedPoolAllocates(t *testing.T) {
	b := newBudget(t, 2)
	p := newShared(t, 2, b)
	f := func(_, _ int) error { return nil }
	if got := testing.AllocsPerRun(2000, func() { b.Acquire(); _ = p.Do(8, f); b.Release(1) }); got != 0 {
		t.Errorf("%v allocations a call, want 0", got)
	}
}

// Close comes beside Do and Acquire of others.
func TestCloseOfOnePool(t *testing.T) {
	b := newBudget(t, 1)
	for range 100 {
		p := newShared(t, 3, b)
		var over sync.WaitGroup
		over.Add(1)
		go func() {
			defer over.Done()
			for closed := false; !closed; {
				b.Acquire()
				closed = panicOf(func() {
					if err := p.Do(5, func(_, _ int) error { return nil }); err != nil {
						t.Error(err)
					}
				}) != "<nil>"
				b.Release(1)
			}
		}()
		p.Close()
		over.Wait()
	}
	if left := b.left.Load(); left != 1 {
		t.Errorf("%d cores left, want 1", left)
	}
}

func BenchmarkAcquire(b *testing.B) {
	budget := newBudget(b, 2)
	for b.Loop() {
		budget.Acquire()
		budget.Release(1)
	}
}
