package threads

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func newTestPool(t testing.TB, threads int) *Pool {
	t.Helper()
	p, err := NewPool(threads, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// panicOf returns the text of the panic of f, or "<nil>".
func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestPoolThreads(t *testing.T) {
	for _, threads := range []int{-1, 0, Max + 1} {
		if _, err := NewPool(threads, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("threads: %d, must be 1 to 1024", threads)) {
			t.Errorf("NewPool(%d): %v", threads, err)
		}
	}
	before := runtime.NumGoroutine()
	p := newTestPool(t, Max)
	p.Close()
	p.Close()
	// The helpers' goroutines end just after Close returns.
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines after Close, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
	if got := panicOf(func() { _ = p.Do(1, func(_, _ int) error { return nil }) }); got != "threads: Do on a pool that is closed" {
		t.Errorf("Do after Close: panic %q", got)
	}
}

// Every index runs exactly once, calls of one worker do not overlap, and Do returns after all
// calls. The tallies are plain integers, so that -race finds a violation.
func TestPoolHammer(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for _, threads := range []int{1, 2, 3, 4, 8, 64, 1024} {
		p := newTestPool(t, threads)
		perWorker := make([]int, threads)
		for round := range rounds {
			n := round * 7 % 2049
			if threads == 1024 {
				n = round % 41
			}
			tally := make([]int, n)
			before := 0
			for _, c := range perWorker {
				before += c
			}
			if err := p.Do(n, func(worker, i int) error {
				tally[i]++
				perWorker[worker]++
				if round%16 == 0 && i%256 == 0 {
					time.Sleep(50 * time.Microsecond) // so that other threads run and the caller sleeps
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			after := 0
			for _, c := range perWorker {
				after += c
			}
			if after-before != n {
				t.Fatalf("threads %d, n %d: %d calls", threads, n, after-before)
			}
			for i, c := range tally {
				if c != 1 {
					t.Fatalf("threads %d, n %d: index %d ran %d times", threads, n, i, c)
				}
			}
		}
	}
}

// All threads take part: each index waits until all have begun.
func TestPoolIsParallel(t *testing.T) {
	const threads = 4
	p := newTestPool(t, threads)
	for range 20 {
		var arrived atomic.Int32
		if err := p.Do(threads, func(_, _ int) error {
			arrived.Add(1)
			for deadline := time.Now().Add(10 * time.Second); arrived.Load() < threads; runtime.Gosched() {
				if time.Now().After(deadline) {
					return fmt.Errorf("only %d of %d threads take part", arrived.Load(), threads)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPoolErrors(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		p := newTestPool(t, threads)
		for _, n := range []int{40, 1000} {
			var ran atomic.Int32
			err := p.Do(n, func(_, i int) error {
				ran.Add(1)
				switch {
				case i == 17:
					panic(fmt.Sprintf("boom at %d", i))
				case i > 17 && i%3 == 0:
					return fmt.Errorf("index %d failed", i)
				case i == 21:
					var none []int
					_ = none[i]
				}
				return nil
			})
			if err == nil || err.Error() != "index 17: panic: boom at 17" {
				t.Errorf("threads %d: %v", threads, err)
			}
			if int(ran.Load()) != n {
				t.Errorf("threads %d: %d of %d indices ran", threads, ran.Load(), n)
			}
			if err := p.Do(n, func(_, _ int) error { return nil }); err != nil {
				t.Errorf("threads %d: the error stayed: %v", threads, err)
			}
		}
		nested := ""
		if err := p.Do(3, func(_, i int) error {
			if i == 1 {
				nested = panicOf(func() { _ = p.Do(1, func(_, _ int) error { return nil }) })
			}
			return nil
		}); err != nil || nested != "threads: Do during another Do or Close of the same pool" {
			t.Errorf("threads %d: nested Do: panic %q, error %v", threads, nested, err)
		}
	}
}

func TestPoolAllocates(t *testing.T) {
	p := newTestPool(t, 2)
	f := func(_, _ int) error { return nil }
	if got := testing.AllocsPerRun(2000, func() { _ = p.Do(8, f) }); got != 0 {
		t.Errorf("%v allocations a call, want 0", got)
	}
}

func BenchmarkDo(b *testing.B) {
	for _, threads := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			p := newTestPool(b, threads)
			f := func(_, _ int) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				_ = p.Do(8, f)
			}
		})
		b.Run(fmt.Sprintf("threads=%d/budget", threads), func(b *testing.B) {
			budget := newBudget(b, threads)
			p := newShared(b, threads, budget)
			f := func(_, _ int) error { return nil }
			budget.Acquire()
			b.ReportAllocs()
			for b.Loop() {
				_ = p.Do(8, f)
			}
		})
		b.Run(fmt.Sprintf("threads=%d/asleep", threads), func(b *testing.B) {
			p := newTestPool(b, threads)
			f := func(_, _ int) error { return nil }
			var spent time.Duration
			for b.Loop() {
				time.Sleep(100 * time.Microsecond) // the helpers stop spinning
				start := time.Now()
				_ = p.Do(8, f)
				spent += time.Since(start)
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/do")
		})
	}
}

// A Pool of NewStepping runs all indices, bound to cores or not. Its helpers sleep in the end.
func TestStepping(t *testing.T) {
	for _, pin := range []int{-1, 0, 1000} {
		for _, threads := range []int{1, 2, 5} {
			p, err := NewStepping(threads, pin)
			if err != nil {
				t.Fatal(err)
			}
			var sum atomic.Int64
			for range 200 {
				if err := p.Do(7, func(_, i int) error { sum.Add(int64(i)); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if sum.Load() != 200*21 {
				t.Errorf("pin %d, %d threads: %d, want %d", pin, threads, sum.Load(), 200*21)
			}
			for i := range p.workers {
				eventually(t, "sleep of a helper", func() bool { return p.workers[i].asleep.Load() })
			}
			p.Close()
		}
	}
	if _, err := NewStepping(0, -1); err == nil {
		t.Error("no threads were accepted")
	}
}
