#include "kernel.h"

#include "../cpu/float_mode.h"

/*
 * Calls a function of another file in the kernels' floating-point mode. A compiler could move float
 * arithmetic of this file across the calls that set the mode, so this file has none. Helpers of a
 * team are always in that mode.
 */
#define WITH_FLOAT_MODE(call)                                           \
  do {                                                                  \
    const uint64_t before = paceline_float_enter(PACELINE_FLOAT_FLUSH); \
    call;                                                               \
    paceline_float_set(before);                                         \
  } while (0)

struct range {
  ptrdiff_t from, to;
};

/* Range i of `parts` ranges of 0 to n-1, cut at multiples of unit; it may be empty. */
static struct range range_of(ptrdiff_t n, ptrdiff_t unit, ptrdiff_t i, ptrdiff_t parts) {
  const ptrdiff_t units = (n + unit - 1) / unit;
  struct range r = {units * i / parts * unit, units * (i + 1) / parts * unit};
  if (r.to > n) r.to = n;
  return r;
}

/*
 * Does one part of a call. Each part copies the arguments first: they lie on the caller's stack,
 * and the caller keeps writing to the neighbouring cache lines.
 */
typedef void part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts, int thread);

struct job {
  const struct paceline_kernels *k;
  part *f;
  const void *args;
  ptrdiff_t parts;
};

static void do_part(const void *job, ptrdiff_t i, int thread) {
  const struct job own = *(const struct job *)job;
  own.f(own.k, own.args, i, own.parts, thread);
}

static void run_parts(const struct paceline_kernels *k, struct paceline_share s, part *f, const void *args) {
  const struct job j = {k, f, args, s.parts};
  WITH_FLOAT_MODE(paceline_team_run(s.team, s.helpers, s.parts, do_part, &j));
}

/* ------------------------------------------------------------- convolutions */

enum { PANEL = 32 }; /* columns of the widest tile of any path */

static void conv_pack_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                           int thread) {
  const struct paceline_conv_args a = *(const struct paceline_conv_args *)args;
  const struct range r = range_of(a.c.out_c, PANEL, i, parts);
  k->conv_pack(a.into, a.w, a.scale, &a.c, r.from, r.to, a.ws + thread * a.ws_per_thread);
}

static void conv_pack_back_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                                int thread) {
  const struct paceline_conv_args a = *(const struct paceline_conv_args *)args;
  const struct range r = range_of(a.c.out_c, PANEL, i, parts);
  k->conv_pack_back(a.into, a.w, &a.c, r.from, r.to, a.ws + thread * a.ws_per_thread);
}

static ptrdiff_t in_len(const struct paceline_conv *c) { return c->in_c * c->in_h * c->in_w; }
static ptrdiff_t out_len(const struct paceline_conv *c) { return c->out_c * c->out_h * c->out_w; }
static ptrdiff_t weight_len(const struct paceline_conv *c) { return c->out_c * c->in_c * c->kernel * c->kernel; }

static void conv_forward_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                              int thread) {
  const struct paceline_conv_args a = *(const struct paceline_conv_args *)args;
  const struct range r = range_of(a.n, 1, i, parts);
  const ptrdiff_t in = r.from * in_len(&a.c);
  k->conv_forward(a.into + r.from * out_len(&a.c), a.x ? a.x + in : NULL, a.x8 ? a.x8 + in : NULL, a.w, a.b,
                  r.to - r.from, &a.c, a.ws + thread * a.ws_per_thread);
}

/* A part is a block of images. The first block writes to a.into and a.db, the others to a.sums. */
static void conv_backward_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                               int thread) {
  const struct paceline_conv_args a = *(const struct paceline_conv_args *)args;
  const ptrdiff_t first = i * PACELINE_CONV_BLOCK, rest = a.n - first;
  const ptrdiff_t in = first * in_len(&a.c), out = first * out_len(&a.c), weights = weight_len(&a.c);
  float *dw = a.into, *db = a.db;
  (void)parts;
  if (i > 0) {
    dw = a.sums + (i - 1) * (weights + a.c.out_c);
    db = dw + weights;
  }
  k->conv_backward(dw, db, a.dx ? a.dx + in : NULL, a.x ? a.x + in : NULL, a.x8 ? a.x8 + in : NULL, a.scale, a.w,
                   a.y ? a.y + out : NULL, a.dy + out, rest < PACELINE_CONV_BLOCK ? rest : PACELINE_CONV_BLOCK, &a.c,
                   a.ws + thread * a.ws_per_thread);
}

