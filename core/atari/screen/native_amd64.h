#ifndef PACELINE_SCREEN_H
#define PACELINE_SCREEN_H

#include <stddef.h>
#include <stdint.h>

enum {
  PACELINE_SCREEN_WIDTH = 160,
  PACELINE_SCREEN_ROWS = 256,
  PACELINE_SCREEN_TAPS = 6,     /* most pixels of a row in one sum */
  PACELINE_SCREEN_SHARES = 768, /* most rows in all sums together: rows + 2 h */
};

/*
 * The weights of one Resizer, laid out for vectors. Four output columns take their
 * pixels out of the 16 bytes from base on; pick says which byte is each column's, as a
 * little-endian uint32.
 */
struct paceline_screen_resizer {
  int32_t rows, w, h;
  int32_t taps;
  float scale, bias;
  uint8_t base[PACELINE_SCREEN_WIDTH / 4];
  uint8_t pick[PACELINE_SCREEN_TAPS][4 * PACELINE_SCREEN_WIDTH];
  float across[PACELINE_SCREEN_TAPS][PACELINE_SCREEN_WIDTH];
  uint16_t shares[PACELINE_SCREEN_ROWS]; /* rows summed by each output row */
  uint16_t row[PACELINE_SCREEN_SHARES];  /* which they are, output row after output row */
  float down[PACELINE_SCREEN_SHARES];
};

/*
 * The weights of one LumaArea. Those of an output follow those of the output before it.
 */
struct paceline_screen_boxes {
  int32_t rows, w, h;
  uint8_t first[PACELINE_SCREEN_WIDTH];    /* pixel of each output column */
  uint8_t taps[PACELINE_SCREEN_WIDTH];     /* how many from there on */
  float across[3 * PACELINE_SCREEN_WIDTH]; /* at most Width + 2 w */
  float width[PACELINE_SCREEN_WIDTH];      /* the sum of each column's */
  uint16_t row[PACELINE_SCREEN_ROWS];      /* first row of each output row */
  uint16_t shares[PACELINE_SCREEN_ROWS];   /* how many from there on */
  float down[PACELINE_SCREEN_SHARES];
  float height[PACELINE_SCREEN_ROWS];
};

#pragma GCC visibility push(hidden)

void paceline_screen_max_grey_resize(const struct paceline_screen_resizer *r, uint8_t *dst, const uint8_t *a,
                                     const uint8_t *b, const uint8_t *grey);
/* lumas is [256][256], by the colours of now and before. */
void paceline_screen_luma_resize(const struct paceline_screen_boxes *r, uint8_t *dst, const uint8_t *now,
                                 const uint8_t *before, const float *lumas);
void paceline_screen_to_grey(uint8_t *dst, const uint8_t *src, ptrdiff_t n, const uint8_t *grey);

#pragma GCC visibility pop

#endif
