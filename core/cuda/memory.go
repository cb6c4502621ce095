//go:build gpu && cgo && linux

package cuda

/*
#cgo noescape paceline_cuda_alloc
#cgo nocallback paceline_cuda_alloc
#cgo noescape paceline_cuda_host_alloc
#cgo nocallback paceline_cuda_host_alloc
#cgo noescape paceline_cuda_host_register
#cgo nocallback paceline_cuda_host_register
#cgo noescape paceline_cuda_host_unregister
#cgo nocallback paceline_cuda_host_unregister
#include "driver.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
)

// Memory is memory of a GPU.
type Memory struct {
	Ptr   uint64
	Bytes int64

	device *Device
	freed  atomic.Bool
}

// Alloc returns memory whose bytes are all zero. The error is a *fault.Memory where there is
// not enough.
func (d *Device) Alloc(bytes int64) (*Memory, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("%s: %d bytes of its memory, must be at least 1", d, bytes)
	}
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	var at C.CUdeviceptr
	r := C.paceline_cuda_alloc(d.ctx(), &at, C.size_t(bytes), C.CUstream(pointer(d.zeroing)))
	if r != C.CUDA_SUCCESS {
		return nil, d.failed(r, "allocating", limits.Size(bytes))
	}
	return &Memory{Ptr: uint64(at), Bytes: bytes, device: d}, nil
}

// Free frees the memory, after all that uses it is done: the GPU waits.
func (m *Memory) Free() {
	if !m.freed.Swap(true) && m.device.use() == nil {
		m.device.check(C.paceline_cuda_free(m.device.ctx(), C.CUdeviceptr(m.Ptr)), "freeing memory", "")
		m.device.leave()
	}
}

// Pinned is page-locked memory of the host, which a GPU copies from and to by itself.
type Pinned struct {
	Data []byte // not used any more when Free is called, unless it is the caller's

	at         unsafe.Pointer
	device     *Device
	registered bool // Data is the caller's
	freed      atomic.Bool
}

// Pinned allocates page-locked memory. The error is a *fault.Memory where there is not enough.
func (d *Device) Pinned(bytes int64) (*Pinned, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("%s: %d bytes of page-locked memory, must be at least 1", d, bytes)
	}
	if err := limits.Admit(limits.Part{Setting: "page-locked memory for the GPU", Bytes: bytes}); err != nil {
		return nil, err
	}
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	var at unsafe.Pointer
	if r := C.paceline_cuda_host_alloc(d.ctx(), &at, C.size_t(bytes)); r != C.CUDA_SUCCESS {
		if r == C.CUDA_ERROR_OUT_OF_MEMORY {
			return nil, &fault.Memory{Text: fmt.Sprintf("%s: page-locking %s of the host's memory failed: the driver got no more of it", d, limits.Size(bytes))}
		}
		return nil, d.failed(r, "page-locking host memory of", limits.Size(bytes))
	}
	p := &Pinned{Data: unsafe.Slice((*byte)(at), bytes), at: at, device: d}
	clear(p.Data)
	d.list(p)
	return p, nil
}

// Register page-locks memory that the caller has: whole pages, outside Go's heap. It stays the caller's,
// who calls Free before the memory moves or is unmapped.
func (d *Device) Register(memory []byte) (*Pinned, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	p := &Pinned{Data: memory, at: unsafe.Pointer(unsafe.SliceData(memory)), device: d, registered: true}
	if err := d.check(C.paceline_cuda_host_register(d.ctx(), p.at, C.size_t(len(memory))), "page-locking", limits.Size(int64(len(memory)))); err != nil {
		return nil, err
	}
	d.list(p)
	return p, nil
}

// list makes page-locked memory known to copies.
func (d *Device) list(p *Pinned) {
	d.setup.Lock()
	defer d.setup.Unlock()
	list := append(slices.Clone(*d.pinned.Load()), p)
	d.pinned.Store(&list)
}

// Free frees the memory, or unlocks the caller's. Copies from and to it are over, and graphs that have some closed.
func (p *Pinned) Free() {
	if p.freed.Swap(true) || p.device.use() != nil {
		return
	}
	d := p.device
	defer d.leave()
	d.setup.Lock()
	defer d.setup.Unlock()
	list := slices.DeleteFunc(slices.Clone(*d.pinned.Load()), func(q *Pinned) bool { return q == p })
	d.pinned.Store(&list)
	if p.registered {
		d.check(C.paceline_cuda_host_unregister(d.ctx(), p.at), "unlocking memory", "")
		return
	}
	d.check(C.paceline_cuda_host_free(d.ctx(), p.at), "freeing page-locked memory", "")
}

// isPinned reports whether bytes lie in page-locked memory of this device's.
func (d *Device) isPinned(bytes []byte) C.int {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))
	for _, p := range *d.pinned.Load() {
		if begin, size := uintptr(p.at), uintptr(len(p.Data)); from >= begin && from-begin < size && uintptr(len(bytes)) <= size-(from-begin) {
			return 1
		}
	}
	return 0
}
