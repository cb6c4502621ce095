/* The functions of this package with the vectors of AVX2. They return the same bytes as the Go code. */
#include "native_amd64.h"

#include <immintrin.h>
#include <string.h>

enum { WIDTH = PACELINE_SCREEN_WIDTH };

/* No FMA: products are rounded before they are added. */
#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline)) TARGET

/* With -O2 alone gcc does not unroll short loops and keeps their arrays in memory. */
#define UNROLL _Pragma("GCC unroll 8")

/* The greys of the 128 even colour bytes, 16 in each half of a vector. */
struct greys {
  __m256i part[8];
  const uint8_t *all;
};

INLINE void load_greys(struct greys *g, const uint8_t *grey) {
  const __m128i even = _mm_set1_epi16(0xff);
  for (int i = 0; i < 8; i++) {
    __m128i lo = _mm_loadu_si128((const __m128i *)(grey + 32 * i));
    __m128i hi = _mm_loadu_si128((const __m128i *)(grey + 32 * i + 16));
    __m128i part = _mm_packus_epi16(_mm_and_si128(lo, even), _mm_and_si128(hi, even));
    g->part[i] = _mm256_broadcastsi128_si256(part);
  }
  g->all = grey;
}

INLINE int odd(__m256i v) { return _mm256_movemask_epi8(_mm256_slli_epi16(v, 7)); }

/* The greys of 32 even colour bytes. The three top bits select one of eight tables. */
INLINE __m256i look_up(const struct greys *g, __m256i v) {
  /* The shuffle uses bits 0 to 3, and bit 7, which is cleared. */
  __m256i level = _mm256_and_si256(_mm256_srli_epi16(v, 1), _mm256_set1_epi8(0x0f));
  __m256i bit5 = _mm256_slli_epi16(v, 2), bit6 = _mm256_slli_epi16(v, 1);
  __m256i t[8];
  UNROLL
  for (int i = 0; i < 8; i++) t[i] = _mm256_shuffle_epi8(g->part[i], level);
  UNROLL
  for (int i = 0; i < 4; i++) t[i] = _mm256_blendv_epi8(t[2 * i], t[2 * i + 1], bit5);
  UNROLL
  for (int i = 0; i < 2; i++) t[i] = _mm256_blendv_epi8(t[2 * i], t[2 * i + 1], bit6);
  return _mm256_blendv_epi8(t[0], t[1], v);
}

INLINE __m256i look_up_any(const struct greys *g, __m256i v) {
  if (__builtin_expect(odd(v), 0)) {
    uint8_t some[32];
    _mm256_storeu_si256((__m256i *)some, v);
    for (int i = 0; i < 32; i++) some[i] = g->all[some[i]];
    return _mm256_loadu_si256((const __m256i *)some);
  }
  return look_up(g, v);
}

INLINE int same_row(const uint8_t *a, const uint8_t *b) {
  __m256i same = _mm256_set1_epi8(-1);
  for (int x = 0; x < WIDTH; x += 32)
    same = _mm256_and_si256(same, _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(a + x)),
                                                    _mm256_loadu_si256((const __m256i *)(b + x))));
  return _mm256_movemask_epi8(same) == -1;
}

/* The greater grey of both images for each pixel of a row. */
INLINE void brighter(uint8_t *dst, const uint8_t *a, const uint8_t *b, const struct greys *g) {
  for (int x = 0; x < WIDTH; x += 32) {
    __m256i va = _mm256_loadu_si256((const __m256i *)(a + x));
    __m256i vb = _mm256_loadu_si256((const __m256i *)(b + x));
    __m256i v = look_up_any(g, va);
    if (_mm256_movemask_epi8(_mm256_cmpeq_epi8(va, vb)) != -1) v = _mm256_max_epu8(v, look_up_any(g, vb));
    _mm256_storeu_si256((__m256i *)(dst + x), v);
  }
}

