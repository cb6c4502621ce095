/*
 * Functions of the x86 paths on vectors of 4 floats, which every x86-64 has. No include guard: see
 * loops.h.
 */

INLINE void transpose4(float *dst, ptrdiff_t ldd, const float *src, ptrdiff_t lds) {
  __m128 a = _mm_loadu_ps(src), b = _mm_loadu_ps(src + lds);
  __m128 c = _mm_loadu_ps(src + 2 * lds), d = _mm_loadu_ps(src + 3 * lds);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(dst, a);
  _mm_storeu_ps(dst + ldd, b);
  _mm_storeu_ps(dst + 2 * ldd, c);
  _mm_storeu_ps(dst + 3 * ldd, d);
}

/* Interleaves 16 pixels of four planes, which lie ld apart. */
INLINE void interleave4x16(uint8_t *dst, const uint8_t *src, ptrdiff_t ld) {
  __m128i a = _mm_loadu_si128((const __m128i *)src), b = _mm_loadu_si128((const __m128i *)(src + ld));
  __m128i c = _mm_loadu_si128((const __m128i *)(src + 2 * ld)), d = _mm_loadu_si128((const __m128i *)(src + 3 * ld));
  __m128i ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d);
  __m128i *to = (__m128i *)dst;
  _mm_storeu_si128(to, _mm_unpacklo_epi16(ab, cd));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(ab, cd));
  ab = _mm_unpackhi_epi8(a, b);
  cd = _mm_unpackhi_epi8(c, d);
  _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(ab, cd));
  _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(ab, cd));
}
