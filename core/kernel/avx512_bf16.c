/*
 * bf16 on a processor with AVX-512 BF16. An instruction multiplies 16 pairs of operands and adds
 * both products of a pair to a float, so a product has half the steps of avx512.c. Vectors and all
 * other operations are those of avx512.c.
 */
#if defined(__x86_64__)

#define MULTIPLIES_PAIRS
#include "avx512.c"

#endif
