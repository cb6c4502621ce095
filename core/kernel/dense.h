/*
 * Dense layers. The forward pass is a grid of dot products along the inputs:
 * each output of each row has one vector accumulator, whose order does not
 * depend on the grid, and the weights are read in place, so that a single state
 * costs one pass over them. The backward pass is two matrix products over the
 * same columns of x and of w.
 */

/* How dots reads w: floats, operands, or operands that were just made and are in the cache. */
enum weights { FLOATS, OPERANDS, OPERANDS_AT_HAND };

/*
 * y[r][o] for a few rows of x and a few outputs, both constants where it is
 * used, as is what w is. x is operands; w becomes them on the way where it is
 * not. ldx and ldw count floats.
 */
INLINE void dots(const int rows, const int outs, const enum weights kind, float *y, ptrdiff_t ldy, const float *x,
                 ptrdiff_t ldx, const float *w, ptrdiff_t ldw, const float *b, ptrdiff_t in, int relu) {
  vec acc[DOT_ROWS][8];
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int o = 0; o < outs; o++) acc[r][o] = v_zero();
  const ptrdiff_t step = VW * PER_UNIT;
  ptrdiff_t k = 0;
  for (; k + step <= in; k += step) {
    vec wv[8];
    UNROLL
    for (int o = 0; o < outs; o++) {
      /* What the next outputs read: they lie a long way off, as a row of x may be. */
      if (PLAIN || kind == FLOATS) __builtin_prefetch(w + (o + 8) * ldw + k, 0, 2);
      if (!PLAIN && kind == OPERANDS) __builtin_prefetch(w + (o + 8) * ldw + k / PER_UNIT, 0, 2);
      wv[o] = kind == FLOATS ? v_row_units(w + o * ldw + k, step) : v_load(w + o * ldw + k / PER_UNIT);
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
      vec xv = v_load(x + r * ldx + k / PER_UNIT);
      UNROLL
      for (int o = 0; o < outs; o++) acc[r][o] = v_fma(xv, wv[o], acc[r][o]);
    }
  }
  if (k < in) {
    UNROLL
    for (int r = 0; r < rows; r++) {
      vec xv = get(x + r * ldx + k / PER_UNIT, in_units(in - k));
      UNROLL
      for (int o = 0; o < outs; o++) {
        const float *last = w + o * ldw;
        vec wv = kind == FLOATS ? v_row_units(last + k, in - k) : get(last + k / PER_UNIT, in_units(in - k));
        acc[r][o] = v_fma(xv, wv, acc[r][o]);
      }
    }
  }
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int o = 0; o < outs; o++) {
    float v = v_sum(acc[r][o]) + b[o];
    y[r * ldy + o] = relu && v < 0 ? 0 : v;
  }
}

/* Rows of floats as rows of operands. */
static TARGET void rows_to_units(float *dst, const float *src, ptrdiff_t rows, ptrdiff_t n) {
  for (ptrdiff_t i = 0; i < rows; i++, dst += in_units(n), src += n)
    for (ptrdiff_t k = 0; k < n; k += VW * PER_UNIT) {
      ptrdiff_t some = min(VW * PER_UNIT, n - k);
      __builtin_prefetch(src + 8 * n + k, 0, 2); /* of the next outputs */
      if (PER_UNIT == 2) __builtin_prefetch(src + 8 * n + k + VW, 0, 2);
      put(dst + k / PER_UNIT, v_row_units(src + k, some), in_units(some));
    }
}

/* Weights as operands, each row in the first in_units(n) of n floats. */
static TARGET void dense_pack(float *packed, const float *w, ptrdiff_t rows, ptrdiff_t n) {
  for (; rows > 0; rows--, packed += n, w += n) rows_to_units(packed, w, 1, n);
}

/* dots with w as it is given to dense_forward. */
#define DOTS(rows, outs, ...)                  \
  do {                                         \
    if (PLAIN || packed)                       \
      dots(rows, outs, OPERANDS, __VA_ARGS__); \
    else                                       \
      dots(rows, outs, FLOATS, __VA_ARGS__);   \
  } while (0)

/*
 * A layer of `all` outputs, of which this computes `out`: y and b are those of the first, w its row. packed: w is
 * dense_pack's.
 */
static TARGET void dense_forward(float *y, const float *x, const float *w, int packed, const float *b, ptrdiff_t n,
                                 ptrdiff_t in, ptrdiff_t out, ptrdiff_t all, int relu, float *ws) {
  const ptrdiff_t ldx = in_units(in), full = n / DOT_ROWS * DOT_ROWS;
  ws = aligned(ws);
  if (!PLAIN) {
    float *units = take(&ws, n * ldx);
    rows_to_units(units, x, n, in);
    x = units;
  }
  float *units = take(&ws, 8 * ldx); /* of w, where several rows of x read them */
  ptrdiff_t o = 0;
  for (; o + 8 <= out; o += 8, w += 8 * in) {
    float *to = y + o;
    if (!PLAIN && !packed && full > 0) {
      rows_to_units(units, w, 8, in);
      for (ptrdiff_t i = 0; i < full; i += DOT_ROWS) {
        dots(DOT_ROWS, 4, OPERANDS_AT_HAND, to + i * all, all, x + i * ldx, ldx, units, ldx, b + o, in, relu);
        dots(DOT_ROWS, 4, OPERANDS_AT_HAND, to + i * all + 4, all, x + i * ldx, ldx, units + 4 * ldx, ldx, b + o + 4,
             in, relu);
      }
    } else {
      for (ptrdiff_t i = 0; i < full; i += DOT_ROWS) {
        dots(DOT_ROWS, 4, OPERANDS, to + i * all, all, x + i * ldx, ldx, w, in, b + o, in, relu);
        dots(DOT_ROWS, 4, OPERANDS, to + i * all + 4, all, x + i * ldx, ldx, w + 4 * in, in, b + o + 4, in, relu);
      }
    }
    for (ptrdiff_t i = full; i < n; i++) DOTS(1, 8, to + i * all, all, x + i * ldx, ldx, w, in, b + o, in, relu);
  }
  for (; o < out; o++, w += in) {
    for (ptrdiff_t i = 0; i < full; i += DOT_ROWS)
      DOTS(DOT_ROWS, 1, y + i * all + o, all, x + i * ldx, ldx, w, in, b + o, in, relu);
    for (ptrdiff_t i = full; i < n; i++) DOTS(1, 1, y + i * all + o, all, x + i * ldx, ldx, w, in, b + o, in, relu);
  }
}

