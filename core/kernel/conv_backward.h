/* The backward pass of a convolution; see conv.h. */

/* Images worked on together: about 200 tiles. */
INLINE ptrdiff_t backward_group(const struct shape *s) { return s->tiles < 200 ? 200 / s->tiles : 1; }

/* Channels o to o+some-1 of a pixel. */
INLINE void load_channels(ptrdiff_t o, ptrdiff_t some, const int linear, float *dst, float *db, const float *dy,
                          const float *y) {
  vec e = get(dy + o, some);
  if (!linear) e = v_where_positive(get(y + o, some), e);
  put(dst + o, e, some);
  put(db + o, v_add(get(db + o, some), e), some);
}

/*
 * The gradient before the ReLU of one image, [m*tiles_h][m*tiles_w][out_c]
 * with zeros where there is no output, and its sum over the image added to db. A
 * linear layer's y is not read.
 */
INLINE void load_gradient_of(const int linear, float *dst, float *db, const float *dy, const float *y,
                             const struct paceline_conv *c, const struct shape *s, float *planes) {
  const ptrdiff_t pixels = c->out_h * c->out_w, wide = s->m * s->tiles_w * c->out_c;
  if (c->planar_out) {
    transpose(planes, c->out_c, dy, pixels, c->out_c, pixels);
    if (!linear) transpose(planes + pixels * c->out_c, c->out_c, y, pixels, c->out_c, pixels);
    dy = planes;
    y = planes + pixels * c->out_c;
  }
  memset(dst, 0, (size_t)(s->m * s->tiles_h * wide) * sizeof *dst);
  for (ptrdiff_t h = 0; h < c->out_h; h++)
    for (ptrdiff_t w = 0; w < c->out_w; w++) {
      const ptrdiff_t at = (h * c->out_w + w) * c->out_c;
      FOR_VECTORS(load_channels, c->out_c, linear, dst + h * wide + w * c->out_c, db, dy + at, linear ? NULL : y + at);
    }
}

static TARGET void load_gradient(float *dst, float *db, const float *dy, const float *y, const struct paceline_conv *c,
                                 const struct shape *s, float *planes) {
  if (c->linear)
    load_gradient_of(1, dst, db, dy, NULL, c, s, planes);
  else
    load_gradient_of(0, dst, db, dy, y, c, s, planes);
}

/* Row point i of a tile's gradients: its four column points. */
INLINE void gradient_points(const int i, const int m, vec e[4], const float *tile, ptrdiff_t pixel, ptrdiff_t line,
                            ptrdiff_t some) {
  vec t[3];
  UNROLL
  for (int x = 0; x < m; x++) {
    const float *p = tile + x * pixel;
    vec first = i == 3 ? v_zero() : get(p, some), last = get(p + (m - 1) * line, some);
    vec even = m == 3 ? v_add(first, last) : first;
    vec middle = m == 3 && (i == 1 || i == 2) ? get(p + line, some) : last;
    t[x] = i == 0 ? first : i == 1 ? v_add(even, middle) : i == 2 ? v_sub(even, middle) : v_sub(v_zero(), last);
  }
  vec even = m == 3 ? v_add(t[0], t[2]) : t[0];
  e[0] = t[0];
  e[1] = v_add(even, t[1]);
  e[2] = v_sub(even, t[1]);
  e[3] = v_sub(v_zero(), t[m - 1]);
}

struct gradients {
  const float *images; /* load_gradient's, one after the other */
  ptrdiff_t out_c, tiles, tiles_w, line, image;
};

INLINE const float *gradient_tile(const int m, const struct gradients *g, ptrdiff_t t) {
  return g->images + t / g->tiles * g->image + t % g->tiles / g->tiles_w * m * g->line + t % g->tiles_w * m * g->out_c;
}

/* Floats from one of gradient_rows' to the next: no two of 64 rows fall into one set of the first-level cache. */
INLINE ptrdiff_t row_step(const struct paceline_conv *c) { return 16 * ((c->out_c + 15) / 16 | 1); }

