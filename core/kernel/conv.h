/*
 * Convolution by Winograd's minimal filtering.
 *
 * A kernel is r strides wide, r = 2 or 3. An image is a grid of cells of stride x stride pixels, and
 * the kernel moves over it in steps of one cell. This is an r x r convolution whose channels are the
 * `deep` = stride * stride * in_c floats of a cell. A tile of 4 x 4 cells gives m x m outputs,
 * m = 5 - r. Along one side, with inputs d, taps g and outputs y,
 *
 *	p0 = (d0 - d2) * g0                      y0 = p0 + p1 + p2
 *	p1 = (d1 + d2) * (g0 + g1 [+ g2]) / 2    y1 = p1 - p2      [- p3 if r is 3]
 *	p2 = (d2 - d1) * (g0 - g1 [+ g2]) / 2    y2 = p1 + p2 - p3 [if r is 2]
 *	p3 = (d1 - d3) * (the last tap)
 *
 * These are four multiplications where the direct convolution has r * m = 6; along both sides, 16
 * instead of 36. Each of the 16 points is a matrix product over the tiles of many images and the
 * channels of a cell. The points are computed in four groups, one for each row point i, so that the
 * operands of a group stay in the L2 cache.
 *
 * The backward pass uses the transposed formulas. The gradients e of the outputs are transformed to
 * the points (e0, e0 + e1 + e2, e0 - e1 + e2, -e_last). Their products with the points of the
 * inputs give the weight gradients; their products with the points of the weights give the input
 * gradients.
 *
 * The loops read images as [height, width, channel], so a cell is `stride` contiguous runs of
 * stride * in_c floats. Images are padded with zeros to whole tiles.
 */

struct shape {
  ptrdiff_t r, m;
  ptrdiff_t run, deep;               /* floats of a cell's row; of a cell */
  ptrdiff_t tiles_h, tiles_w, tiles; /* of an image */
  ptrdiff_t pad_h, pad_w, line;      /* pixels that the tiles cover; floats of pad_w pixels */
  ptrdiff_t image;                   /* floats of a padded image */
  ptrdiff_t used_h, used_w;          /* pixels that outputs depend on */
  ptrdiff_t wide, deep_wide;         /* out_c, rounded up to VW; deep, to NR */
  ptrdiff_t units, out_units;        /* units of a product over deep, over out_c */
  int in_place;                      /* the loops can read the caller's images */
};

INLINE struct shape shape_of(const struct paceline_conv *c) {
  struct shape s = {.r = c->kernel / c->stride};
  s.m = 5 - s.r;
  s.run = c->stride * c->in_c;
  s.deep = c->stride * s.run;
  s.tiles_h = (c->out_h + s.m - 1) / s.m;
  s.tiles_w = (c->out_w + s.m - 1) / s.m;
  s.tiles = s.tiles_h * s.tiles_w;
  s.pad_h = (s.m * s.tiles_h + s.r - 1) * c->stride;
  s.pad_w = (s.m * s.tiles_w + s.r - 1) * c->stride;
  s.line = s.pad_w * c->in_c;
  s.image = s.pad_h * s.line;
  s.used_h = (c->out_h + s.r - 1) * c->stride;
  s.used_w = (c->out_w + s.r - 1) * c->stride;
  s.wide = round_up(c->out_c, VW);
  s.deep_wide = round_up(s.deep, NR);
  s.units = in_units(s.deep);
  s.out_units = in_units(c->out_c);
  s.in_place = !c->planar_in && s.pad_h == c->in_h && s.pad_w == c->in_w;
  return s;
}

/*
 * The number of images, of n, in a group that is computed together: groups of nearly equal size and
 * about `tiles` tiles.
 */
INLINE ptrdiff_t images_of(ptrdiff_t tiles, const struct shape *s, ptrdiff_t n) {
  const ptrdiff_t limit = max(1, tiles / s->tiles), groups = (n + limit - 1) / limit;
  return (n + groups - 1) / groups;
}

/* ------------------------------------------------------------- images */

/*
 * Returns images i to i+n-1 as the tiles read them. Bytes stay bytes. `buffer` has the size of n
 * padded images of floats, so a read of VW bytes that begins in its bytes stays in the buffer.
 */
