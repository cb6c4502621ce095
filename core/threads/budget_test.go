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

// eventually fails the test if ok does not become true within ten seconds.
func eventually(t testing.TB, what string, ok func() bool) {
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

// concurrency counts the threads that compute at the same time, and their largest number.
type concurrency struct{ now, max atomic.Int64 }

func (c *concurrency) begin() {
	now := c.now.Add(1)
	for {
		most := c.max.Load()
		if now <= most || c.max.CompareAndSwap(most, now) {
			return
		}
	}
}

func (c *concurrency) end() { c.now.Add(-1) }

// Several goroutines use pools of more threads than there are cores. They never use more cores than
// the budget has, and all cores are free in the end.
func TestBudgetIsKept(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for _, cores := range []int{1, 2, 3, 5} {
		b := newBudget(t, cores)
		var c concurrency
		var callers sync.WaitGroup
		for k := range 4 {
			p := newShared(t, 4, b)
			callers.Add(1)
			go func() {
				defer callers.Done()
				for round := range rounds {
					b.Acquire()
					c.begin()
					c.end()
					if err := p.Do(9, func(_, i int) error {
						c.begin()
						defer c.end()
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
		if most := c.max.Load(); most > int64(cores) || cores > 1 && most < 2 {
			t.Errorf("%d cores: %d computed at once", cores, most)
		}
		if free := b.free.Load(); free != int64(cores) {
			t.Errorf("%d cores: %d free in the end", cores, free)
		}
	}
}

// Do uses a helper for each free core and releases its core when the helper has no more work.
func TestDoUsesFreeCores(t *testing.T) {
	for cores := 1; cores <= 6; cores++ {
		b := newBudget(t, cores)
		p := newShared(t, 4, b)
		for n := 1; n <= 5; n++ {
			want := int64(min(cores, n, p.Threads()))
			b.Acquire()
			var c concurrency
			var ended atomic.Int64
			if err := p.Do(n, func(_, i int) error {
				c.begin()
				eventually(t, "start of the helpers", func() bool { return c.max.Load() >= want })
				c.end()
				ended.Add(1)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if most := c.max.Load(); most != want {
				t.Errorf("%d cores, %d indices: %d threads, want %d", cores, n, most, want)
			}
			if free := b.free.Load(); free != int64(cores-1) {
				t.Errorf("%d cores, %d indices: %d free, want %d", cores, n, free, cores-1)
			}
			b.Release(1)
		}
	}

	b := newBudget(t, 3)
	p := newShared(t, 3, b)
	b.Acquire()
	if err := p.Do(3, func(_, i int) error {
		if i == 0 {
			eventually(t, "release of the helpers' cores", func() bool { return b.free.Load() == 2 })
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A loop that began without a free core gets a helper for each core that becomes free while indices
// are left. No core is lost.
func TestLateHelpers(t *testing.T) {
	for round := range 50 {
		b := newBudget(t, 3)
		p, other := newShared(t, 3, b), newShared(t, 2, b)
		for range 3 {
			b.Acquire() // one for the caller, two for other goroutines
		}
		var c concurrency
		var started atomic.Int64
		loop := make(chan error)
		go func() {
			loop <- p.Do(5, func(_, i int) error {
				c.begin()
				defer c.end()
				if started.Add(1) <= 3 {
					eventually(t, "start of the helpers", func() bool { return c.max.Load() == 3 })
				}
				return nil
			})
		}()
		eventually(t, "start of the caller", func() bool { return started.Load() == 1 })
		if most := c.max.Load(); most != 1 {
			t.Fatalf("%d threads with one core", most)
		}
		if round%2 == 0 {
			b.Release(2)
		} else {
			b.Release(1)
			eventually(t, "start of the first helper", func() bool { return c.max.Load() == 2 })
			b.Release(1)
		}
		if err := <-loop; err != nil {
			t.Fatal(err)
		}
		// A loop that has ended gets no helper.
		if err := other.Do(2, func(_, _ int) error { return nil }); err != nil {
			t.Fatal(err)
		}
		b.Release(1)
		eventually(t, "release of all cores", func() bool { return b.free.Load() == 3 })
		p.Close()
		if pools := *b.pools.Load(); len(pools) != 1 || pools[0] != other {
			t.Errorf("%d pools are listed after a Close", len(pools))
		}
	}
}

// Waiting goroutines get the cores that become free, in the order in which they called Acquire.
// Meanwhile no Do gets a helper.
func TestAcquireTakesPrecedence(t *testing.T) {
	b := newBudget(t, 2)
	p := newShared(t, 2, b)
	b.Acquire()
	var order []int
	var waiting sync.WaitGroup
	queue := func(i int) {
		before := b.free.Load()
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			b.Acquire()
			order = append(order, i) // Release below wakes the next goroutine
			b.Release(1)
		}()
		eventually(t, "waiting in Acquire", func() bool { return b.free.Load() == before-1 })
		time.Sleep(2 * time.Millisecond) // between the count and the channel in Acquire
	}
	var helped atomic.Bool
	release := make(chan struct{})
	if err := p.Do(2, func(worker, i int) error {
		if worker == 0 {
			eventually(t, "start of a helper", helped.Load)
			queue(0) // no core is free
			queue(1)
			queue(2)
			close(release)
			waiting.Wait() // the goroutines have the helper's core, one after the other
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

	// While a goroutine waits, TryAcquire gets no core.
	b.Acquire()
	queue(3)
	if got := b.TryAcquire(1); got != 0 {
		t.Errorf("TryAcquire while a goroutine waits: %d cores", got)
	}
	b.Release(1)
	waiting.Wait()
	if got := b.TryAcquire(5); got != 1 {
		t.Errorf("TryAcquire: %d cores, want the one that is free", got)
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

// Close may run concurrently with the Do and the Acquire of another goroutine.
func TestCloseDuringDo(t *testing.T) {
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
	if free := b.free.Load(); free != 1 {
		t.Errorf("%d cores free, want 1", free)
	}
}

func BenchmarkAcquire(b *testing.B) {
	budget := newBudget(b, 2)
	for b.Loop() {
		budget.Acquire()
		budget.Release(1)
	}
}
