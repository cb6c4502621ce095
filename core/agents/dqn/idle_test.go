//go:build unix

package dqn

import (
	"syscall"
	"testing"
	"time"
)

// spent returns the processor time of this process.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// No thread spins while the main thread waits for a long update or between two calls.
func TestIdleThreadsSleep(t *testing.T) {
	const long = 300 * time.Millisecond
	d := newDQN(t, slowWindows(func(c *Config) { c.NumThreads = 4 }))
	check(t, d.Begin(2000, 0))
	check(t, d.Run(480, 0))
	check(t, d.Settle())
	o := slow(d, long)
	before := spent(t)
	check(t, d.Run(4, 0))
	check(t, d.Settle()) // waits for an update
	o.pause.Store(0)
	time.Sleep(long)
	if used := spent(t) - before; used > long/3 {
		t.Errorf("%v of processor time without work", used)
	}
}