static TARGET const void *load_images(void *buffer, const float *x, const uint8_t *x8, ptrdiff_t i, ptrdiff_t n,
                                      const struct paceline_conv *c, const struct shape *s) {
  const ptrdiff_t channels = c->in_c, pixels = c->in_h * c->in_w;
  if (s->in_place && !(x8 && s->run % VW))
    return x8 ? (const void *)(x8 + i * s->image) : (const void *)(x + i * s->image);
  const ptrdiff_t size = x8 ? 1 : sizeof *x;
  const ptrdiff_t used = s->used_w * channels * size, line = s->line * size;
  char *to = buffer;
  for (; n > 0; n--, i++) {
    for (ptrdiff_t h = 0; h < s->used_h; h++, to += line) {
      ptrdiff_t from = i * pixels * channels + h * c->in_w * (c->planar_in ? 1 : channels);
      if (!c->planar_in)
        memcpy(to, x8 ? (const void *)(x8 + from) : (const void *)(x + from), (size_t)used);
      else if (x8)
        interleave_bytes((uint8_t *)to, x8 + from, pixels, s->used_w, channels);
      else
        transpose((float *)(void *)to, channels, x + from, pixels, channels, s->used_w);
      memset(to + used, 0, (size_t)(line - used));
    }
    memset(to, 0, (size_t)((s->pad_h - s->used_h) * line));
    to += (s->pad_h - s->used_h) * line;
  }
  return buffer;
}

/* ----------------------------------------------------------------- points */

/* Reads `count` numbers. Of bytes it reads VW; no caller uses more than `count` of them. */
INLINE vec get_input(const int bytes, const void *p, ptrdiff_t at, ptrdiff_t count) {
  return bytes ? v_from_bytes((const uint8_t *)p + at) : get((const float *)p + at, count);
}

/*
 * The four column points of row point i, for `count` numbers from `at` on. `cell` is the distance
 * of two rows of cells.
 */
INLINE void input_points(const int i, const int bytes, vec d[4], const void *tile, ptrdiff_t at, ptrdiff_t run,
                         ptrdiff_t cell, ptrdiff_t count) {
  const ptrdiff_t one = at + (i == 0 ? 0 : i == 2 ? 2 : 1) * cell;
  const ptrdiff_t other = at + (i == 2 ? 1 : i == 3 ? 3 : 2) * cell;
  vec t[4];
  UNROLL
  for (int j = 0; j < 4; j++) {
    vec a = get_input(bytes, tile, one + j * run, count);
    vec b = get_input(bytes, tile, other + j * run, count);
    t[j] = i == 1 ? v_add(a, b) : v_sub(a, b);
  }
  d[0] = v_sub(t[0], t[2]);
  d[1] = v_add(t[1], t[2]);
  d[2] = v_sub(t[2], t[1]);
  d[3] = v_sub(t[1], t[3]);
}

/*
 * The grid of an image's tiles, and the distance, in floats or bytes, from a tile to the tile on
 * its right, below it, and in the next image.
 */
struct grid {
  ptrdiff_t wide, high, right, down, image;
};

struct tile {
  ptrdiff_t at, w, h;
};

/* Tile t, counted across images. */
INLINE struct tile tile_number(const struct grid g, ptrdiff_t t) {
  struct tile tile = {.w = t % g.wide, .h = t / g.wide % g.high};
  tile.at = tile.w * g.right + tile.h * g.down + t / g.wide / g.high * g.image;
  return tile;
}

/* tile_number of the next tile, without divisions. */
INLINE struct tile next_tile(const struct grid g, struct tile tile) {
  tile.at += g.right;
  if (++tile.w == g.wide) {
    tile.w = 0;
    tile.at += g.down - g.wide * g.right;
    if (++tile.h == g.high) {
      tile.h = 0;
      tile.at += g.image - g.high * g.down;
    }
  }
  return tile;
}

/* The shape of the cells, passed by value: the compiler then knows that stores do not change it. */
struct cells {
  struct grid grid;
  ptrdiff_t lines, run, line, deep;
};

INLINE struct cells cells_of(const struct paceline_conv *c, const struct shape *s) {
  const ptrdiff_t down = s->m * c->stride * s->line;
  return (struct cells){.grid = {s->tiles_w, s->tiles_h, s->m * s->run, down, s->image},
                        .lines = c->stride,
                        .run = s->run,
                        .line = s->line,
                        .deep = s->deep};
}

INLINE const void *of_images(const int bytes, const void *images, ptrdiff_t at) {
  return (const char *)images + at * (bytes ? 1 : (ptrdiff_t)sizeof(float));
}

/*
 * The points of numbers x to x+count-1 of line a of a tile's cells, as operands of a panel's row.
 */
