/* The backward pass of a convolution; see conv.h. */

/*
 * Images whose weight gradients are summed in one product: about 200 tiles. The number fixes the
 * order of the sums. Input gradients have no such sums; there, 64 tiles are faster.
 */
INLINE ptrdiff_t backward_group(const struct shape *s) { return s->tiles < 200 ? 200 / s->tiles : 1; }

/*
 * Copies an image's gradients of `vectors` vectors of channels from o on, or of `count` channels if
 * count < VW, and adds their sum to db.
 */
INLINE void load_channels(const int vectors, ptrdiff_t o, ptrdiff_t count, const int linear, float *dst, ptrdiff_t line,
                          float *db, const float *dy, const float *y, ptrdiff_t out_h, ptrdiff_t out_w,
                          ptrdiff_t out_c) {
  vec sum[4];
  UNROLL
  for (int v = 0; v < vectors; v++) sum[v] = get(db + o + v * VW, count);
  for (ptrdiff_t h = 0; h < out_h; h++)
    for (ptrdiff_t w = 0; w < out_w; w++) {
      const ptrdiff_t at = (h * out_w + w) * out_c + o;
      float *to = dst + h * line + w * out_c + o;
      UNROLL
      for (int v = 0; v < vectors; v++) {
        vec e = get(dy + at + v * VW, count);
        if (!linear) e = v_where_positive(get(y + at + v * VW, count), e);
        put(to + v * VW, e, count);
        sum[v] = v_add(sum[v], e);
      }
    }
  UNROLL
  for (int v = 0; v < vectors; v++) put(db + o + v * VW, sum[v], count);
}

/* load_channels of all channels, as many as fit in registers at a time. */
INLINE void load_all_channels(const int linear, float *dst, ptrdiff_t line, float *db, const float *dy, const float *y,
                              ptrdiff_t out_h, ptrdiff_t out_w, ptrdiff_t out_c) {
  ptrdiff_t o = 0;
  for (; o + 4 * VW <= out_c; o += 4 * VW) load_channels(4, o, VW, linear, dst, line, db, dy, y, out_h, out_w, out_c);
  for (; o + 2 * VW <= out_c; o += 2 * VW) load_channels(2, o, VW, linear, dst, line, db, dy, y, out_h, out_w, out_c);
  for (; o + VW <= out_c; o += VW) load_channels(1, o, VW, linear, dst, line, db, dy, y, out_h, out_w, out_c);
  if (o < out_c) load_channels(1, o, out_c - o, linear, dst, line, db, dy, y, out_h, out_w, out_c);
}

/*
 * Computes the gradient of one image before the ReLU, [m*tiles_h][m*tiles_w][out_c] with zeros
 * where there is no output, and adds its sum over the image to db. A linear layer's y is not read.
 */
static TARGET void load_gradient(float *dst, float *db, const float *dy, const float *y, const struct paceline_conv *c,
                                 const struct shape *s, float *planes) {
  const ptrdiff_t out_h = c->out_h, out_w = c->out_w, out_c = c->out_c, pixels = out_h * out_w;
  const ptrdiff_t line = s->m * s->tiles_w * out_c, used = out_w * out_c;
  int linear = c->linear;
  if (c->planar_out) {
    float *transposed = planes + pixels * out_c;
    if (!linear) {
      FOR_VECTORS(mask_vector, pixels * out_c, planes, dy, y);
      dy = planes;
      linear = 1;
    }
    transpose(transposed, out_c, dy, pixels, out_c, pixels);
    dy = transposed;
  }
  if (linear)
    load_all_channels(1, dst, line, db, dy, NULL, out_h, out_w, out_c);
  else
    load_all_channels(0, dst, line, db, dy, y, out_h, out_w, out_c);
  for (ptrdiff_t h = 0; used < line && h < out_h; h++)
    memset(dst + h * line + used, 0, (size_t)(line - used) * sizeof *dst);
  memset(dst + out_h * line, 0, (size_t)((s->m * s->tiles_h - out_h) * line) * sizeof *dst);
}

