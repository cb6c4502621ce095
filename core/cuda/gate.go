package cuda

import (
	"math"
	"sync/atomic"
)

// gate counts the calls in progress on an object, so that closing the object can wait for them.
// enter never waits, so a call may enter several gates in any order.
type gate struct {
	calls atomic.Int64 // calls in progress, plus closeBias once shut was called
	idle  chan struct{}
}

const closeBias = math.MinInt64

func newGate() gate { return gate{idle: make(chan struct{})} }

// enter begins a call, which leave ends. It returns false if the object is closed.
func (g *gate) enter() bool {
	for {
		n := g.calls.Load()
		if n < 0 {
			return false
		}
		if g.calls.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *gate) leave() {
	if g.calls.Add(-1) == closeBias {
		close(g.idle)
	}
}

// shut refuses later calls and waits for the calls in progress. It returns true to its first caller
// only, which then closes the object.
func (g *gate) shut() bool {
	for {
		n := g.calls.Load()
		if n < 0 {
			return false
		}
		if g.calls.CompareAndSwap(n, n+closeBias) {
			if n > 0 {
				<-g.idle
			}
			return true
		}
	}
}
