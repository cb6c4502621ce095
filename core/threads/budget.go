package threads

import (
	"fmt"
	"sync/atomic"
)

// Budget is a number of cores that goroutines and Pools share. Whoever computes
// holds one: a goroutine from Take to Give; a helper of a Pool or of a kernel.Team
// one of those that were free when the loop began, until there is nothing left for
// it to do. So at most that many threads compute at any time, whatever is asked of
// them.
//
// Goroutines go before helpers. One that finds no core free waits in Take,
// asleep, behind those that came before it, and until all of these have theirs
// no Do gets any.
type Budget struct {
	cores int
	// left is how many cores are free, or where it is negative how many
	// goroutines wait for one. As it is one number, there is never both.
	left atomic.Int64
	// handed has cores on their way to a waiting goroutine.
	handed chan struct{}
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

// Take takes a core, and waits until there is one. A goroutine must not take a
// second one.
func (b *Budget) Take() {
	if b.left.Add(-1) < 0 {
		<-b.handed
	}
}

// Give gives back so many cores that Take or Claim took, on any goroutine.
func (b *Budget) Give(cores int) {
	waiting := -(b.left.Add(int64(cores)) - int64(cores))
	for range min(int64(cores), waiting) {
		b.handed <- struct{}{}
	}
}

// Claim takes up to so many cores for helpers and returns how many it got,
// without waiting. Whoever claims has work for them at once, and gives them back
// when there is none left.
func (b *Budget) Claim(most int) int {
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
