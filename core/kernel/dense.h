/*
 * Dense layers. The forward pass is a grid of dot products along the inputs. Each output of each
 * row has one vector accumulator, whose order does not depend on the grid. The weights are read in
 * place, so a single state costs one pass over them. The backward pass is two matrix products over
 * the same columns of x and of w. dense_tiled is a forward pass for many rows, with sums in another
 * order.
 */

/* The form of w in dots. */
enum weights { FLOATS, OPERANDS };

/* n inputs of a layer; first and last say whether they include the layer's first and last. */
struct span {
  ptrdiff_t n;
  int first, last;
};

/*
 * y[r][o] for some rows of x and some outputs. rows, outs, kind and prefetch_w are constants in
 * every call. With prefetch_w, dots prefetches the weights of the next outputs; without, as many
 * floats from `next` as it reads of a row of x. x is operands; w is converted if it is not. ldx and
 * ldw count floats. x and w begin at the span's first input. Between two spans the accumulators are
 * in sums[r][8].
 */
INLINE void dots(const int rows, const int outs, const enum weights kind, const int prefetch_w, const float *next,
                 float *y, ptrdiff_t ldy, const float *x, ptrdiff_t ldx, const float *w, ptrdiff_t ldw, const float *b,
                 struct span in, int relu, float *sums) {
  vec acc[DOT_ROWS][8];
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int o = 0; o < outs; o++) acc[r][o] = in.first ? v_zero() : v_load(sums + (8 * r + o) * VW);
  const ptrdiff_t step = VW * PER_UNIT;
  ptrdiff_t k = 0;
  for (; k + step <= in.n; k += step) {
    vec xv[DOT_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) xv[r] = v_load(x + r * ldx + k / PER_UNIT);
    if (!prefetch_w) __builtin_prefetch(next + k / PER_UNIT, 0, 2);
    UNROLL
    for (int o = 0; o < outs; o++) {
      /* The weights of the next outputs lie 8 rows away. */
      if (prefetch_w && (PLAIN || kind == FLOATS)) __builtin_prefetch(w + (o + 8) * ldw + k, 0, 2);
      if (prefetch_w && !PLAIN && kind == OPERANDS) __builtin_prefetch(w + (o + 8) * ldw + k / PER_UNIT, 0, 2);
      vec wv = kind == FLOATS ? v_row_units(w + o * ldw + k, step) : v_load(w + o * ldw + k / PER_UNIT);
      UNROLL
      for (int r = 0; r < rows; r++) acc[r][o] = v_fma(xv[r], wv, acc[r][o]);
    }
  }
  if (k < in.n) {
    UNROLL
    for (int r = 0; r < rows; r++) {
      vec xv = get(x + r * ldx + k / PER_UNIT, in_units(in.n - k));
      UNROLL
      for (int o = 0; o < outs; o++) {
        const float *last = w + o * ldw;
        vec wv = kind == FLOATS ? v_row_units(last + k, in.n - k) : get(last + k / PER_UNIT, in_units(in.n - k));
        acc[r][o] = v_fma(xv, wv, acc[r][o]);
      }
    }
  }
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int o = 0; o < outs; o++) {
    if (!in.last) {
      v_store(sums + (8 * r + o) * VW, acc[r][o]);
      continue;
    }
    float v = v_sum(acc[r][o]) + b[o];
    y[r * ldy + o] = relu && v < 0 ? 0 : v;
  }
}

/*
 * dots of DOT_ROWS rows and 4 outputs, prefetching from `next`. Not inlined: inlined, gcc keeps one
 * of the accumulators in memory.
 */
static __attribute__((noinline)) TARGET void dots_of_four(float *y, ptrdiff_t ldy, const float *x, ptrdiff_t ldx,
                                                          const float *w, ptrdiff_t ldw, const float *b, struct span in,
                                                          int relu, float *sums, const float *next) {
  dots(DOT_ROWS, 4, OPERANDS, 0, next, y, ldy, x, ldx, w, ldw, b, in, relu, sums);
}

/* Converts weights to operands: a row fills the first in_units(n) of n floats. */
static TARGET void dense_pack(float *packed, const float *w, ptrdiff_t rows, ptrdiff_t n) {
  for (; rows > 0; rows--, packed += n, w += n) rows_to_units(packed, w, 1, n);
}

/*
 * Blocking of several rows. ROWS rows of x stay in the L2 cache for all outputs. The weights of 8
 * outputs over SPAN inputs stay in the L1 cache for all of these rows.
 */
