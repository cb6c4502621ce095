/*
 * Exponentials and the losses. Every operation is rounded separately, and every path does the same
 * operations in the same order: all paths give the same bits, including the "go" path
 * (reference_losses.go). Sums over rows are float64, in the order of the rows.
 *
 * Denormals count as zero, by the floating-point mode.
 */

/*
 * The polynomials have the smallest maximum of the relative error for their degree and float32
 * coefficients.
 */
#define LOG2_E 0x1.715476p0f
#define LN2_HIGH 0x1.63p-1f /* few bits: its products with integers up to 2^14 are exact */
#define LN2_LOW -0x1.bd0106p-13f
#define EXP_LEAST -0x1.5d589ep6f /* exp of it is the smallest normal number */
#define EXP_MOST 0x1.62e42ep6f   /* exp overflows above it */
#define EXP_0 0x1.fffffcp-2f
#define EXP_1 0x1.555492p-3f
#define EXP_2 0x1.5558aep-5f
#define EXP_3 0x1.123988p-7f
#define EXP_4 0x1.6a4f88p-10f
#define ROOT_HALF_BITS 0x3F3504F3
#define LOG_0 0x1.555554p-2f
#define LOG_1 -0x1.000226p-2f
#define LOG_2 0x1.99a01cp-3f
#define LOG_3 -0x1.54728ap-3f
#define LOG_4 0x1.22d92ep-3f
#define LOG_5 -0x1.0d8242p-3f
#define LOG_6 0x1.055ec6p-3f
#define LOG_7 -0x1.38c9dep-4f
#define TANH_NEAR 0.625f
#define TANH_0 -0x1.555532p-2f
#define TANH_1 0x1.1106f6p-3f
#define TANH_2 -0x1.b835a4p-5f
#define TANH_3 0x1.51f8cep-6f
#define TANH_4 -0x1.750ce4p-8f

typedef int32_t ints __attribute__((vector_size(4 * VW)));
typedef uint32_t uints __attribute__((vector_size(4 * VW)));

/* a where m is all ones, b where it is zero. */
INLINE vec v_where(ints m, vec a, vec b) { return (vec)((m & (ints)a) | (~m & (ints)b)); }

INLINE uints u_set1(uint32_t a) { return (uints)v_zero() + a; }

/* 2 to the power of k, -126 to 127. */
INLINE vec v_power_of_two(uints k) { return (vec)((k + 127) << 23); }

/*
 * x is n ln 2 + r, with an integer n and |r| <= ln 2 / 2. exp r is 1 + r + r^2 q(r). 2^n is two
 * factors, because n may be 128.
 */
INLINE vec v_exp(vec x) {
  const vec whole = v_set1(0x1.8p23f); /* adding whole rounds to an integer */
  const vec t = v_add(v_mul(x, v_set1(LOG2_E)), whole), n = v_sub(t, whole);
  const vec r = v_sub(v_sub(x, v_mul(n, v_set1(LN2_HIGH))), v_mul(n, v_set1(LN2_LOW)));
  vec q = v_set1(EXP_4);
  q = v_add(v_mul(q, r), v_set1(EXP_3));
  q = v_add(v_mul(q, r), v_set1(EXP_2));
  q = v_add(v_mul(q, r), v_set1(EXP_1));
  q = v_add(v_mul(q, r), v_set1(EXP_0));
  const vec p = v_add(v_add(v_mul(v_mul(r, r), q), r), v_set1(1));
  const uints k = (uints)t - (uints)whole, half = (uints)((ints)k >> 1);
  vec y = v_mul(v_mul(p, v_power_of_two(half)), v_power_of_two(k - half));
  y = v_where(x < v_set1(EXP_LEAST), v_zero(), y);
  y = v_where(x > v_set1(EXP_MOST), v_set1(INFINITY), y);
  return v_where(x != x, x, y);
}

