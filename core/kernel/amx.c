/*
 * bf16 on a processor with AMX: an instruction multiplies a tile of 16 rows of 32
 * operands by one of 16 columns and adds the sums to 16 x 16 floats, some sixteen times the
 * multiplications of avx512_bf16.c. Vectors and other operations are those of that
 * path; its convolutions and dense layers are of their own, in amx.h, amx_conv.h and
 * amx_dense.h.
 */
#include "../cpu/tiles.h"

#if PACELINE_TILES

#define MULTIPLIES_PAIRS
#define MULTIPLIES_TILES
#include "avx512.c"

#elif defined(__x86_64__)

#include "kernel.h"

const struct paceline_kernels paceline_kernels_amx; /* core/cpu names no such path */

#endif
