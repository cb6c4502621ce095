package threads

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Budget is a number of cores that goroutines and Pools share. Every thread that computes holds a
// core, so the Budget bounds the number of threads that compute at the same time. A goroutine holds
// a core from Acquire to Release. A helper of a Pool or of a kernel.Team holds a core while it has
// work. A helper of a kernel.Team uses only cores that are free when its loop begins, a helper of a
// Pool also cores that become free later.
//
// Goroutines take precedence over helpers. Acquire without a free core sleeps in a first-in,
// first-out queue. While the queue is not empty, no helper gets a core.
type Budget struct {
	cores int
	// free is the number of free cores. If it is negative, -free goroutines wait for a core. A
	// single number cannot express free cores and waiting goroutines at once.
	free atomic.Int64
	// handoff has the cores that were released to waiting goroutines.
	handoff chan struct{}
	// pools are the Pools whose loops may use a core that becomes free.
	pools atomic.Pointer[[]*Pool]
}

// NewBudget returns a budget of the given number of cores, 1 to Max.
func NewBudget(cores int) (*Budget, error) {
	if cores < 1 || cores > Max {
		return nil, fmt.Errorf("cores: %d, must be 1 to %d", cores, Max)
	}
	b := &Budget{cores: cores, handoff: make(chan struct{}, cores)}
	b.free.Store(int64(cores))
	return b, nil
}

// Cores returns the number of cores.
func (b *Budget) Cores() int { return b.cores }

// Acquire acquires a core. It waits until a core is free. A goroutine must not acquire a second
// core.
func (b *Budget) Acquire() {
	if b.free.Add(-1) < 0 {
		<-b.handoff
	}
}

// Release releases cores of Acquire or TryAcquire, on any goroutine. Waiting goroutines get them
// first, then the helpers of loops in progress.
func (b *Budget) Release(cores int) {
	if b.release(cores) {
		if pools := b.pools.Load(); pools != nil {
			for _, p := range *pools {
				p.addHelpers()
			}
		}
	}
}

// release reports whether cores are free afterwards.
func (b *Budget) release(cores int) bool {
	free := b.free.Add(int64(cores))
	for range min(int64(cores), int64(cores)-free) {
		b.handoff <- struct{}{}
	}
	return free > 0
}

// list adds p to pools, or removes it.
func (b *Budget) list(p *Pool, in bool) {
	for {
		old := b.pools.Load()
		var now []*Pool
		if old != nil {
			now = slices.DeleteFunc(slices.Clone(*old), func(q *Pool) bool { return q == p })
		}
		if in {
			now = append(now, p)
		}
		if b.pools.CompareAndSwap(old, &now) {
			return
		}
	}
}

// TryAcquire acquires up to limit cores for helpers without waiting and returns their number. The
// caller must have work for them now and release them when no work is left.
func (b *Budget) TryAcquire(limit int) int {
	for {
		free := b.free.Load()
		got := min(int64(limit), free)
		if got <= 0 {
			return 0
		}
		if b.free.CompareAndSwap(free, free-got) {
			return int(got)
		}
	}
}