/* Resizes a row to width w. Loads read up to 16 bytes after the end of the row, which pick never selects. */
INLINE void narrow(const struct paceline_screen_resizer *r, float *dst, const uint8_t *bright, int taps) {
  for (int x = 0; x < r->w; x += 8) {
    __m128i lo = _mm_loadu_si128((const __m128i *)(bright + r->base[x / 4]));
    __m128i hi = _mm_loadu_si128((const __m128i *)(bright + r->base[x / 4 + 1]));
    __m256i pixels = _mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1);
    __m256 sum = _mm256_setzero_ps();
    UNROLL
    for (int k = 0; k < taps; k++) {
      __m256i pick = _mm256_loadu_si256((const __m256i *)(r->pick[k] + 4 * x));
      __m256 v = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(pixels, pick));
      __m256 part = _mm256_mul_ps(_mm256_loadu_ps(r->across[k] + x), v);
      sum = k ? _mm256_add_ps(sum, part) : part;
    }
    _mm256_storeu_ps(dst + x, sum);
  }
}

/* Stores min(8, n) levels. */
INLINE void store_bytes(uint8_t *dst, __m256i v, int n) {
  __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  __m128i some = _mm_packus_epi16(words, words);
  if (n >= 8) {
    _mm_storel_epi64((__m128i *)dst, some);
  } else {
    uint8_t rest[16];
    _mm_storeu_si128((__m128i *)rest, some);
    memcpy(dst, rest, (size_t)n);
  }
}

TARGET void paceline_screen_max_grey_resize(const struct paceline_screen_resizer *r, uint8_t *dst, const uint8_t *a,
                                            const uint8_t *b, const uint8_t *grey) {
  struct greys g;
  uint8_t bright[PACELINE_SCREEN_ROWS * WIDTH + 16];
  uint8_t repeats[PACELINE_SCREEN_ROWS];
  float across[WIDTH], sum[WIDTH];
  const __m256 scale = _mm256_set1_ps(r->scale), bias = _mm256_set1_ps(r->bias);
  const uint16_t *row = r->row;
  const float *down = r->down;
  const int w = r->w;
  int have = -1;

  /* Compute all rows first: a load shortly after the overlapping stores would wait for the stores. */
  load_greys(&g, grey);
  for (int y = 0; y < r->rows; y++) {
    const ptrdiff_t at = (ptrdiff_t)y * WIDTH;
    /* Half of the rows of an image equal the row above. */
    repeats[y] = y > 0 && same_row(a + at, a + at - WIDTH) && same_row(b + at, b + at - WIDTH);
    if (!repeats[y]) brighter(bright + at, a + at, b + at, &g);
  }

  for (int y = 0; y < r->h; y++, dst += w) {
    for (int k = 0; k < r->shares[y]; k++, row++, down++) {
      const __m256 weight = _mm256_set1_ps(*down);
      /* Every row has a share in some output, so `across` holds the row above. */
      if (*row != have && !repeats[*row]) {
        if (r->taps == 3)
          narrow(r, across, bright + (ptrdiff_t)*row * WIDTH, 3);
        else
          narrow(r, across, bright + (ptrdiff_t)*row * WIDTH, r->taps);
      }
      have = *row;
      for (int x = 0; x < w; x += 8) {
        __m256 part = _mm256_mul_ps(weight, _mm256_loadu_ps(across + x));
        _mm256_storeu_ps(sum + x, k ? _mm256_add_ps(_mm256_loadu_ps(sum + x), part) : part);
      }
    }
    for (int x = 0; x < w; x += 8) {
      __m256i v = _mm256_cvtps_epi32(_mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(sum + x), scale), bias));
      store_bytes(dst + x, v, w - x);
    }
  }
}