/* Adds the sums of the blocks, in order, for a range of the weights. */
static void conv_add_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                          int thread) {
  const struct paceline_conv_args a = *(const struct paceline_conv_args *)args;
  const ptrdiff_t weights = weight_len(&a.c), blocks = (a.n + PACELINE_CONV_BLOCK - 1) / PACELINE_CONV_BLOCK;
  const struct range r = range_of(weights, 16, i, parts);
  (void)thread;
  for (ptrdiff_t block = 1; block < blocks; block++) {
    const float *dw = a.sums + (block - 1) * (weights + a.c.out_c);
    k->add(a.into + r.from, dw + r.from, r.to - r.from);
    if (i == 0) k->add(a.db, dw + weights, a.c.out_c);
  }
}

void paceline_kernel_conv(const struct paceline_kernels *k, struct paceline_share s, enum paceline_conv_call which,
                          struct paceline_conv_args a) {
  static part *const parts[] = {[PACELINE_CONV_PACK] = conv_pack_part,
                                [PACELINE_CONV_PACK_BACK] = conv_pack_back_part,
                                [PACELINE_CONV_FORWARD] = conv_forward_part,
                                [PACELINE_CONV_BACKWARD] = conv_backward_part};
  run_parts(k, s, parts[which], &a);
  if (which == PACELINE_CONV_BACKWARD && a.n > PACELINE_CONV_BLOCK) {
    s.parts = s.helpers + 1;
    run_parts(k, s, conv_add_part, &a);
  }
}

/* ------------------------------------------------------------- dense layers */

static void dense_pack_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                            int thread) {
  const struct paceline_dense_args a = *(const struct paceline_dense_args *)args;
  const struct range r = range_of(a.out, PANEL, i, parts);
  (void)thread;
  k->dense_pack(a.into + r.from * a.in, a.w + r.from * a.in, r.to - r.from, a.in);
}

static void dense_forward_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                               int thread) {
  const struct paceline_dense_args a = *(const struct paceline_dense_args *)args;
  const struct range r = range_of(a.out, PANEL, i, parts);
  float *y = a.into + r.from, *ws = a.ws + thread * a.ws_per_thread;
  const float *w = a.w + r.from * a.in, *b = a.b + r.from;
  if (a.tiled && k->dense_tiled)
    k->dense_tiled(y, a.x, w, b, a.n, a.in, r.to - r.from, a.out, a.relu, ws);
  else
    k->dense_forward(y, a.x, w, a.packed, b, a.n, a.in, r.to - r.from, a.out, a.relu, ws);
}

static void dense_backward_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                                int thread) {
  const struct paceline_dense_args a = *(const struct paceline_dense_args *)args;
  const struct range r = range_of(a.in, PANEL, i, parts);
  k->dense_backward(a.into + r.from, r.from == 0 ? a.db : NULL, a.dx ? a.dx + r.from : NULL, a.x + r.from, a.w + r.from,
                    a.relu ? a.y : NULL, a.dy, a.n, r.to - r.from, a.in, a.out, a.ws + thread * a.ws_per_thread);
}

void paceline_kernel_dense(const struct paceline_kernels *k, struct paceline_share s, enum paceline_dense_call which,
                           struct paceline_dense_args a) {
  static part *const parts[] = {[PACELINE_DENSE_PACK] = dense_pack_part,
                                [PACELINE_DENSE_FORWARD] = dense_forward_part,
                                [PACELINE_DENSE_BACKWARD] = dense_backward_part};
  run_parts(k, s, parts[which], &a);
}

/* ------------------------------------------------------ layer normalisation */

static ptrdiff_t row_len(const struct paceline_norm *c) { return c->channels * c->positions; }
static ptrdiff_t groups(const struct paceline_norm *c) { return c->all ? 1 : c->positions; }
static ptrdiff_t params_len(const struct paceline_norm *c) { return row_len(c) / groups(c); }

static void norm_forward_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                              int thread) {
  const struct paceline_norm_args a = *(const struct paceline_norm_args *)args;
  const struct range r = range_of(a.n, 1, i, parts);
  k->norm_forward(a.into + r.from * row_len(&a.c), a.statistics ? a.statistics + 2 * r.from * groups(&a.c) : NULL,
                  a.x + r.from * row_len(&a.c), a.params, a.params + params_len(&a.c), r.to - r.from, &a.c,
                  a.ws + thread * a.ws_per_thread);
}

/* A part is a block of rows. */
static void norm_backward_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                               int thread) {
  const struct paceline_norm_args a = *(const struct paceline_norm_args *)args;
  const ptrdiff_t first = i * PACELINE_NORM_BLOCK, rest = a.n - first, at = first * row_len(&a.c);
  float *sums = a.sums + 2 * i * params_len(&a.c);
  (void)parts;
  k->norm_backward(sums, sums + params_len(&a.c), a.dx + at, a.statistics + 2 * first * groups(&a.c), a.x + at,
                   a.y ? a.y + at : NULL, a.dy + at, a.params, rest < PACELINE_NORM_BLOCK ? rest : PACELINE_NORM_BLOCK,
                   &a.c, a.ws + thread * a.ws_per_thread);
}

