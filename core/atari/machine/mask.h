/*
 * Rows of 160 pixels as bits: the pixels of a line that an object of the TIA lights.
 *
 * A struct atari_mask stores a row. tia_bits is a row in registers: one 256-bit vector with AVX2,
 * otherwise words. Load a vector only from memory that was stored as a vector, and words from
 * words: a wide load after narrow stores makes the processor wait for the memory.
 */
#ifndef ATARI_MASK_H
#define ATARI_MASK_H

#include "state.h"

/* Bits below x of a word. x may be below 0 or above 64. */
ATARI_INLINE uint64_t bits_of_word_below(int32_t x) {
  return x <= 0 ? 0 : x >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << x) - 1;
}

#if defined(__AVX2__)

#include <immintrin.h>

typedef __m256i tia_bits;

ATARI_INLINE tia_bits bits_load(const struct atari_mask *m) { return _mm256_loadu_si256((const __m256i *)m); }
ATARI_INLINE void bits_store(struct atari_mask *m, tia_bits b) { _mm256_storeu_si256((__m256i *)m, b); }
ATARI_INLINE tia_bits bits_none(void) { return _mm256_setzero_si256(); }
ATARI_INLINE tia_bits bits_and(tia_bits a, tia_bits b) { return _mm256_and_si256(a, b); }
ATARI_INLINE tia_bits bits_or(tia_bits a, tia_bits b) { return _mm256_or_si256(a, b); }
ATARI_INLINE tia_bits bits_without(tia_bits a, tia_bits b) { return _mm256_andnot_si256(b, a); }
ATARI_INLINE int bits_any(tia_bits b) { return !_mm256_testz_si256(b, b); }
ATARI_INLINE int bits_meet(tia_bits a, tia_bits b) { return !_mm256_testz_si256(a, b); }

/* The words hold pixels 0 to 63, 64 to 127 and 128 to 159. */
ATARI_INLINE tia_bits bits_of(uint64_t first, uint64_t second, uint64_t third) {
  return _mm256_setr_epi64x((long long)first, (long long)second, (long long)third, 0);
}

/* Pixels below x, 0 to 160: shifts the bits from x on out of each word. A shift by 64 or more gives 0. */
ATARI_INLINE tia_bits bits_below(int32_t x) {
  const __m256i ends = _mm256_setr_epi64x(64, 128, 192, 256);
  const __m256i beyond = _mm256_subs_epu16(ends, _mm256_set1_epi64x(x)); /* not below 0 */
  return _mm256_srlv_epi64(_mm256_set1_epi64x(-1), beyond);
}

#else

typedef struct atari_mask tia_bits;

ATARI_INLINE tia_bits bits_of(uint64_t first, uint64_t second, uint64_t third) {
  const tia_bits b = {{first, second, third, 0}};
  return b;
}

ATARI_INLINE tia_bits bits_load(const struct atari_mask *m) { return *m; }
ATARI_INLINE void bits_store(struct atari_mask *m, tia_bits b) { *m = b; }
ATARI_INLINE tia_bits bits_none(void) { return bits_of(0, 0, 0); }
ATARI_INLINE tia_bits bits_and(tia_bits a, tia_bits b) {
  return bits_of(a.w[0] & b.w[0], a.w[1] & b.w[1], a.w[2] & b.w[2]);
}
ATARI_INLINE tia_bits bits_or(tia_bits a, tia_bits b) {
  return bits_of(a.w[0] | b.w[0], a.w[1] | b.w[1], a.w[2] | b.w[2]);
}
ATARI_INLINE tia_bits bits_without(tia_bits a, tia_bits b) {
  return bits_of(a.w[0] & ~b.w[0], a.w[1] & ~b.w[1], a.w[2] & ~b.w[2]);
}
ATARI_INLINE int bits_any(tia_bits b) { return (b.w[0] | b.w[1] | b.w[2]) != 0; }
ATARI_INLINE int bits_meet(tia_bits a, tia_bits b) { return bits_any(bits_and(a, b)); }

/* Pixels below x, 0 to 160. */
ATARI_INLINE tia_bits bits_below(int32_t x) {
  return bits_of(bits_of_word_below(x), bits_of_word_below(x - 64), bits_of_word_below(x - 128));
}

#endif

/* Pixels `from` to to-1. */
ATARI_INLINE tia_bits bits_range(int32_t from, int32_t to) { return bits_without(bits_below(to), bits_below(from)); }

/* Lights the pixels of `bits`, bit 0 at x (0 to 159). The row wraps around at its end. */
ATARI_FN void mask_put(struct atari_mask *m, uint32_t bits, uint32_t x) {
  const uint32_t word = x >> 6, shift = x & 63;
  const uint64_t low = (uint64_t)bits << shift, high = shift > 32 ? (uint64_t)bits >> (64 - shift) : 0;
  if (word == 0) {
    m->w[0] |= low;
    m->w[1] |= high;
  } else if (word == 1) {
    m->w[1] |= low;
    m->w[2] |= high;
  } else { /* the last word has 32 pixels */
    m->w[2] |= low & UINT64_C(0xFFFFFFFF);
    m->w[0] |= low >> 32;
  }
}

ATARI_INLINE tia_bits bits_of_words(const struct atari_mask *m) { return bits_of(m->w[0], m->w[1], m->w[2]); }

#endif
