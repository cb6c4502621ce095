/*
 * Dense layers by AMX tiles. In the forward pass, the weights of 16 outputs are a tile of A, so
 * they need no transposition; the rows of x, which are fewer, are transposed to columns of B. A
 * tile of C is [output][row]. The backward pass is two products: the transposed gradients times x
 * in pairs of rows, and the gradients times w in pairs of outputs.
 */

/* Converts up to 16 rows of n floats to tiles of A, [n/32][rows][16 units]. */
static TARGET void tiles_of_rows(float *dst, const float *src, ptrdiff_t rows, ptrdiff_t n) {
  for (ptrdiff_t k = 0; k < n; k += 4 * CHUNK_OPERANDS) /* four chunks of each row at a time */
    for (ptrdiff_t r = 0; r < rows; r++)
      for (ptrdiff_t j = k; j < min(n, k + 4 * CHUNK_OPERANDS); j += CHUNK_OPERANDS)
        v_store(dst + (j / CHUNK_OPERANDS * rows + r) * SIDE, v_row_units(src + r * n + j, min(CHUNK_OPERANDS, n - j)));
}

/* Converts up to 16 rows of n floats to the columns of tiles of B. */
static TARGET void tiles_of_columns(float *dst, const float *src, ptrdiff_t rows, ptrdiff_t n) {
  for (ptrdiff_t k = 0; k < n; k += CHUNK_OPERANDS, dst += TILE) {
    const ptrdiff_t count = min(CHUNK_OPERANDS, n - k);
    vec u[SIDE];
    UNROLL
    for (int r = 0; r < SIDE; r++) u[r] = r < rows ? v_row_units(src + r * n + k, count) : v_zero();
    transpose16(u);
    UNROLL
    for (int r = 0; r < SIDE; r++) v_store(dst + SIDE * r, u[r]);
  }
}

/* Converts k rows of floats to tiles of B with pairs of rows, [cols/16][k/32]. */
static TARGET void tiles_of_pairs(float *dst, const float *src, ptrdiff_t row, ptrdiff_t k, ptrdiff_t cols) {
  const ptrdiff_t whole = chunks_of(k) * CHUNK_OPERANDS;
  for (ptrdiff_t i = 0; i < whole; i += 2, src += 2 * row, dst += SIDE)
    for (ptrdiff_t j = 0; j < cols; j += SIDE) {
      const ptrdiff_t count = min(SIDE, cols - j);
      __builtin_prefetch(src + 16 * row + j); /* rows may lie pages apart */
      __builtin_prefetch(src + 17 * row + j);
      v_store(dst + j * whole / 2,
              v_unit(i < k ? get(src + j, count) : v_zero(), i + 1 < k ? get(src + row + j, count) : v_zero()));
    }
}

/* Whether packed weights are tiles; with fewer inputs, tiles would take more memory than w. */
INLINE int packs_tiles(ptrdiff_t in) { return in >= SIDE; }

/* Converts weights to tiles of A. Each 16 rows stay within the memory of the floats. */
static TARGET void dense_pack(float *packed, const float *w, ptrdiff_t rows, ptrdiff_t n) {
  if (!packs_tiles(n)) {
    memcpy(packed, w, (size_t)(rows * n) * sizeof *w);
    return;
  }
  for (ptrdiff_t o = 0; o < rows; o += SIDE) tiles_of_rows(packed + o * n, w + o * n, min(SIDE, rows - o), n);
}

/* Writes `outs` outputs of `rows` rows of x from a tile of C. */
INLINE void put_transposed(float *y, ptrdiff_t row, const float *c, const float *b, ptrdiff_t rows, ptrdiff_t outs,
                           int relu) {
  vec r[SIDE];
  const vec bias = get(b, outs);
  UNROLL
  for (int i = 0; i < SIDE; i++) r[i] = v_load(c + SIDE * i);
  transpose16(r);
  for (int i = 0; i < SIDE; i++)
    if (i < rows) {
      const vec v = v_add(r[i], bias);
      put(y + i * row, relu ? v_relu(v) : v, outs);
    }
}

