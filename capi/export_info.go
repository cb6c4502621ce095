package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"encoding/json"
	"runtime"

	"github.com/paceline-rl/paceline/core/bench"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/threads"
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
		}{C.PACELINE_VERSION, runtime.Version(), kernel.ISA(), threads.Cores})
		if err == nil {
			info = string(text)
		}
		return err
	})
	return intern(info)
}

// pacelineGoNothing is what a thread calls first: see pl_thread_enter.
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
