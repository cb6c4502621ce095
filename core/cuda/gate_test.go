package cuda

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Calls that got in are over when shut returns, and none gets in later.
func TestGate(t *testing.T) {
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
									t.Errorf("%d calls are in progress on what is closed", n)
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
			t.Fatalf("%d closed it, must be 1, and then it stays closed", closers.Load())
		}
	}
}