/* Channels o to o+some-1 of a tile (or of two), as units. */
INLINE void gradient_units(ptrdiff_t o, ptrdiff_t some, const int i, const int m, float *dst, ptrdiff_t point,
                           const float *tile, const float *next, const struct gradients *g) {
  vec e[4], f[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  gradient_points(i, m, e, tile + o, g->out_c, g->line, some);
  if (PER_UNIT == 2 && next) gradient_points(i, m, f, next + o, g->out_c, g->line, some);
  UNROLL
  for (int j = 0; j < 4; j++) put(dst + j * point + o, v_unit(e[j], f[j]), some);
}

/* Points of `rows` tiles as rows, `step` apart (or pairs of rows). */
INLINE void gradient_rows_of(const int i, const int m, float *dst, ptrdiff_t step, ptrdiff_t point,
                             const struct gradients *g, ptrdiff_t rows) {
  for (ptrdiff_t t = 0; t < rows; t += PER_UNIT, dst += step) {
    const float *tile = gradient_tile(m, g, t), *next = t + 1 < rows ? gradient_tile(m, g, t + 1) : NULL;
    FOR_VECTORS(gradient_units, g->out_c, i, m, dst, point, tile, next, g);
  }
}

/* The same of a tile, as operands of its row in a panel. */
INLINE void gradient_operands(ptrdiff_t o, ptrdiff_t some, const int i, const int m, float *row, ptrdiff_t point,
                              ptrdiff_t chunk, const float *tile, const struct gradients *g) {
  vec e[4];
  gradient_points(i, m, e, tile + o, g->out_c, g->line, some);
  UNROLL
  for (int j = 0; j < 4; j++) put_operands(row + j * point, chunk, o, e[j], some);
}

/* Points of `rows` tiles from t on as a panel. */
INLINE void gradient_panel_of(const int i, const int m, float *dst, ptrdiff_t point, const struct gradients *g,
                              ptrdiff_t t, ptrdiff_t rows) {
  for (ptrdiff_t r = 0; r < rows; r++)
    FOR_VECTORS(gradient_operands, g->out_c, i, m, dst + CHUNK * r, point, CHUNK * rows, gradient_tile(m, g, t + r), g);
}

/* Calls f with the row point and m as constants. */
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
                                 const struct gradients *g, ptrdiff_t rows) {
  WITH_POINT(gradient_rows_of, i, m, dst, step, point, g, rows)
}

static TARGET void gradient_panel(int i, ptrdiff_t m, float *dst, ptrdiff_t point, const struct gradients *g,
                                  ptrdiff_t t,
                                  ptrdiff_t rows){WITH_POINT(gradient_panel_of, i, m, dst, point, g, t, rows)}

/* p += a, or p -= a */
INLINE void accumulate(float *p, vec a, int minus, ptrdiff_t some) {
  put(p, minus ? v_sub(get(p, some), a) : v_add(get(p, some), a), some);
}

/* Adds numbers x to x+some-1 of a line of row point i of the input's points to two rows of the tile's cells. */
INLINE void scatter_vector(ptrdiff_t x, ptrdiff_t some, const int i, float *one, float *other, const float *points,
                           ptrdiff_t point, ptrdiff_t run) {
  const float *p = points + x;
  vec p0 = get(p, some), p1 = get(p + point, some);
  vec p2 = get(p + 2 * point, some), p3 = get(p + 3 * point, some);
  vec d[4] = {p0, v_add(v_sub(p1, p2), p3), v_sub(v_add(p1, p2), p0), p3};
  UNROLL
  for (int j = 0; j < 4; j++, x += run) {
    accumulate(one + x, d[j], (i == 2) != (j == 3), some);
    accumulate(other + x, d[j], (i == 0 || i == 3) != (j == 3), some);
  }
}

/* Adds row point i of the input's points to the cells of all tiles. */
INLINE void scatter_points_of(const int i, const int bytes, float *images, const float *points, ptrdiff_t point,
                              ptrdiff_t tiles, const struct paceline_conv *c, const struct shape *s) {
  const ptrdiff_t cell = c->stride * s->line;
  for (ptrdiff_t t = 0; t < tiles; t++, points += s->deep_wide) {
    float *tile = (float *)tile_at(bytes, images, t, c, s);
    float *one = tile + (i == 0 ? 0 : cell), *other = tile + (i == 3 ? 3 : 2) * cell;
    for (ptrdiff_t a = 0; a < c->stride; a++)
      FOR_VECTORS(scatter_vector, s->run, i, one + a * s->line, other + a * s->line, points + a * s->run, point,
                  s->run);
  }
}

static TARGET void scatter_points(int i, float *images, const float *points, ptrdiff_t point, ptrdiff_t tiles,
                                  const struct paceline_conv *c, const struct shape *s){
    WITH_CONSTANTS(scatter_points_of, i, 0, images, points, point, tiles, c, s)}

