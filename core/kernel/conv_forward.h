/* The forward pass of a convolution; see conv.h. */

/*
 * How many of n images are worked on together: about 96 tiles, so that 16
 * points of them fit the second-level cache, in groups of nearly equal size.
 */
INLINE ptrdiff_t forward_group(const struct shape *s, ptrdiff_t n) {
  const ptrdiff_t most = s->tiles < 96 ? 96 / s->tiles : 1, groups = (n + most - 1) / most;
  return (n + groups - 1) / groups;
}

/* Channels o to o+some-1 of output_tile. */
INLINE void output_vector(ptrdiff_t o, ptrdiff_t some, const int m, const int linear, float *to, const float *products,
                          ptrdiff_t point, const float *bias, ptrdiff_t h, ptrdiff_t w, const struct paceline_conv *c) {
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
    if (h + y < c->out_h) UNROLL
    for (int x = 0; x < m; x++)
      if (w + x < c->out_w) {
        const vec v = v_add(out[x], b);
        put(to + ((h + y) * c->out_w + w + x) * c->out_c + o, linear ? v : v_relu(v), some);
      }
  }
}

/* Outputs of one tile from its 16 products; `to` is [out_h, out_w, out_c] of its image. */
INLINE void output_tile(const int m, const int linear, float *to, const float *products, ptrdiff_t point,
                        const float *bias, ptrdiff_t h, ptrdiff_t w, const struct paceline_conv *c) {
  FOR_VECTORS(output_vector, c->out_c, m, linear, to, products, point, bias, h, w, c);
}

static TARGET void conv_forward(float *y, const float *x, const uint8_t *x8, const float *packed, const float *b,
                                ptrdiff_t n, const struct paceline_conv *c, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t outputs = c->out_h * c->out_w * c->out_c, group = forward_group(&s, n);
  const ptrdiff_t deep = round_up(s.units, CHUNK);
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
        input_panel(i, x8 != NULL, points + t * deep, rows * deep, images, t, m, c, &s);
      }
      for (int j = 0; j < 4; j++)
        multiply_panels(rows, s.wide, s.units, points + j * rows * deep, deep, packed + (4 * i + j) * s.wide * s.units,
                        products + (4 * i + j) * point);
    }
    for (ptrdiff_t t = 0; t < rows; t++) {
      ptrdiff_t h = t % s.tiles / s.tiles_w * s.m, w = t % s.tiles_w * s.m;
      float *image = y + (first + t / s.tiles) * outputs;
      float *to = c->planar_out ? planes : image;
      const float *product = products + t * s.wide;
      if (s.m == 2 && !c->linear)
        output_tile(2, 0, to, product, point, bias, h, w, c);
      else if (!c->linear)
        output_tile(3, 0, to, product, point, bias, h, w, c);
      else if (s.m == 2)
        output_tile(2, 1, to, product, point, bias, h, w, c);
      else
        output_tile(3, 1, to, product, point, bias, h, w, c);
      if (c->planar_out && (t + 1) % s.tiles == 0)
        transpose(image, c->out_h * c->out_w, planes, c->out_c, c->out_h * c->out_w, c->out_c);
    }
  }
}
