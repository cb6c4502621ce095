/*
 * Layer normalisation (Ba et al. 2016) with the rectifier behind it. A group of
 * numbers, a whole row or the channels at one position, is brought to mean 0 and
 * variance 1, and each number gets a scale and a bias of its own.
 *
 * Every path gives the same bits, the "go" path (reference_norm.go) among them:
 * each operation is rounded by itself, and a sum over a group is that of LANES
 * interleaved sums, added up half by half.
 */

enum { LANES = 16, LANE_VECTORS = LANES / VW };
_Static_assert(VW == 4 || VW == 8 || VW == 16, "lanes_sum adds up 4, 2 or 1 vectors");

typedef struct {
  vec v[LANE_VECTORS];
} lanes;

INLINE lanes lanes_zero(void) {
  lanes s;
  UNROLL
  for (int j = 0; j < LANE_VECTORS; j++) s.v[j] = v_zero();
  return s;
}

/* v_sum's order, on longer vectors: halves are added until one number is left. */
INLINE float lanes_sum(lanes s) {
  UNROLL
  for (int j = 0; j < LANE_VECTORS / 2; j++) s.v[j] = v_add(s.v[j], s.v[j + LANE_VECTORS / 2]);
  if (LANE_VECTORS == 4) s.v[0] = v_add(s.v[0], s.v[1 % LANE_VECTORS]);
  return v_sum(s.v[0]);
}

/* a's first `some` elements, and zeros. */
INLINE vec v_first(vec a, ptrdiff_t some) {
  float t[VW] = {0};
  v_store_some(t, a, some);
  return v_load(t);
}

/*
 * Does STEP(j, at, some) for the vectors of n floats: of number j of the lanes', at
 * `at`, of which `some` (a constant, VW, but for the last ones) exist.
 */
#define EACH_VECTOR(n, STEP)                                             \
  do {                                                                   \
    ptrdiff_t from = 0;                                                  \
    for (; from + LANES <= (n); from += LANES) {                         \
      UNROLL                                                             \
      for (int j = 0; j < LANE_VECTORS; j++) STEP(j, from + j * VW, VW); \
    }                                                                    \
    UNROLL                                                               \
    for (int j = 0; j < LANE_VECTORS; j++)                               \
      if (from + j * VW < (n)) {                                         \
        const ptrdiff_t left = min(VW, (n) - (from + j * VW));           \
        if (left == VW)                                                  \
          STEP(j, from + j * VW, VW);                                    \
        else                                                             \
          STEP(j, from + j * VW, left);                                  \
      }                                                                  \
  } while (0)

/* One group: y = relu((x - mean) / deviation * scale + bias). Its mean and 1/deviation go to statistics. */
INLINE void normalise(const int relu, float *y, float statistics[2], const float *x, const float *scale,
                      const float *bias, ptrdiff_t n, float eps) {
  lanes s = lanes_zero();
#define ADD_UP(j, at, some) s.v[j] = v_add(s.v[j], get(x + (at), some))
  EACH_VECTOR(n, ADD_UP);
#undef ADD_UP
  const float mean = lanes_sum(s) / (float)n;
  const vec vmean = v_set1(mean);
  s = lanes_zero();
#define ADD_SQUARES(j, at, some)                                   \
  do {                                                             \
    const vec d = v_sub(get(x + (at), some), vmean);               \
    const vec dd = v_mul(d, d);                                    \
    s.v[j] = v_add(s.v[j], (some) == VW ? dd : v_first(dd, some)); \
  } while (0)
  EACH_VECTOR(n, ADD_SQUARES);
#undef ADD_SQUARES
  const float variance = lanes_sum(s) / (float)n, by = 1 / sqrtf(variance + eps);
  const vec vby = v_set1(by);
  statistics[0] = mean;
  statistics[1] = by;
  for (ptrdiff_t i = 0; i < n; i += VW) {
    const ptrdiff_t some = min(VW, n - i);
    const vec hat = v_mul(v_sub(get(x + i, some), vmean), vby);
    const vec out = v_add(v_mul(hat, get(scale + i, some)), get(bias + i, some));
    put(y + i, relu ? v_relu(out) : out, some);
  }
}

/*
 * The gradients of one group. With hat = (x - mean) / deviation and g = dy * scale,
 * dy being 0 where the rectifier let nothing through,
 *
 *	dx = (g - mean(g) - hat * mean(g * hat)) / deviation
 *
 * dscale and dbias are added to. dx may be x.
 */