#undef DOTS

/* Operands of NR columns of a B of k rows, of which `cols` exist; the others are zero. */
static TARGET void pack_b(float *dst, const float *b, ptrdiff_t ldb, ptrdiff_t cols, ptrdiff_t k) {
  const ptrdiff_t some[2] = {min(VW, cols), cols < VW ? 0 : cols - VW};
  for (ptrdiff_t i = 0; i < k; i += PER_UNIT, b += PER_UNIT * ldb, dst += NR)
    for (int half = 0; half < 2; half++) {
      __builtin_prefetch(b + 16 * ldb + half * VW); /* rows may be pages apart */
      __builtin_prefetch(b + 17 * ldb + half * VW);
      vec one = v_zero(), other = v_zero();
      if (some[half] > 0) {
        one = get(b + half * VW, some[half]);
        if (PER_UNIT == 2 && i + 1 < k) other = get(b + ldb + half * VW, some[half]);
      }
      v_store(dst + half * VW, v_unit(one, other));
    }
}

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
  float *rows = take(&ws, units * out);
  float *panel = take(&ws, n * deep);
  float *xs = take(&ws, units * round_up(in, NR)); /* x's operands where they are not in place */
  float *b = take(&ws, out_units * NR);            /* the same of w, NR columns at a time */
  float *t = take(&ws, MR * NR);

  for (ptrdiff_t i = 0; i < n * out; i += VW) {
    ptrdiff_t some = min(VW, n * out - i);
    put(dz + i, y ? v_where_positive(get(y + i, some), get(dy + i, some)) : get(dy + i, some), some);
  }
  for (ptrdiff_t o = 0; db && o < out; o += VW) {
    ptrdiff_t some = min(VW, out - o);
    vec acc = v_zero();
    for (ptrdiff_t i = 0; i < n; i++) acc = v_add(acc, get(dz + i * out + o, some));
    put(db + o, acc, some);
  }
  for (ptrdiff_t i = 0; i < units; i++)
    for (ptrdiff_t o = 0; o < out; o += VW) {
      ptrdiff_t some = min(VW, out - o), at = i * PER_UNIT * out + o;
      vec next = PER_UNIT == 2 && i * 2 + 1 < n ? get(dz + at + out, some) : v_zero();
      put(rows + i * out + o, v_unit(get(dz + at, some), next), some);
    }
  for (ptrdiff_t q = 0; dx && q < panels(n); q++) {
    ptrdiff_t i = panel_start(n, q), m = panel_start(n, q + 1) - i;
    for (ptrdiff_t r = 0; r < m; r++)
      for (ptrdiff_t o = 0; o < out; o += VW) {
        ptrdiff_t some = min(VW, out - o);
        put_operands(panel + i * deep + CHUNK * r, CHUNK * m, o, get(dz + (i + r) * out + o, some), some);
      }
  }
  const float *from = x;
  ptrdiff_t ldb = all;
  if (!PLAIN) {
    from = xs;
    ldb = NR;
    for (ptrdiff_t j = 0; j < in; j += NR) pack_b(xs + j * units, x + j, all, min(NR, in - j), n);
  } else if (in % NR) {
    pack_b(xs, x + in / NR * NR, all, in % NR, n);
  }
  for (ptrdiff_t q = 0; q < panels(out); q++) {
    const ptrdiff_t o = panel_start(out, q), m = panel_start(out, q + 1) - o;
    for (ptrdiff_t j = 0; j < in; j += NR) {
      const ptrdiff_t cols = min(NR, in - j);
      const int narrow = PLAIN && cols < NR;
      const float *column = narrow ? xs : PLAIN ? from + j : from + j * units;
      INTO(dw + o * all + j, all, cols, m,
           columns_tiles[m - 1](units, rows + o, out, column, narrow ? NR : ldb, to, ldt, 0));
    }
  }
  /* Columns outside: w is the large operand, and is read from memory once. */
  for (ptrdiff_t j = 0; dx && j < in; j += NR) {
    const ptrdiff_t cols = min(NR, in - j);
    const int in_place = PLAIN && cols == NR;
    if (!in_place) pack_b(b, w + j, all, cols, out);
    for (ptrdiff_t q = 0; q < panels(n); q++) {
      ptrdiff_t i = panel_start(n, q), m = panel_start(n, q + 1) - i;
      INTO(dx + i * all + j, all, cols, m,
           panel_tiles[m - 1](out_units, panel + i * deep, in_place ? w + j : b, in_place ? all : NR, to, ldt));
    }
  }
}

#undef INTO
