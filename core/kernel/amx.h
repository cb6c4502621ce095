/*
 * Matrix products by AMX tiles.
 *
 * A tile is 1 KB: 16 rows of 64 bytes. An instruction computes C += A * B. C is 16 x 16 floats. A
 * row of A is 32 operands that follow each other in k. Row i of B is the operands 2i and 2i + 1 (a
 * unit) of 16 columns. 32 k are a chunk; the last chunk is padded with zeros in B.
 *
 * An element of C is one chain of sums in the order of the chunks, whatever else the tiles hold: an
 * undefined row of A makes an unused row of C.
 *
 * Tiles 0 to 3 hold 2 x 2 blocks of C; 4 and 5 hold A; 6 and 7 hold B.
 */

enum { SIDE = 16, TILE = 256, CHUNK_OPERANDS = 32 }; /* rows of a tile; its floats; k of a chunk */

INLINE ptrdiff_t chunks_of(ptrdiff_t operands) { return (operands + CHUNK_OPERANDS - 1) / CHUNK_OPERANDS; }

/* Configures the tiles: `rows` rows in the tiles of A and C, 16 in those of B. */
INLINE void begin_tiles(int rows) {
  struct {
    uint8_t palette, start, none[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } config = {.palette = 1};
  for (int t = 0; t < 8; t++) {
    config.bytes[t] = 64;
    config.rows[t] = (uint8_t)(t < 6 ? rows : SIDE);
  }
  __asm__ volatile("" : : "m"(config)); /* gcc assumes that _tile_loadconfig reads 8 bytes only */
  _tile_loadconfig(&config);
}

/* Releases the tiles: until the next begin_tiles, a context switch does not save them. */
INLINE void end_tiles(void) { _tile_release(); }

/*
 * The chunks of up to two blocks of A and of two of B. A block of A is `lines` lines of `chunks`
 * chunks.
 */
struct factors {
  const void *a[2], *b[2];
  ptrdiff_t row, chunk, line; /* distances in A, in bytes, of rows, chunks and lines */
  ptrdiff_t chunks, lines;
};

/*
 * Multiplies `as` blocks of A by `bs` of B. Block [a][b] goes to to[2a + b], rows `row` floats
 * apart.
 */
INLINE void multiply(const int as, const int bs, const struct factors f, float *const to[4], ptrdiff_t row) {
  const char *b0 = f.b[0], *b1 = f.b[1];
  const size_t ldc = (size_t)row * sizeof(float), lda = (size_t)f.row;
  __asm__ volatile("" ::: "memory"); /* gcc does not know that _tile_loadd reads memory */
  _tile_zero(0);
  if (bs == 2) _tile_zero(1);
  if (as == 2) _tile_zero(2);
  if (as == 2 && bs == 2) _tile_zero(3);
  for (ptrdiff_t line = 0; line < f.lines; line++) {
    const char *a0 = (const char *)f.a[0] + line * f.line, *a1 = as == 2 ? (const char *)f.a[1] + line * f.line : NULL;
    for (ptrdiff_t k = 0; k < f.chunks; k++, a0 += f.chunk, a1 += as == 2 ? f.chunk : 0, b0 += 4 * TILE) {
      _tile_loadd(4, a0, lda);
      _tile_loadd(6, b0, 64);
      _tile_dpbf16ps(0, 4, 6);
      if (bs == 2) {
        _tile_loadd(7, b1, 64);
        _tile_dpbf16ps(1, 4, 7);
        b1 += 4 * TILE;
      }
      if (as == 2) {
        _tile_loadd(5, a1, lda);
        _tile_dpbf16ps(2, 5, 6);
        if (bs == 2) _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  _tile_stored(0, to[0], ldc);
  if (bs == 2) _tile_stored(1, to[1], ldc);
  if (as == 2) _tile_stored(2, to[2], ldc);
  if (as == 2 && bs == 2) _tile_stored(3, to[3], ldc);
}

/* multiply with as and bs as constants. */
static TARGET void multiply_blocks(int as, int bs, const struct factors f, float *const to[4], ptrdiff_t row) {
  if (as == 2 && bs == 2)
    multiply(2, 2, f, to, row);
  else if (as == 2)
    multiply(2, 1, f, to, row);
  else if (bs == 2)
    multiply(1, 2, f, to, row);
  else
    multiply(1, 1, f, to, row);
}

/* multiply_blocks into a scratch of four tiles: block [a][b] goes to t + (2a + b) * TILE. */
static TARGET void multiply_into(int as, int bs, const struct factors f, float *t) {
  float *const to[4] = {t, t + TILE, t + 2 * TILE, t + 3 * TILE};
  multiply_blocks(as, bs, f, to, SIDE);
}

/* Transposes in place: element j of r[i] becomes element i of r[j]. */
INLINE void transpose16(vec r[SIDE]) {
  __m512i a[SIDE], b[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; i += 2) {
    a[i] = _mm512_unpacklo_epi32((__m512i)r[i], (__m512i)r[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32((__m512i)r[i], (__m512i)r[i + 1]);
  }
  UNROLL
  for (int i = 0; i < SIDE; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  UNROLL
  for (int i = 0; i < 4; i++) { /* b[4q + i]: elements i, i+4, i+8, i+12 of rows 4q to 4q+3 */
    __m512i low = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x88), high = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xDD);
    __m512i low2 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x88);
    __m512i high2 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xDD);
    r[i] = (vec)_mm512_shuffle_i32x4(low, low2, 0x88);
    r[8 + i] = (vec)_mm512_shuffle_i32x4(low, low2, 0xDD);
    r[4 + i] = (vec)_mm512_shuffle_i32x4(high, high2, 0x88);
    r[12 + i] = (vec)_mm512_shuffle_i32x4(high, high2, 0xDD);
  }
}

/* 16 units, each of a number of `one` and a number of `other`: rows of bf16. */
INLINE vec unit_of_rows(const void *one, const void *other) {
  const __m512i low = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)one));
  return pairs_of(_mm512_inserti64x4(low, _mm256_loadu_si256((const __m256i *)other), 1));
}

/* A tile of A from 16 numbers of 32 rows of bf16, `row` bytes apart: the transposed rows. */
INLINE void transposed_tile(float *dst, const char *rows, ptrdiff_t row) {
  vec u[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; i++) u[i] = unit_of_rows(rows + 2 * i * row, rows + (2 * i + 1) * row);
  transpose16(u);
  UNROLL
  for (int i = 0; i < SIDE; i++) v_store(dst + SIDE * i, u[i]);
}

enum { PEAK_STEPS = 16 * TILE }; /* pairs of multiply-adds in a round, in vectors: 16 products */

/* Tile products without loads and stores. The result has no meaning. */
static TARGET float peak(ptrdiff_t rounds) {
  begin_tiles(SIDE);
  for (; rounds > 0; rounds--) {
    UNROLL
    for (int i = 0; i < 4; i++) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  end_tiles();
  return 0;
}
