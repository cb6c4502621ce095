/* bf16 on a processor with AVX2 that has no instruction for it: fp32 products of operands rounded to bf16. */
#define ROUND_OPERANDS
#include "avx2.c"
