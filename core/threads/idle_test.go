//go:build unix

package threads

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the processor time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Pools without work, a caller that waits for its last helper and a goroutine
// that waits for a core use no processor time.
func TestIdleThreadsSleep(t *testing.T) {
	const long = 300 * time.Millisecond
	b := newBudget(t, 2)
	p := newShared(t, 2, b)
	for range 3 {
		newShared(t, 8, nil)
	}
	b.Acquire()
	waiting := make(chan struct{})
	before := cpuTime(t)
	helped := make(chan struct{})
	if err := p.Do(2, func(worker, i int) error {
		if worker == 0 {
			<-helped // both are inside; the caller then waits at the gate for the helper
			return nil
		}
		close(helped)
		go func() { b.Acquire(); close(waiting) }()
		time.Sleep(long)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	used := cpuTime(t) - before
	<-waiting
	b.Release(1)
	b.Release(1)
	if used > long/3 {
		t.Errorf("%v of processor time in %v of idling", used, long)
	}
}
