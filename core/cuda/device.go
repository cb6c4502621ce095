//go:build gpu && cgo && linux

package cuda

/*
#cgo noescape paceline_cuda_free_bytes
#cgo nocallback paceline_cuda_free_bytes
#cgo noescape paceline_cuda_function
#cgo nocallback paceline_cuda_function
#cgo noescape paceline_cuda_enter
#cgo nocallback paceline_cuda_enter
#cgo noescape paceline_cuda_leave
#cgo nocallback paceline_cuda_leave
#include "driver.h"
*/
import "C"

import (
	_ "embed"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"gorgonia.org/cu"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
)

// kernels is the archive of the kernels: machine code for each chip (sm_90.cubin), and PTX for
// newer chips (compute_80.ptx).
//
//go:embed kernels.zip
var kernels []byte

// Device is a GPU with its primary context retained and the kernels loaded.
type Device struct {
	gate
	info    Info
	device  cu.Device
	context cu.CUContext
	module  cu.Module
	zeroing cu.Stream // Alloc zeroes new memory on this stream

	eager     bool
	lost      atomic.Pointer[lost]
	pinned    atomic.Pointer[[]*Pinned] // copies read it without the mutex
	mutex     sync.Mutex                // guards functions, and writes of pinned
	functions map[string]*Function
}

// Function is a kernel.
type Function struct {
	Name       string
	Regs       int // registers per thread
	Shared     int // bytes of static shared memory
	MaxThreads int // threads that a block may have

	handle C.CUfunction
}

// Open acquires GPU index and loads the kernels for its chip. An object made on one Device must not
// be used with another Device, even if both are the same GPU.
func Open(index int) (*Device, error) {
	infos, err := Devices()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(infos) {
		return nil, fmt.Errorf("cuda:%d: there is no such GPU, must be %s", index, deviceRange(len(infos)))
	}
	d := &Device{gate: newGate(), info: infos[index], functions: map[string]*Function{}}
	switch value := os.Getenv("PACELINE_CUDA_EAGER"); value {
	case "", "0":
	case "1":
		d.eager = true
	default:
		return nil, fmt.Errorf("PACELINE_CUDA_EAGER: %q, must be 0 or 1", value)
	}
	d.pinned.Store(new([]*Pinned))
	if chip := 10*d.info.Major + d.info.Minor; chip < 75 {
		return nil, fmt.Errorf("%s: its compute capability is %d.%d, must be 7.5 or higher", d, d.info.Major, d.info.Minor)
	}
	if d.device, err = cu.GetDevice(index); err != nil {
		return nil, d.failed(errorCode(err), "finding it", "")
	}
	var r C.CUresult
	if d.context, r = retain(d.device); r != C.CUDA_SUCCESS {
		return nil, d.failed(r, "acquiring its context", "")
	}
	if err = d.load(); err != nil {
		d.releaseContext()
		return nil, err
	}
	return d, nil
}

// retained has the GPUs whose primary context the process has retained in addition to its Devices.
// Making a context takes some tenths of a second: only the first Device waits for that.
// retainLock guards the map.
var (
	retainLock sync.Mutex
	retained   = map[cu.Device]bool{}
)

// retain retains the primary context of a GPU for a Device, and once for the process.
func retain(device cu.Device) (cu.CUContext, C.CUresult) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before C.CUstreamCaptureMode
	if r := C.paceline_cuda_relax(&before); r != C.CUDA_SUCCESS {
		return cu.CUContext{}, r
	}
	defer C.paceline_cuda_unrelax(&before)
	retainLock.Lock()
	defer retainLock.Unlock()
	ctx, err := device.RetainPrimaryCtx()
	if err == nil && !retained[device] {
		if ctx, err = device.RetainPrimaryCtx(); err != nil {
			device.ReleasePrimaryCtx()
		} else {
			retained[device] = true
		}
	}
	if err != nil {
		return ctx, errorCode(err)
	}
	return ctx, C.CUDA_SUCCESS
}

// releaseContext releases the context for the Device. If the GPU is lost, it also releases the
// context for the process, so that a later Open makes a new one.
func (d *Device) releaseContext() error {
	retainLock.Lock()
	defer retainLock.Unlock()
	if d.Lost() && retained[d.device] {
		retained[d.device] = false
		d.device.ReleasePrimaryCtx()
	}
	return d.device.ReleasePrimaryCtx()
}

func deviceRange(devices int) string {
	if devices == 1 {
		return "cuda:0"
	}
	return fmt.Sprintf("cuda:0 to cuda:%d", devices-1)
}

// load loads the kernels and makes the stream that zeroes memory.
func (d *Device) load() error {
	names, entry, err := readArchive(kernels)
	if err != nil {
		return fmt.Errorf("kernels.zip cannot be read: %w", err)
	}
	err = fmt.Errorf("%s: this build has no kernels for its compute capability %d.%d", d, d.info.Major, d.info.Minor)
	for _, name := range imagesFor(names, d.info.Major, d.info.Minor) {
		image, reading := entry(name)
		if reading != nil {
			return fmt.Errorf("%s of kernels.zip cannot be read: %w", name, reading)
		}
		if err = d.inContext("loading the kernels", name, func() (e error) { d.module, e = cu.LoadData(string(image)); return }); err == nil {
			break
		}
		// Chips of some boards refuse machine code of their own generation: try the next image.
		if d.Lost() {
			return err
		}
	}
	if err != nil {
		return err
	}
	return d.inContext("making a stream", "", func() (e error) { d.zeroing, e = cu.MakeStreamWithPriority(0, cu.NonBlocking); return })
}