/* x is 2^n m with sqrt(1/2) <= m < sqrt(2); log m is f - f^2/2 + f^3 q(f) with f = m - 1. */
INLINE vec v_log(vec x) {
  const uints b = (uints)x, from_root = b - ROOT_HALF_BITS;
  const vec n = __builtin_convertvector((ints)from_root >> 23, vec);
  const vec f = v_sub((vec)((from_root & 0x7FFFFF) + ROOT_HALF_BITS), v_set1(1)), ff = v_mul(f, f);
  vec q = v_set1(LOG_7);
  q = v_add(v_mul(q, f), v_set1(LOG_6));
  q = v_add(v_mul(q, f), v_set1(LOG_5));
  q = v_add(v_mul(q, f), v_set1(LOG_4));
  q = v_add(v_mul(q, f), v_set1(LOG_3));
  q = v_add(v_mul(q, f), v_set1(LOG_2));
  q = v_add(v_mul(q, f), v_set1(LOG_1));
  q = v_add(v_mul(q, f), v_set1(LOG_0));
  vec y = v_add(v_mul(v_mul(q, f), ff), v_mul(n, v_set1(LN2_LOW)));
  y = v_add(f, v_sub(y, v_mul(v_set1(0.5f), ff)));
  y = v_add(y, v_mul(n, v_set1(LN2_HIGH)));
  y = v_where(b == u_set1(0x7F800000), x, y);
  y = v_where((ints)b < 0, v_set1(NAN), y);
  y = v_where((b & 0x7F800000) == 0, v_set1(-INFINITY), y);
  return v_where((b & 0x7FFFFFFF) > 0x7F800000, x, y);
}

/* For |x|: near zero x + x^3 q(x^2), elsewhere 1 - 2 / (exp 2x + 1); then the sign of x. */
INLINE vec v_tanh(vec x) {
  const uints sign = (uints)x & 0x80000000u;
  const vec a = (vec)((uints)x & 0x7FFFFFFFu), aa = v_mul(a, a);
  vec q = v_set1(TANH_4);
  q = v_add(v_mul(q, aa), v_set1(TANH_3));
  q = v_add(v_mul(q, aa), v_set1(TANH_2));
  q = v_add(v_mul(q, aa), v_set1(TANH_1));
  q = v_add(v_mul(q, aa), v_set1(TANH_0));
  const vec near = v_add(v_mul(v_mul(q, aa), a), a), one = v_set1(1), two = v_set1(2);
  const vec far = v_sub(one, v_div(two, v_add(v_exp(v_add(a, a)), one)));
  const vec y = v_where(a < v_set1(TANH_NEAR), near, far);
  return v_where(x != x, x, (vec)((uints)y | sign));
}

static TARGET void map_exp(float *y, const float *x, ptrdiff_t n) {
  for (ptrdiff_t i = 0; i < n; i += VW) {
    const ptrdiff_t count = min(VW, n - i);
    put(y + i, v_exp(get(x + i, count)), count);
  }
}

static TARGET void map_log(float *y, const float *x, ptrdiff_t n) {
  for (ptrdiff_t i = 0; i < n; i += VW) {
    const ptrdiff_t count = min(VW, n - i);
    put(y + i, v_log(get(x + i, count)), count);
  }
}

static TARGET void map_tanh(float *y, const float *x, ptrdiff_t n) {
  for (ptrdiff_t i = 0; i < n; i += VW) {
    const ptrdiff_t count = min(VW, n - i);
    put(y + i, v_tanh(get(x + i, count)), count);
  }
}

static TARGET void tanh_backward(float *dx, const float *y, const float *dy, ptrdiff_t n) {
  const vec one = v_set1(1);
  for (ptrdiff_t i = 0; i < n; i += VW) {
    const ptrdiff_t count = min(VW, n - i);
    const vec v = get(y + i, count);
    put(dx + i, v_mul(get(dy + i, count), v_sub(one, v_mul(v, v))), count);
  }
}

