/*
 * Matrix products by tiles: an m x NR block of C, m <= MR, stays in registers for the whole of k.
 *
 * B is blocks of NR columns, [k][NR]; with panels, the last block may have half the width, [k][VW].
 * A has one of two shapes, each read at constant offsets from one pointer:
 *
 *	panels	m rows, 16 k at a time: [k/16][m][16], for an A whose rows are contiguous
 *	columns	A[k*lda + r], for an A whose columns are contiguous
 *
 * Every element of C is one chain of multiply-adds in the order of k, for every m. The result of a row
 * therefore does not depend on the other rows.
 */

enum { CHUNK = 16 }; /* contiguous k in a row of a panel */

/* One step of k: the elements of the rows are a[j], a[j + step], a[j + 2*step], ... */
#define STEP(step)                                               \
  do {                                                           \
    vec b0 = v_load(b), b1 = vectors == 2 ? v_load(b + VW) : b0; \
    UNROLL                                                       \
    for (int r = 0; r < m; r++) {                                \
      vec x = v_set1(a[(step) * r + j]);                         \
      acc[r][0] = v_fma(x, b0, acc[r][0]);                       \
      if (vectors == 2) acc[r][1] = v_fma(x, b1, acc[r][1]);     \
    }                                                            \
    b += vectors * VW;                                           \
  } while (0)

INLINE void store_tile(const int m, const int vectors, vec (*acc)[2], float *c, ptrdiff_t ldc, int add) {
  UNROLL
  for (int r = 0; r < m; r++) UNROLL
  for (int v = 0; v < vectors; v++) {
    float *to = c + r * ldc + v * VW;
    v_store(to, add ? v_add(v_load(to), acc[r][v]) : acc[r][v]);
  }
}

INLINE void tile_panel(const int m, const int vectors, ptrdiff_t k, const float *a, const float *b, float *c,
                       ptrdiff_t ldc, int add) {
  vec acc[MR][2];
  UNROLL
  for (int r = 0; r < m; r++) acc[r][0] = acc[r][1] = v_zero();
  for (; k >= CHUNK; k -= CHUNK, a += CHUNK * (m - 1))
    for (int quarter = 0; quarter < 4; quarter++, a += CHUNK / 4) {
      UNROLL
      for (int j = 0; j < CHUNK / 4; j++) {
        STEP(CHUNK);
      }
    }
  for (ptrdiff_t j = 0; j < k; j++) STEP(CHUNK);
  store_tile(m, vectors, acc, c, ldc, add);
}

INLINE void tile_columns(const int m, ptrdiff_t k, const float *a, ptrdiff_t lda, const float *b, float *c,
                         ptrdiff_t ldc, int add) {
  enum { j = 0, vectors = 2 };
  vec acc[MR][2];
  UNROLL
  for (int r = 0; r < m; r++) acc[r][0] = acc[r][1] = v_zero();
  for (; k >= 4; k -= 4) {
    UNROLL
    for (int i = 0; i < 4; i++) {
      STEP(1);
      a += lda;
    }
  }
  for (; k > 0; k--) {
    STEP(1);
    a += lda;
  }
  store_tile(m, vectors, acc, c, ldc, add);
}

#undef STEP

#define TILE(m)                                                                                                      \
  static TARGET void tile_panel_##m(ptrdiff_t k, const float *a, const float *b, float *c, ptrdiff_t ldc, int add) { \
    tile_panel(m, 2, k, a, b, c, ldc, add);                                                                          \
  }                                                                                                                  \
  static TARGET void half_panel_##m(ptrdiff_t k, const float *a, const float *b, float *c, ptrdiff_t ldc, int add) { \
    tile_panel(m, 1, k, a, b, c, ldc, add);                                                                          \
  }                                                                                                                  \
  static TARGET void tile_columns_##m(ptrdiff_t k, const float *a, ptrdiff_t lda, const float *b, float *c,          \
                                      ptrdiff_t ldc, int add) {                                                      \
    tile_columns(m, k, a, lda, b, c, ldc, add);                                                                      \
  }
TILES(TILE)
#undef TILE

typedef void panel_tile(ptrdiff_t k, const float *a, const float *b, float *c, ptrdiff_t ldc, int add);
typedef void columns_tile(ptrdiff_t k, const float *a, ptrdiff_t lda, const float *b, float *c, ptrdiff_t ldc, int add);

/*
 * Entry m - 1 computes m rows of NR columns; half_panels' entries compute VW columns. With `add`
 * they add to C.
 */
#define TILE(m) tile_panel_##m,
static panel_tile *const panel_tiles[] = {TILES(TILE)};
#undef TILE
#define TILE(m) half_panel_##m,
static panel_tile *const half_panels[] = {TILES(TILE)};
#undef TILE
#define TILE(m) tile_columns_##m,
static columns_tile *const columns_tiles[] = {TILES(TILE)};
#undef TILE

/*
 * Rows are split into panels of nearly equal height: 49 rows are 12 + 12 + 12 + 13, not three of 14
 * and one of 7, which would run at half the speed.
 */
INLINE ptrdiff_t panels(ptrdiff_t rows) { return (rows + MR - 1) / MR; }
INLINE ptrdiff_t panel_start(ptrdiff_t rows, ptrdiff_t i) { return rows * i / panels(rows); }

/*
 * C[rows][wide] = A * B. A is panels of `deep` floats a row; B is blocks [wide/NR][k][NR], of which
 * the last may be [k][VW].
 */
static TARGET void multiply_panels(ptrdiff_t rows, ptrdiff_t wide, ptrdiff_t k, const float *a, ptrdiff_t deep,
                                   const float *b, float *c) {
  for (ptrdiff_t n = 0; n < wide; n += NR, b += k * NR)
    for (ptrdiff_t q = 0; q < panels(rows); q++) {
      ptrdiff_t r = panel_start(rows, q), m = panel_start(rows, q + 1) - r;
      (wide - n < NR ? half_panels : panel_tiles)[m - 1](k, a + r * deep, b, c + r * wide + n, wide, 0);
    }
}

/* C[rows][wide] = (or with `add` +=) transposed A[k][rows] * B, blocks [wide/NR][k][NR]. */
static TARGET void multiply_columns(ptrdiff_t rows, ptrdiff_t wide, ptrdiff_t k, const float *a, ptrdiff_t lda,
                                    const float *b, float *c, int add) {
  for (ptrdiff_t q = 0; q < panels(rows); q++) {
    ptrdiff_t r = panel_start(rows, q), m = panel_start(rows, q + 1) - r;
    for (ptrdiff_t n = 0; n < wide; n += NR)
      columns_tiles[m - 1](k, a + r, lda, b + n * k, c + r * wide + n, wide, add);
  }
}

/* Copies n columns of a tile to C. */
static TARGET void put_narrow(float *c, ptrdiff_t ldc, const float *t, ptrdiff_t m, ptrdiff_t n) {
  for (ptrdiff_t r = 0; r < m; r++, c += ldc, t += NR)
    for (ptrdiff_t i = 0; i < n; i++) c[i] = t[i];
}
