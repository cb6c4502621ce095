/*
 * Direct convolution by AMX tiles: products are so fast here that Winograd's transforms (conv.h)
 * would cost more than they save.
 *
 * An image is bf16, [height][width][channel], so a line of the kernel covers `run` contiguous
 * numbers. Up to 16 outputs of a line are a tile of A, loaded straight from the image with the
 * stride as distance of its rows. Numbers after the run belong to other outputs and meet zeros in
 * B.
 *
 * In the backward pass, the weight gradients are products along the outputs: the transposed
 * gradients of the outputs times the numbers of the images, in pairs of outputs. The input
 * gradients are the gradients of the outputs times the weights, added at the inputs of each output.
 */

struct shape {
  ptrdiff_t run, chunks, blocks; /* of a kernel's line: numbers, chunks of 32, blocks of 16 */
  ptrdiff_t line, image;         /* numbers of an image's line, of an image with overread */
  ptrdiff_t outputs;             /* of an image and a channel */
};

INLINE struct shape shape_of(const struct paceline_conv *c) {
  struct shape s = {.run = c->kernel * c->in_c, .line = c->in_w * c->in_c, .outputs = c->out_h * c->out_w};
  s.chunks = chunks_of(s.run);
  s.blocks = (s.run + SIDE - 1) / SIDE;
  const ptrdiff_t overread = (SIDE - 1) * c->stride * c->in_c + s.chunks * CHUNK_OPERANDS;
  s.image = round_up(c->in_h * s.line + overread, CHUNK_OPERANDS);
  return s;
}

/* Copies an image as bf16, then zeros. buffer has the size of an image in floats. */
static TARGET void load_image(float *dst, const float *x, const uint8_t *x8, const struct paceline_conv *c,
                              const struct shape *s, float *buffer) {
  const ptrdiff_t pixels = c->in_h * c->in_w, n = pixels * c->in_c;
  const int planar = c->planar_in && c->in_c > 1;
  if (x8 && planar) {
    interleave_bytes((uint8_t *)(void *)buffer, x8, pixels, pixels, c->in_c);
    x8 = (const uint8_t *)(void *)buffer;
  } else if (planar) {
    transpose(buffer, c->in_c, x, pixels, c->in_c, pixels);
    x = buffer;
  }
  if (x) {
    rows_to_units(dst, x, 1, n);
  } else {
    ptrdiff_t k = 0;
    for (; k + CHUNK_OPERANDS <= n; k += CHUNK_OPERANDS)
      v_store(dst + k / 2, v_row_unit(v_from_bytes(x8 + k), v_from_bytes(x8 + k + VW)));
    uint8_t rest[CHUNK_OPERANDS] = {0};
    memcpy(rest, x8 + k, (size_t)(n - k));
    v_store(dst + k / 2, v_row_unit(v_from_bytes(rest), v_from_bytes(rest + VW)));
  }
  memset((char *)dst + 2 * n, 0, (size_t)(2 * (s->image - n)));
}

/* The index, in a kernel [in_c][kernel][kernel], of number j of line y. */
INLINE ptrdiff_t of_kernel(const struct paceline_conv *c, ptrdiff_t y, ptrdiff_t j) {
  return (j % c->in_c * c->kernel + y) * c->kernel + j / c->in_c;
}

/*
 * Packs w * scale for conv_forward: tiles [out_c/16][kernel][chunks]. Packs the outputs `from` to
 * `to`-1; `from` is a multiple of 16.
 */
static TARGET void conv_pack(float *packed, const float *w, float scale, const struct paceline_conv *c, ptrdiff_t from,
                             ptrdiff_t to, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t patch = c->kernel * c->kernel * c->in_c, wide = round_up(to - from, SIDE);
  ws = aligned(ws);
  float *rows = take(&ws, patch * wide); /* [patch][wide] */
  const vec vscale = v_set1(scale);
  memset(rows, 0, (size_t)(patch * wide) * sizeof *rows);
  transpose(rows, wide, w + from * patch, patch, to - from, patch);
  float *dst = packed + from * c->kernel * s.chunks * SIDE;
  for (ptrdiff_t o = 0; o < wide; o += SIDE)
    for (ptrdiff_t y = 0; y < c->kernel; y++)
      for (ptrdiff_t j = 0; j < s.chunks * CHUNK_OPERANDS; j += 2, dst += SIDE) {
        vec one = v_zero(), other = v_zero();
        if (j < s.run) one = v_mul(vscale, v_load(rows + of_kernel(c, y, j) * wide + o));
        if (j + 1 < s.run) other = v_mul(vscale, v_load(rows + of_kernel(c, y, j + 1) * wide + o));
        v_store(dst, v_unit(one, other));
      }
}

