//go:build cgo

package kernel

// #include "kernel.h"
import "C"

import "golang.org/x/sys/cpu"

// nativeTables returns the C paths that this processor and operating system run,
// best first.
func nativeTables() []*table {
	var paths []*table
	avx2 := cpu.X86.HasAVX2 && cpu.X86.HasFMA
	if avx2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL {
		if cpu.X86.HasAVX512BF16 {
			paths = append(paths, nativeTable("avx512bf16", &C.paceline_kernels_avx512, &C.paceline_kernels_avx512_bf16))
		}
		paths = append(paths, nativeTable("avx512", &C.paceline_kernels_avx512, &C.paceline_kernels_avx512_rounded))
	}
	if avx2 {
		paths = append(paths, nativeTable("avx2", &C.paceline_kernels_avx2, &C.paceline_kernels_avx2_rounded))
	}
	return append(paths, nativeTable("generic", &C.paceline_kernels_generic, &C.paceline_kernels_generic_rounded))
}
