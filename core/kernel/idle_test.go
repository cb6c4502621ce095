//go:build unix

package kernel

import (
	"syscall"
	"testing"
	"time"
)

// Helpers without a call use no processor time.
func TestIdleHelpersSleep(t *testing.T) {
	const long = 300 * time.Millisecond
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	x := make([]float32, 1<<20)
	for range 3 {
		SumSquares(newTeam(t, 8), x)
	}
	before := spent()
	time.Sleep(long)
	if used := spent() - before; used > long/3 {
		t.Errorf("%v of processor time in %v of idling", used, long)
	}
}