enum { ROWS = 32 * PER_UNIT, SPAN = 448 * PER_UNIT };

/* Prefetches parts `from` to `to`-1, of `parts`, of each of 8 rows of n floats. */
INLINE void prefetch_part(const float *w, ptrdiff_t ldw, ptrdiff_t n, ptrdiff_t from, ptrdiff_t to, ptrdiff_t parts) {
  const ptrdiff_t lines = (n + 15) / 16;
  for (int o = 0; o < 8; o++)
    for (ptrdiff_t j = lines * from / parts; j < lines * to / parts; j++)
      __builtin_prefetch(w + o * ldw + 16 * j, 0, 2);
}

/* 8 outputs of n rows. sums and units are scratch of dense_forward. */
static TARGET void dots_of_rows(float *y, ptrdiff_t ldy, const float *x, ptrdiff_t n, const float *w, int packed,
                                const float *b, ptrdiff_t in, int relu, float *sums, float *units) {
  const ptrdiff_t ldx = in_units(in);
  const int floats = !PLAIN && !packed; /* w must be converted to operands */
  const ptrdiff_t per_float = floats ? 1 : PER_UNIT, a_row = PER_UNIT / per_float;
  const ptrdiff_t spans = (in + SPAN - 1) / SPAN, span_len = round_up((in + spans - 1) / spans, VW * PER_UNIT);
  for (ptrdiff_t k = 0; k < in; k += span_len) {
    const struct span span = {.n = min(span_len, in - k), .first = k == 0, .last = k + span_len >= in};
    const float *part = w + k / per_float, *next = span.last ? w + 8 * in : part + span_len / per_float;
    ptrdiff_t call = 0; /* of dots_of_four: each prefetches 1/a_row of a row of the next weights */
    ptrdiff_t ldw = in;
    if (floats) {
      for (int o = 0; o < 8; o++) rows_to_units(units + o * in_units(span.n), part + o * in, 1, span.n);
      part = units;
      ldw = in_units(span.n);
    }
    for (ptrdiff_t i = 0, rows; i < n; i += rows) {
      const float *xs = x + i * ldx + k / PER_UNIT;
      float *to = y + i * ldy, *at = sums + 8 * i * VW;
      rows = n - i < DOT_ROWS ? 1 : DOT_ROWS;
      if (n < 4 * DOT_ROWS * a_row) prefetch_part(next, in, span.n / per_float, i, i + rows, n);
      if (rows == 1) {
        dots(1, 8, OPERANDS, 0, xs, to, ldy, xs, ldx, part, ldw, b, span, relu, at);
      } else {
        for (int o = 0; o < 8; o += 4, call++)
          dots_of_four(to + o, ldy, xs, ldx, part + o * ldw, ldw, b + o, span, relu, at + o * VW,
                       call < 8 * a_row ? next + call / a_row * in + call % a_row * span.n / a_row : xs);
      }
    }
  }
}

/* dots over all inputs, with the w of dense_forward. */
#define DOTS(rows, outs, ...)                                              \
  do {                                                                     \
    if (PLAIN || packed)                                                   \
      dots(rows, outs, OPERANDS, 1, NULL, __VA_ARGS__, whole, relu, NULL); \
    else                                                                   \
      dots(rows, outs, FLOATS, 1, NULL, __VA_ARGS__, whole, relu, NULL);   \
  } while (0)

/*
 * Computes `out` of a layer's all_out outputs. y, b and w begin at the first of them. packed:
 * dense_pack made w.
 */
static TARGET void dense_forward(float *y, const float *x, const float *w, int packed, const float *b, ptrdiff_t n,
                                 ptrdiff_t in, ptrdiff_t out, ptrdiff_t all_out, int relu, float *ws) {
  const ptrdiff_t ldx = in_units(in), full_out = out / 8 * 8, full_rows = n / DOT_ROWS * DOT_ROWS;
  const struct span whole = {in, 1, 1};
  ws = aligned(ws);
  if (!PLAIN) {
    float *units = take(&ws, n * ldx);
    rows_to_units(units, x, n, in);
    x = units;
  }
  float *units = take(&ws, 8 * in_units(min(SPAN, in))); /* of w, for several rows of x */
  float *sums = take(&ws, min(ROWS, n) * 8 * VW);
  for (ptrdiff_t i = 0; n > 1 && i < n; i += ROWS)
    for (ptrdiff_t o = 0; o < full_out; o += 8)
      dots_of_rows(y + i * all_out + o, all_out, x + i * ldx, min(ROWS, n - i), w + o * in, packed, b + o, in, relu,
                   sums, units);
  for (ptrdiff_t o = 0; n == 1 && o < full_out; o += 8) DOTS(1, 8, y + o, all_out, x, ldx, w + o * in, in, b + o);
  for (ptrdiff_t o = full_out; o < out; o++) {
    for (ptrdiff_t i = 0; i < full_rows; i += DOT_ROWS)
      DOTS(DOT_ROWS, 1, y + i * all_out + o, all_out, x + i * ldx, ldx, w + o * in, in, b + o);
    for (ptrdiff_t i = full_rows; i < n; i++)
      DOTS(1, 1, y + i * all_out + o, all_out, x + i * ldx, ldx, w + o * in, in, b + o);
  }
}