/*
 * Packs w for conv_backward's input gradient: tiles [kernel][blocks][out_c/32], with a pair of
 * outputs in a row. Packs the outputs `from` to `to`-1; `from` is a multiple of 32.
 */
static TARGET void conv_pack_back(float *packed, const float *w, const struct paceline_conv *c, ptrdiff_t from,
                                  ptrdiff_t to, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t window = c->kernel * c->kernel, patch = window * c->in_c, chunks = chunks_of(c->out_c);
  ws = aligned(ws);
  float *rows = take(&ws, 2 * patch); /* kernels [kernel][kernel][in_c] of two outputs */
  for (ptrdiff_t o = from; o < round_up(to, CHUNK_OPERANDS); o += 2) {
    for (ptrdiff_t i = 0; i < 2; i++)
      if (o + i < to)
        transpose(rows + i * patch, c->in_c, w + (o + i) * patch, window, c->in_c, window);
      else
        memset(rows + i * patch, 0, (size_t)patch * sizeof *rows);
    for (ptrdiff_t y = 0; y < c->kernel; y++)
      for (ptrdiff_t b = 0; b < s.blocks; b++) {
        const float *from_row = rows + y * s.run + b * SIDE;
        const ptrdiff_t count = min(SIDE, s.run - b * SIDE);
        float *tile = packed + ((y * s.blocks + b) * chunks + o / CHUNK_OPERANDS) * TILE;
        v_store(tile + o % CHUNK_OPERANDS / 2 * SIDE, v_unit(get(from_row, count), get(from_row + patch, count)));
      }
  }
}

/* Writes the outputs of `pixels` pixels and up to 16 channels from their products. */
INLINE void put_outputs(float *y, ptrdiff_t pixel, const float *products, const float *bias, ptrdiff_t pixels,
                        ptrdiff_t channels, int linear) {
  const vec b = v_load(bias);
  for (; pixels > 0; pixels--, y += pixel, products += SIDE) {
    const vec v = v_add(v_load(products), b);
    put(y, linear ? v : v_relu(v), channels);
  }
}

static TARGET void conv_forward(float *y, const float *x, const uint8_t *x8, const float *packed, const float *b,
                                ptrdiff_t n, const struct paceline_conv *c, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t inputs = c->in_h * s.line, outputs = s.outputs * c->out_c;
  /* Tiles of a line and of an image; rows of a tile: a line of 20 outputs is 10 + 10. */
  const ptrdiff_t across = (c->out_w + SIDE - 1) / SIDE, tiles = c->out_h * across;
  const ptrdiff_t high = (c->out_w + across - 1) / across;
  ws = aligned(ws);
  float *bias = take(&ws, round_up(c->out_c, SIDE));
  float *image = take(&ws, s.image / 2);
  float *buffer = take(&ws, inputs);
  float *planes = take(&ws, outputs);
  float *products = take(&ws, 4 * TILE);
  struct factors f = {.row = 2 * c->stride * c->in_c, .chunk = 64, .line = 2 * s.line};
  f.chunks = s.chunks;
  f.lines = c->kernel;

  memset(bias, 0, (size_t)round_up(c->out_c, SIDE) * sizeof *bias);
  memcpy(bias, b, (size_t)c->out_c * sizeof *bias);
  begin_tiles((int)high);
  for (ptrdiff_t i = 0; i < n; i++) {
    float *to = c->planar_out ? planes : y + i * outputs;
    load_image(image, x ? x + i * inputs : NULL, x8 ? x8 + i * inputs : NULL, c, &s, buffer);
    for (ptrdiff_t t = 0; t < tiles; t += 2) {
      const int as = tiles - t > 1 ? 2 : 1;
      ptrdiff_t at[2], pixels[2];
      for (int a = 0; a < as; a++) {
        const ptrdiff_t h = (t + a) / across, w = (t + a) % across * high;
        at[a] = (h * c->out_w + w) * c->out_c;
        pixels[a] = min(high, c->out_w - w);
        f.a[a] = (const char *)image + 2 * c->stride * (h * s.line + w * c->in_c);
      }
      for (ptrdiff_t o = 0; o < c->out_c; o += 2 * SIDE) {
        const int bs = c->out_c - o > SIDE ? 2 : 1;
        f.b[0] = packed + o * c->kernel * s.chunks * SIDE;
        f.b[1] = (const float *)f.b[0] + c->kernel * s.chunks * TILE;
        multiply_into(as, bs, f, products);
        for (int a = 0; a < as; a++)
          for (int v = 0; v < bs; v++)
            put_outputs(to + at[a] + o + v * SIDE, c->out_c, products + (2 * a + v) * TILE, bias + o + v * SIDE,
                        pixels[a], min(SIDE, c->out_c - o - v * SIDE), c->linear);
      }
    }
    if (c->planar_out) transpose(y + i * outputs, s.outputs, planes, c->out_c, s.outputs, c->out_c);
  }
  end_tiles();
}

