//go:build linux && !race

package replay

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/limits"
	"golang.org/x/sys/unix"
)

const offHeap = true

// allocate returns n zero bytes outside the Go heap. Pages take memory when they are first written.
// A forked child does not inherit the mapping, because copying the page tables of a large replay
// memory makes a fork slow.
func allocate(n int64) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("replay: mapping %s of memory: %w", limits.Size(n), err)
	}
	if err := unix.Madvise(mem, unix.MADV_DONTFORK); err != nil {
		release(mem)
		return nil, fmt.Errorf("replay: madvise: %w", err)
	}
	return mem, nil
}

// extend enlarges mem to n bytes. It may move the pages to another address, but does not copy them.
// mem is invalid after success and unchanged after an error.
func extend(mem []byte, n int64) ([]byte, error) {
	longer, err := unix.Mremap(mem, int(n), unix.MREMAP_MAYMOVE)
	if err != nil {
		return nil, fmt.Errorf("replay: mapping %s of memory: %w", limits.Size(n), err)
	}
	return longer, nil
}

// release unmaps memory of allocate or extend. mem may be nil.
func release(mem []byte) {
	if mem != nil {
		unix.Munmap(mem)
	}
}