/* Adds the sums of the blocks, in order, for a range of the parameters. */
static void norm_add_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                          int thread) {
  const struct paceline_norm_args a = *(const struct paceline_norm_args *)args;
  const ptrdiff_t both = 2 * params_len(&a.c), blocks = (a.n + PACELINE_NORM_BLOCK - 1) / PACELINE_NORM_BLOCK;
  const struct range r = range_of(both, 16, i, parts);
  (void)thread;
  for (ptrdiff_t block = 1; block < blocks; block++)
    k->add(a.sums + r.from, a.sums + block * both + r.from, r.to - r.from);
}

void paceline_kernel_norm(const struct paceline_kernels *k, struct paceline_share s, enum paceline_norm_call which,
                          struct paceline_norm_args a) {
  k->norm_arrange(a.params, a.scale, &a.c, 0);
  if (which == PACELINE_NORM_FORWARD) {
    k->norm_arrange(a.params + params_len(&a.c), a.bias, &a.c, 0);
    run_parts(k, s, norm_forward_part, &a);
    return;
  }
  run_parts(k, s, norm_backward_part, &a);
  if (a.n > PACELINE_NORM_BLOCK) {
    s.parts = s.helpers + 1;
    run_parts(k, s, norm_add_part, &a);
  }
  k->norm_arrange(a.into, a.sums, &a.c, 1);
  k->norm_arrange(a.db, a.sums + params_len(&a.c), &a.c, 1);
}

/* ---------------------------------------------------- modulation of features */

static void modulate_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                          int thread) {
  const struct paceline_modulate_args a = *(const struct paceline_modulate_args *)args;
  const struct range r = range_of(a.n, 1, i, parts);
  const ptrdiff_t row = r.from * a.width, rows = row * a.times;
  (void)thread;
  k->modulate(a.into + rows, a.x + row, a.by + rows, r.to - r.from, a.times, a.width);
}

static void modulate_backward_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                                   int thread) {
  const struct paceline_modulate_args a = *(const struct paceline_modulate_args *)args;
  const struct range r = range_of(a.n, 1, i, parts);
  const ptrdiff_t row = r.from * a.width, rows = row * a.times;
  (void)thread;
  k->modulate_backward(a.into + rows, a.dx + row, a.x + row, a.by + rows, a.dy + rows, r.to - r.from, a.times, a.width);
}

void paceline_kernel_modulate(const struct paceline_kernels *k, struct paceline_share s,
                              enum paceline_modulate_call which, struct paceline_modulate_args a) {
  static part *const parts[] = {modulate_part, modulate_backward_part};
  run_parts(k, s, parts[which], &a);
}

/* -------------------------------------------------------------- flat arrays */

/* Four arrays of a part's length fit the L2 cache: flatParts in kernel.go. */

static void rmsprop_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts, int thread) {
  const struct paceline_flat_args a = *(const struct paceline_flat_args *)args;
  const struct range r = range_of(a.n, 16, i, parts);
  (void)thread;
  k->rmsprop(a.theta + r.from, a.grad + r.from, a.factor, a.centered ? a.first + r.from : NULL, a.second + r.from,
             r.to - r.from, a.lr, a.beta2, a.eps, a.centered, a.eps_inside);
}

static void adam_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts, int thread) {
  const struct paceline_flat_args a = *(const struct paceline_flat_args *)args;
  const struct range r = range_of(a.n, 16, i, parts);
  (void)thread;
  k->adam(a.theta + r.from, a.grad + r.from, a.factor, a.first + r.from, a.second + r.from, r.to - r.from, a.lr,
          a.beta1, a.beta2, a.eps, a.step);
}

static void radam_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts, int thread) {
  const struct paceline_flat_args a = *(const struct paceline_flat_args *)args;
  const struct range r = range_of(a.n, 16, i, parts);
  (void)thread;
  k->radam(a.theta + r.from, a.grad + r.from, a.factor, a.first + r.from, a.second + r.from, r.to - r.from, a.lr,
           a.beta1, a.beta2, a.eps, a.rectified);
}

static void adagrad_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts, int thread) {
  const struct paceline_flat_args a = *(const struct paceline_flat_args *)args;
  const struct range r = range_of(a.n, 16, i, parts);
  (void)thread;
  k->adagrad(a.theta + r.from, a.grad + r.from, a.factor, a.second + r.from, r.to - r.from, a.lr, a.eps);
}

