package cuda

import (
	"errors"
	"unsafe"

	"github.com/paceline-rl/paceline/core/fault"
)

// ErrNotBuilt is returned by every call in a build without the tag gpu.
var ErrNotBuilt = errors.New("this build of Paceline has no CUDA in it: build it with make lib GPU=1, or install the source with GPU=1 pip install")

// ErrLost is wrapped by the error of a kernel or GPU failure after which this process can no longer
// use the device. The contents of the GPU's memory are lost.
var ErrLost = fault.ErrDeviceLost

// Info describes a GPU.
type Info struct {
	Index          int // CUDA's index, which CUDA_VISIBLE_DEVICES changes
	Name, UUID     string
	Major, Minor   int   // compute capability
	Bytes          int64 // total memory
	SMs            int   // streaming multiprocessors
	SharedPerBlock int   // bytes of shared memory that a block may have
	WarpsPerSM     int
	Driver         int // the newest CUDA version that the driver supports: 12090 is 12.9
}

// Priority is the priority of a stream.
type Priority int

const (
	Low    Priority = iota // work off the critical path: copies, side branches of an update
	Normal                 // updates
	High                   // acting: environments wait for it
)

// Launch is the geometry and the arguments of a kernel launch.
type Launch struct {
	Grid, Block [3]uint32
	Shared      uint32         // bytes of dynamic shared memory
	Args        unsafe.Pointer // the kernel's only parameter, a struct passed by value; copied before Launch returns
	Bytes       uintptr        // size of *Args, at most MaxArgs
}

// MaxArgs is the largest size of a kernel's arguments, in bytes. Drivers allow 4096.
const MaxArgs = 1024
