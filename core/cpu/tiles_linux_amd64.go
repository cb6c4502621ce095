//go:build cgo

package cpu

// #include "tiles.h"
import "C"

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of arch_prctl.
const (
	getSupported      = 0x1021 // ARCH_GET_XCOMP_SUPP
	requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
	tileData          = 18     // XFEATURE_XTILE_DATA
)

// hasTiles reports whether the compiler knew AMX's tiles and Linux supports them.
func hasTiles() bool {
	var states uint64
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, getSupported, uintptr(unsafe.Pointer(&states)), 0)
	return C.PACELINE_TILES != 0 && err == 0 && states&(1<<tileData) != 0
}

// AllowTiles asks Linux, once, for permission to use AMX's tiles in this process, and reports
// whether Linux gave it. With the permission, a signal needs 11 KB of stack on a thread that has
// used tiles. Linux refuses the permission if a thread of the host has a smaller alternative signal
// stack; with the permission it refuses such stacks. So the kernels ask only before the first
// product.
var AllowTiles = sync.OnceValue(func() bool {
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return err == 0
})