/*
 * Writes an image's gradients before the ReLU, [outputs][out_c], as bf16 rows of `row` bytes: those
 * of `vectors` vectors of channels from o on, or of `count` channels if count < VW. Adds their sum
 * to db.
 */
INLINE void gradient_rows(const int vectors, ptrdiff_t o, ptrdiff_t count, const int linear, char *rows, ptrdiff_t row,
                          float *db, const float *dy, const float *y, ptrdiff_t outputs, ptrdiff_t out_c) {
  vec sum[4];
  UNROLL
  for (int v = 0; v < vectors; v++) sum[v] = get(db + o + v * VW, count);
  rows += 2 * o;
  for (ptrdiff_t p = o; p < outputs * out_c; p += out_c, rows += row) {
    UNROLL
    for (int v = 0; v < vectors; v++) {
      vec e = get(dy + p + v * VW, count);
      if (!linear) e = v_where_positive(get(y + p + v * VW, count), e);
      sum[v] = v_add(sum[v], e);
      _mm256_storeu_si256((__m256i *)(rows + 2 * v * VW), (__m256i)_mm512_cvtneps_pbh(e));
    }
  }
  UNROLL
  for (int v = 0; v < vectors; v++) put(db + o + v * VW, sum[v], count);
}

/* gradient_rows of all channels, as many as fit in registers at a time. */
INLINE void all_gradient_rows(const int linear, char *rows, ptrdiff_t row, float *db, const float *dy, const float *y,
                              ptrdiff_t outputs, ptrdiff_t out_c) {
  ptrdiff_t o = 0;
  for (; o + 4 * VW <= out_c; o += 4 * VW) gradient_rows(4, o, VW, linear, rows, row, db, dy, y, outputs, out_c);
  for (; o + 2 * VW <= out_c; o += 2 * VW) gradient_rows(2, o, VW, linear, rows, row, db, dy, y, outputs, out_c);
  for (; o + VW <= out_c; o += VW) gradient_rows(1, o, VW, linear, rows, row, db, dy, y, outputs, out_c);
  if (o < out_c) gradient_rows(1, o, out_c - o, linear, rows, row, db, dy, y, outputs, out_c);
}

/*
 * Writes the gradients of one image as bf16 rows and adds their sum to db. planes has the size of
 * two images of outputs.
 */
static TARGET void load_gradient(char *rows, ptrdiff_t row, float *db, const float *dy, const float *y,
                                 const struct paceline_conv *c, const struct shape *s, float *planes) {
  const ptrdiff_t out_c = c->out_c, n = s->outputs * out_c;
  int linear = c->linear;
  if (c->planar_out) {
    if (!linear) {
      FOR_VECTORS(mask_vector, n, planes, dy, y);
      dy = planes;
      linear = 1;
    }
    transpose(planes + n, out_c, dy, s->outputs, out_c, s->outputs);
    dy = planes + n;
  }
  if (linear)
    all_gradient_rows(1, rows, row, db, dy, NULL, s->outputs, out_c);
  else
    all_gradient_rows(0, rows, row, db, dy, y, s->outputs, out_c);
}

