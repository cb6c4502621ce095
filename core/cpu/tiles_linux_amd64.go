//go:build cgo

package cpu

// #include "tiles.h"
import "C"

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Of arch_prctl: which states of the processor Linux gives out on demand, the demand
// for one, and AMX's tiles.
const (
	getSupported      = 0x1021
	requestPermission = 0x1023
	tileData          = 18
)

// hasTiles reports whether the compiler knew AMX's tiles and Linux gives them out.
func hasTiles() bool {
	var states uint64
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, getSupported, uintptr(unsafe.Pointer(&states)), 0)
	return C.PACELINE_TILES != 0 && err == 0 && states&(1<<tileData) != 0
}

// AllowTiles asks Linux, once, to let this process use AMX's tiles, and reports whether
// it may. From then on a thread that has used them needs 11 KB for a signal: Linux says no
// where a thread of the host has an alternative signal stack smaller than that, and
// refuses such stacks later. So nobody asks before there is something to multiply.
var AllowTiles = sync.OnceValue(func() bool {
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return err == 0
})
