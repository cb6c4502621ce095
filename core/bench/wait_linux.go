package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// wait blocks the thread for the time, as a simulator in C would. time.Sleep takes up to a
// millisecond longer if no other goroutine runs.
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
