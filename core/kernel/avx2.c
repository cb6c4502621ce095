/* The "avx2" path: vectors of 8 floats, a 6x16 tile in 12 of the 16 registers. */
#if defined(__x86_64__)

#include <immintrin.h>

#include "kernel.h"

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline)) TARGET

typedef __m256 vec;
enum { VW = 8, MR = 6, DOT_ROWS = 3 };

INLINE vec v_zero(void) { return _mm256_setzero_ps(); }
INLINE vec v_set1(float a) { return _mm256_set1_ps(a); }
INLINE vec v_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void v_store(float *p, vec a) { _mm256_storeu_ps(p, a); }
INLINE vec v_add(vec a, vec b) { return _mm256_add_ps(a, b); }
INLINE vec v_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
INLINE vec v_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
INLINE vec v_div(vec a, vec b) { return _mm256_div_ps(a, b); }
INLINE vec v_sqrt(vec a) { return _mm256_sqrt_ps(a); }
INLINE vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }

INLINE __m256i first(ptrdiff_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first n < VW elements; the other elements are loaded as zero and not stored. */
INLINE vec v_load_some(const float *p, ptrdiff_t n) { return _mm256_maskload_ps(p, first(n)); }
INLINE void v_store_some(float *p, vec a, ptrdiff_t n) { _mm256_maskstore_ps(p, first(n), a); }

/* max(a, 0); NaN and -0 stay as they are. */
INLINE vec v_relu(vec a) { return _mm256_max_ps(_mm256_setzero_ps(), a); }

/* a where y > 0, 0 elsewhere. */
INLINE vec v_where_positive(vec y, vec a) {
  return _mm256_and_ps(_mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_GT_OQ), a);
}

INLINE vec v_from_bytes(const uint8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

INLINE float v_sum(vec a) {
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* The 16 interleaved sums of SumSquares; a product of two floats is exact in double. */
typedef struct {
  __m256d s[4];
} sums;

INLINE sums sums_zero(void) {
  __m256d z = _mm256_setzero_pd();
  return (sums){{z, z, z, z}};
}

INLINE sums sums_add_squares(sums s, const float *p) {
  __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(p)), b = _mm256_cvtps_pd(_mm_loadu_ps(p + 4));
  __m256d c = _mm256_cvtps_pd(_mm_loadu_ps(p + 8)), d = _mm256_cvtps_pd(_mm_loadu_ps(p + 12));
  return (sums){{_mm256_fmadd_pd(a, a, s.s[0]), _mm256_fmadd_pd(b, b, s.s[1]), _mm256_fmadd_pd(c, c, s.s[2]),
                 _mm256_fmadd_pd(d, d, s.s[3])}};
}

INLINE void sums_store(double *p, sums s) {
  for (int i = 0; i < 4; i++) _mm256_storeu_pd(p + 4 * i, s.s[i]);
}

#ifdef ROUND_OPERANDS
enum { PLAIN = 0 };

/* Rounds to 8 significant bits, ties to even; NaN stays NaN. */
INLINE vec v_operand(vec a) {
  __m256i b = _mm256_castps_si256(a);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
  __m256i up = _mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  vec rounded = _mm256_castsi256_ps(_mm256_and_si256(up, _mm256_set1_epi32(~0xFFFF)));
  return _mm256_blendv_ps(rounded, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}
#else
enum { PLAIN = 1 };

INLINE vec v_operand(vec a) { return a; }
#endif

#include "sse.h"

#ifdef ROUND_OPERANDS
#define KERNELS paceline_kernels_avx2_rounded
#else
#define KERNELS paceline_kernels_avx2
#endif
#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "loops.h"

#endif