#undef DOTS

/* The operands of a B of k rows, in tiles of NR columns; columns from cols on are zero. */
static TARGET void pack_b(float *dst, const float *b, ptrdiff_t ldb, ptrdiff_t cols, ptrdiff_t k) {
  const ptrdiff_t units = in_units(k);
  for (ptrdiff_t i = 0; i < k; i += PER_UNIT, b += PER_UNIT * ldb, dst += NR)
    for (ptrdiff_t j = 0; j < round_up(cols, NR); j += VW) {
      if (j % 16 == 0) { /* rows may lie pages apart */
        __builtin_prefetch(b + 16 * ldb + j);
        if (PER_UNIT == 2) __builtin_prefetch(b + 17 * ldb + j);
      }
      const ptrdiff_t count = min(VW, cols - j);
      vec one = v_zero(), other = v_zero();
      if (count > 0) {
        one = get(b + j, count);
        if (PER_UNIT == 2 && i + 1 < k) other = get(b + ldb + j, count);
      }
      v_store(dst + j / NR * units * NR + j % NR, v_unit(one, other));
    }
}

/*
 * Blocking for the L2 cache: UNITS units of x stay there for all rows of dw, and COLUMNS columns of
 * w, which are read from memory, for all rows of dx.
 */
enum { UNITS = 1 << 15, COLUMNS = 4 * NR };

/* Computes an m-row tile into c; into t first if the tile has fewer columns than NR. */
#define INTO(c, ldc, cols, m, product) \
  do {                                 \
    if ((cols) == NR) {                \
      float *to = (c);                 \
      const ptrdiff_t ldt = (ldc);     \
      product;                         \
    } else {                           \
      float *to = t;                   \
      const ptrdiff_t ldt = NR;        \
      product;                         \
      put_narrow(c, ldc, t, m, cols);  \
    }                                  \
  } while (0)

/*
 * The backward pass of `in` of a layer's all_in inputs. dw, dx, x and w begin at the first of them.
 * y is NULL without a ReLU. db is NULL if another call computes it; dx may be NULL.
 */
static TARGET void dense_backward(float *dw, float *db, float *dx, const float *x, const float *w, const float *y,
                                  const float *dy, ptrdiff_t n, ptrdiff_t in, ptrdiff_t all_in, ptrdiff_t out,
                                  float *ws) {
  const ptrdiff_t units = in_units(n), out_units = in_units(out), deep = round_up(out_units, CHUNK);
  ws = aligned(ws);
  float *dz = take(&ws, n * out);
  float *rows = take(&ws, units * out); /* the operands of dz, as panels of columns */
  float *panel = take(&ws, n * deep);
  float *xs = take(&ws, units * round_up(in, NR)); /* the operands of x, in tiles */
  float *b = take(&ws, out_units * COLUMNS);       /* the operands of w, COLUMNS at a time */
  float *t = take(&ws, MR * NR);

  dense_gradient(dz, db, y, dy, n, out);
  for (ptrdiff_t q = 0; q < panels(out); q++) {
    const ptrdiff_t o = panel_start(out, q), m = panel_start(out, q + 1) - o;
    for (ptrdiff_t i = 0; i < units; i++) {
      const float *from = dz + i * PER_UNIT * out + o;
      vec next = PER_UNIT == 2 && i * 2 + 1 < n ? get(from + out, m) : v_zero();
      put(rows + units * o + i * m, v_unit(get(from, m), next), m);
    }
  }
  for (ptrdiff_t q = 0; dx && q < panels(n); q++) {
    ptrdiff_t i = panel_start(n, q), m = panel_start(n, q + 1) - i;
    for (ptrdiff_t r = 0; r < m; r++)
      for (ptrdiff_t o = 0; o < out; o += VW) {
        ptrdiff_t count = min(VW, out - o);
        put_operands(panel + i * deep + CHUNK * r, CHUNK * m, o, get(dz + (i + r) * out + o, count), count);
      }
  }
  for (ptrdiff_t j = 0; j < in; j += COLUMNS) pack_b(xs + j * units, x + j, all_in, min(COLUMNS, in - j), n);
  const ptrdiff_t block = max(NR, UNITS / units / NR * NR);
  for (ptrdiff_t first = 0; first < in; first += block)
    for (ptrdiff_t q = 0; q < panels(out); q++) {
      const ptrdiff_t o = panel_start(out, q), m = panel_start(out, q + 1) - o;
      for (ptrdiff_t j = first; j < min(in, first + block); j += NR) {
        const ptrdiff_t cols = min(NR, in - j);
        INTO(dw + o * all_in + j, all_in, cols, m,
             columns_tiles[m - 1](units, rows + units * o, m, xs + j * units, to, ldt, 0));
      }
    }
  for (ptrdiff_t first = 0; dx && first < in; first += COLUMNS) {
    const ptrdiff_t end = min(in, first + COLUMNS);
    pack_b(b, w + first, all_in, end - first, out);
    for (ptrdiff_t q = 0; q < panels(n); q++) {
      const ptrdiff_t i = panel_start(n, q), m = panel_start(n, q + 1) - i;
      for (ptrdiff_t j = first; j < end; j += NR) {
        const ptrdiff_t cols = min(NR, end - j);
        INTO(dx + i * all_in + j, all_in, cols, m,
             panel_tiles[m - 1](out_units, panel + i * deep, b + (j - first) * out_units, to, ldt, 0));
      }
    }
  }
}

