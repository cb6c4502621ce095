/*
 * The "generic" path: vectors of 4 floats in the compilers' vector extension, which becomes SSE2 or
 * NEON. Products are rounded before they are added, so the results are the same on every processor.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

#define TARGET
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(16)));
typedef uint32_t mask __attribute__((vector_size(16)));
enum { VW = 4, MR = 4, DOT_ROWS = 2 };

INLINE vec v_zero(void) { return (vec){0, 0, 0, 0}; }
INLINE vec v_set1(float a) { return (vec){a, a, a, a}; }
INLINE vec v_add(vec a, vec b) { return a + b; }
INLINE vec v_sub(vec a, vec b) { return a - b; }
INLINE vec v_mul(vec a, vec b) { return a * b; }
INLINE vec v_div(vec a, vec b) { return a / b; }
INLINE vec v_fma(vec a, vec b, vec c) { return a * b + c; }

INLINE vec v_load(const float *p) {
  vec a;
  memcpy(&a, p, sizeof a);
  return a;
}

INLINE void v_store(float *p, vec a) { memcpy(p, &a, sizeof a); }

INLINE vec v_sqrt(vec a) { return (vec){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])}; }

/* The first n < VW elements; the other elements are loaded as zero and not stored. */
INLINE vec v_load_some(const float *p, ptrdiff_t n) {
  float a[VW] = {0};
  memcpy(a, p, (size_t)n * sizeof *a);
  return v_load(a);
}

INLINE void v_store_some(float *p, vec a, ptrdiff_t n) { memcpy(p, &a, (size_t)n * sizeof *p); }

/* max(a, 0); NaN and -0 stay as they are. */
INLINE vec v_relu(vec a) { return (vec)((mask)a & ~(mask)(a < v_zero())); }

/* a where y > 0, 0 elsewhere. */
INLINE vec v_where_positive(vec y, vec a) { return (vec)((mask)a & (mask)(y > v_zero())); }

INLINE vec v_from_bytes(const uint8_t *p) { return (vec){p[0], p[1], p[2], p[3]}; }

INLINE float v_sum(vec a) { return (a[0] + a[2]) + (a[1] + a[3]); }

/* The 16 interleaved sums of SumSquares; a product of two floats is exact in double. */
typedef struct {
  double s[16];
} sums;

INLINE sums sums_zero(void) { return (sums){{0}}; }

INLINE sums sums_add_squares(sums s, const float *p) {
  for (int i = 0; i < 16; i++) s.s[i] += (double)p[i] * p[i];
  return s;
}

INLINE void sums_store(double *p, sums s) { memcpy(p, s.s, sizeof s.s); }

INLINE void transpose4(float *dst, ptrdiff_t ldd, const float *src, ptrdiff_t lds) {
  for (int i = 0; i < 4; i++) {
    vec a = {src[i], src[i + lds], src[i + 2 * lds], src[i + 3 * lds]};
    v_store(dst + i * ldd, a);
  }
}

#ifdef ROUND_OPERANDS
enum { PLAIN = 0 };

/* Rounds to 8 significant bits, ties to even; NaN stays NaN. */
INLINE vec v_operand(vec a) {
  mask b = (mask)a, odd = (b >> 16) & 1, nan = a != a;
  mask rounded = (b + odd + 0x7FFF) & ~0xFFFF;
  return (vec)((nan & b) | (~nan & rounded));
}
#else
enum { PLAIN = 1 };

INLINE vec v_operand(vec a) { return a; }
#endif

/* Interleaves 16 pixels of four planes, which lie ld apart. */
INLINE void interleave4x16(uint8_t *dst, const uint8_t *src, ptrdiff_t ld) {
  for (int p = 0; p < 16; p++)
    for (int ch = 0; ch < 4; ch++) dst[4 * p + ch] = src[ch * ld + p];
}

#ifdef ROUND_OPERANDS
#define KERNELS paceline_kernels_generic_rounded
#else
#define KERNELS paceline_kernels_generic
#endif
#define TILES(X) X(1) X(2) X(3) X(4)
#include "loops.h"
