package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// wait blocks the thread until the time is over, as a simulator in C would. time.Sleep
// takes up to a millisecond more where no other goroutine is at work.
func wait(cost time.Duration) {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &at) != nil {
		time.Sleep(cost)
		return
	}
	at = unix.NsecToTimespec(at.Nano() + int64(cost))
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil) == unix.EINTR {
	}
}
