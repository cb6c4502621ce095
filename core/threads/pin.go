//go:build linux

package threads

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pin binds the goroutine to a thread, and the thread to one of the cores that it may use. Under
// taskset, numactl or a batch system these are not all cores of the machine: core is an index into
// the allowed cores, modulo their number. If binding fails, the thread remains unbound, which costs
// speed only. undo restores the previous state.
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

// nth returns core k of the set, modulo the size of the set. The set of a thread is never empty.
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