/* Numbers x to x+some-1 of a line of the cells: the taps from their 16 points, `point` apart. */
INLINE void put_taps(ptrdiff_t x, ptrdiff_t some, const int r, float *kernel, const float *points, ptrdiff_t point,
                     float scale, const struct paceline_conv *c) {
  const vec half = v_set1(0.5f), by = v_set1(scale);
  vec t[3][4], g[3];
  UNROLL
  for (int j = 0; j < 4; j++) {
    const float *p = points + j * point + x;
    vec p1 = get(p + 4 * point, some), p2 = get(p + 8 * point, some);
    vec even = v_mul(half, v_add(p1, p2)), odd = v_mul(half, v_sub(p1, p2));
    t[0][j] = v_add(get(p, some), even);
    t[1][j] = odd;
    t[2][j] = even;
    t[r - 1][j] = v_add(t[r - 1][j], get(p + 12 * point, some));
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
      put(kernel + (c->stride * p * c->kernel + c->stride * q) * c->in_c + x, v_mul(by, g[q]), some);
  }
}

/* dw [out_c][in_c][kernel][kernel] = scale * what the 16 points [out_c][deep_wide] stand for. */
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

static TARGET void conv_backward(float *dw, float *db, float *dx, const float *x, const uint8_t *x8, float scale,
                                 const float *packed, const float *y, const float *dy, ptrdiff_t n,
                                 const struct paceline_conv *c, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t out_c = c->out_c, outputs = c->out_h * c->out_w * out_c;
  const ptrdiff_t group = min(n, backward_group(&s)), most = group * s.tiles;
  const ptrdiff_t deep = round_up(s.out_units, CHUNK), step = row_step(c), pixels = c->in_h * c->in_w;
  ws = aligned(ws);
  float *sum = take(&ws, 16 * out_c * s.deep_wide); /* the weights' points */
  float *buffer = take(&ws, group * s.image);
  float *points = take(&ws, 4 * most * s.deep_wide); /* the inputs', then their gradients' */
  float *rows = take(&ws, 4 * most * step);
  float *panel = take(&ws, 4 * most * deep);
  float *back = take(&ws, group * s.image);
  float *kernel = take(&ws, c->kernel * c->kernel * c->in_c);
  float *planes = take(&ws, 2 * outputs);
  struct gradients g = {.out_c = out_c, .tiles = s.tiles, .tiles_w = s.tiles_w, .line = s.m * s.tiles_w * out_c};
  g.image = s.m * s.tiles_h * g.line;
  float *gradients = take(&ws, group * g.image);
  g.images = gradients;

  memset(db, 0, (size_t)out_c * sizeof *db);
  for (ptrdiff_t first = 0; first < n; first += group) {
    const ptrdiff_t some = min(group, n - first), tiles = some * s.tiles, units = in_units(tiles);
    const ptrdiff_t point = tiles * s.deep_wide;
    const void *images = load_images(buffer, x, x8, first, some, c, &s);
    for (ptrdiff_t i = 0; i < some; i++)
      load_gradient(gradients + i * g.image, db, dy + (first + i) * outputs, y ? y + (first + i) * outputs : NULL, c,
                    &s, planes);
    float *dst = dx && s.in_place ? dx + first * s.image : back;
    if (dx) memset(dst, 0, (size_t)(some * s.image) * sizeof *dst);
    for (int i = 0; i < 4; i++) {
      input_columns(i, x8 != NULL, points, point, images, tiles, c, &s);
      gradient_rows(i, s.m, rows, step, tiles * step, &g, tiles);
      for (int j = 0; j < 4; j++)
        multiply_columns(out_c, s.deep_wide, units, rows + j * tiles * step, step, points + j * point,
                         sum + (4 * i + j) * out_c * s.deep_wide, first > 0);
      if (!dx) continue;
      for (ptrdiff_t q = 0; q < panels(tiles); q++) {
        ptrdiff_t t = panel_start(tiles, q), m = panel_start(tiles, q + 1) - t;
        gradient_panel(i, s.m, panel + t * deep, tiles * deep, &g, t, m);
      }
      for (int j = 0; j < 4; j++)
        multiply_panels(tiles, s.deep_wide, s.out_units, panel + j * tiles * deep, deep,
                        packed + (4 * i + j) * s.deep_wide * s.out_units, points + j * point);
      scatter_points(i, dst, points, point, tiles, c, &s);
    }
    if (!dx || s.in_place) continue;
    for (ptrdiff_t i = 0; i < some; i++) {
      float *to = dx + (first + i) * pixels * c->in_c;
      memset(to, 0, (size_t)(pixels * c->in_c) * sizeof *to);
      for (ptrdiff_t h = 0; h < s.used_h; h++) {
        const float *from = back + i * s.image + h * s.line;
        if (c->planar_in)
          transpose(to + h * c->in_w, pixels, from, c->in_c, s.used_w, c->in_c);
        else
          memcpy(to + h * c->in_w * c->in_c, from, (size_t)(s.used_w * c->in_c) * sizeof *to);
      }
    }
  }
  put_weight_gradient(dw, sum, scale, c, &s, kernel);
}
