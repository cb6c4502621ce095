/* The forward pass of a convolution; see conv.h. */

/* Channels o to o+count-1 of the outputs of one tile. */
INLINE void output_vector(ptrdiff_t o, ptrdiff_t count, const int m, const int linear, float *to, ptrdiff_t pixel,
                          ptrdiff_t line, const float *products, ptrdiff_t point, const float *bias, ptrdiff_t high,
                          ptrdiff_t wide) {
  const vec b = v_load(bias + o);
  vec z[3][4];
  UNROLL
  for (int j = 0; j < 4; j++) {
    const float *p = products + j * point + o;
    vec p0 = v_load(p), p1 = v_load(p + 4 * point), p2 = v_load(p + 8 * point);
    vec p3 = v_load(p + 12 * point);
    z[0][j] = v_add(p0, v_add(p1, p2));
    z[1][j] = m == 2 ? v_sub(v_sub(p1, p2), p3) : v_sub(p1, p2);
    z[2][j] = m == 3 ? v_sub(v_add(p1, p2), p3) : p0;
  }
  UNROLL
  for (int y = 0; y < m; y++) {
    const vec *p = z[y];
    vec out[3];
    out[0] = v_add(p[0], v_add(p[1], p[2]));
    out[1] = m == 2 ? v_sub(v_sub(p[1], p[2]), p[3]) : v_sub(p[1], p[2]);
    out[2] = m == 3 ? v_sub(v_add(p[1], p[2]), p[3]) : p[0];
    if (y < high) UNROLL
    for (int x = 0; x < m; x++)
      if (x < wide) {
        const vec v = v_add(out[x], b);
        put(to + y * line + x * pixel + o, linear ? v : v_relu(v), count);
      }
  }
}

/* Computes `tiles` tiles of outputs from their 16 products, into images [out_h, out_w, out_c]. */
INLINE void output_tiles_of(const int m, const int linear, float *images, const float *products, ptrdiff_t point,
                            const float *bias, ptrdiff_t tiles, const struct grid g, ptrdiff_t step, ptrdiff_t out_h,
                            ptrdiff_t out_w, ptrdiff_t out_c) {
  const ptrdiff_t line = out_w * out_c;
  struct tile tile = tile_number(g, 0);
  for (; tiles > 0; tiles--, products += step, tile = next_tile(g, tile)) {
    const ptrdiff_t high = out_h - tile.h * m, wide = out_w - tile.w * m;
    float *to = images + tile.at;
    if (high >= m && wide >= m)
      FOR_VECTORS(output_vector, out_c, m, linear, to, out_c, line, products, point, bias, m, m);
    else
      FOR_VECTORS(output_vector, out_c, m, linear, to, out_c, line, products, point, bias, high, wide);
  }
}

static TARGET void output_tiles(float *images, const float *products, ptrdiff_t point, const float *bias,
                                ptrdiff_t tiles, const struct paceline_conv *c, const struct shape *s) {
  const ptrdiff_t right = s->m * c->out_c, down = right * c->out_w, image = c->out_h * c->out_w * c->out_c;
  const struct grid g = {s->tiles_w, s->tiles_h, right, down, image};
#define OUTPUTS(m, linear) \
  output_tiles_of(m, linear, images, products, point, bias, tiles, g, s->wide, c->out_h, c->out_w, c->out_c)
  if (s->m == 2 && !c->linear)
    OUTPUTS(2, 0);
  else if (!c->linear)
    OUTPUTS(3, 0);
  else if (s->m == 2)
    OUTPUTS(2, 1);
  else
    OUTPUTS(3, 1);
#undef OUTPUTS
}

static TARGET void conv_forward(float *y, const float *x, const uint8_t *x8, const float *packed, const float *b,
                                ptrdiff_t n, const struct paceline_conv *c, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t outputs = c->out_h * c->out_w * c->out_c, group = images_of(54, &s, n);
  const ptrdiff_t deep = round_up(s.units, CHUNK);
  const struct cells in = cells_of(c, &s);
  ws = aligned(ws);
  float *bias = take(&ws, s.wide);
  float *buffer = take(&ws, group * s.image);
  float *points = take(&ws, 4 * group * s.tiles * deep);
  float *products = take(&ws, 16 * group * s.tiles * s.wide);
  float *planes = take(&ws, outputs);

  memset(bias, 0, (size_t)s.wide * sizeof *bias);
  memcpy(bias, b, (size_t)c->out_c * sizeof *bias);
  for (ptrdiff_t first = 0; first < n; first += group) {
    const ptrdiff_t rows = min(group, n - first) * s.tiles, point = rows * s.wide;
    const void *images = load_images(buffer, x, x8, first, min(group, n - first), c, &s);
    for (int i = 0; i < 4; i++) {
      for (ptrdiff_t q = 0; q < panels(rows); q++) {
        ptrdiff_t t = panel_start(rows, q), m = panel_start(rows, q + 1) - t;
        input_panel(i, x8 != NULL, points + t * deep, rows * deep, images, t, m, in);
      }
      for (int j = 0; j < 4; j++)
        multiply_panels(rows, s.wide, s.units, points + j * rows * deep, deep, packed + (4 * i + j) * s.wide * s.units,
                        products + (4 * i + j) * point);
    }
    if (!c->planar_out) output_tiles(y + first * outputs, products, point, bias, rows, c, &s);
    for (ptrdiff_t t = 0; c->planar_out && t < rows; t += s.tiles) {
      output_tiles(planes, products + t * s.wide, point, bias, s.tiles, c, &s);
      transpose(y + (first + t / s.tiles) * outputs, c->out_h * c->out_w, planes, c->out_c, c->out_h * c->out_w,
                c->out_c);
    }
  }
}