INLINE void transpose(__m256 v[8]) {
  __m256 t[8];
  UNROLL
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  UNROLL
  for (int i = 0; i < 8; i += 4) {
    v[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    v[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    v[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    v[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  UNROLL
  for (int i = 0; i < 4; i++) {
    __m256 lo = v[i], hi = v[i + 4];
    v[i] = _mm256_permute2f128_ps(lo, hi, 0x20);
    v[i + 4] = _mm256_permute2f128_ps(lo, hi, 0x31);
  }
}

/* Scales eight rows. column[x] holds the pixels of column x of all eight rows. */
INLINE void narrow_rows(const struct paceline_screen_boxes *r, float rows[8][WIDTH], float column[WIDTH][8]) {
  const float *weight = r->across;
  for (int x = 0; x < r->w; x += 8) {
    __m256 v[8];
    for (int i = 0; i < 8; i++) {
      const float *from = column[r->first[x + i]];
      /* After the last column there are no taps, and the width is 1. */
      v[i] = _mm256_setzero_ps();
      for (int k = 0; k < r->taps[x + i]; k++, weight++, from += 8)
        v[i] = _mm256_add_ps(v[i], _mm256_mul_ps(_mm256_set1_ps(*weight), _mm256_load_ps(from)));
      v[i] = _mm256_div_ps(v[i], _mm256_set1_ps(r->width[x + i]));
    }
    transpose(v);
    for (int i = 0; i < 8; i++) _mm256_store_ps(rows[i] + x, v[i]);
  }
}

TARGET void paceline_screen_luma_resize(const struct paceline_screen_boxes *r, uint8_t *dst, const uint8_t *now,
                                        const uint8_t *before, const float *lumas) {
  /* Aligned, because a row of `column` is a vector. */
  _Alignas(32) float column[WIDTH][8], rows[8][WIDTH];
  float sum[WIDTH];
  uint8_t lane[PACELINE_SCREEN_ROWS]; /* index in `rows` of each row of the image */
  const __m256 white = _mm256_set1_ps(255);
  const float *down = r->down;
  const int w = r->w;
  int have = 0; /* number of rows of the image that are scaled */

  memset(column, 0, sizeof column); /* the last rows may be fewer than eight */
  for (int y = 0; y < r->h; y++, dst += w) {
    for (int k = 0; k < r->shares[y]; k++, down++) {
      const int at = r->row[y] + k;
      if (at >= have) {
        /* Take eight different rows, and the rows that equal the row above. */
        for (int n = 0; have < r->rows; have++) {
          const uint8_t *a = now + (ptrdiff_t)have * WIDTH, *b = before + (ptrdiff_t)have * WIDTH;
          if (n > 0 && same_row(a, a - WIDTH) && same_row(b, b - WIDTH)) {
            lane[have] = (uint8_t)(n - 1);
            continue;
          }
          if (n == 8) break;
          for (int x = 0; x < WIDTH; x++) column[x][n] = lumas[a[x] << 8 | b[x]];
          lane[have] = (uint8_t)n++;
        }
        narrow_rows(r, rows, column);
      }
      const float *row = rows[lane[at]];
      const __m256 weight = _mm256_set1_ps(*down);
      for (int x = 0; x < w; x += 8) {
        __m256 part = _mm256_mul_ps(weight, _mm256_load_ps(row + x));
        _mm256_storeu_ps(sum + x, k ? _mm256_add_ps(_mm256_loadu_ps(sum + x), part) : part);
      }
    }
    const __m256 size = _mm256_set1_ps(r->height[y]);
    for (int x = 0; x < w; x += 8) {
      __m256 v = _mm256_mul_ps(_mm256_div_ps(_mm256_loadu_ps(sum + x), size), white);
      store_bytes(dst + x, _mm256_cvttps_epi32(v), w - x);
    }
  }
}

TARGET void paceline_screen_to_grey(uint8_t *dst, const uint8_t *src, ptrdiff_t n, const uint8_t *grey) {
  struct greys g;
  load_greys(&g, grey);
  for (; n >= 32; n -= 32, src += 32, dst += 32)
    _mm256_storeu_si256((__m256i *)dst, look_up_any(&g, _mm256_loadu_si256((const __m256i *)src)));
  for (; n > 0; n--) *dst++ = grey[*src++];
}