INLINE void input_operands(ptrdiff_t x, ptrdiff_t count, const int i, const int bytes, float *row, ptrdiff_t point,
                           ptrdiff_t chunk, const void *tile, ptrdiff_t a, const struct cells in) {
  vec d[4];
  input_points(i, bytes, d, tile, a * in.line + x, in.run, in.lines * in.line, count);
  UNROLL
  for (int j = 0; j < 4; j++) put_operands(row + j * point, chunk, a * in.run + x, d[j], count);
}

/* Advances to the next vector of a cell whose lines are whole vectors. left: floats of the line. */
INLINE void next_vector(ptrdiff_t *at, ptrdiff_t *left, const struct cells in) {
  *at += VW;
  *left -= VW;
  if (*left == 0) {
    *left = in.run;
    *at += in.line - in.run;
  }
}

/* input_operands of a whole tile, VW units at a time. */
INLINE void whole_operands(const int i, const int bytes, float *row, ptrdiff_t point, ptrdiff_t chunk, const void *tile,
                           const struct cells in) {
  ptrdiff_t at = 0, left = in.run;
  for (ptrdiff_t k = 0; k < in.deep / PER_UNIT; k += VW) {
    float *to = row + k / CHUNK * chunk + k % CHUNK;
    vec d[4], e[4];
    input_points(i, bytes, d, tile, at, in.run, in.lines * in.line, VW);
    next_vector(&at, &left, in);
    if (PER_UNIT == 2) {
      input_points(i, bytes, e, tile, at, in.run, in.lines * in.line, VW);
      next_vector(&at, &left, in);
    }
    UNROLL
    for (int j = 0; j < 4; j++) v_store(to + j * point, v_row_unit(d[j], PER_UNIT == 2 ? e[j] : d[j]));
  }
}

/* Writes the points of m tiles as a panel; column points lie `point` apart. */
INLINE void input_panel_of(const int i, const int bytes, float *dst, ptrdiff_t point, const void *images, ptrdiff_t t,
                           ptrdiff_t m, const struct cells in) {
  const int whole = in.run % VW == 0 && in.deep % (PER_UNIT * VW) == 0;
  struct tile tile = tile_number(in.grid, t);
  for (ptrdiff_t r = 0; r < m; r++, dst += CHUNK, tile = next_tile(in.grid, tile)) {
    const void *from = of_images(bytes, images, tile.at);
    if (whole)
      whole_operands(i, bytes, dst, point, CHUNK * m, from, in);
    else
      for (ptrdiff_t a = 0; a < in.lines; a++)
        FOR_VECTORS(input_operands, in.run, i, bytes, dst, point, CHUNK * m, from, a, in);
  }
}

/*
 * input_operands of a tile, or of a pair of tiles, as units in blocks of NR columns `block` apart.
 */
