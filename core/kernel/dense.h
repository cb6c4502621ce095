/*
 * Dense layers. The forward pass is a grid of dot products along the inputs:
 * each output of each row has one vector accumulator, whose order does not
 * depend on the grid, and the weights are read in place, so that a single state
 * costs one pass over them. The backward pass is two matrix products over the
 * same columns of x and of w.
 */

/* What dots reads as w. */
enum weights { FLOATS, OPERANDS };

/* A span of the inputs of a layer: n of them, which may be the first, the last, or all. */
struct span {
  ptrdiff_t n;
  int first, last;
};

/*
 * y[r][o] for a few rows of x and a few outputs, both constants where it is
 * used, as are what w is and what is prefetched: ahead says that of the next outputs,
 * else what lies at `next`, as long as a row of operands. x is operands; w becomes
 * them on the way where it is not. ldx and ldw count floats. x and w begin where the
 * span does; between two spans the accumulators are in sums[r][8].
 */
INLINE void dots(const int rows, const int outs, const enum weights kind, const int ahead, const float *next, float *y,
                 ptrdiff_t ldy, const float *x, ptrdiff_t ldx, const float *w, ptrdiff_t ldw, const float *b,
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
    if (!ahead) __builtin_prefetch(next + k / PER_UNIT, 0, 2);
    UNROLL
    for (int o = 0; o < outs; o++) {
      /* The next outputs' lie a long way off. */
      if (ahead && (PLAIN || kind == FLOATS)) __builtin_prefetch(w + (o + 8) * ldw + k, 0, 2);
      if (ahead && !PLAIN && kind == OPERANDS) __builtin_prefetch(w + (o + 8) * ldw + k / PER_UNIT, 0, 2);
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
 * dots of DOT_ROWS rows and 4 outputs, which asks for the lines from `next` on meanwhile. A function of its own: inlined,
 * gcc keeps one of the accumulators in memory.
 */
static __attribute__((noinline)) TARGET void dots_of_four(float *y, ptrdiff_t ldy, const float *x, ptrdiff_t ldx,
                                                          const float *w, ptrdiff_t ldw, const float *b, struct span in,
                                                          int relu, float *sums, const float *next) {
  dots(DOT_ROWS, 4, OPERANDS, 0, next, y, ldy, x, ldx, w, ldw, b, in, relu, sums);
}

/* Weights as operands, each row in the first in_units(n) of n floats. */
static TARGET void dense_pack(float *packed, const float *w, ptrdiff_t rows, ptrdiff_t n) {
  for (; rows > 0; rows--, packed += n, w += n) rows_to_units(packed, w, 1, n);
}

/*
 * Several rows share what they read of x and w: ROWS of them, which stay in the
 * second-level cache while all outputs pass, and 8 outputs over SPAN inputs, which stay in
 * the first-level cache while the rows pass.
 */
enum { ROWS = 32 * PER_UNIT, SPAN = 448 * PER_UNIT };

/* Asks for 8 rows of n floats: for the parts from to to-1 of so many. */
INLINE void prefetch_part(const float *w, ptrdiff_t ldw, ptrdiff_t n, ptrdiff_t from, ptrdiff_t to, ptrdiff_t parts) {
  const ptrdiff_t lines = (n + 15) / 16;
  for (int o = 0; o < 8; o++)
    for (ptrdiff_t j = lines * from / parts; j < lines * to / parts; j++)
      __builtin_prefetch(w + o * ldw + 16 * j, 0, 2);
}

/* 8 outputs of n rows. sums and units: see dense_forward. */
static TARGET void dots_of_rows(float *y, ptrdiff_t ldy, const float *x, ptrdiff_t n, const float *w, int packed,
                                const float *b, ptrdiff_t in, int relu, float *sums, float *units) {
  const ptrdiff_t ldx = in_units(in);
  const int floats = !PLAIN && !packed; /* w is not operands yet */
  const ptrdiff_t per_float = floats ? 1 : PER_UNIT, a_row = PER_UNIT / per_float;
  const ptrdiff_t spans = (in + SPAN - 1) / SPAN, most = round_up((in + spans - 1) / spans, VW * PER_UNIT);
  for (ptrdiff_t k = 0; k < in; k += most) {
    const struct span span = {.n = min(most, in - k), .first = k == 0, .last = k + most >= in};
    const float *part = w + k / per_float, *next = span.last ? w + 8 * in : part + most / per_float;
    ptrdiff_t call = 0; /* of dots_of_four: each asks for a row of what comes next, or for an a_row-th of it */
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

/* dots over all inputs, with w as it is given to dense_forward. */
#define DOTS(rows, outs, ...)                                              \
  do {                                                                     \
    if (PLAIN || packed)                                                   \
      dots(rows, outs, OPERANDS, 1, NULL, __VA_ARGS__, whole, relu, NULL); \
    else                                                                   \
      dots(rows, outs, FLOATS, 1, NULL, __VA_ARGS__, whole, relu, NULL);   \
  } while (0)

/*
 * A layer of `all` outputs, of which this computes `out`: y and b are those of the first, w its row. packed: w is
 * dense_pack's.
 */
static TARGET void dense_forward(float *y, const float *x, const float *w, int packed, const float *b, ptrdiff_t n,
                                 ptrdiff_t in, ptrdiff_t out, ptrdiff_t all, int relu, float *ws) {
  const ptrdiff_t ldx = in_units(in), some = out / 8 * 8, full = n / DOT_ROWS * DOT_ROWS;
  const struct span whole = {in, 1, 1};
  ws = aligned(ws);
  if (!PLAIN) {
    float *units = take(&ws, n * ldx);
    rows_to_units(units, x, n, in);
    x = units;
  }
  float *units = take(&ws, 8 * in_units(min(SPAN, in))); /* of w, where several rows of x read them */
  float *sums = take(&ws, min(ROWS, n) * 8 * VW);
  for (ptrdiff_t i = 0; n > 1 && i < n; i += ROWS)
    for (ptrdiff_t o = 0; o < some; o += 8)
      dots_of_rows(y + i * all + o, all, x + i * ldx, min(ROWS, n - i), w + o * in, packed, b + o, in, relu, sums,
                   units);
  for (ptrdiff_t o = 0; n == 1 && o < some; o += 8) DOTS(1, 8, y + o, all, x, ldx, w + o * in, in, b + o);
  for (ptrdiff_t o = some; o < out; o++) {
    for (ptrdiff_t i = 0; i < full; i += DOT_ROWS)
      DOTS(DOT_ROWS, 1, y + i * all + o, all, x + i * ldx, ldx, w + o * in, in, b + o);
    for (ptrdiff_t i = full; i < n; i++) DOTS(1, 1, y + i * all + o, all, x + i * ldx, ldx, w + o * in, in, b + o);
  }
}

#undef DOTS

/* Operands of a B of k rows, tile after tile of NR columns; those that do not exist are zero. */
static TARGET void pack_b(float *dst, const float *b, ptrdiff_t ldb, ptrdiff_t cols, ptrdiff_t k) {
  const ptrdiff_t units = in_units(k);
  for (ptrdiff_t i = 0; i < k; i += PER_UNIT, b += PER_UNIT * ldb, dst += NR)
    for (ptrdiff_t j = 0; j < round_up(cols, NR); j += VW) {
      if (j % 16 == 0) { /* rows may be pages apart */
        __builtin_prefetch(b + 16 * ldb + j);
        if (PER_UNIT == 2) __builtin_prefetch(b + 17 * ldb + j);
      }
      const ptrdiff_t some = min(VW, cols - j);
      vec one = v_zero(), other = v_zero();
      if (some > 0) {
        one = get(b + j, some);
        if (PER_UNIT == 2 && i + 1 < k) other = get(b + ldb + j, some);
      }
      v_store(dst + j / NR * units * NR + j % NR, v_unit(one, other));
    }
}

/*
 * What stays in the second-level cache: so many units of x while all rows of dw pass, and
 * w's columns, which are read from memory so many at a time, while all rows of dx do.
 */
enum { UNITS = 1 << 15, COLUMNS = 4 * NR };

/* C[rows][NR] columns of an m-row tile go through t where C has fewer of them. */
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
 * A layer of `all` inputs, of which this does `in`: dw, dx, x and w are those of
 * the first. y is NULL where there is no ReLU, db where another call does it, dx
 * where nobody asks.
 */
static TARGET void dense_backward(float *dw, float *db, float *dx, const float *x, const float *w, const float *y,
                                  const float *dy, ptrdiff_t n, ptrdiff_t in, ptrdiff_t all, ptrdiff_t out, float *ws) {
  const ptrdiff_t units = in_units(n), out_units = in_units(out), deep = round_up(out_units, CHUNK);
  ws = aligned(ws);
  float *dz = take(&ws, n * out);
  float *rows = take(&ws, units * out); /* dz's operands, as panels of columns */
  float *panel = take(&ws, n * deep);
  float *xs = take(&ws, units * round_up(in, NR)); /* x's, tile after tile */
  float *b = take(&ws, out_units * COLUMNS);       /* w's, COLUMNS at a time */
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
        ptrdiff_t some = min(VW, out - o);
        put_operands(panel + i * deep + CHUNK * r, CHUNK * m, o, get(dz + (i + r) * out + o, some), some);
      }
  }
  for (ptrdiff_t j = 0; j < in; j += COLUMNS) pack_b(xs + j * units, x + j, all, min(COLUMNS, in - j), n);
  const ptrdiff_t most = max(NR, UNITS / units / NR * NR);
  for (ptrdiff_t first = 0; first < in; first += most)
    for (ptrdiff_t q = 0; q < panels(out); q++) {
      const ptrdiff_t o = panel_start(out, q), m = panel_start(out, q + 1) - o;
      for (ptrdiff_t j = first; j < min(in, first + most); j += NR) {
        const ptrdiff_t cols = min(NR, in - j);
        INTO(dw + o * all + j, all, cols, m,
             columns_tiles[m - 1](units, rows + units * o, m, xs + j * units, to, ldt, 0));
      }
    }
  for (ptrdiff_t first = 0; dx && first < in; first += COLUMNS) {
    const ptrdiff_t end = min(in, first + COLUMNS);
    pack_b(b, w + first, all, end - first, out);
    for (ptrdiff_t q = 0; q < panels(n); q++) {
      const ptrdiff_t i = panel_start(n, q), m = panel_start(n, q + 1) - i;
      for (ptrdiff_t j = first; j < end; j += NR) {
        const ptrdiff_t cols = min(NR, end - j);
        INTO(dx + i * all + j, all, cols, m,
             panel_tiles[m - 1](out_units, panel + i * deep, b + (j - first) * out_units, to, ldt));
      }
    }
  }
}

#undef INTO
