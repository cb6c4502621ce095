package threads

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Usage returns for how long the threads of this process have computed, and for how long they were
// ready to compute and had no core of the machine, because other programs or a quota of the control
// group took it. The sum of a thread that has ended is no longer in queued. ok is false where the
// system does not tell.
func Usage() (computed, queued time.Duration, ok bool) {
	var used unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used) != nil {
		return 0, 0, false
	}
	const tasks = "/proc/self/task/"
	list, err := os.ReadDir(tasks)
	if err != nil {
		return 0, 0, false
	}
	for _, task := range list {
		text, err := os.ReadFile(tasks + task.Name() + "/schedstat")
		if err != nil { // the thread has ended, or the kernel keeps no such file
			continue
		}
		// Three numbers: nanoseconds computed, nanoseconds queued, times scheduled.
		if fields := bytes.Fields(text); len(fields) == 3 {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			ok = ok || err == nil
			queued += time.Duration(n)
		}
	}
	return time.Duration(used.Nano()), queued, ok
}