/* Inputs in a block of dense_tiled, whose operands stay in the L2 cache for all rows: 512 outputs take 1 MB. */
enum { DEPTH = 512 };

/*
 * dense_forward by tiles, for many rows: the weights are read once, where dense_forward reads them
 * for every ROWS rows. An element is a chain of multiply-adds for each block of inputs, and these
 * are added in order.
 */
static TARGET void dense_tiled(float *y, const float *x, const float *w, const float *b, ptrdiff_t n, ptrdiff_t in,
                               ptrdiff_t out, ptrdiff_t all_out, int relu, float *ws) {
  const ptrdiff_t most = min(DEPTH, in), deep = round_up(most, CHUNK), wide = round_up(out, NR);
  ws = aligned(ws);
  float *panel = take(&ws, MR * deep);
  float *tiles = take(&ws, most * wide); /* the transposed weights, [wide/NR][k][NR] */
  float *t = take(&ws, MR * NR);

  for (ptrdiff_t o = out; o < wide; o++)
    for (ptrdiff_t k = 0; k < most; k++) tiles[(wide - NR) * most + k * NR + o % NR] = 0;
  for (ptrdiff_t first = 0; first < in; first += DEPTH) {
    const ptrdiff_t depth = min(DEPTH, in - first);
    for (ptrdiff_t o = 0; o < out; o += NR)
      transpose(tiles + o * most, NR, w + o * in + first, in, min(NR, out - o), depth);
    for (ptrdiff_t q = 0; q < panels(n); q++) {
      const ptrdiff_t i = panel_start(n, q), m = panel_start(n, q + 1) - i;
      for (ptrdiff_t r = 0; r < m; r++)
        for (ptrdiff_t k = 0; k < depth; k += VW) {
          const ptrdiff_t count = min(VW, depth - k);
          put_operands(panel + CHUNK * r, CHUNK * m, k, get(x + (i + r) * in + first + k, count), count);
        }
      for (ptrdiff_t o = 0; o < out; o += NR) {
        float *to = y + i * all_out + o;
        if (out - o >= NR) {
          panel_tiles[m - 1](depth, panel, tiles + o * most, to, all_out, first > 0);
          continue;
        }
        panel_tiles[m - 1](depth, panel, tiles + o * most, t, NR, 0);
        for (ptrdiff_t r = 0; r < m; r++)
          for (ptrdiff_t j = 0; j < out - o; j++)
            to[r * all_out + j] = first > 0 ? to[r * all_out + j] + t[r * NR + j] : t[r * NR + j];
      }
    }
  }
  for (ptrdiff_t i = 0; i < n; i++, y += all_out)
    for (ptrdiff_t o = 0; o < out; o += VW) {
      const ptrdiff_t count = min(VW, out - o);
      const vec v = v_add(get(y + o, count), get(b + o, count));
      put(y + o, relu ? v_relu(v) : v, count);
    }
}

#undef INTO