INLINE void normalise_backward(const int relu, float *dscale, float *dbias, float *dx, const float statistics[2],
                               const float *x, const float *y, const float *dy, const float *scale, ptrdiff_t n) {
  const vec vmean = v_set1(statistics[0]), vby = v_set1(statistics[1]);
#define HAT(at, some) v_mul(v_sub(get(x + (at), some), vmean), vby)
#define THROUGH(at, some) (relu ? v_where_positive(get(y + (at), some), get(dy + (at), some)) : get(dy + (at), some))
  lanes s = lanes_zero(), t = lanes_zero();
#define ADD_GRADIENTS(j, at, some)                                                               \
  do {                                                                                           \
    const vec e = THROUGH(at, some), hat = HAT(at, some), g = v_mul(e, get(scale + (at), some)); \
    const vec gh = v_mul(g, hat);                                                                \
    put(dbias + (at), v_add(get(dbias + (at), some), e), some);                                  \
    put(dscale + (at), v_add(get(dscale + (at), some), v_mul(e, hat)), some);                    \
    s.v[j] = v_add(s.v[j], (some) == VW ? g : v_first(g, some));                                 \
    t.v[j] = v_add(t.v[j], (some) == VW ? gh : v_first(gh, some));                               \
  } while (0)
  EACH_VECTOR(n, ADD_GRADIENTS);
#undef ADD_GRADIENTS
  const vec of_g = v_set1(lanes_sum(s) / (float)n), of_gh = v_set1(lanes_sum(t) / (float)n);
  for (ptrdiff_t i = 0; i < n; i += VW) {
    const ptrdiff_t some = min(VW, n - i);
    const vec hat = HAT(i, some), g = v_mul(THROUGH(i, some), get(scale + i, some));
    put(dx + i, v_mul(vby, v_sub(v_sub(g, of_g), v_mul(hat, of_gh))), some);
  }
#undef HAT
#undef THROUGH
}

#undef EACH_VECTOR

/* The channels at a position do not lie together: a row is transposed on its way in and out. */
INLINE int norm_transposes(const struct paceline_norm *c) { return c->planar && !c->all && c->positions > 1; }

INLINE void norm_forward_rows(const int relu, float *y, float *statistics, const float *x, const float *scale,
                              const float *bias, ptrdiff_t n, const struct paceline_norm *c, float *ws) {
  const ptrdiff_t row = c->channels * c->positions, length = c->all ? row : c->channels;
  ws = aligned(ws);
  float unused[2];
  for (; n > 0; n--, y += row, x += row) {
    const float *from = x;
    float *to = y;
    if (norm_transposes(c)) {
      float *rest = ws;
      from = to = take(&rest, row);
      transpose(to, c->channels, x, c->positions, c->channels, c->positions);
    }
    for (ptrdiff_t at = 0; at < row; at += length) {
      normalise(relu, to + at, statistics ? statistics : unused, from + at, scale, bias, length, c->eps);
      if (statistics) statistics += 2;
    }
    if (to != y) transpose(y, c->positions, to, c->channels, c->positions, c->channels);
  }
}

/* scale and bias: in the order of a row's numbers, or [channels]. statistics: NULL where nobody asks. */
static TARGET void norm_forward(float *y, float *statistics, const float *x, const float *scale, const float *bias,
                                ptrdiff_t n, const struct paceline_norm *c, float *ws) {
  if (c->relu)
    norm_forward_rows(1, y, statistics, x, scale, bias, n, c, ws);
  else
    norm_forward_rows(0, y, statistics, x, scale, bias, n, c, ws);
}

INLINE void norm_backward_rows(const int relu, float *dscale, float *dbias, float *dx, const float *statistics,
                               const float *x, const float *y, const float *dy, const float *scale, ptrdiff_t n,
                               const struct paceline_norm *c, float *ws) {
  const ptrdiff_t row = c->channels * c->positions, length = c->all ? row : c->channels;
  ws = aligned(ws);
  memset(dscale, 0, (size_t)length * sizeof *dscale);
  memset(dbias, 0, (size_t)length * sizeof *dbias);
  for (ptrdiff_t i = 0; i < n; i++) {
    const float *from = x + i * row, *out = relu ? y + i * row : NULL, *gradient = dy + i * row;
    float *to = dx + i * row;
    const int transposes = norm_transposes(c);
    if (transposes) {
      float *rest = ws, *a = take(&rest, row), *b = take(&rest, row), *d = take(&rest, row);
      transpose(a, c->channels, from, c->positions, c->channels, c->positions);
      if (relu) transpose(b, c->channels, out, c->positions, c->channels, c->positions);
      transpose(d, c->channels, gradient, c->positions, c->channels, c->positions);
      from = to = a;
      out = b;
      gradient = d;
    }
    for (ptrdiff_t at = 0; at < row; at += length, statistics += 2)
      normalise_backward(relu, dscale, dbias, to + at, statistics, from + at, relu ? out + at : NULL, gradient + at,
                         scale, length);
    if (transposes) transpose(dx + i * row, c->positions, to, c->channels, c->positions, c->channels);
  }
}

/* dscale and dbias are overwritten with the sums over the rows, in the order of scale. */
static TARGET void norm_backward(float *dscale, float *dbias, float *dx, const float *statistics, const float *x,
                                 const float *y, const float *dy, const float *scale, ptrdiff_t n,
                                 const struct paceline_norm *c, float *ws) {
  if (c->relu)
    norm_backward_rows(1, dscale, dbias, dx, statistics, x, y, dy, scale, n, c, ws);
  else
    norm_backward_rows(0, dscale, dbias, dx, statistics, x, y, dy, scale, n, c, ws);
}

/*
 * Brings parameters from PyTorch's order, [channels] or [channels][positions], into
 * that of a row's numbers; with back set, from there.
 */
static TARGET void norm_arrange(float *to, const float *from, const struct paceline_norm *c, int back) {
  const ptrdiff_t rows = back ? c->positions : c->channels, cols = back ? c->channels : c->positions;
  if (c->all && !c->planar && c->positions > 1)
    transpose(to, rows, from, cols, rows, cols);
  else
    memcpy(to, from, (size_t)(c->all ? rows * cols : c->channels) * sizeof *to);
}