/* dw [out_c][in_c][kernel][kernel] = scale * sums [out_c][kernel][blocks * 16]. */
static TARGET void put_weight_gradient(float *dw, const float *sums, float scale, const struct paceline_conv *c,
                                       const struct shape *s, float *kernel) {
  const ptrdiff_t window = c->kernel * c->kernel;
  for (ptrdiff_t o = 0; o < c->out_c; o++, dw += window * c->in_c) {
    for (ptrdiff_t y = 0; y < c->kernel; y++, sums += s->blocks * SIDE)
      for (ptrdiff_t j = 0; j < s->run; j += VW) {
        const ptrdiff_t count = min(VW, s->run - j);
        put(kernel + y * s->run + j, v_mul(v_set1(scale), v_load(sums + j)), count);
      }
    transpose(dw, window, kernel, c->in_c, window, c->in_c);
  }
}

/* Adds the rows of bs products, together `count` numbers wide, at the inputs of the outputs. */
INLINE void add_rows(const int bs, float *image, const ptrdiff_t *at, const float *products, ptrdiff_t rows,
                     ptrdiff_t count) {
  for (ptrdiff_t r = 0; r < rows; r++, products += SIDE)
    for (int v = 0; v < bs; v++) {
      float *to = image + at[r] + v * SIDE;
      const ptrdiff_t these = count == bs * SIDE ? SIDE : min(SIDE, count - v * SIDE);
      put(to, v_add(get(to, these), v_load(products + v * TILE)), these);
    }
}

/* The input gradient of one image. rows: the output gradients. at: each output's first input. */
static TARGET void put_input_gradient(float *dx, const float *packed, const char *rows, ptrdiff_t row,
                                      const ptrdiff_t *at, const struct paceline_conv *c, const struct shape *s,
                                      float *image, float *products) {
  const ptrdiff_t pixels = c->in_h * c->in_w;
  float *to = c->planar_in ? image : dx;
  struct factors f = {.row = row, .chunk = 64, .chunks = chunks_of(c->out_c), .lines = 1};
  memset(to, 0, (size_t)(pixels * c->in_c) * sizeof *to);
  for (ptrdiff_t p = 0; p < s->outputs; p += 2 * SIDE) {
    const int as = s->outputs - p > SIDE ? 2 : 1;
    f.a[0] = rows + p * row;
    f.a[1] = rows + (p + SIDE) * row;
    for (ptrdiff_t y = 0; y < c->kernel; y++)
      for (ptrdiff_t b = 0; b < s->blocks; b += 2) {
        const int bs = s->blocks - b > 1 ? 2 : 1;
        f.b[0] = packed + (y * s->blocks + b) * f.chunks * TILE;
        f.b[1] = (const float *)f.b[0] + f.chunks * TILE;
        multiply_into(as, bs, f, products);
        const ptrdiff_t count = min(bs * SIDE, s->run - b * SIDE);
        for (int half = 0; half < as; half++) {
          const ptrdiff_t q = p + half * SIDE, rows_of_tile = min(SIDE, s->outputs - q);
          float *cells = to + y * s->line + b * SIDE;
          if (count == 2 * SIDE)
            add_rows(2, cells, at + q, products + 2 * half * TILE, rows_of_tile, 2 * SIDE);
          else if (bs == 2)
            add_rows(2, cells, at + q, products + 2 * half * TILE, rows_of_tile, count);
          else
            add_rows(1, cells, at + q, products + 2 * half * TILE, rows_of_tile, count);
        }
      }
  }
  if (c->planar_in) transpose(dx, pixels, image, c->in_c, pixels, c->in_c);
}

