package threads

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Budget is a number of cores that goroutines and Pools share. Whoever computes
// holds one: a goroutine from Acquire to Release; a helper of a Pool or of a kernel.Team
// one of those that were free when the loop began, or for a Pool's that became free later,
// until there is nothing left for it to do. So at most that many threads compute at any time, whatever is asked of
// them.
//
// Goroutines go before helpers. One that finds no core free waits in Acquire,
// asleep, behind those that came before it, and until all of these have theirs
// no Do gets any.
type Budget struct {
	cores int
	// left is how many cores are free, or where it is negative how many
	// goroutines wait for one. As it is one number, there is never both.
	left atomic.Int64
	// handed has cores on their way to a waiting goroutine.
	handed chan struct{}
	// pools are those whose loops may use a core that becomes free.
	pools atomic.Pointer[[]*Pool]
}

// NewBudget returns a budget of so many cores, 1 to Max.
func NewBudget(cores int) (*Budget, error) {
	if cores < 1 || cores > Max {
		return nil, fmt.Errorf("cores: %d, must be 1 to %d", cores, Max)
	}
	b := &Budget{cores: cores, handed: make(chan struct{}, cores)}
	b.left.Store(int64(cores))
	return b, nil
}

// Cores returns the number of cores.
func (b *Budget) Cores() int { return b.cores }

// Acquire acquires a core, and waits until one is free. A goroutine must not acquire a
// second one.
func (b *Budget) Acquire() {
	if b.left.Add(-1) < 0 {
		<-b.handed
	}
}

// Release releases so many cores that Acquire or TryAcquire got, on any goroutine. Those
// that nobody waits for go to the helpers of loops that are under way.
func (b *Budget) Release(cores int) {
	if b.release(cores) {
		if pools := b.pools.Load(); pools != nil {
			for _, p := range *pools {
				p.letIn()
			}
		}
	}
}

// release reports whether cores are free afterwards.
func (b *Budget) release(cores int) bool {
	left := b.left.Add(int64(cores))
	for range min(int64(cores), int64(cores)-left) {
		b.handed <- struct{}{}
	}
	return left > 0
}

// list adds a pool to pools, or takes it out.
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

// TryAcquire acquires up to so many cores for helpers and returns how many it got,
// without waiting. Whoever calls it has work for them at once, and releases them when
// there is none left.
func (b *Budget) TryAcquire(most int) int {
	for {
		left := b.left.Load()
		got := min(int64(most), left)
		if got <= 0 {
			return 0
		}
		if b.left.CompareAndSwap(left, left-got) {
			return int(got)
		}
	}
}