enum { ROWS = 128 }; /* rows of x that stay in the L2 cache for all outputs */

/*
 * Computes `out` of a layer's all_out outputs. y, b and w begin at the first of them. packed:
 * dense_pack made w.
 */
static TARGET void dense_forward(float *y, const float *x, const float *w, int packed, const float *b, ptrdiff_t n,
                                 ptrdiff_t in, ptrdiff_t out, ptrdiff_t all_out, int relu, float *ws) {
  const ptrdiff_t chunks = chunks_of(in);
  const int tiles = packed && packs_tiles(in);
  ws = aligned(ws);
  float *columns = take(&ws, round_up(min(ROWS, n), SIDE) * chunks * SIDE);
  float *block = take(&ws, 2 * chunks * TILE); /* of w */
  float *products = take(&ws, 4 * TILE);
  struct factors f = {.row = 64, .chunks = chunks, .lines = 1};
  for (ptrdiff_t first = 0; first < n; first += ROWS, x += ROWS * in, y += ROWS * all_out) {
    const ptrdiff_t rows = min(ROWS, n - first);
    for (ptrdiff_t i = 0; i < rows; i += SIDE)
      tiles_of_columns(columns + i * chunks * SIDE, x + i * in, min(SIDE, rows - i), in);
    begin_tiles(SIDE);
    for (ptrdiff_t o = 0, outs; o < out; o += outs) {
      const int as = out - o >= 2 * SIDE ? 2 : 1;
      const ptrdiff_t high = min(SIDE, out - o); /* rows of a tile */
      outs = as * high;
      if (high < SIDE) begin_tiles((int)high);
      f.chunk = high * 64;
      for (int a = 0; a < as; a++) {
        f.a[a] = tiles ? w + (o + a * SIDE) * in : block + a * chunks * TILE;
        if (!tiles) tiles_of_rows(block + a * chunks * TILE, w + (o + a * SIDE) * in, high, in);
      }
      for (ptrdiff_t i = 0; i < rows; i += 2 * SIDE) {
        const int bs = rows - i > SIDE ? 2 : 1;
        f.b[0] = columns + i * chunks * SIDE;
        f.b[1] = (const float *)f.b[0] + chunks * TILE;
        multiply_into(as, bs, f, products);
        for (int a = 0; a < as; a++)
          for (int v = 0; v < bs; v++)
            put_transposed(y + (i + v * SIDE) * all_out + o + a * SIDE, all_out, products + (2 * a + v) * TILE,
                           b + o + a * SIDE, rows - i - v * SIDE, high, relu);
      }
    }
    end_tiles();
  }
}

/*
 * Blocking for the L2 cache: UNITS units of x stay there for all rows of dw, and COLUMNS columns of
 * w, which are read from memory, for all rows of dx.
 */
enum { UNITS = 1 << 17, COLUMNS = 8 * SIDE };

/* Multiplies blocks into C [rows][cols]; through t if C is smaller than the blocks. */
static TARGET void multiply_dense(int as, int bs, const struct factors f, float *c, ptrdiff_t row, ptrdiff_t rows,
                                  ptrdiff_t cols, float *t) {
  if (rows >= as * SIDE && cols >= bs * SIDE) {
    float *const to[4] = {c, c + SIDE, c + SIDE * row, c + SIDE * row + SIDE};
    multiply_blocks(as, bs, f, to, row);
    return;
  }
  multiply_into(as, bs, f, t);
  for (ptrdiff_t r = 0; r < min(rows, as * SIDE); r++)
    for (ptrdiff_t j = 0; j < min(cols, bs * SIDE); j += SIDE)
      put(c + r * row + j, v_load(t + (2 * (r / SIDE) + j / SIDE) * TILE + r % SIDE * SIDE), min(SIDE, cols - j));
}

