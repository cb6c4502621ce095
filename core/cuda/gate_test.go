package cuda

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// No call is in progress when shut returns, and no later call enters.
func TestShutWaitsForCalls(t *testing.T) {
	for range 200 {
		g := newGate()
		var inside, closers atomic.Int64
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for n := 0; g.enter(); n++ {
					inside.Add(1)
					if n == 20 && i%4 == 0 {
						all.Go(func() {
							if g.shut() {
								closers.Add(1)
								if n := inside.Load(); n != 0 {
									t.Errorf("%d calls are in progress after shut", n)
								}
							}
						})
					}
					inside.Add(-1)
					g.leave()
					runtime.Gosched() // the machine may have one core
				}
			})
		}
		all.Wait()
		if closers.Load() != 1 || g.enter() {
			t.Fatalf("shut returned true %d times, must be 1, or a call entered afterwards", closers.Load())
		}
	}
}