/* ------------------------------------------------------------- Q-learning */

/* The largest number of a row, or its first NaN. */
INLINE float largest(const float *x, ptrdiff_t width) {
  float best = x[0];
  for (ptrdiff_t a = 1; a < width; a++)
    if (x[a] > best || x[a] != x[a]) best = x[a];
  return best;
}

static TARGET void td_targets(float *targets, const float *next, const float *rewards, const float *discounts,
                              ptrdiff_t n, ptrdiff_t width) {
  for (ptrdiff_t i = 0; i < n; i++) targets[i] = rewards[i] + discounts[i] * largest(next + i * width, width);
}

/*
 * The loss and its gradient; see TDLoss. Not vectorised: a row has one element for each action,
 * too few for vectors.
 */
static TARGET double td_loss(float *dq, const float *q, const int32_t *actions, const float *targets,
                             const float *weights, ptrdiff_t n, ptrdiff_t width, int squared,
                             enum paceline_weight_order order, float weight) {
  double sum = 0;
  for (ptrdiff_t i = 0; i < n; i++, q += width, dq += width) {
    const float error = q[actions[i]] - targets[i], w = weights == NULL ? 1 : weights[i];
    const float d = order == PACELINE_WEIGHT_LOSS ? error : w * error;
    float value, slope;
    if (squared) {
      value = d * d;
      slope = 2 * d;
    } else if (d >= 1) {
      value = d - 0.5f;
      slope = 1;
    } else if (d <= -1) {
      value = -d - 0.5f;
      slope = -1;
    } else { /* also NaN */
      value = 0.5f * d * d;
      slope = d;
    }
    for (ptrdiff_t a = 0; a < width; a++) dq[a] = 0;
    if (w == 0) continue;
    if (order == PACELINE_WEIGHT_GRADIENT) {
      value = 0.5f * error * error * w;
    } else if (order == PACELINE_WEIGHT_ERROR) {
      slope *= w;
    } else {
      slope *= w;
      value *= w;
    }
    dq[actions[i]] = slope * weight;
    sum += value;
  }
  return sum * weight;
}

/* ----------------------------------------------------------- actor-critic */

/*
 * Sets *top to the largest x that mask allows, and e[a] to exp(x[a] - *top), or to 0 if mask does
 * not allow a. Returns the sum of e. A NULL mask allows all.
 */
INLINE float exponentials_of_row(float *e, float *top, const float *x, const uint8_t *mask, ptrdiff_t width) {
  if (mask == NULL) {
    *top = largest(x, width);
  } else {
    ptrdiff_t a = 0;
    while (!mask[a]) a++;
    *top = x[a];
    for (; a < width; a++)
      if (mask[a] && (x[a] > *top || x[a] != x[a])) *top = x[a];
  }
  const vec vtop = v_set1(*top);
  for (ptrdiff_t a = 0; a < width; a += VW) {
    const ptrdiff_t count = min(VW, width - a);
    put(e + a, v_exp(v_sub(get(x + a, count), vtop)), count);
  }
  double sum = 0;
  for (ptrdiff_t a = 0; a < width; a++) {
    if (mask != NULL && !mask[a]) e[a] = 0;
    sum += e[a];
  }
  return (float)sum;
}

INLINE float logarithm(float x) { return v_log(v_set1(x))[0]; }
INLINE float exponential(float x) { return v_exp(v_set1(x))[0]; }

static TARGET void log_softmax(float *y, const float *x, ptrdiff_t n, ptrdiff_t width) {
  for (ptrdiff_t i = 0; i < n; i++, x += width, y += width) {
    float top;
    const float log_sum = logarithm(exponentials_of_row(y, &top, x, NULL, width));
    for (ptrdiff_t a = 0; a < width; a++) y[a] = (x[a] - top) - log_sum;
  }
}

/*
 * Computes the squared error of one row's value and returns half of its derivative; see ClipBatch.
 * Within clip of old, the value is not clipped.
 */
