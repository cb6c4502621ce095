/*
 * bf16 on a processor with AMX. An instruction multiplies a tile of 16 rows of 32 operands by a
 * tile of 16 columns and adds the result to 16 x 16 floats: 16 times the multiplications of an
 * instruction of avx512_bf16.c. Convolutions and dense layers are in amx.h, amx_conv.h and
 * amx_dense.h; vectors and all other functions are those of avx512_bf16.c.
 */
#include "../cpu/tiles.h"

#if PACELINE_TILES

#define MULTIPLIES_PAIRS
#define MULTIPLIES_TILES
#include "avx512.c"

#elif defined(__x86_64__)

#include "kernel.h"

const struct paceline_kernels paceline_kernels_amx; /* unused: core/cpu does not offer the path */

#endif
