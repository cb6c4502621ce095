package threads

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// The loops end when Usage has seen them: computing adds to computed, and more threads than cores
// add to queued.
func TestUsageCountsComputingAndQueueing(t *testing.T) {
	computed, queued, ok := Usage()
	if !ok {
		t.Skip("the kernel does not say how long threads are queued")
	}
	var done atomic.Bool
	var wait sync.WaitGroup
	threads := runtime.NumCPU() + 1
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads + 1))
	for range threads {
		wait.Go(func() {
			runtime.LockOSThread()
			for !done.Load() {
			}
		})
	}
	for {
		c, q, _ := Usage()
		if c > computed && q > queued {
			break
		}
		runtime.Gosched()
	}
	done.Store(true)
	wait.Wait()
}
