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

// Built is whether this build has the CUDA side in it.
const Built = true

// oldest is the CUDA that a driver must know.
const oldest = 12000

// openDriver opens the driver, once in the life of the process.
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
		return 0, fmt.Errorf("the NVIDIA driver did not start: %s", text(r))
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

// Devices returns the GPUs that the driver shows to this process.
func Devices() ([]Info, error) {
	version, err := openDriver()
	if err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("the NVIDIA driver did not count its GPUs: %s", text(code(err)))
	}
	if n == 0 {
		return nil, noDevice()
	}
	infos := make([]Info, n)
	for i := range infos {
		if infos[i], err = describe(i, version); err != nil {
			return nil, fmt.Errorf("cuda:%d: the NVIDIA driver did not describe it: %s", i, text(code(err)))
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

// code returns the driver's number for an error of cu's, whose type, an int, is its own.
func code(err error) C.CUresult {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return C.CUresult(v.Int())
	}
	return C.CUDA_ERROR_UNKNOWN
}

// text returns what the driver says of an error, and its name.
func text(r C.CUresult) string {
	var name, says *C.char
	if C.cuGetErrorName(r, &name) != C.CUDA_SUCCESS || C.cuGetErrorString(r, &says) != C.CUDA_SUCCESS {
		return fmt.Sprintf("error %d of CUDA", r)
	}
	return fmt.Sprintf("%s (%s)", C.GoString(says), C.GoString(name))
}

// pointer returns the driver's handle in a type of cu's, each of which is a struct of nothing else.
func pointer[T cu.CUContext | cu.Stream | cu.Event | cu.Function](h T) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&h))
}
