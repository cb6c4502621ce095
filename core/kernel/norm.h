/*
 * Layer normalisation (Ba et al. 2016), optionally followed by a ReLU. A group of numbers (a whole
 * row, or the channels at one position) is normalised to mean 0 and variance 1; each number has its
 * own scale and bias.
 *
 * Every path gives the same bits, including the "go" path (reference_norm.go): each operation is
 * rounded separately, and the sum over a group is LANES interleaved sums, added half by half.
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

/* v_sum's order on all lanes: halves are added until one number is left. */
INLINE float lanes_sum(lanes s) {
  UNROLL
  for (int j = 0; j < LANE_VECTORS / 2; j++) s.v[j] = v_add(s.v[j], s.v[j + LANE_VECTORS / 2]);
  if (LANE_VECTORS == 4) s.v[0] = v_add(s.v[0], s.v[1 % LANE_VECTORS]);
  return v_sum(s.v[0]);
}

/* The first `count` elements of a, then zeros. */
INLINE vec v_first(vec a, ptrdiff_t count) {
  float t[VW] = {0};
  v_store_some(t, a, count);
  return v_load(t);
}

/*
 * Calls STEP(j, at, count) for the vectors of n floats. j is the vector of the lanes, at the index
 * of the first float. count is the number of floats: the constant VW for all but the last vector.
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

/*
 * One group: y = (x - mean) / deviation * scale + bias, then ReLU. statistics: mean, 1/deviation.
 */
INLINE void normalise(const int relu, float *y, float statistics[2], const float *x, const float *scale,
                      const float *bias, ptrdiff_t n, float eps) {
  lanes s = lanes_zero();
#define ADD_UP(j, at, count) s.v[j] = v_add(s.v[j], get(x + (at), count))
  EACH_VECTOR(n, ADD_UP);
#undef ADD_UP
  const float mean = lanes_sum(s) / (float)n;
  const vec vmean = v_set1(mean);
  s = lanes_zero();
#define ADD_SQUARES(j, at, count)                                    \
  do {                                                               \
    const vec d = v_sub(get(x + (at), count), vmean);                \
    const vec dd = v_mul(d, d);                                      \
    s.v[j] = v_add(s.v[j], (count) == VW ? dd : v_first(dd, count)); \
  } while (0)
  EACH_VECTOR(n, ADD_SQUARES);
#undef ADD_SQUARES
  const float variance = lanes_sum(s) / (float)n, inv_std = 1 / sqrtf(variance + eps);
  const vec vinv_std = v_set1(inv_std);
  statistics[0] = mean;
  statistics[1] = inv_std;
  for (ptrdiff_t i = 0; i < n; i += VW) {
    const ptrdiff_t count = min(VW, n - i);
    const vec hat = v_mul(v_sub(get(x + i, count), vmean), vinv_std);
    const vec out = v_add(v_mul(hat, get(scale + i, count)), get(bias + i, count));
    put(y + i, relu ? v_relu(out) : out, count);
  }
}

/*
 * The gradients of one group. With hat = (x - mean) / deviation and g = dy * scale, where dy counts
 * as 0 if the ReLU's output is 0,
 *
 *	dx = (g - mean(g) - hat * mean(g * hat)) / deviation
 *
 * The gradients of scale and bias are added to dscale and dbias. dx may be x.
 */
INLINE void normalise_backward(const int relu, float *dscale, float *dbias, float *dx, const float statistics[2],
                               const float *x, const float *y, const float *dy, const float *scale, ptrdiff_t n) {
  const vec vmean = v_set1(statistics[0]), vinv_std = v_set1(statistics[1]);
#define HAT(at, count) v_mul(v_sub(get(x + (at), count), vmean), vinv_std)
#define THROUGH(at, count) \
  (relu ? v_where_positive(get(y + (at), count), get(dy + (at), count)) : get(dy + (at), count))
  lanes s = lanes_zero(), t = lanes_zero();
#define ADD_GRADIENTS(j, at, count)                                                                 \
  do {                                                                                              \
    const vec e = THROUGH(at, count), hat = HAT(at, count), g = v_mul(e, get(scale + (at), count)); \
    const vec gh = v_mul(g, hat);                                                                   \
    put(dbias + (at), v_add(get(dbias + (at), count), e), count);                                   \
    put(dscale + (at), v_add(get(dscale + (at), count), v_mul(e, hat)), count);                     \
    s.v[j] = v_add(s.v[j], (count) == VW ? g : v_first(g, count));                                  \
    t.v[j] = v_add(t.v[j], (count) == VW ? gh : v_first(gh, count));                                \
  } while (0)
  EACH_VECTOR(n, ADD_GRADIENTS);
#undef ADD_GRADIENTS
  const vec of_g = v_set1(lanes_sum(s) / (float)n), of_gh = v_set1(lanes_sum(t) / (float)n);
  for (ptrdiff_t i = 0; i < n; i += VW) {
    const ptrdiff_t count = min(VW, n - i);
    const vec hat = HAT(i, count), g = v_mul(THROUGH(i, count), get(scale + i, count));
    put(dx + i, v_mul(vinv_std, v_sub(v_sub(g, of_g), v_mul(hat, of_gh))), count);
  }
#undef HAT
#undef THROUGH
}

#undef EACH_VECTOR

/* Whether the channels at a position are not contiguous: rows are transposed before and after. */
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

/* scale and bias: in the order of a row, or [channels]. statistics may be NULL. */
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

/* Overwrites dscale and dbias with the sums over the rows, in the order of scale. */
static TARGET void norm_backward(float *dscale, float *dbias, float *dx, const float *statistics, const float *x,
                                 const float *y, const float *dy, const float *scale, ptrdiff_t n,
                                 const struct paceline_norm *c, float *ws) {
  if (c->relu)
    norm_backward_rows(1, dscale, dbias, dx, statistics, x, y, dy, scale, n, c, ws);
  else
    norm_backward_rows(0, dscale, dbias, dx, statistics, x, y, dy, scale, n, c, ws);
}

/*
 * Copies parameters from PyTorch's order, [channels] or [channels][positions], to the order of a
 * row; with `back`, from the order of a row to PyTorch's.
 */
static TARGET void norm_arrange(float *to, const float *from, const struct paceline_norm *c, int back) {
  const ptrdiff_t rows = back ? c->positions : c->channels, cols = back ? c->channels : c->positions;
  if (c->all && !c->planar && c->positions > 1)
    transpose(to, rows, from, cols, rows, cols);
  else
    memcpy(to, from, (size_t)(c->all ? rows * cols : c->channels) * sizeof *to);
}