INLINE void input_units(ptrdiff_t x, ptrdiff_t count, const int i, const int bytes, float *dst, ptrdiff_t point,
                        ptrdiff_t block, const void *tile, const void *next, ptrdiff_t a, const struct cells in) {
  const ptrdiff_t column = a * in.run + x, within = column % NR, at = a * in.line + x;
  vec d[4], e[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  input_points(i, bytes, d, tile, at, in.run, in.lines * in.line, count);
  if (PER_UNIT == 2 && next) input_points(i, bytes, e, next, at, in.run, in.lines * in.line, count);
  dst += column / NR * block + within;
  if (within + count <= NR) {
    UNROLL
    for (int j = 0; j < 4; j++) put(dst + j * point, v_unit(d[j], e[j]), count);
    return;
  }
  for (int j = 0; j < 4; j++) { /* the last units belong to the next block */
    float u[VW];
    v_store(u, v_unit(d[j], e[j]));
    for (ptrdiff_t k = 0; k < count; k++) dst[j * point + k + (within + k < NR ? 0 : block - NR)] = u[k];
  }
}

/* input_units of a whole tile, or of a pair of tiles. */
INLINE void whole_units(const int i, const int bytes, float *dst, ptrdiff_t point, ptrdiff_t block, const void *tile,
                        const void *next, const struct cells in) {
  ptrdiff_t at = 0, left = in.run;
  for (ptrdiff_t column = 0; column < in.deep; column += VW, next_vector(&at, &left, in)) {
    float *to = dst + column / NR * block + column % NR;
    vec d[4], e[4];
    input_points(i, bytes, d, tile, at, in.run, in.lines * in.line, VW);
    if (PER_UNIT == 2) input_points(i, bytes, e, next, at, in.run, in.lines * in.line, VW);
    UNROLL
    for (int j = 0; j < 4; j++) v_store(to + j * point, v_unit(d[j], PER_UNIT == 2 ? e[j] : d[j]));
  }
}

/* Writes the points of `rows` tiles as columns [deep_wide/NR][rows or pairs of rows][NR]. */
INLINE void input_columns_of(const int i, const int bytes, float *dst, ptrdiff_t point, const void *images,
                             ptrdiff_t rows, const struct cells in) {
  const ptrdiff_t block = in_units(rows) * NR;
  struct tile tile = tile_number(in.grid, 0);
  for (ptrdiff_t t = 0; t < rows; t += PER_UNIT, dst += NR) {
    const void *from = of_images(bytes, images, tile.at), *next = NULL;
    tile = next_tile(in.grid, tile);
    if (PER_UNIT == 2 && t + 1 < rows) {
      next = of_images(bytes, images, tile.at);
      tile = next_tile(in.grid, tile);
    }
    if (in.run % VW == 0 && (PER_UNIT == 1 || next))
      whole_units(i, bytes, dst, point, block, from, next, in);
    else
      for (ptrdiff_t a = 0; a < in.lines; a++)
        FOR_VECTORS(input_units, in.run, i, bytes, dst, point, block, from, next, a, in);
  }
}

/* Calls f with i (the row point) and bytes as constants. */
#define WITH_CONSTANTS(f, i, bytes, ...) \
  switch ((i) + ((bytes) ? 4 : 0)) {     \
    case 0: f(0, 0, __VA_ARGS__); break; \
    case 1: f(1, 0, __VA_ARGS__); break; \
    case 2: f(2, 0, __VA_ARGS__); break; \
    case 3: f(3, 0, __VA_ARGS__); break; \
    case 4: f(0, 1, __VA_ARGS__); break; \
    case 5: f(1, 1, __VA_ARGS__); break; \
    case 6: f(2, 1, __VA_ARGS__); break; \
    case 7: f(3, 1, __VA_ARGS__); break; \
  }

static TARGET void input_panel(int i, int bytes, float *dst, ptrdiff_t point, const void *images, ptrdiff_t t,
                               ptrdiff_t m, const struct cells in) {
  WITH_CONSTANTS(input_panel_of, i, bytes, dst, point, images, t, m, in)
}

static TARGET void input_columns(int i, int bytes, float *dst, ptrdiff_t point, const void *images, ptrdiff_t rows,
                                 const struct cells in){
    WITH_CONSTANTS(input_columns_of, i, bytes, dst, point, images, rows, in)}

/* ---------------------------------------------------------------- weights */

/* The four points of 2 or 3 taps. */
INLINE void weight_points(const int r, vec u[4], const vec g[3]) {
  const vec half = v_set1(0.5f);
  vec even = r == 3 ? v_add(g[0], g[2]) : g[0];
  u[0] = g[0];
  u[1] = v_mul(half, v_add(even, g[1]));
  u[2] = v_mul(half, v_sub(even, g[1]));
  u[3] = g[r - 1];
}

/*
 * The 16 points of channel k of a cell, for VW outputs from o on. Weights are transposed,
 * [in_c][kernel][kernel][wide].
 */
INLINE void weights_of(const int r, vec u[16], const float *w, ptrdiff_t wide, ptrdiff_t k, ptrdiff_t o,
                       const struct paceline_conv *c, const struct shape *s) {
  const ptrdiff_t a = k / s->run, b = k % s->run / c->in_c, ch = k % c->in_c;
  vec t[4][3];
  for (int q = 0; q < r; q++) {
    vec g[3], column[4];
    for (int p = 0; p < r; p++) {
      ptrdiff_t y = c->stride * p + a, x = c->stride * q + b;
      g[p] = v_load(w + ((ch * c->kernel + y) * c->kernel + x) * wide + o);
    }
    weight_points(r, column, g);
    for (int i = 0; i < 4; i++) t[i][q] = column[i];
  }
  for (int i = 0; i < 4; i++) weight_points(r, u + 4 * i, t[i]);
}

INLINE void weights_at(vec u[16], const float *w, ptrdiff_t wide, ptrdiff_t k, ptrdiff_t o,
                       const struct paceline_conv *c, const struct shape *s) {
  if (k >= s->deep)
    for (int p = 0; p < 16; p++) u[p] = v_zero();
  else if (s->r == 2)
    weights_of(2, u, w, wide, k, o, c, s);
  else
    weights_of(3, u, w, wide, k, o, c, s);
}

enum { BLOCK = 8 }; /* units packed at a time: alternating between the 16 distant points is slow */

/*
 * Packs w * scale for conv_forward: [16 points][wide/NR][units][NR]; the last block may be
 * [units][VW]. Packs the outputs `from` to `to`-1: whole blocks of NR, or up to the last output.
 */
static TARGET void conv_pack(float *packed, const float *w, float scale, const struct paceline_conv *c, ptrdiff_t from,
                             ptrdiff_t to, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t patch = c->kernel * c->kernel * c->in_c, point = s.wide * s.units;
  const ptrdiff_t wide = round_up(to - from, VW);
  ws = aligned(ws);
  float *rows = take(&ws, patch * wide); /* [patch][wide] */
  float *block = take(&ws, 16 * BLOCK * NR);
  const vec vscale = v_set1(scale);
  memset(rows, 0, (size_t)(patch * wide) * sizeof *rows);
  transpose(rows, wide, w + from * patch, patch, to - from, patch);
  for (ptrdiff_t o = 0; o < wide; o += NR)
    for (ptrdiff_t k = 0; k < s.units; k += BLOCK) {
      const ptrdiff_t count = min(BLOCK, s.units - k), cols = min(NR, wide - o);
      for (ptrdiff_t j = 0; j < count; j++)
        for (ptrdiff_t half = 0; half < cols; half += VW) {
          vec u[16], v[16];
          weights_at(u, rows, wide, (k + j) * PER_UNIT, o + half, c, &s);
          if (PER_UNIT == 2) weights_at(v, rows, wide, (k + j) * 2 + 1, o + half, c, &s);
          for (int p = 0; p < 16; p++)
            v_store(block + (p * BLOCK + j) * cols + half,
                    v_unit(v_mul(vscale, u[p]), PER_UNIT == 2 ? v_mul(vscale, v[p]) : vscale));
        }
      for (int p = 0; p < 16; p++)
        memcpy(packed + p * point + (from + o) * s.units + k * cols, block + p * BLOCK * cols,
               (size_t)(count * cols) * sizeof *block);
    }
}

/*
 * Packs w for conv_backward's input gradient: [16 points][deep_wide/NR][out_units][NR]. Packs the
 * outputs `from` to `to`-1; `from` is a multiple of VW.
 */
static TARGET void conv_pack_back(float *packed, const float *w, const struct paceline_conv *c, ptrdiff_t from,
                                  ptrdiff_t to, float *ws) {
  const struct shape s = shape_of(c);
  const ptrdiff_t patch = c->kernel * c->kernel * c->in_c, point = s.deep_wide * s.out_units;
  const ptrdiff_t wide = round_up(to - from, NR);
  ws = aligned(ws);
  float *rows = take(&ws, patch * wide);
  float *t = take(&ws, 16 * VW * NR); /* [16 points][VW outputs][NR channels] */
  memset(rows, 0, (size_t)(patch * wide) * sizeof *rows);
  transpose(rows, wide, w + from * patch, patch, to - from, patch);
  for (ptrdiff_t o = 0; o < to - from; o += VW) {
    const ptrdiff_t units = min(VW / PER_UNIT, in_units(to - from - o));
    for (ptrdiff_t n = 0; n < s.deep_wide; n += NR) {
      for (ptrdiff_t k = 0; k < NR; k += 4) {
        float block[16][4][VW];
        for (ptrdiff_t j = 0; j < 4; j++) {
          vec u[16];
          weights_at(u, rows, wide, n + k + j, o, c, &s);
          for (int p = 0; p < 16; p++) v_store(block[p][j], u[p]);
        }
        for (int p = 0; p < 16; p++) transpose(t + p * VW * NR + k, NR, block[p][0], VW, 4, VW);
      }
      for (int p = 0; p < 16; p++) {
        float *dst = packed + p * point + (n / NR * s.out_units + (from + o) / PER_UNIT) * NR;
        const float *row = t + p * VW * NR;
        for (ptrdiff_t u = 0; u < units; u++, dst += NR, row += PER_UNIT * NR)
          for (ptrdiff_t half = 0; half < NR; half += VW)
            v_store(dst + half, v_unit(v_load(row + half), PER_UNIT == 2 ? v_load(row + NR + half) : v_zero()));
      }
    }
  }
}

#include "conv_forward.h"
#include "conv_backward.h"
