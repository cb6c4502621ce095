//go:build cgo

package kernel

// #include "kernel.h"
import "C"

import "github.com/paceline-rl/paceline/core/cpu"

// nativeTables returns the C paths that are compiled for amd64. core/cpu says which of them this
// processor runs.
func nativeTables() []*table {
	return []*table{
		nativeTable(cpu.AMX, &C.paceline_kernels_avx512, &C.paceline_kernels_amx),
		nativeTable(cpu.AVX512BF16, &C.paceline_kernels_avx512, &C.paceline_kernels_avx512_bf16),
		nativeTable(cpu.AVX512, &C.paceline_kernels_avx512, &C.paceline_kernels_avx512_rounded),
		nativeTable(cpu.AVX2, &C.paceline_kernels_avx2, &C.paceline_kernels_avx2_rounded),
		nativeTable(cpu.Generic, &C.paceline_kernels_generic, &C.paceline_kernels_generic_rounded),
	}
}
