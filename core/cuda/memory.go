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

// Memory is GPU memory.
type Memory struct {
	Ptr   uint64
	Bytes int64

	device *Device
	freed  atomic.Bool
}

// Alloc returns zeroed memory. If the GPU's memory is full, the error is a *fault.Memory.
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

// Free waits for the GPU's enqueued work and frees the memory. Free may be called twice.
func (m *Memory) Free() {
	if !m.freed.Swap(true) && m.device.use() == nil {
		m.device.check(C.paceline_cuda_free(m.device.ctx(), C.CUdeviceptr(m.Ptr)), "freeing memory", "")
		m.device.leave()
	}
}

// Pinned is page-locked host memory. Copies between it and a GPU are asynchronous.
type Pinned struct {
	Data []byte // invalid after Free, unless Register made it

	address    unsafe.Pointer
	device     *Device
	registered bool // the caller owns Data
	freed      atomic.Bool
}

// Pinned allocates page-locked memory. If the host's memory is full, the error is a *fault.Memory.
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
			return nil, &fault.Memory{Text: fmt.Sprintf("%s: page-locking %s of host memory failed: the driver could not allocate it", d, limits.Size(bytes))}
		}
		return nil, d.failed(r, "page-locking host memory of", limits.Size(bytes))
	}
	p := &Pinned{Data: unsafe.Slice((*byte)(at), bytes), address: at, device: d}
	clear(p.Data)
	d.list(p)
	return p, nil
}

// Register page-locks memory of the caller: whole pages outside Go's heap. The caller keeps the
// memory, and calls Free before the memory moves or is unmapped.
func (d *Device) Register(memory []byte) (*Pinned, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	p := &Pinned{Data: memory, address: unsafe.Pointer(unsafe.SliceData(memory)), device: d, registered: true}
	if err := d.check(C.paceline_cuda_host_register(d.ctx(), p.address, C.size_t(len(memory))), "page-locking", limits.Size(int64(len(memory)))); err != nil {
		return nil, err
	}
	d.list(p)
	return p, nil
}

// list adds page-locked memory to the list that isPinned searches.
func (d *Device) list(p *Pinned) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	list := append(slices.Clone(*d.pinned.Load()), p)
	d.pinned.Store(&list)
}

// Free frees the memory, or unlocks it if Register made it. Before Free, copies from and to the
// memory must be done, and graphs with such copies closed.
func (p *Pinned) Free() {
	if p.freed.Swap(true) || p.device.use() != nil {
		return
	}
	d := p.device
	defer d.leave()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	list := slices.DeleteFunc(slices.Clone(*d.pinned.Load()), func(q *Pinned) bool { return q == p })
	d.pinned.Store(&list)
	if p.registered {
		d.check(C.paceline_cuda_host_unregister(d.ctx(), p.address), "unlocking memory", "")
		return
	}
	d.check(C.paceline_cuda_host_free(d.ctx(), p.address), "freeing page-locked memory", "")
}

// isPinned returns 1 if the bytes lie in page-locked memory of this device.
func (d *Device) isPinned(bytes []byte) C.int {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))
	for _, p := range *d.pinned.Load() {
		if begin, size := uintptr(p.address), uintptr(len(p.Data)); from >= begin && from-begin < size && uintptr(len(bytes)) <= size-(from-begin) {
			return 1
		}
	}
	return 0
}