/*
 * The backward pass of `in` of a layer's all_in inputs. dw, dx, x and w begin at the first of them.
 * y is NULL without a ReLU. db is NULL if another call computes it; dx may be NULL.
 */
static TARGET void dense_backward(float *dw, float *db, float *dx, const float *x, const float *w, const float *y,
                                  const float *dy, ptrdiff_t n, ptrdiff_t in, ptrdiff_t all_in, ptrdiff_t out,
                                  float *ws) {
  const ptrdiff_t chunks = chunks_of(n), out_chunks = chunks_of(out), row = out_chunks * 64;
  ws = aligned(ws);
  float *dz = take(&ws, n * out);
  char *rows = (char *)take(&ws, chunks * CHUNK_OPERANDS * out_chunks * SIDE); /* of dz, as bf16 */
  float *transposed = take(&ws, round_up(out, SIDE) * chunks * SIDE);          /* tiles [out/16][chunks] */
  float *xs = take(&ws, round_up(in, SIDE) * chunks * SIDE);                   /* tiles [in/16][chunks] */
  float *pairs = take(&ws, COLUMNS * out_chunks * SIDE);                       /* tiles [COLUMNS/16][out_chunks] */
  float *t = take(&ws, 4 * TILE);

  dense_gradient(dz, db, y, dy, n, out);
  memset(rows, 0, (size_t)(chunks * CHUNK_OPERANDS * row));
  for (ptrdiff_t i = 0; i < n; i++) rows_to_units((float *)(void *)(rows + i * row), dz + i * out, 1, out);
  for (ptrdiff_t o = 0; o < out; o += SIDE)
    for (ptrdiff_t k = 0; k < chunks; k++)
      transposed_tile(transposed + (o / SIDE * chunks + k) * TILE, rows + k * CHUNK_OPERANDS * row + 2 * o, row);
  for (ptrdiff_t j = 0; j < in; j += COLUMNS)
    tiles_of_pairs(xs + j * chunks * SIDE, x + j, all_in, n, min(COLUMNS, in - j));
  begin_tiles(SIDE);
  struct factors f = {.row = 64, .chunk = 4 * TILE, .chunks = chunks, .lines = 1};
  const ptrdiff_t block = max(2 * SIDE, UNITS / (chunks * SIDE) / (2 * SIDE) * (2 * SIDE));
  for (ptrdiff_t first = 0; first < in; first += block)
    for (ptrdiff_t o = 0; o < out; o += 2 * SIDE) {
      const int as = out - o > SIDE ? 2 : 1;
      f.a[0] = transposed + o * chunks * SIDE;
      f.a[1] = (const float *)f.a[0] + chunks * TILE;
      for (ptrdiff_t j = first; j < min(in, first + block); j += 2 * SIDE) {
        f.b[0] = xs + j * chunks * SIDE;
        f.b[1] = (const float *)f.b[0] + chunks * TILE;
        multiply_dense(as, in - j > SIDE ? 2 : 1, f, dw + o * all_in + j, all_in, out - o, in - j, t);
      }
    }
  f = (struct factors){.row = row, .chunk = 64, .chunks = out_chunks, .lines = 1};
  for (ptrdiff_t first = 0; dx && first < in; first += COLUMNS) {
    const ptrdiff_t end = min(in, first + COLUMNS);
    tiles_of_pairs(pairs, w + first, all_in, out, end - first);
    for (ptrdiff_t i = 0; i < n; i += 2 * SIDE) {
      f.a[0] = rows + i * row;
      f.a[1] = rows + (i + SIDE) * row;
      for (ptrdiff_t j = first; j < end; j += 2 * SIDE) {
        f.b[0] = pairs + (j - first) * out_chunks * SIDE;
        f.b[1] = (const float *)f.b[0] + out_chunks * TILE;
        multiply_dense(n - i > SIDE ? 2 : 1, end - j > SIDE ? 2 : 1, f, dx + i * all_in + j, all_in, n - i, end - j, t);
      }
    }
  }
  end_tiles();
}
