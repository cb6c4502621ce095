package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"encoding/json"
	"runtime"
	"time"

	"github.com/paceline-rl/paceline/core/bench"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

//export pacelineGoBuildInfo
func pacelineGoBuildInfo() *C.char {
	info := "{}"
	guarded(func() error {
		text, err := json.Marshal(struct {
			Version string `json:"version"`
			Go      string `json:"go"`
			ISA     string `json:"isa"`
			Threads int    `json:"threads"`
			GPU     string `json:"gpu"`
		}{C.PACELINE_VERSION, runtime.Version(), kernel.ISA(), threads.Cores, gpu()})
		if err == nil {
			info = string(text)
		}
		return err
	})
	return intern(info)
}

// pacelineGoOpenDescriptors makes Go's runtime open its descriptors (epoll, eventfd), which it
// opens for its first timer. loading.c calls it.
//
//export pacelineGoOpenDescriptors
func pacelineGoOpenDescriptors() { time.AfterFunc(time.Hour, func() {}).Stop() }

// gpu describes the GPU support of this build.
func gpu() string {
	if train.HasCUDA {
		return "CUDA 12 (NVIDIA driver 525 or newer)"
	}
	return "left out of this build (GPU=1 builds CUDA in)"
}

// device is a GPU in the JSON text of paceline_devices.
type device struct {
	Device     string `json:"device"`
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	Capability string `json:"compute_capability"`
	Major      int    `json:"-"`
	Memory     int64  `json:"memory"`
	CUDA       string `json:"cuda"`
}

//export pacelineGoDevices
func pacelineGoDevices(out **C.char, why *C.pl_error) C.int {
	return report(guarded(func() error {
		list := struct {
			Devices []device `json:"devices"`
			Reason  string   `json:"reason"`
		}{Devices: []device{}}
		infos, err := train.GPUs()
		if err != nil {
			list.Reason = err.Error()
		}
		for _, i := range infos {
			list.Devices = append(list.Devices, device(i))
		}
		text, err := json.Marshal(list)
		return putText(out, string(text), err)
	}), why)
}

// pacelineGoNothing is the first call of a thread into Go: see pl_thread_enter.
//
//export pacelineGoNothing
func pacelineGoNothing() {}

//export pacelineGoBench
func pacelineGoBench(out **C.char, name, options *C.char, why *C.pl_error) C.int {
	return report(guarded(func() error {
		result, err := bench.Bench(C.GoString(name), C.GoString(options))
		return putText(out, result, err)
	}), why)
}
