/*
 * Turns the masks of three layers into a line's colour bytes, pixels `from` to to-1. There is one
 * loop for each vector unit, and one for any processor.
 */
#ifndef ATARI_COMPOSITE_H
#define ATARI_COMPOSITE_H

#include "mask.h"

/* Writes eight bytes, the lowest first. It compiles to one instruction. */
ATARI_INLINE void put_word(uint8_t *to, uint64_t v) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  __builtin_memcpy(to, &v, 8);
#else
  for (int b = 0; b < 8; b++) to[b] = (uint8_t)(v >> (8 * b));
#endif
}

ATARI_INLINE void copy_word(uint8_t *to, const uint8_t *from) {
#if defined(__BYTE_ORDER__)
  __builtin_memcpy(to, from, 8);
#else
  for (int b = 0; b < 8; b++) to[b] = from[b];
#endif
}

/* Copies bytes `begin` to end-1 of a line. */
ATARI_INLINE void copy_pixels(uint8_t *to, const uint8_t *from, int32_t begin, int32_t end) {
  for (; begin + 8 <= end; begin += 8) copy_word(to + begin, from + begin);
  for (; begin < end; begin++) to[begin] = from[begin];
}

/* The layers' colours, lowest first. */
struct atari_colours {
  uint8_t back;
  struct {
    uint8_t layer, colour;
  } over[3];
};

#if defined(__AVX512BW__)

ATARI_INLINE void composite(uint8_t line[160], const struct atari_mask layer[3], struct atari_colours c, int32_t from,
                            int32_t to) {
  for (int i = 0; i < 3; i++) {
    const uint64_t part = bits_of_word_below(to - 64 * i) & ~bits_of_word_below(from - 64 * i);
    __m512i v = _mm512_set1_epi8((char)c.back);
    for (int k = 0; k < 3; k++)
      v = _mm512_mask_mov_epi8(v, layer[c.over[k].layer].w[i], _mm512_set1_epi8((char)c.over[k].colour));
    _mm512_mask_storeu_epi8(line + 64 * i, part, v);
  }
}

#elif defined(__AVX2__)

ATARI_INLINE void composite_line(uint8_t line[160], const struct atari_mask layer[3], struct atari_colours c) {
  const __m256i spread =
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201);
  for (int i = 0; i < 5; i++) {
    __m256i v = _mm256_set1_epi8((char)c.back);
    for (int k = 0; k < 3; k++) {
      const uint32_t lit = (uint32_t)(layer[c.over[k].layer].w[i / 2] >> (i % 2 * 32));
      __m256i m = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)lit), spread), bits);
      m = _mm256_cmpeq_epi8(m, bits);
      v = _mm256_blendv_epi8(v, _mm256_set1_epi8((char)c.over[k].colour), m);
    }
    _mm256_storeu_si256((__m256i *)(line + 32 * i), v);
  }
}

#else

/* Eight pixels at a time: bit i of a byte becomes byte i of a word. */
ATARI_INLINE void composite_line(uint8_t line[160], const struct atari_mask layer[3], struct atari_colours c) {
  const uint64_t each = UINT64_C(0x0101010101010101);
  for (int i = 0; i < 20; i++) {
    uint64_t v = c.back * each;
    for (int k = 0; k < 3; k++) {
      const uint64_t byte = layer[c.over[k].layer].w[i / 8] >> (i % 8 * 8) & 0xFF;
      const uint64_t bits = byte * each & UINT64_C(0x8040201008040201);
      const uint64_t lit = ((bits + UINT64_C(0x7F7F7F7F7F7F7F7F)) >> 7 & each) * 0xFF;
      v = (v & ~lit) | ((c.over[k].colour * each) & lit);
    }
    put_word(line + 8 * i, v);
  }
}

#endif

#if !defined(__AVX512BW__)

ATARI_INLINE void composite(uint8_t line[160], const struct atari_mask layer[3], struct atari_colours c, int32_t from,
                            int32_t to) {
  uint8_t whole[160];
  if (to - from == 160) {
    composite_line(line, layer, c);
    return;
  }
  composite_line(whole, layer, c);
  copy_pixels(line, whole, from, to);
}

#endif

#endif
