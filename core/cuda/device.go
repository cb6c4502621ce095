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

// kernels is the archive of the kernels' machine code, an entry for each chip: sm_90.cubin, and
// compute_80.ptx for chips that were made later.
//
//go:embed kernels.zip
var kernels []byte

// Device is a GPU whose primary context this process holds, with the kernels loaded.
type Device struct {
	gate
	info    Info
	device  cu.Device
	context cu.CUContext
	module  cu.Module
	zeroing cu.Stream // new memory is zeroed on it

	eager  bool
	lost   atomic.Pointer[lost]
	pinned atomic.Pointer[[]*Pinned] // read by every copy; written under setup
	setup  sync.Mutex                // guards functions, and writing pinned
	named  map[string]*Function
}

// Function is a kernel.
type Function struct {
	Name       string
	Regs       int // registers of a thread
	Shared     int // bytes of static shared memory
	MaxThreads int // of a block

	at C.CUfunction
}

// Open acquires GPU index and loads the kernels for its chip. Each Open is an owner of its own:
// what one of them makes is used with it only.
func Open(index int) (*Device, error) {
	infos, err := Devices()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(infos) {
		return nil, fmt.Errorf("cuda:%d: there is no such GPU, must be %s", index, span(len(infos)))
	}
	d := &Device{gate: newGate(), info: infos[index], named: map[string]*Function{}}
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
		return nil, d.failed(code(err), "finding it", "")
	}
	var r C.CUresult
	if d.context, r = retain(d.device); r != C.CUDA_SUCCESS {
		return nil, d.failed(r, "acquiring its context", "")
	}
	if err = d.begin(); err != nil {
		d.release()
		return nil, err
	}
	return d, nil
}

// held are the GPUs whose primary context the process holds beside its Devices: making a context takes
// some tenths of a second, and only the first Device should wait for that. Under contexts.
var (
	contexts sync.Mutex
	held     = map[cu.Device]bool{}
)

// retain returns the primary context of a GPU, once more.
func retain(device cu.Device) (cu.CUContext, C.CUresult) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before C.CUstreamCaptureMode
	if r := C.paceline_cuda_relax(&before); r != C.CUDA_SUCCESS {
		return cu.CUContext{}, r
	}
	defer C.paceline_cuda_unrelax(&before)
	contexts.Lock()
	defer contexts.Unlock()
	ctx, err := device.RetainPrimaryCtx()
	if err == nil && !held[device] {
		if ctx, err = device.RetainPrimaryCtx(); err != nil {
			device.ReleasePrimaryCtx()
		} else {
			held[device] = true
		}
	}
	if err != nil {
		return ctx, code(err)
	}
	return ctx, C.CUDA_SUCCESS
}

// release releases the Device's hold on the context, and the process's where the GPU is lost: a
// context that nothing holds can be made anew.
func (d *Device) release() error {
	contexts.Lock()
	defer contexts.Unlock()
	if d.Lost() && held[d.device] {
		held[d.device] = false
		d.device.ReleasePrimaryCtx()
	}
	return d.device.ReleasePrimaryCtx()
}

func span(devices int) string {
	if devices == 1 {
		return "cuda:0"
	}
	return fmt.Sprintf("cuda:0 to cuda:%d", devices-1)
}

// begin loads the kernels and makes what every Device has.
func (d *Device) begin() error {
	names, entry, err := read(kernels)
	if err != nil {
		return fmt.Errorf("kernels.zip cannot be read: %w", err)
	}
	err = fmt.Errorf("%s: this build has no kernels for its compute capability %d.%d", d, d.info.Major, d.info.Minor)
	for _, name := range images(names, d.info.Major, d.info.Minor) {
		image, reading := entry(name)
		if reading != nil {
			return fmt.Errorf("%s of kernels.zip cannot be read: %w", name, reading)
		}
		if err = d.within("loading the kernels", name, func() (e error) { d.module, e = cu.LoadData(string(image)); return }); err == nil {
			break
		}
		// A chip may refuse machine code of its generation: those of some boards do.
		if d.Lost() {
			return err
		}
	}
	if err != nil {
		return err
	}
	return d.within("making a stream", "", func() (e error) { d.zeroing, e = cu.MakeStreamWithPriority(0, cu.NonBlocking); return })
}

// Close releases the GPU, after all that was made on it has been closed.
func (d *Device) Close() error {
	if !d.shut() {
		return nil
	}
	if d.Lost() {
		d.release()
		return nil
	}
	err := d.within("unloading the kernels", "", func() error {
		d.zeroing.Destroy()
		return d.module.Unload()
	})
	if released := d.release(); err == nil && released != nil {
		err = d.failed(code(released), "releasing its context", "")
	}
	return err
}

