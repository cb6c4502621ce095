//go:build cgo && !amd64

package kernel

// #include "kernel.h"
import "C"

func nativeTables() []*table {
	return []*table{nativeTable("generic", &C.paceline_kernels_generic, &C.paceline_kernels_generic_rounded)}
}
