package cuda

import (
	"math"
	"sync/atomic"
)

// gate counts the calls in progress on an object, so that what closes it waits for them.
// Nothing ever waits to enter, so gates may be entered in any order.
type gate struct {
	calls atomic.Int64 // shut has been added once the object is being closed
	idle  chan struct{}
}

const shut = math.MinInt64

func newGate() gate { return gate{idle: make(chan struct{})} }

// enter begins a call. It returns false where the object is closed; otherwise leave ends it.
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
	if g.calls.Add(-1) == shut {
		close(g.idle)
	}
}

// shut lets no call in any more and waits for those in progress. Only the first one to call
// it gets true, and closes the object.
func (g *gate) shut() bool {
	for {
		n := g.calls.Load()
		if n < 0 {
			return false
		}
		if g.calls.CompareAndSwap(n, n+shut) {
			if n > 0 {
				<-g.idle
			}
			return true
		}
	}
}
