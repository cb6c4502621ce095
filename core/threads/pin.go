//go:build linux

package threads

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Pin binds the goroutine to a thread and that to a core, counted on from 0 beyond the
// last. Where that is not allowed it stays unbound: it is a matter of speed alone. undo
// lets go.
func Pin(core int) (undo func()) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if unix.SchedGetaffinity(0, &before) != nil {
		return runtime.UnlockOSThread
	}
	one.Set(core % runtime.NumCPU())
	_ = unix.SchedSetaffinity(0, &one)
	return func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	}
}
