//go:build unix && !linux && !race

package replay

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/limits"
	"golang.org/x/sys/unix"
)

const offHeap = true

// allocate returns n zero bytes outside the Go heap. Pages take memory when they are first written.
func allocate(n int64) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("replay: mapping %s of memory: %w", limits.Size(n), err)
	}
	return mem, nil
}

// extend returns n bytes that begin with those of mem. mem is invalid after success and unchanged
// after an error.
func extend(mem []byte, n int64) ([]byte, error) {
	longer, err := allocate(n)
	if err != nil {
		return nil, err
	}
	copy(longer, mem)
	release(mem)
	return longer, nil
}

// release unmaps memory of allocate or extend. mem may be nil.
func release(mem []byte) {
	if mem != nil {
		unix.Munmap(mem)
	}
}