// Close releases the GPU. Close and free everything that was made on the Device first.
func (d *Device) Close() error {
	if !d.shut() {
		return nil
	}
	if d.Lost() {
		d.releaseContext()
		return nil
	}
	err := d.inContext("unloading the kernels", "", func() error {
		d.zeroing.Destroy()
		return d.module.Unload()
	})
	if released := d.releaseContext(); err == nil && released != nil {
		err = d.failed(errorCode(released), "releasing its context", "")
	}
	return err
}

// Info describes the GPU.
func (d *Device) Info() Info { return d.info }

// Lost reports whether a call returned an error that wraps ErrLost. Lost does not call the driver.
func (d *Device) Lost() bool { return d.lost.Load() != nil }

// Eager reports whether PACELINE_CUDA_EAGER=1 is set. Then callers launch kernels one by one
// instead of in graphs, Launch waits for each kernel, and an error names the kernel that caused it.
func (d *Device) Eager() bool { return d.eager }

func (d *Device) String() string { return fmt.Sprintf("cuda:%d (%s)", d.info.Index, d.info.Name) }

// MemInfo returns the free and the total bytes of the GPU's memory, which all processes share.
func (d *Device) MemInfo() (free, total int64, err error) {
	if err := d.use(); err != nil {
		return 0, 0, err
	}
	defer d.leave()
	var f, t C.size_t
	err = d.check(C.paceline_cuda_free_bytes(d.ctx(), &f, &t), "asking for its free memory", "")
	return int64(f), int64(t), err
}

// Function returns the kernel with this name. A launch may ask for all of the shared memory that
// the chip allows a block.
func (d *Device) Function(name string) (*Function, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if f := d.functions[name]; f != nil {
		return f, nil
	}
	var fn cu.Function
	if err := d.inContext("finding the kernel", name, func() (e error) { fn, e = d.module.Function(name); return }); err != nil {
		return nil, err
	}
	f := &Function{Name: name, handle: C.CUfunction(pointer(fn))}
	var registers, shared, threads C.int
	r := C.paceline_cuda_function(d.ctx(), f.handle, C.int(d.info.SharedPerBlock), &registers, &shared, &threads)
	if err := d.check(r, "preparing the kernel", name); err != nil {
		return nil, err
	}
	f.Regs, f.Shared, f.MaxThreads = int(registers), int(shared), int(threads)
	d.functions[name] = f
	return f, nil
}

func (d *Device) ctx() C.CUcontext { return C.CUcontext(pointer(d.context)) }

// use begins a call on the device, and leave ends it.
func (d *Device) use() error {
	if !d.enter() {
		return closed("CUDA device")
	}
	if lost := d.lost.Load(); lost != nil {
		d.leave()
		return lost
	}
	return nil
}

// inContext calls f, which uses cu, in the device's context.
func (d *Device) inContext(doing, what string, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before C.CUstreamCaptureMode
	if r := C.paceline_cuda_enter(d.ctx(), &before); r != C.CUDA_SUCCESS {
		return d.failed(r, doing, what)
	}
	err := f()
	C.paceline_cuda_leave(&before)
	if err != nil {
		return d.failed(errorCode(err), doing, what)
	}
	return nil
}

// lost is the error of a Device whose GPU is lost. It wraps ErrLost.
type lost struct{ text string }

func (l *lost) Error() string { return l.text }
func (l *lost) Unwrap() error { return ErrLost }

// closed returns the error of a call on a closed object.
func closed(what string) error { return fmt.Errorf("%s: %w", what, fault.ErrClosed) }

// check returns the error for a result, nil for success. check is small enough to be inlined.
func (d *Device) check(r C.CUresult, doing, what string) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return d.failed(r, doing, what)
}

// failed returns the error "doing what failed"; what may be "".
func (d *Device) failed(r C.CUresult, doing, what string) error {
	if what != "" {
		doing += " " + what
	}
	switch r {
	case C.CUDA_ERROR_OUT_OF_MEMORY:
		return &fault.Memory{Text: fmt.Sprintf("%s: its memory is full: %s failed%s", d, doing, d.freeMemory())}
	case C.CUDA_ERROR_DEINITIALIZED, C.CUDA_ERROR_DEVICE_UNAVAILABLE, C.CUDA_ERROR_ECC_UNCORRECTABLE, C.CUDA_ERROR_NVLINK_UNCORRECTABLE,
		C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_CONTEXT_IS_DESTROYED, C.CUDA_ERROR_ASSERT,
		C.CUDA_ERROR_HARDWARE_STACK_ERROR, C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS,
		C.CUDA_ERROR_INVALID_ADDRESS_SPACE, C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_EXTERNAL_DEVICE,
		C.CUDA_ERROR_UNKNOWN:
		d.lost.CompareAndSwap(nil, &lost{fmt.Sprintf("%s is lost with the contents of its memory: %s failed: %s", d, doing, errorText(r))})
		return d.lost.Load()
	}
	return fmt.Errorf("%s: %s failed: %s", d, doing, errorText(r))
}

// freeMemory returns the end of a message about full memory, "" if the driver does not answer.
func (d *Device) freeMemory() string {
	var f, t C.size_t
	if C.paceline_cuda_free_bytes(d.ctx(), &f, &t) != C.CUDA_SUCCESS {
		return ""
	}
	return fmt.Sprintf(", %s of %s are free", limits.Size(int64(f)), limits.Size(int64(t)))
}