static TARGET void conv_backward(float *dw, float *db, float *dx, const float *x, const uint8_t *x8, float scale,
                                 const float *packed, const float *y, const float *dy, ptrdiff_t n,
                                 const struct paceline_conv *c, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t out_c = c->out_c, inputs = c->in_h * s.line, outputs = n * s.outputs;
  const ptrdiff_t wide = round_up(out_c, CHUNK_OPERANDS), row = 2 * wide, chunks = chunks_of(outputs);
  const ptrdiff_t deep = c->kernel * s.blocks * SIDE; /* numbers of a row of sums */
  ws = aligned(ws);
  float *images = take(&ws, n * s.image / 2);
  float *buffer = take(&ws, inputs);
  float *planes = take(&ws, 2 * s.outputs * out_c);
  char *rows = (char *)take(&ws, (chunks + 1) * CHUNK_OPERANDS * wide / 2); /* output gradients */
  float *transposed = take(&ws, wide * chunks * SIDE);                      /* tiles [wide/16][chunks] */
  float *pairs = take(&ws, 2 * chunks * TILE);                              /* tiles [2][chunks] */
  float *sums = take(&ws, wide * deep);
  float *kernel = take(&ws, deep * c->kernel);
  float *products = take(&ws, 4 * TILE);
  ptrdiff_t *at = (ptrdiff_t *)(void *)take(&ws, 2 * chunks * CHUNK_OPERANDS); /* each output's first input */
  float *back = take(&ws, inputs);

  memset(db, 0, (size_t)out_c * sizeof *db);
  memset(rows, 0, (size_t)((chunks + 1) * CHUNK_OPERANDS * row));
  for (ptrdiff_t i = 0; i < n; i++) {
    load_image(images + i * s.image / 2, x ? x + i * inputs : NULL, x8 ? x8 + i * inputs : NULL, c, &s, buffer);
    load_gradient(rows + i * s.outputs * row, row, db, dy + i * s.outputs * out_c, y ? y + i * s.outputs * out_c : NULL,
                  c, &s, planes);
  }
  ptrdiff_t p = 0;
  for (ptrdiff_t i = 0; i < n; i++)
    for (ptrdiff_t h = 0; h < c->out_h; h++)
      for (ptrdiff_t w = 0; w < c->out_w; w++, p++) at[p] = i * s.image + c->stride * (h * s.line + w * c->in_c);
  for (; p < chunks * CHUNK_OPERANDS; p++) at[p] = at[p - 1]; /* any input: the gradient is zero */

  begin_tiles(SIDE);
  for (ptrdiff_t o = 0; o < out_c; o += SIDE)
    for (ptrdiff_t k = 0; k < chunks; k++)
      transposed_tile(transposed + (o / SIDE * chunks + k) * TILE, rows + k * CHUNK_OPERANDS * row + 2 * o, row);
  struct factors f = {.b = {pairs, pairs + chunks * TILE}, .row = 64, .chunk = 4 * TILE, .chunks = chunks, .lines = 1};
  for (ptrdiff_t line = 0; line < c->kernel; line++)
    for (ptrdiff_t b = 0; b < s.blocks; b += 2) {
      const int bs = s.blocks - b > 1 ? 2 : 1;
      const char *from = (const char *)images + 2 * (line * s.line + b * SIDE);
      for (ptrdiff_t q = 0; q < chunks * CHUNK_OPERANDS; q += 2) {
        const char *one = from + 2 * at[q], *other = from + 2 * at[q + 1];
        v_store(pairs + q / 2 * SIDE, unit_of_rows(one, other));
        if (bs == 2) v_store(pairs + chunks * TILE + q / 2 * SIDE, unit_of_rows(one + 2 * SIDE, other + 2 * SIDE));
      }
      for (ptrdiff_t o = 0; o < out_c; o += 2 * SIDE) {
        float *const c0 = sums + o * deep + (line * s.blocks + b) * SIDE, *const c1 = c0 + SIDE * deep;
        float *const to[4] = {c0, c0 + SIDE, c1, c1 + SIDE};
        f.a[0] = transposed + o / SIDE * chunks * TILE;
        f.a[1] = (const float *)f.a[0] + chunks * TILE;
        multiply_blocks(out_c - o > SIDE ? 2 : 1, bs, f, to, deep);
      }
    }
  put_weight_gradient(dw, sums, scale, c, &s, kernel);
  for (ptrdiff_t i = 0; dx && i < n; i++)
    put_input_gradient(dx + i * inputs, packed, rows + i * s.outputs * row, row, at, c, &s, back, products);
  end_tiles();
}
