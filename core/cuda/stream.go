//go:build gpu && cgo && linux

package cuda

/*
#cgo noescape paceline_cuda_upload
#cgo nocallback paceline_cuda_upload
#cgo noescape paceline_cuda_download
#cgo nocallback paceline_cuda_download
#cgo noescape paceline_cuda_launch
#cgo nocallback paceline_cuda_launch
#cgo noescape paceline_cuda_capture_end
#cgo nocallback paceline_cuda_capture_end
#include "driver.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/paceline-rl/paceline/core/limits"
)

// Stream is a queue of work: what is enqueued on one runs in order, beside what other streams have.
type Stream struct {
	gate
	device *Device
	made   cu.Stream
	at     C.CUstream
}

// Stream makes a stream. Blocks of a kernel on a stream of higher priority begin before those that
// wait on others, in graphs as well.
func (d *Device) Stream(p Priority) (*Stream, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	s := &Stream{gate: newGate(), device: d}
	err := d.within("making a stream", "", func() error {
		least, greatest, err := cu.StreamPriorityRange()
		if err != nil {
			return err
		}
		priority := [...]int{Low: least, Normal: (least + greatest) / 2, High: greatest}[p] // greatest is the lowest number
		s.made, err = cu.MakeStreamWithPriority(priority, cu.NonBlocking)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.at = C.CUstream(pointer(s.made))
	return s, nil
}

// Close lets go of the stream; what is enqueued on it still runs.
func (s *Stream) Close() {
	if s.shut() && s.device.use() == nil {
		s.device.within("closing a stream", "", s.made.Destroy)
		s.device.leave()
	}
}

// use begins a call on the stream; done ends it.
func (s *Stream) use() error {
	if err := s.device.use(); err != nil {
		return err
	}
	if !s.enter() {
		s.device.leave()
		return closed("CUDA stream")
	}
	return nil
}

func (s *Stream) done() {
	s.leave()
	s.device.leave()
}

// Upload enqueues a copy to the GPU. From a Pinned's Data it is asynchronous, and the caller
// leaves the bytes as they are until it is over; otherwise it is over when the call returns,
// and cannot be part of a graph.
func (s *Stream) Upload(to uint64, from []byte) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	if len(from) == 0 {
		return nil
	}
	d := s.device
	r := C.paceline_cuda_upload(d.ctx(), s.at, C.CUdeviceptr(to), unsafe.Pointer(unsafe.SliceData(from)), C.size_t(len(from)), d.isPinned(from))
	if r != C.CUDA_SUCCESS {
		return d.copying(r, "uploading", int64(len(from)))
	}
	return nil
}

// Download enqueues a copy from the GPU, as Upload does to it.
func (s *Stream) Download(to []byte, from uint64) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	if len(to) == 0 {
		return nil
	}
	d := s.device
	r := C.paceline_cuda_download(d.ctx(), s.at, unsafe.Pointer(unsafe.SliceData(to)), C.CUdeviceptr(from), C.size_t(len(to)), d.isPinned(to))
	if r != C.CUDA_SUCCESS {
		return d.copying(r, "downloading", int64(len(to)))
	}
	return nil
}

// Copy enqueues a copy inside the GPU's memory.
func (s *Stream) Copy(to, from uint64, bytes int64) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	if bytes == 0 {
		return nil
	}
	if r := C.paceline_cuda_copy(s.device.ctx(), s.at, C.CUdeviceptr(to), C.CUdeviceptr(from), C.size_t(bytes)); r != C.CUDA_SUCCESS {
		return s.device.copying(r, "copying", bytes)
	}
	return nil
}

// Zero enqueues that bytes become zero.
func (s *Stream) Zero(at uint64, bytes int64) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	if bytes == 0 {
		return nil
	}
	if r := C.paceline_cuda_zero(s.device.ctx(), s.at, C.CUdeviceptr(at), C.size_t(bytes)); r != C.CUDA_SUCCESS {
		return s.device.copying(r, "zeroing", bytes)
	}
	return nil
}

// copying makes the sentence of a copy that failed.
func (d *Device) copying(r C.CUresult, doing string, bytes int64) error {
	if r == C.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED {
		return fmt.Errorf("%s: %s %s inside a graph: the host's memory must be page-locked (Pinned)", d, doing, limits.Size(bytes))
	}
	return d.failed(r, doing, limits.Size(bytes))
}

// Launch enqueues a kernel.
func (s *Stream) Launch(f *Function, l Launch) error {
	if l.Bytes > MaxArgs {
		return fmt.Errorf("%s: %d bytes of arguments of the kernel %s, must be at most %d", s.device, l.Bytes, f.Name, MaxArgs)
	}
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	// C gets copies: what it is given must not lie beside pointers of Go's.
	var args [MaxArgs]byte
	copy(args[:], unsafe.Slice((*byte)(l.Args), l.Bytes))
	grid, block := l.Grid, l.Block
	r := C.paceline_cuda_launch(s.device.ctx(), s.at, f.at, (*C.uint)(&grid[0]), (*C.uint)(&block[0]), C.uint(l.Shared), unsafe.Pointer(&args))
	if r != C.CUDA_SUCCESS {
		return s.device.failed(r, "launching", l.of(f))
	}
	if s.device.eager {
		if r := C.paceline_cuda_finish(s.device.ctx(), s.at); r != C.CUDA_SUCCESS {
			return s.device.failed(r, "running", l.of(f))
		}
	}
	return nil
}

// of names the launch in errors.
func (l *Launch) of(f *Function) string {
	return fmt.Sprintf("%s (grid %d, block %d, %d bytes of shared memory)", f.Name, l.Grid, l.Block, l.Shared)
}

// Synchronize waits until all that was enqueued on the stream is over.
func (s *Stream) Synchronize() error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	return s.device.check(C.paceline_cuda_synchronize(s.device.ctx(), s.at), "waiting for a stream", "")
}