INLINE float value_error(double *squared, float value, float target, float old, float clip, int largest_error) {
  const float error = value - target;
  *squared = (double)error * error;
  if (!(value - old > clip) && !(value - old < -clip)) return error;
  const float moved = value > old ? old + clip : old - clip, clipped = moved - target;
  const double other = (double)clipped * clipped;
  if (largest_error && *squared >= other) return error;
  *squared = other;
  return 0; /* the clipped value does not depend on the value */
}

/* -log sqrt(2 pi), and the entropy of a Gaussian with the standard deviation 1. */
#define LOG_DENSITY_0 -0x1.d67f1cp-1f
#define GAUSSIAN_ENTROPY 0x1.6b3f8e4325f5ap+0

/* The logarithm of a Gaussian's density, z standard deviations from its mean. */
INLINE float gaussian_log_prob(float z, float log_std) { return (-0.5f * (z * z) - log_std) + LOG_DENSITY_0; }

static TARGET void gaussian_log_probs(float *log_probs, const float *means, const float *log_std, const float *x,
                                      ptrdiff_t n, ptrdiff_t size) {
  for (ptrdiff_t k = 0; k < size; k++) {
    const float inverse = exponential(-log_std[k]);
    for (ptrdiff_t i = 0; i < n; i++) {
      const float z = (x[i * size + k] - means[i * size + k]) * inverse;
      log_probs[i] += gaussian_log_prob(z, log_std[k]);
    }
  }
}

/* Weighted sums over the rows; see ActorCriticParts. */
struct loss_terms {
  double policy, squares, entropy, divergence, outside;
};

/*
 * Adds row i to the policy's terms. Returns the derivative of the row's loss with respect to
 * -log_prob.
 */
INLINE float policy_slope(struct loss_terms *t, const struct paceline_actor_critic_args *a, ptrdiff_t i, double weight,
                          float log_prob) {
  const float advantage = a->advantages[i];
  if (a->log_probs == NULL) {
    t->policy += weight * ((double)advantage * -log_prob);
    return advantage;
  }
  const float log_ratio = log_prob - a->log_probs[i], ratio = exponential(log_ratio), clip = a->clips[i];
  const float inside = ratio > 1 + clip ? 1 + clip : ratio < 1 - clip ? 1 - clip : ratio;
  const float free = advantage * ratio, clipped = advantage * inside;
  t->policy -= weight * (clipped < free ? clipped : free);
  t->divergence += weight * ((ratio - 1) - log_ratio);
  t->outside += ratio - 1 > clip || 1 - ratio > clip ? weight : 0;
  return clipped < free ? 0 : free;
}

/* What both passes over a branch of a row use: the largest logit and the sum of exponentials. */
struct softmax {
  float top, sum, log_sum;
};

/*
 * Overwrites d, the exponentials of a branch, with the gradient of its logits x. Returns the
 * branch's entropy.
 */
INLINE double branch_gradient(float *d, const float *x, struct softmax s, ptrdiff_t width, ptrdiff_t action,
                              float slope, float row_share, float entropy_coef) {
  double h = 0;
  for (ptrdiff_t a = 0; a < width; a++) {
    const float p = d[a] / s.sum, log_p = (x[a] - s.top) - s.log_sum;
    if (p != 0) /* 0 log 0 is 0 */
      h -= (double)p * log_p;
  }
  const float entropy = (float)h;
  for (ptrdiff_t a = 0; a < width; a++) {
    const float p = d[a] / s.sum, log_p = (x[a] - s.top) - s.log_sum, chosen = action == a ? 1 : 0;
    const float of_entropy = p != 0 ? entropy_coef * (p * (log_p + entropy)) : 0;
    d[a] = row_share * (slope * (p - chosen) + of_entropy);
  }
  return h;
}

