//go:build cgo && !amd64

package kernel

// #include "kernel.h"
import "C"

import "github.com/paceline-rl/paceline/core/cpu"

func nativeTables() []*table {
	return []*table{nativeTable(cpu.Generic, &C.paceline_kernels_generic, &C.paceline_kernels_generic_rounded)}
}