static void sum_squares_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts,
                             int thread) {
  const struct paceline_flat_args a = *(const struct paceline_flat_args *)args;
  const struct range r = range_of(a.n, 16, i, parts);
  (void)thread;
  a.sums[i] = k->sum_squares(a.grad + r.from, r.to - r.from);
}

static void average_part(const struct paceline_kernels *k, const void *args, ptrdiff_t i, ptrdiff_t parts, int thread) {
  const struct paceline_flat_args a = *(const struct paceline_flat_args *)args;
  const struct range r = range_of(a.n, 16, i, parts);
  (void)thread;
  k->average(a.theta + r.from, a.grad + r.from, r.to - r.from, a.beta1);
}

void paceline_kernel_flat(const struct paceline_kernels *k, struct paceline_share s, enum paceline_flat_call which,
                          struct paceline_flat_args a) {
  static part *const parts[] = {[PACELINE_RMSPROP] = rmsprop_part,
                                [PACELINE_ADAM] = adam_part,
                                [PACELINE_RADAM] = radam_part,
                                [PACELINE_ADAGRAD] = adagrad_part,
                                [PACELINE_SUM_SQUARES] = sum_squares_part,
                                [PACELINE_AVERAGE] = average_part};
  run_parts(k, s, parts[which], &a);
}

/* --------------------------------------------------------- unshared functions */

void paceline_kernel_map(paceline_map *f, float *y, const float *x, ptrdiff_t n) { WITH_FLOAT_MODE(f(y, x, n)); }

void paceline_kernel_tanh_backward(const struct paceline_kernels *k, float *dx, const float *y, const float *dy,
                                   ptrdiff_t n) {
  WITH_FLOAT_MODE(k->tanh_backward(dx, y, dy, n));
}

void paceline_kernel_td_targets(const struct paceline_kernels *k, float *targets, const float *next,
                                const float *rewards, const float *discounts, ptrdiff_t n, ptrdiff_t width) {
  WITH_FLOAT_MODE(k->td_targets(targets, next, rewards, discounts, n, width));
}

double paceline_kernel_td_loss(const struct paceline_kernels *k, float *dq, const float *q, const int32_t *actions,
                               const float *targets, const float *weights, ptrdiff_t n, ptrdiff_t width, int squared,
                               enum paceline_weight_order order, float weight) {
  double loss;
  WITH_FLOAT_MODE(loss = k->td_loss(dq, q, actions, targets, weights, n, width, squared, order, weight));
  return loss;
}

void paceline_kernel_log_softmax(const struct paceline_kernels *k, float *y, const float *x, ptrdiff_t n,
                                 ptrdiff_t width) {
  WITH_FLOAT_MODE(k->log_softmax(y, x, n, width));
}

void paceline_kernel_gaussian_log_probs(const struct paceline_kernels *k, float *log_probs, const float *means,
                                        const float *log_std, const float *x, ptrdiff_t n, ptrdiff_t size) {
  WITH_FLOAT_MODE(k->gaussian_log_probs(log_probs, means, log_std, x, n, size));
}

void paceline_kernel_actor_critic(const struct paceline_kernels *k, struct paceline_actor_critic_args a,
                                  double *parts) {
  WITH_FLOAT_MODE(k->actor_critic(&a, parts));
}

void paceline_kernel_categorical_means(const struct paceline_kernels *k, float *means, const float *x, ptrdiff_t n,
                                       ptrdiff_t atoms, double low, double step) {
  WITH_FLOAT_MODE(k->categorical_means(means, x, n, atoms, low, step));
}

void paceline_kernel_project(const struct paceline_kernels *k, float *to, const float *x, const int32_t *actions,
                             const float *rewards, const float *discounts, ptrdiff_t n, ptrdiff_t width,
                             ptrdiff_t atoms, double low, double step) {
  WITH_FLOAT_MODE(k->project(to, x, actions, rewards, discounts, n, width, atoms, low, step));
}

double paceline_kernel_categorical_loss(const struct paceline_kernels *k, struct paceline_distribution_args a,
                                        float least, int divergence) {
  double loss;
  WITH_FLOAT_MODE(loss = k->categorical_loss(&a, least, divergence));
  return loss;
}

double paceline_kernel_quantile_loss(const struct paceline_kernels *k, struct paceline_distribution_args a,
                                     float kappa) {
  double loss;
  WITH_FLOAT_MODE(loss = k->quantile_loss(&a, kappa));
  return loss;
}

void paceline_kernel_peak(const struct paceline_kernels *k, ptrdiff_t rounds) { WITH_FLOAT_MODE(k->peak(rounds)); }