// Info returns what is known of the GPU.
func (d *Device) Info() Info { return d.info }

// Lost reports whether an error wrapped ErrLost. It costs nothing, and asks nobody.
func (d *Device) Lost() bool { return d.lost.Load() != nil }

// Eager reports whether kernels are to be launched one by one, outside graphs: Launch waits for each
// then, and an error names the kernel. The environment variable PACELINE_CUDA_EAGER asks for it.
func (d *Device) Eager() bool { return d.eager }

func (d *Device) String() string { return fmt.Sprintf("cuda:%d (%s)", d.info.Index, d.info.Name) }

// Free returns how many bytes of the GPU's memory are free, for any process, and how many it has.
func (d *Device) Free() (free, total int64, err error) {
	if err := d.use(); err != nil {
		return 0, 0, err
	}
	defer d.leave()
	var f, t C.size_t
	err = d.check(C.paceline_cuda_free_bytes(d.ctx(), &f, &t), "asking for its free memory", "")
	return int64(f), int64(t), err
}

// Function returns a kernel by its name. Launches of it may ask for as much dynamic shared
// memory as the chip has for a block.
func (d *Device) Function(name string) (*Function, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	d.setup.Lock()
	defer d.setup.Unlock()
	if f := d.named[name]; f != nil {
		return f, nil
	}
	var fn cu.Function
	if err := d.within("finding the kernel", name, func() (e error) { fn, e = d.module.Function(name); return }); err != nil {
		return nil, err
	}
	f := &Function{Name: name, at: C.CUfunction(pointer(fn))}
	var registers, shared, threads C.int
	r := C.paceline_cuda_function(d.ctx(), f.at, C.int(d.info.SharedPerBlock), &registers, &shared, &threads)
	if err := d.check(r, "preparing the kernel", name); err != nil {
		return nil, err
	}
	f.Regs, f.Shared, f.MaxThreads = int(registers), int(shared), int(threads)
	d.named[name] = f
	return f, nil
}

func (d *Device) ctx() C.CUcontext { return C.CUcontext(pointer(d.context)) }

// use begins a call on the device; leave ends it.
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

// within calls functions of cu's in the context.
func (d *Device) within(doing, what string, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before C.CUstreamCaptureMode
	if r := C.paceline_cuda_enter(d.ctx(), &before); r != C.CUDA_SUCCESS {
		return d.failed(r, doing, what)
	}
	err := f()
	C.paceline_cuda_leave(&before)
	if err != nil {
		return d.failed(code(err), doing, what)
	}
	return nil
}

// lost is the error that ended a device.
type lost struct{ text string }

func (l *lost) Error() string { return l.text }
func (l *lost) Unwrap() error { return ErrLost }

// closed refuses a call on an object that was closed.
func closed(what string) error { return fmt.Errorf("%s: %w", what, fault.ErrClosed) }

// check returns nil for a success. It is small, so that calls that succeed cost nothing more.
func (d *Device) check(r C.CUresult, doing, what string) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return d.failed(r, doing, what)
}

// failed makes the sentence of an error; what may be "".
func (d *Device) failed(r C.CUresult, doing, what string) error {
	if what != "" {
		doing += " " + what
	}
	switch r {
	case C.CUDA_ERROR_OUT_OF_MEMORY:
		return &fault.Memory{Text: fmt.Sprintf("%s: its memory is full: %s failed%s", d, doing, d.left())}
	case C.CUDA_ERROR_DEINITIALIZED, C.CUDA_ERROR_DEVICE_UNAVAILABLE, C.CUDA_ERROR_ECC_UNCORRECTABLE, C.CUDA_ERROR_NVLINK_UNCORRECTABLE,
		C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_CONTEXT_IS_DESTROYED, C.CUDA_ERROR_ASSERT,
		C.CUDA_ERROR_HARDWARE_STACK_ERROR, C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS,
		C.CUDA_ERROR_INVALID_ADDRESS_SPACE, C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_EXTERNAL_DEVICE,
		C.CUDA_ERROR_UNKNOWN:
		d.lost.CompareAndSwap(nil, &lost{fmt.Sprintf("%s is lost, and what lay in its memory: %s failed: %s", d, doing, text(r))})
		return d.lost.Load()
	}
	return fmt.Errorf("%s: %s failed: %s", d, doing, text(r))
}

// left says how much memory is free.
func (d *Device) left() string {
	var f, t C.size_t
	if C.paceline_cuda_free_bytes(d.ctx(), &f, &t) != C.CUDA_SUCCESS {
		return ""
	}
	return fmt.Sprintf(", %s of %s are free", limits.Size(int64(f)), limits.Size(int64(t)))
}
