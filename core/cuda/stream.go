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

// Stream is a queue of work. Work on one stream runs in order; streams run concurrently.
type Stream struct {
	gate
	device *Device
	stream cu.Stream
	handle C.CUstream
}

// Stream makes a stream. The GPU starts waiting blocks of kernels by the priority of their streams,
// also inside graphs.
func (d *Device) Stream(p Priority) (*Stream, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	s := &Stream{gate: newGate(), device: d}
	err := d.inContext("making a stream", "", func() error {
		least, greatest, err := cu.StreamPriorityRange()
		if err != nil {
			return err
		}
		priority := [...]int{Low: least, Normal: (least + greatest) / 2, High: greatest}[p] // numerically, greatest is the smallest
		s.stream, err = cu.MakeStreamWithPriority(priority, cu.NonBlocking)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.handle = C.CUstream(pointer(s.stream))
	return s, nil
}

// Close destroys the stream. Work that is enqueued on it still runs.
func (s *Stream) Close() {
	if s.shut() && s.device.use() == nil {
		s.device.inContext("closing a stream", "", s.stream.Destroy)
		s.device.leave()
	}
}

// use begins a call on the stream, and release ends it.
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

func (s *Stream) release() {
	s.leave()
	s.device.leave()
}

// Upload enqueues a copy to the GPU. A copy from page-locked memory (Pinned) is asynchronous: the
// caller must not change the bytes before the copy is done. A copy from other memory is done when
// Upload returns, and cannot be captured in a graph.
func (s *Stream) Upload(to uint64, from []byte) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	if len(from) == 0 {
		return nil
	}
	d := s.device
	r := C.paceline_cuda_upload(d.ctx(), s.handle, C.CUdeviceptr(to), unsafe.Pointer(unsafe.SliceData(from)), C.size_t(len(from)), d.isPinned(from))
	if r != C.CUDA_SUCCESS {
		return d.copyFailed(r, "uploading", int64(len(from)))
	}
	return nil
}

// Download enqueues a copy from the GPU. The rules of Upload apply.
func (s *Stream) Download(to []byte, from uint64) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	if len(to) == 0 {
		return nil
	}
	d := s.device
	r := C.paceline_cuda_download(d.ctx(), s.handle, unsafe.Pointer(unsafe.SliceData(to)), C.CUdeviceptr(from), C.size_t(len(to)), d.isPinned(to))
	if r != C.CUDA_SUCCESS {
		return d.copyFailed(r, "downloading", int64(len(to)))
	}
	return nil
}

// Copy enqueues a copy within GPU memory.
func (s *Stream) Copy(to, from uint64, bytes int64) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	if bytes == 0 {
		return nil
	}
	if r := C.paceline_cuda_copy(s.device.ctx(), s.handle, C.CUdeviceptr(to), C.CUdeviceptr(from), C.size_t(bytes)); r != C.CUDA_SUCCESS {
		return s.device.copyFailed(r, "copying", bytes)
	}
	return nil
}

// Zero enqueues that `bytes` bytes are set to zero.
func (s *Stream) Zero(at uint64, bytes int64) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	if bytes == 0 {
		return nil
	}
	if r := C.paceline_cuda_zero(s.device.ctx(), s.handle, C.CUdeviceptr(at), C.size_t(bytes)); r != C.CUDA_SUCCESS {
		return s.device.copyFailed(r, "zeroing", bytes)
	}
	return nil
}

// copyFailed returns the error of a copy.
func (d *Device) copyFailed(r C.CUresult, doing string, bytes int64) error {
	if r == C.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED {
		return fmt.Errorf("%s: %s %s inside a graph: the host memory must be page-locked (Pinned)", d, doing, limits.Size(bytes))
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
	defer s.release()
	// cgo refuses memory that also contains Go pointers, so C gets copies.
	var args [MaxArgs]byte
	copy(args[:], unsafe.Slice((*byte)(l.Args), l.Bytes))
	grid, block := l.Grid, l.Block
	r := C.paceline_cuda_launch(s.device.ctx(), s.handle, f.handle, (*C.uint)(&grid[0]), (*C.uint)(&block[0]), C.uint(l.Shared), unsafe.Pointer(&args))
	if r != C.CUDA_SUCCESS {
		return s.device.failed(r, "launching", l.describe(f))
	}
	if s.device.eager {
		if r := C.paceline_cuda_finish(s.device.ctx(), s.handle); r != C.CUDA_SUCCESS {
			return s.device.failed(r, "running", l.describe(f))
		}
	}
	return nil
}

// describe describes the launch in errors.
func (l *Launch) describe(f *Function) string {
	return fmt.Sprintf("%s (grid %d, block %d, %d bytes of shared memory)", f.Name, l.Grid, l.Block, l.Shared)
}

// Synchronize waits until all work that was enqueued on the stream is done.
func (s *Stream) Synchronize() error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	return s.device.check(C.paceline_cuda_synchronize(s.device.ctx(), s.handle), "waiting for a stream", "")
}
