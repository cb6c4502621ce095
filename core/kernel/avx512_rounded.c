/* bf16 without bf16 instructions, by AVX-512: fp32 products of operands rounded to bf16. */
#define ROUND_OPERANDS
#include "avx512.c"
