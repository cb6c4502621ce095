/* The "avx512" path: vectors of 16 floats, a 14x32 tile in 28 of the 32 registers. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "kernel.h"

#if defined(MULTIPLIES_TILES)
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16,fma")))
#elif defined(MULTIPLIES_PAIRS)
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")))
#else
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#endif
#define INLINE static inline __attribute__((always_inline)) TARGET

typedef __m512 vec;
enum { VW = 16, MR = 14, DOT_ROWS = 4 };

INLINE vec v_zero(void) { return _mm512_setzero_ps(); }
INLINE vec v_set1(float a) { return _mm512_set1_ps(a); }
INLINE vec v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, vec a) { _mm512_storeu_ps(p, a); }
INLINE vec v_add(vec a, vec b) { return _mm512_add_ps(a, b); }
INLINE vec v_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
INLINE vec v_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
INLINE vec v_div(vec a, vec b) { return _mm512_div_ps(a, b); }
INLINE vec v_sqrt(vec a) { return _mm512_sqrt_ps(a); }

/* The first n < VW elements; the other elements are loaded as zero and not stored. */
INLINE vec v_load_some(const float *p, ptrdiff_t n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }

INLINE void v_store_some(float *p, vec a, ptrdiff_t n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a); }

/* max(a, 0); NaN and -0 stay as they are. */
INLINE vec v_relu(vec a) { return _mm512_max_ps(_mm512_setzero_ps(), a); }

/* a where y > 0, 0 elsewhere. */
INLINE vec v_where_positive(vec y, vec a) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), a);
}

INLINE vec v_from_bytes(const uint8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* Not the compilers' reduction intrinsics: their orders differ. */
INLINE float v_sum(vec a) {
  __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* The 16 interleaved sums of SumSquares; a product of two floats is exact in double. */
typedef struct {
  __m512d lo, hi;
} sums;

INLINE sums sums_zero(void) { return (sums){_mm512_setzero_pd(), _mm512_setzero_pd()}; }

INLINE sums sums_add_squares(sums s, const float *p) {
  __m512d a = _mm512_cvtps_pd(_mm256_loadu_ps(p)), b = _mm512_cvtps_pd(_mm256_loadu_ps(p + 8));
  return (sums){_mm512_fmadd_pd(a, a, s.lo), _mm512_fmadd_pd(b, b, s.hi)};
}

INLINE void sums_store(double *p, sums s) {
  _mm512_storeu_pd(p, s.lo);
  _mm512_storeu_pd(p + 8, s.hi);
}

#if defined(MULTIPLIES_PAIRS)
enum { PLAIN = 0 };
#define PER_UNIT 2

/* a and b are units. */
INLINE vec v_fma(vec a, vec b, vec c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }

/* The pairs of two rows of 16 bf16; `rows` has one row after the other. */
INLINE vec pairs_of(__m512i rows) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return (vec)_mm512_permutexvar_epi16(order, rows);
}

/* The pairs (a[i], b[i]). */
INLINE vec v_unit(vec a, vec b) { return pairs_of((__m512i)_mm512_cvtne2ps_pbh(b, a)); }

INLINE vec v_row_unit(vec a, vec b) { return (vec)_mm512_cvtne2ps_pbh(b, a); }

INLINE vec v_row_units(const float *p, ptrdiff_t n) {
  if (n == 32) return v_row_unit(v_load(p), v_load(p + 16));
  vec high = n > 16 ? v_load_some(p + 16, n - 16) : v_zero();
  return (vec)_mm512_cvtne2ps_pbh(high, n < 16 ? v_load_some(p, n) : v_load(p));
}

INLINE void put_operands(float *row, ptrdiff_t chunk, ptrdiff_t k, vec a, ptrdiff_t n) {
  __m256i b = (__m256i)_mm512_cvtneps_pbh(a);
  if (n == 16 && k % 16 == 0) {
    _mm256_storeu_si256((__m256i *)(row + k / 32 * chunk + k / 2 % 16), b);
    return;
  }
  uint16_t t[17];
  _mm256_storeu_si256((__m256i *)t, b);
  t[n] = 0; /* the other half of the last pair, until the next call writes it */
  for (ptrdiff_t j = 0; j < n + (k + n) % 2; j++)
    memcpy((uint16_t *)(row + (k + j) / 32 * chunk + (k + j) / 2 % 16) + (k + j) % 2, &t[j], sizeof *t);
}
#elif defined(ROUND_OPERANDS)
enum { PLAIN = 0 };

/* Rounds to 8 significant bits, ties to even; NaN stays NaN. */
INLINE vec v_operand(vec a) {
  __m512i b = _mm512_castps_si512(a);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
  __m512i up = _mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  vec rounded = _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(~0xFFFF)));
  return _mm512_mask_mov_ps(rounded, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}
#else
enum { PLAIN = 1 };

INLINE vec v_operand(vec a) { return a; }
#endif

#ifndef MULTIPLIES_PAIRS
INLINE vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
#endif

#include "sse.h"

#if defined(MULTIPLIES_TILES)
#define KERNELS paceline_kernels_amx
#elif defined(MULTIPLIES_PAIRS)
#define KERNELS paceline_kernels_avx512_bf16
#elif defined(ROUND_OPERANDS)
#define KERNELS paceline_kernels_avx512_rounded
#else
#define KERNELS paceline_kernels_avx512
#endif
#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#include "loops.h"

#endif
