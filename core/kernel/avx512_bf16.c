/*
 * bf16 on a processor with AVX-512 BF16: an instruction multiplies 16 pairs of
 * operands and adds both products to a float, so products have half as many
 * steps as in avx512.c, whose vectors and other operations these are.
 */
#if defined(__x86_64__)

#define MULTIPLIES_PAIRS
#include "avx512.c"

#endif