/* The four column points of row point i of a tile's gradients. */
INLINE void gradient_points(const int i, const int m, vec e[4], const float *tile, ptrdiff_t pixel, ptrdiff_t line,
                            ptrdiff_t count) {
  vec t[3];
  UNROLL
  for (int x = 0; x < m; x++) {
    const float *p = tile + x * pixel;
    vec first = i == 3 ? v_zero() : get(p, count), last = get(p + (m - 1) * line, count);
    vec even = m == 3 ? v_add(first, last) : first;
    vec middle = m == 3 && (i == 1 || i == 2) ? get(p + line, count) : last;
    t[x] = i == 0 ? first : i == 1 ? v_add(even, middle) : i == 2 ? v_sub(even, middle) : v_sub(v_zero(), last);
  }
  vec even = m == 3 ? v_add(t[0], t[2]) : t[0];
  e[0] = t[0];
  e[1] = v_add(even, t[1]);
  e[2] = v_sub(even, t[1]);
  e[3] = v_sub(v_zero(), t[m - 1]);
}

struct gradients {
  const float *images; /* one after the other, from load_gradient */
  ptrdiff_t out_c, line;
  struct grid grid;
};

/* Distance of gradient_rows' rows in floats: no two of 64 rows share a set of the L1 cache. */
INLINE ptrdiff_t row_step(const struct paceline_conv *c) { return 16 * ((c->out_c + 15) / 16 | 1); }

