package cuda

import (
	"errors"
	"unsafe"
)

// ErrNotBuilt is what every call returns in a build without the tag gpu.
var ErrNotBuilt = errors.New("this build of Paceline has no CUDA in it: make lib GPU=1, or GPU=1 pip install of the source, builds it in")

// ErrLost is wrapped by an error after which a device is of no use to this process: a
// kernel went wrong, or the GPU did. What lay in its memory is gone.
var ErrLost = errors.New("the GPU is lost")

// Info is what is known of a GPU.
type Info struct {
	Index          int // as CUDA counts, CUDA_VISIBLE_DEVICES included
	Name, UUID     string
	Major, Minor   int   // compute capability
	Bytes          int64 // of memory, in all
	SMs            int   // streaming multiprocessors
	SharedPerBlock int   // bytes, the most that a kernel may ask for
	WarpsPerSM     int
	Driver         int // the newest CUDA that the driver knows: 12090 is 12.9
}

// Priority is which of the streams of a GPU goes first.
type Priority int

const (
	Low    Priority = iota // what nothing waits for soon
	Normal                 // the chain of an update
	High                   // acting, which environments wait for
)

// Launch is how a kernel is launched.
type Launch struct {
	Grid, Block [3]uint32
	Shared      uint32         // bytes of dynamic shared memory
	Args        unsafe.Pointer // the struct that is the kernel's only parameter, passed by value; read during the call
	Bytes       uintptr        // its size, at most MaxArgs
}

// MaxArgs is how large a kernel's arguments may be. Drivers take 4096 bytes.
const MaxArgs = 1024
