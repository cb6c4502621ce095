/* bf16 without bf16 instructions, by AVX2: fp32 products of operands rounded to bf16. */
#define ROUND_OPERANDS
#include "avx2.c"