/* The points of channels o to o+count-1 of a tile, or of a pair of tiles, as units. */
INLINE void gradient_units(ptrdiff_t o, ptrdiff_t count, const int i, const int m, float *dst, ptrdiff_t point,
                           const float *tile, const float *next, const struct gradients g) {
  vec e[4], f[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  gradient_points(i, m, e, tile + o, g.out_c, g.line, count);
  if (PER_UNIT == 2 && next) gradient_points(i, m, f, next + o, g.out_c, g.line, count);
  UNROLL
  for (int j = 0; j < 4; j++) put(dst + j * point + o, v_unit(e[j], f[j]), count);
}

/* Writes the points of `rows` tiles as rows or pairs of rows, `step` apart. */
INLINE void gradient_rows_of(const int i, const int m, float *dst, ptrdiff_t step, ptrdiff_t point,
                             const struct gradients g, ptrdiff_t rows) {
  struct tile tile = tile_number(g.grid, 0);
  for (ptrdiff_t t = 0; t < rows; t += PER_UNIT, dst += step) {
    const float *from = g.images + tile.at, *next = NULL;
    tile = next_tile(g.grid, tile);
    if (PER_UNIT == 2 && t + 1 < rows) {
      next = g.images + tile.at;
      tile = next_tile(g.grid, tile);
    }
    FOR_VECTORS(gradient_units, g.out_c, i, m, dst, point, from, next, g);
  }
}

/* The points of channels o to o+count-1 of a tile, as operands of a panel's row. */
INLINE void gradient_operands(ptrdiff_t o, ptrdiff_t count, const int i, const int m, float *row, ptrdiff_t point,
                              ptrdiff_t chunk, const float *tile, const struct gradients g) {
  vec e[4];
  gradient_points(i, m, e, tile + o, g.out_c, g.line, count);
  UNROLL
  for (int j = 0; j < 4; j++) put_operands(row + j * point, chunk, o, e[j], count);
}

/* Writes the points of `rows` tiles from t on as a panel. */
INLINE void gradient_panel_of(const int i, const int m, float *dst, ptrdiff_t point, const struct gradients g,
                              ptrdiff_t t, ptrdiff_t rows) {
  struct tile tile = tile_number(g.grid, t);
  for (ptrdiff_t r = 0; r < rows; r++, dst += CHUNK, tile = next_tile(g.grid, tile)) {
    const float *from = g.images + tile.at;
    if (g.out_c % (PER_UNIT * VW)) {
      FOR_VECTORS(gradient_operands, g.out_c, i, m, dst, point, CHUNK * rows, from, g);
      continue;
    }
    for (ptrdiff_t k = 0; k < g.out_c / PER_UNIT; k += VW) { /* VW units at a time */
      float *to = dst + k / CHUNK * CHUNK * rows + k % CHUNK;
      vec e[4], f[4];
      gradient_points(i, m, e, from + k * PER_UNIT, g.out_c, g.line, VW);
      if (PER_UNIT == 2) gradient_points(i, m, f, from + k * PER_UNIT + VW, g.out_c, g.line, VW);
      UNROLL
      for (int j = 0; j < 4; j++) v_store(to + j * point, v_row_unit(e[j], PER_UNIT == 2 ? f[j] : e[j]));
    }
  }
}

/* Calls f with i (the row point) and m as constants. */
#define WITH_POINT(f, i, m, ...)         \
  switch ((i) + ((m) == 3 ? 4 : 0)) {    \
    case 0: f(0, 2, __VA_ARGS__); break; \
    case 1: f(1, 2, __VA_ARGS__); break; \
    case 2: f(2, 2, __VA_ARGS__); break; \
    case 3: f(3, 2, __VA_ARGS__); break; \
    case 4: f(0, 3, __VA_ARGS__); break; \
    case 5: f(1, 3, __VA_ARGS__); break; \
    case 6: f(2, 3, __VA_ARGS__); break; \
    case 7: f(3, 3, __VA_ARGS__); break; \
  }

static TARGET void gradient_rows(int i, ptrdiff_t m, float *dst, ptrdiff_t step, ptrdiff_t point,
                                 const struct gradients g, ptrdiff_t rows) {
  WITH_POINT(gradient_rows_of, i, m, dst, step, point, g, rows)
}

static TARGET void gradient_panel(int i, ptrdiff_t m, float *dst, ptrdiff_t point, const struct gradients g,
                                  ptrdiff_t t,
                                  ptrdiff_t rows){WITH_POINT(gradient_panel_of, i, m, dst, point, g, t, rows)}

/* p += a, or p -= a */
INLINE void accumulate(float *p, vec a, int minus, ptrdiff_t count) {
  put(p, minus ? v_sub(get(p, count), a) : v_add(get(p, count), a), count);
}

/* Adds numbers x to x+count-1 of a line of row point i to two rows of a tile's cells. */
INLINE void scatter_vector(ptrdiff_t x, ptrdiff_t count, const int i, float *one, float *other, const float *points,
                           ptrdiff_t point, ptrdiff_t run) {
  const float *p = points + x;
  vec p0 = get(p, count), p1 = get(p + point, count);
  vec p2 = get(p + 2 * point, count), p3 = get(p + 3 * point, count);
  vec d[4] = {p0, v_add(v_sub(p1, p2), p3), v_sub(v_add(p1, p2), p0), p3};
  UNROLL
  for (int j = 0; j < 4; j++, x += run) {
    accumulate(one + x, d[j], (i == 2) != (j == 3), count);
    accumulate(other + x, d[j], (i == 0 || i == 3) != (j == 3), count);
  }
}

/* Adds row point i of the input gradients to the cells of all tiles. */
INLINE void scatter_points_of(const int i, const int bytes, float *images, const float *points, ptrdiff_t point,
                              ptrdiff_t step, ptrdiff_t tiles, const struct cells in) {
  const ptrdiff_t cell = in.lines * in.line;
  struct tile tile = tile_number(in.grid, 0);
  (void)bytes;
  for (ptrdiff_t t = 0; t < tiles; t++, points += step, tile = next_tile(in.grid, tile)) {
    float *one = images + tile.at + (i == 0 ? 0 : cell), *other = images + tile.at + (i == 3 ? 3 : 2) * cell;
    for (ptrdiff_t a = 0; a < in.lines; a++)
      FOR_VECTORS(scatter_vector, in.run, i, one + a * in.line, other + a * in.line, points + a * in.run, point,
                  in.run);
  }
}

static TARGET void scatter_points(int i, float *images, const float *points, ptrdiff_t point, ptrdiff_t step,
                                  ptrdiff_t tiles, const struct cells in){
    WITH_CONSTANTS(scatter_points_of, i, 0, images, points, point, step, tiles, in)}

/* The taps of numbers x to x+count-1 of a line of the cells from their 16 points, `point` apart. */
INLINE void put_taps(ptrdiff_t x, ptrdiff_t count, const int r, float *kernel, const float *points, ptrdiff_t point,
                     float scale, const struct paceline_conv *c) {
  const vec half = v_set1(0.5f), vscale = v_set1(scale);
  vec t[3][4], g[3];
  UNROLL
  for (int j = 0; j < 4; j++) {
    const float *p = points + j * point + x;
    vec p1 = get(p + 4 * point, count), p2 = get(p + 8 * point, count);
    vec even = v_mul(half, v_add(p1, p2)), odd = v_mul(half, v_sub(p1, p2));
    t[0][j] = v_add(get(p, count), even);
    t[1][j] = odd;
    t[2][j] = even;
    t[r - 1][j] = v_add(t[r - 1][j], get(p + 12 * point, count));
  }
  UNROLL
  for (int p = 0; p < r; p++) {
    vec even = v_mul(half, v_add(t[p][1], t[p][2]));
    g[0] = v_add(t[p][0], even);
    g[1] = v_mul(half, v_sub(t[p][1], t[p][2]));
    g[2] = even;
    g[r - 1] = v_add(g[r - 1], t[p][3]);
    UNROLL
    for (int q = 0; q < r; q++)
      put(kernel + (c->stride * p * c->kernel + c->stride * q) * c->in_c + x, v_mul(vscale, g[q]), count);
  }
}

/* dw [out_c][in_c][kernel][kernel] = scale * the taps from the 16 points [out_c][deep_wide]. */
static TARGET void put_weight_gradient(float *dw, const float *points, float scale, const struct paceline_conv *c,
                                       const struct shape *s, float *kernel) {
  const ptrdiff_t window = c->kernel * c->kernel, point = c->out_c * s->deep_wide;
  for (ptrdiff_t o = 0; o < c->out_c; o++) {
    for (ptrdiff_t a = 0; a < c->stride; a++) {
      const float *line = points + o * s->deep_wide + a * s->run;
      float *to = kernel + a * c->kernel * c->in_c;
      if (s->r == 2)
        FOR_VECTORS(put_taps, s->run, 2, to, line, point, scale, c);
      else
        FOR_VECTORS(put_taps, s->run, 3, to, line, point, scale, c);
    }
    transpose(dw + o * window * c->in_c, window, kernel, c->in_c, window, c->in_c);
  }
}

/* The input gradients of n images, whose output gradients are in `of`. */
static TARGET void put_input_gradient(float *dx, const float *packed, const struct gradients of, ptrdiff_t n,
                                      const struct paceline_conv *c, const struct shape *s, float *points, float *panel,
                                      float *back) {
  const ptrdiff_t tiles = n * s->tiles, point = tiles * s->deep_wide, deep = round_up(s->out_units, CHUNK);
  const ptrdiff_t pixels = c->in_h * c->in_w;
  const struct cells in = cells_of(c, s);
  float *dst = s->in_place ? dx : back;
  memset(dst, 0, (size_t)(n * s->image) * sizeof *dst);
  for (int i = 0; i < 4; i++) {
    for (ptrdiff_t q = 0; q < panels(tiles); q++) {
      ptrdiff_t t = panel_start(tiles, q), m = panel_start(tiles, q + 1) - t;
      gradient_panel(i, s->m, panel + t * deep, tiles * deep, of, t, m);
    }
    for (int j = 0; j < 4; j++)
      multiply_panels(tiles, s->deep_wide, s->out_units, panel + j * tiles * deep, deep,
                      packed + (4 * i + j) * s->deep_wide * s->out_units, points + j * point);
    scatter_points(i, dst, points, point, s->deep_wide, tiles, in);
  }
  for (; !s->in_place && n > 0; n--, back += s->image, dx += pixels * c->in_c) {
    memset(dx, 0, (size_t)(pixels * c->in_c) * sizeof *dx);
    for (ptrdiff_t h = 0; h < s->used_h; h++) {
      const float *from = back + h * s->line;
      if (c->planar_in)
        transpose(dx + h * c->in_w, pixels, from, c->in_c, s->used_w, c->in_c);
      else
        memcpy(dx + h * c->in_w * c->in_c, from, (size_t)(s->used_w * c->in_c) * sizeof *dx);
    }
  }
}

static TARGET void conv_backward(float *dw, float *db, float *dx, const float *x, const uint8_t *x8, float scale,
                                 const float *packed, const float *y, const float *dy, ptrdiff_t n,
                                 const struct paceline_conv *c, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t out_c = c->out_c, outputs = c->out_h * c->out_w * out_c, inputs = c->in_h * c->in_w * c->in_c;
  const ptrdiff_t group = min(n, backward_group(&s)), group_tiles = group * s.tiles,
                  dx_group = images_of(64, &s, group);
  const ptrdiff_t deep = round_up(s.out_units, CHUNK), step = row_step(c);
  ws = aligned(ws);
  float *sum = take(&ws, 16 * out_c * s.deep_wide); /* the points of the weight gradients */
  float *buffer = take(&ws, group * s.image);
  float *points = take(&ws, 4 * group_tiles * s.deep_wide); /* of inputs, then of gradients */
  float *rows = take(&ws, 4 * group_tiles * step);
  float *panel = take(&ws, 4 * dx_group * s.tiles * deep);
  float *back = take(&ws, dx_group * s.image);
  float *kernel = take(&ws, c->kernel * c->kernel * c->in_c);
  float *planes = take(&ws, 2 * outputs);
  const ptrdiff_t line = s.m * s.tiles_w * out_c, image = s.m * s.tiles_h * line;
  float *gradients = take(&ws, group * image);
  struct gradients g = {gradients, out_c, line, {s.tiles_w, s.tiles_h, s.m * out_c, s.m * line, image}};
  const struct cells in = cells_of(c, &s);

  memset(db, 0, (size_t)out_c * sizeof *db);
  for (ptrdiff_t first = 0; first < n; first += group) {
    const ptrdiff_t count = min(group, n - first), tiles = count * s.tiles, units = in_units(tiles);
    const ptrdiff_t point = tiles * s.deep_wide;
    const void *images = load_images(buffer, x, x8, first, count, c, &s);
    for (ptrdiff_t i = 0; i < count; i++)
      load_gradient(gradients + i * image, db, dy + (first + i) * outputs, y ? y + (first + i) * outputs : NULL, c, &s,
                    planes);
    g.images = gradients;
    for (int i = 0; i < 4; i++) {
      input_columns(i, x8 != NULL, points, point, images, tiles, in);
      gradient_rows(i, s.m, rows, step, tiles * step, g, tiles);
      for (int j = 0; j < 4; j++)
        multiply_columns(out_c, s.deep_wide, units, rows + j * tiles * step, step, points + j * point,
                         sum + (4 * i + j) * out_c * s.deep_wide, first > 0);
    }
    for (ptrdiff_t i = 0; dx && i < count; i += dx_group) {
      g.images = gradients + i * image;
      put_input_gradient(dx + (first + i) * inputs, packed, g, min(dx_group, count - i), c, &s, points, panel, back);
    }
  }
  put_weight_gradient(dw, sum, scale, c, &s, kernel);
}
