//go:build gpu && cgo && linux

package cuda

//go:generate go run ./internal/symbols

/*
#cgo CFLAGS: -O2 -g1 -std=c11
#cgo LDFLAGS: -ldl -pthread
#include "driver.h"
*/
import "C"

import (
	"fmt"
	"os"
	"reflect"
	"sync"
	"unsafe"

	"gorgonia.org/cu"
)

// Built reports whether this build includes CUDA.
const Built = true

// oldest is the oldest CUDA version that a driver must support: 12.0.
const oldest = 12000

// openDriver loads the driver once per process and returns its CUDA version. An error is permanent.
var openDriver = sync.OnceValues(func() (version int, err error) {
	var why [512]C.char
	switch C.paceline_cuda_load(&why[0], C.size_t(len(why))) {
	case C.PACELINE_CUDA_MISSING:
		return 0, fmt.Errorf("no NVIDIA driver was found (%s), must be version 525 or newer", C.GoString(&why[0]))
	case C.PACELINE_CUDA_LACKS:
		return 0, fmt.Errorf("the NVIDIA driver is too old (it has no %s), must be version 525 or newer, for CUDA 12.0", C.GoString(&why[0]))
	}
	if version = cu.Version(); version < oldest {
		return 0, fmt.Errorf("the NVIDIA driver is too old (for CUDA %d.%d), must be version 525 or newer, for CUDA 12.0", version/1000, version%1000/10)
	}
	if r := C.cuInit(0); r == C.CUDA_ERROR_NO_DEVICE {
		return 0, noDevice()
	} else if r != C.CUDA_SUCCESS {
		return 0, fmt.Errorf("the NVIDIA driver did not start: %s", errorText(r))
	}
	return version, nil
})

func noDevice() error {
	hint := ""
	if visible, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		hint = fmt.Sprintf(" (CUDA_VISIBLE_DEVICES is %q)", visible)
	}
	return fmt.Errorf("the NVIDIA driver found no GPU%s", hint)
}

// Devices returns the GPUs that are visible to this process.
func Devices() ([]Info, error) {
	version, err := openDriver()
	if err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("the NVIDIA driver did not count its GPUs: %s", errorText(errorCode(err)))
	}
	if n == 0 {
		return nil, noDevice()
	}
	infos := make([]Info, n)
	for i := range infos {
		if infos[i], err = describe(i, version); err != nil {
			return nil, fmt.Errorf("cuda:%d: the NVIDIA driver did not describe it: %s", i, errorText(errorCode(err)))
		}
	}
	return infos, nil
}

func describe(index, version int) (Info, error) {
	device, err := cu.GetDevice(index)
	if err != nil {
		return Info{}, err
	}
	info := Info{Index: index, Driver: version}
	if info.Name, err = device.Name(); err != nil {
		return Info{}, err
	}
	id, err := device.UUID()
	if err != nil {
		return Info{}, err
	}
	info.UUID = "GPU-" + id.String() // as nvidia-smi prints it
	if info.Bytes, err = device.TotalMem(); err != nil {
		return Info{}, err
	}
	var threads int
	for _, a := range []struct {
		attribute cu.DeviceAttribute
		to        *int
	}{
		{cu.ComputeCapabilityMajor, &info.Major},
		{cu.ComputeCapabilityMinor, &info.Minor},
		{cu.MultiprocessorCount, &info.SMs},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &info.SharedPerBlock}, // cu has no name for it
		{cu.MaxThreadsPerMultiprocessor, &threads},
	} {
		if *a.to, err = device.Attribute(a.attribute); err != nil {
			return Info{}, err
		}
	}
	info.WarpsPerSM = threads / 32
	return info, nil
}

// errorCode returns the driver's code for an error of cu. cu does not export the type, which is an
// int.
func errorCode(err error) C.CUresult {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return C.CUresult(v.Int())
	}
	return C.CUDA_ERROR_UNKNOWN
}

// errorText returns the driver's description and name of an error.
func errorText(r C.CUresult) string {
	var name, says *C.char
	if C.cuGetErrorName(r, &name) != C.CUDA_SUCCESS || C.cuGetErrorString(r, &says) != C.CUDA_SUCCESS {
		return fmt.Sprintf("error %d of CUDA", r)
	}
	return fmt.Sprintf("%s (%s)", C.GoString(says), C.GoString(name))
}

// pointer returns the driver's handle, the only field of these types of cu.
func pointer[T cu.CUContext | cu.Stream | cu.Event | cu.Function](h T) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&h))
}
