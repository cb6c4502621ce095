//go:build race || !unix

package replay

// The rings are on the Go heap under the race detector, which does not see mapped memory, and on
// systems without mmap.

const offHeap = false

func allocate(n int64) ([]byte, error) { return make([]byte, n), nil }

func extend(mem []byte, n int64) ([]byte, error) {
	longer := make([]byte, n)
	copy(longer, mem)
	return longer, nil
}

func release([]byte) {}
