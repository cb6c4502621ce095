//go:build linux

package threads

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pin binds the goroutine to a thread and that to one of the cores that the thread
// may use, which under taskset, numactl or a batch system are not all of the
// machine's: core counts through them, 0 and up, and beyond the last one on from the
// first. Where that is not allowed it stays unbound: it is a matter of speed alone.
// undo restores what was.
func Pin(core int) (undo func()) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if unix.SchedGetaffinity(0, &before) != nil {
		return runtime.UnlockOSThread
	}
	one.Set(nth(&before, core))
	_ = unix.SchedSetaffinity(0, &one)
	return func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	}
}

// nth returns the number of the core that is k-th in the set, modulo their count. A
// set that a thread has is never empty.
func nth(set *unix.CPUSet, k int) int {
	k %= max(1, set.Count())
	for core := range len(set) * bitsPerWord {
		if set.IsSet(core) {
			if k == 0 {
				return core
			}
			k--
		}
	}
	return 0
}

const bitsPerWord = 8 * int(unsafe.Sizeof(unix.CPUSet{}[0]))
