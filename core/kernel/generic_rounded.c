/* bf16 on any processor: fp32 products of operands rounded to bf16. */
#define ROUND_OPERANDS
#include "generic.c"
