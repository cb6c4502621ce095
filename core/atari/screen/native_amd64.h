#ifndef PACELINE_SCREEN_H
#define PACELINE_SCREEN_H

#include <stddef.h>
#include <stdint.h>

enum {
  PACELINE_SCREEN_WIDTH = 160,
  PACELINE_SCREEN_ROWS = 256,
  PACELINE_SCREEN_TAPS = 6,     /* maximum number of pixels of a row in one sum */
  PACELINE_SCREEN_SHARES = 768, /* maximum number of rows in all sums together: rows + 2 h */
};

/*
 * The weights of one resizer, arranged for vectors. Four output columns take their pixels from the
 * 16 bytes at base. pick selects the byte of each column, as a little-endian uint32.
 */
struct paceline_screen_resizer {
  int32_t rows, w, h;
  int32_t taps;
  float scale, bias;
  uint8_t base[PACELINE_SCREEN_WIDTH / 4];
  uint8_t pick[PACELINE_SCREEN_TAPS][4 * PACELINE_SCREEN_WIDTH];
  float across[PACELINE_SCREEN_TAPS][PACELINE_SCREEN_WIDTH];
  uint16_t shares[PACELINE_SCREEN_ROWS]; /* number of rows in the sum of each output row */
  uint16_t row[PACELINE_SCREEN_SHARES];  /* the rows, output row after output row */
  float down[PACELINE_SCREEN_SHARES];
};

/*
 * The weights of one LumaArea, output after output.
 */
struct paceline_screen_boxes {
  int32_t rows, w, h;
  uint8_t first[PACELINE_SCREEN_WIDTH];    /* first pixel of each output column */
  uint8_t taps[PACELINE_SCREEN_WIDTH];     /* number of pixels of each output column */
  float across[3 * PACELINE_SCREEN_WIDTH]; /* at most Width + 2 w */
  float width[PACELINE_SCREEN_WIDTH];      /* sum of the weights of each output column */
  uint16_t row[PACELINE_SCREEN_ROWS];      /* first row of each output row */
  uint16_t shares[PACELINE_SCREEN_ROWS];   /* number of rows of each output row */
  float down[PACELINE_SCREEN_SHARES];
  float height[PACELINE_SCREEN_ROWS];
};

#pragma GCC visibility push(hidden)

void paceline_screen_max_grey_resize(const struct paceline_screen_resizer *r, uint8_t *dst, const uint8_t *a,
                                     const uint8_t *b, const uint8_t *grey);
/* lumas is [256][256], indexed by the colours of now and before. */
void paceline_screen_luma_resize(const struct paceline_screen_boxes *r, uint8_t *dst, const uint8_t *now,
                                 const uint8_t *before, const float *lumas);
void paceline_screen_to_grey(uint8_t *dst, const uint8_t *src, ptrdiff_t n, const uint8_t *grey);

#pragma GCC visibility pop

#endif