/*
 * See ActorCritic. parts: the weighted means of policy loss, squared error of the value, entropy, KL
 * divergence and share of rows outside. Without log_probs the last two are 0.
 */
static TARGET void actor_critic(const struct paceline_actor_critic_args *args, double *parts) {
  const struct paceline_actor_critic_args a = *args;
  const int32_t one = (int32_t)a.width, *choices = a.branches == NULL ? &one : a.branches;
  const ptrdiff_t branches = a.num_branches, size = a.size;
  struct softmax *const softmax = (struct softmax *)a.softmax;
  double total = 0, gaussian_entropy = 0;
  for (ptrdiff_t i = 0; i < a.n; i++) total += a.weights[i];
  const double share = total != 0 ? 1 / total : 0; /* of the mean, for a row of weight 1 */
  for (ptrdiff_t k = 0; k < size; k++) {
    a.inverse[k] = exponential(-a.log_std[k]);
    a.log_std_sum[k] = 0;
    gaussian_entropy += a.log_std[k] + GAUSSIAN_ENTROPY;
  }
  struct loss_terms t = {0, 0, 0, 0, 0};
  for (ptrdiff_t i = 0; i < a.n; i++) {
    const float *logits = a.logits + i * a.width, *means = a.means + i * size, *x = a.continuous + i * size;
    float *dlogits = a.dlogits + i * a.width, *dmeans = a.dmeans + i * size;
    const int32_t *actions = a.actions + i * branches;
    a.dvalues[i] = 0;
    if (a.weights[i] == 0) {
      for (ptrdiff_t k = 0; k < a.width; k++) dlogits[k] = 0;
      for (ptrdiff_t k = 0; k < size; k++) dmeans[k] = 0;
      continue;
    }
    const double weight = a.weights[i];
    const float row_share = (float)(weight * share);
    const uint8_t *mask = a.masks == NULL ? NULL : a.masks + i * a.width;
    float log_prob = 0;
    for (ptrdiff_t b = 0, at = 0; b < branches; at += choices[b++]) {
      struct softmax s;
      s.sum = exponentials_of_row(dlogits + at, &s.top, logits + at, mask == NULL ? NULL : mask + at, choices[b]);
      s.log_sum = logarithm(s.sum);
      log_prob += (logits[at + actions[b]] - s.top) - s.log_sum;
      softmax[b] = s;
    }
    for (ptrdiff_t k = 0; k < size; k++) log_prob += gaussian_log_prob((x[k] - means[k]) * a.inverse[k], a.log_std[k]);
    const float slope = policy_slope(&t, &a, i, weight, log_prob);
    double h = 0;
    for (ptrdiff_t b = 0, at = 0; b < branches; at += choices[b++])
      h += branch_gradient(dlogits + at, logits + at, softmax[b], choices[b], actions[b], slope, row_share,
                           a.entropy_coef);
    for (ptrdiff_t k = 0; k < size; k++) {
      const float z = (x[k] - means[k]) * a.inverse[k];
      dmeans[k] = row_share * (slope * -(z * a.inverse[k]));
      a.log_std_sum[k] += row_share * (slope * (1 - z * z) - a.entropy_coef);
    }
    double squared;
    const float d = a.log_probs == NULL ? value_error(&squared, a.values[i], a.returns[i], a.values[i], 0, 0)
                                        : value_error(&squared, a.values[i], a.returns[i], a.old_values[i],
                                                      a.value_clips[i], a.largest_error);
    a.dvalues[i] = row_share * ((2 * a.value_coef) * d);
    t.squares += weight * squared;
    t.entropy += weight * (h + gaussian_entropy);
  }
  for (ptrdiff_t k = 0; k < size; k++) a.dlog_std[k] = (float)a.log_std_sum[k];
  parts[0] = t.policy * share;
  parts[1] = t.squares * share;
  parts[2] = t.entropy * share;
  parts[3] = t.divergence * share;
  parts[4] = t.outside * share;
}
