#include "kernel.h"

#include "../cpu/float_mode.h"

/*
 * Nothing here computes with floats: the arithmetic is behind a pointer, in
 * another file, so no compiler can move it out of the mode it belongs to. Helpers
 * of a team are in that mode always.
 */
#define IN_OUR_MODE(call)                                                \
  do {                                                                   \
    const uint64_t callers = paceline_float_enter(PACELINE_FLOAT_FLUSH); \
    call;                                                                \
    paceline_float_set(callers);                                         \
  } while (0)

/*
 * A job lies on the caller's stack, whose neighbouring lines the caller writes all
 * the time: each part works on a copy of its own.
 */
static void share_out(const struct paceline_share *s, paceline_part f, const void *job) {
  IN_OUR_MODE(paceline_team_run(s->team, s->helpers, s->parts, f, job));
}

struct range {
  ptrdiff_t from, to;
};

/* Part i of 0 to n-1, cut in so many parts at multiples of unit; it may be empty. */
static struct range range_of(ptrdiff_t n, ptrdiff_t unit, ptrdiff_t i, ptrdiff_t parts) {
  const ptrdiff_t units = (n + unit - 1) / unit;
  struct range r = {units * i / parts * unit, units * (i + 1) / parts * unit};
  if (r.to > n) r.to = n;
  return r;
}

/* ------------------------------------------------------------- convolutions */

struct conv_job {
  const struct paceline_kernels *k;
  struct paceline_conv c;
  float scale, *into, *y, *dw, *db, *dx; /* into: packed weights */
  const float *w, *packed, *x, *b, *out, *dy;
  const uint8_t *x8;
  ptrdiff_t n, parts;
  float *ws, *sums;
  ptrdiff_t each; /* floats of ws for a thread */
};

enum { PANEL = 32 }; /* the widest tile of any path */

static void pack_part(const void *job, ptrdiff_t part, int thread) {
  const struct conv_job own = *(const struct conv_job *)job, *j = &own;
  const struct range r = range_of(j->c.out_c, PANEL, part, j->parts);
  j->k->conv_pack(j->into, j->w, j->scale, &j->c, r.from, r.to, j->ws + thread * j->each);
}

void paceline_kernel_conv_pack(const struct paceline_kernels *k, struct paceline_share s, float *packed, const float *w,
                               float scale, struct paceline_conv c, float *ws, ptrdiff_t each) {
  struct conv_job j = {
      .k = k, .c = c, .into = packed, .w = w, .scale = scale, .parts = s.parts, .ws = ws, .each = each};
  share_out(&s, pack_part, &j);
}

static void pack_back_part(const void *job, ptrdiff_t part, int thread) {
  const struct conv_job own = *(const struct conv_job *)job, *j = &own;
  const struct range r = range_of(j->c.out_c, PANEL, part, j->parts);
  j->k->conv_pack_back(j->into, j->w, &j->c, r.from, r.to, j->ws + thread * j->each);
}

void paceline_kernel_conv_pack_back(const struct paceline_kernels *k, struct paceline_share s, float *packed,
                                    const float *w, struct paceline_conv c, float *ws, ptrdiff_t each) {
  struct conv_job j = {.k = k, .c = c, .into = packed, .w = w, .parts = s.parts, .ws = ws, .each = each};
  share_out(&s, pack_back_part, &j);
}

static ptrdiff_t in_len(const struct paceline_conv *c) { return c->in_c * c->in_h * c->in_w; }
static ptrdiff_t out_len(const struct paceline_conv *c) { return c->out_c * c->out_h * c->out_w; }
static ptrdiff_t weight_len(const struct paceline_conv *c) { return c->out_c * c->in_c * c->kernel * c->kernel; }

static void forward_part(const void *job, ptrdiff_t part, int thread) {
  const struct conv_job own = *(const struct conv_job *)job, *j = &own;
  const struct range r = range_of(j->n, 1, part, j->parts);
  const ptrdiff_t in = r.from * in_len(&j->c);
  j->k->conv_forward(j->y + r.from * out_len(&j->c), j->x ? j->x + in : NULL, j->x8 ? j->x8 + in : NULL, j->packed,
                     j->b, r.to - r.from, &j->c, j->ws + thread * j->each);
}

void paceline_kernel_conv_forward(const struct paceline_kernels *k, struct paceline_share s, float *y, const float *x,
                                  const uint8_t *x8, const float *packed, const float *b, ptrdiff_t n,
                                  struct paceline_conv c, float *ws, ptrdiff_t each) {
  struct conv_job j = {.k = k,
                       .c = c,
                       .y = y,
                       .x = x,
                       .x8 = x8,
                       .packed = packed,
                       .b = b,
                       .n = n,
                       .parts = s.parts,
                       .ws = ws,
                       .each = each};
  share_out(&s, forward_part, &j);
}

/* A part is a block of images. Blocks but the first put their sums into j->sums. */
static void backward_part(const void *job, ptrdiff_t part, int thread) {
  const struct conv_job own = *(const struct conv_job *)job, *j = &own;
  const ptrdiff_t first = part * PACELINE_CONV_BLOCK, rest = j->n - first;
  const ptrdiff_t in = first * in_len(&j->c), out = first * out_len(&j->c), weights = weight_len(&j->c);
  float *dw = j->dw, *db = j->db;
  if (part > 0) {
    dw = j->sums + (part - 1) * (weights + j->c.out_c);
    db = dw + weights;
  }
  j->k->conv_backward(dw, db, j->dx ? j->dx + in : NULL, j->x ? j->x + in : NULL, j->x8 ? j->x8 + in : NULL, j->scale,
                      j->packed, j->out + out, j->dy + out, rest < PACELINE_CONV_BLOCK ? rest : PACELINE_CONV_BLOCK,
                      &j->c, j->ws + thread * j->each);
}

/* Adds the blocks' sums, in their order, for a range of the weights. */
static void add_part(const void *job, ptrdiff_t part, int thread) {
  const struct conv_job own = *(const struct conv_job *)job, *j = &own;
  const ptrdiff_t weights = weight_len(&j->c), blocks = (j->n + PACELINE_CONV_BLOCK - 1) / PACELINE_CONV_BLOCK;
  const struct range r = range_of(weights, 16, part, j->parts);
  (void)thread;
  for (ptrdiff_t i = 1; i < blocks; i++) {
    const float *dw = j->sums + (i - 1) * (weights + j->c.out_c);
    j->k->add(j->dw + r.from, dw + r.from, r.to - r.from);
    if (part == 0) j->k->add(j->db, dw + weights, j->c.out_c);
  }
}

void paceline_kernel_conv_backward(const struct paceline_kernels *k, struct paceline_share s, float *dw, float *db,
                                   float *dx, const float *x, const uint8_t *x8, float scale, const float *packed,
                                   const float *y, const float *dy, ptrdiff_t n, struct paceline_conv c, float *ws,
                                   ptrdiff_t each, float *sums) {
  struct conv_job j = {.k = k,
                       .c = c,
                       .dw = dw,
                       .db = db,
                       .dx = dx,
                       .x = x,
                       .x8 = x8,
                       .scale = scale,
                       .packed = packed,
                       .out = y,
                       .dy = dy,
                       .n = n,
                       .ws = ws,
                       .each = each,
                       .sums = sums};
  share_out(&s, backward_part, &j);
  if (n <= PACELINE_CONV_BLOCK) return;
  j.parts = s.parts = s.helpers + 1;
  share_out(&s, add_part, &j);
}

/* ------------------------------------------------------------- dense layers */

struct dense_job {
  const struct paceline_kernels *k;
  float *y, *dw, *db, *dx;
  const float *x, *w, *b, *out, *dy;
  ptrdiff_t n, in, outputs, parts;
  int relu;
  float *ws;
  ptrdiff_t each;
};

static void dense_forward_part(const void *job, ptrdiff_t part, int thread) {
  const struct dense_job own = *(const struct dense_job *)job, *j = &own;
  const struct range r = range_of(j->outputs, PANEL, part, j->parts);
  j->k->dense_forward(j->y + r.from, j->x, j->w + r.from * j->in, j->b + r.from, j->n, j->in, r.to - r.from, j->outputs,
                      j->relu, j->ws + thread * j->each);
}

void paceline_kernel_dense_forward(const struct paceline_kernels *k, struct paceline_share s, float *y, const float *x,
                                   const float *w, const float *b, ptrdiff_t n, ptrdiff_t in, ptrdiff_t out, int relu,
                                   float *ws, ptrdiff_t each) {
  struct dense_job j = {.k = k,
                        .y = y,
                        .x = x,
                        .w = w,
                        .b = b,
                        .n = n,
                        .in = in,
                        .outputs = out,
                        .relu = relu,
                        .parts = s.parts,
                        .ws = ws,
                        .each = each};
  share_out(&s, dense_forward_part, &j);
}

static void dense_backward_part(const void *job, ptrdiff_t part, int thread) {
  const struct dense_job own = *(const struct dense_job *)job, *j = &own;
  const struct range r = range_of(j->in, PANEL, part, j->parts);
  j->k->dense_backward(j->dw + r.from, r.from == 0 ? j->db : NULL, j->dx ? j->dx + r.from : NULL, j->x + r.from,
                       j->w + r.from, j->out, j->dy, j->n, r.to - r.from, j->in, j->outputs, j->ws + thread * j->each);
}

void paceline_kernel_dense_backward(const struct paceline_kernels *k, struct paceline_share s, float *dw, float *db,
                                    float *dx, const float *x, const float *w, const float *y, const float *dy,
                                    ptrdiff_t n, ptrdiff_t in, ptrdiff_t out, float *ws, ptrdiff_t each) {
  struct dense_job j = {.k = k,
                        .dw = dw,
                        .db = db,
                        .dx = dx,
                        .x = x,
                        .w = w,
                        .out = y,
                        .dy = dy,
                        .n = n,
                        .in = in,
                        .outputs = out,
                        .parts = s.parts,
                        .ws = ws,
                        .each = each};
  share_out(&s, dense_backward_part, &j);
}

/* -------------------------------------------------------------- flat arrays */

/*
 * The arrays of an optimiser, in parts of so many elements that four arrays of
 * them fit the second-level cache.
 */
struct flat_job {
  const struct paceline_kernels *k;
  ptrdiff_t n, parts;
  float *theta, *first, *second; /* first and second: running means */
  const float *grad;
  float lr, eps;
  double beta1, beta2; /* beta2: RMSProp's decay */
  int64_t step;
  int centered, eps_inside;
  double *sums;
};

static struct range elements(const struct flat_job *j, ptrdiff_t part) { return range_of(j->n, 16, part, j->parts); }

static void rmsprop_part(const void *job, ptrdiff_t part, int thread) {
  const struct flat_job own = *(const struct flat_job *)job, *j = &own;
  const struct range r = elements(j, part);
  (void)thread;
  j->k->rmsprop(j->theta + r.from, j->grad + r.from, j->first ? j->first + r.from : NULL, j->second + r.from,
                r.to - r.from, j->lr, j->beta2, j->eps, j->centered, j->eps_inside);
}

void paceline_kernel_rmsprop(const struct paceline_kernels *k, struct paceline_share s, float *theta, const float *grad,
                             float *avg, float *sq, ptrdiff_t n, float lr, double decay, float eps, int centered,
                             int eps_inside) {
  struct flat_job j = {.k = k,
                       .n = n,
                       .parts = s.parts,
                       .theta = theta,
                       .grad = grad,
                       .first = avg,
                       .second = sq,
                       .lr = lr,
                       .beta2 = decay,
                       .eps = eps,
                       .centered = centered,
                       .eps_inside = eps_inside};
  share_out(&s, rmsprop_part, &j);
}

static void adam_part(const void *job, ptrdiff_t part, int thread) {
  const struct flat_job own = *(const struct flat_job *)job, *j = &own;
  const struct range r = elements(j, part);
  (void)thread;
  j->k->adam(j->theta + r.from, j->grad + r.from, j->first + r.from, j->second + r.from, r.to - r.from, j->lr, j->beta1,
             j->beta2, j->eps, j->step);
}

void paceline_kernel_adam(const struct paceline_kernels *k, struct paceline_share s, float *theta, const float *grad,
                          float *m, float *v, ptrdiff_t n, float lr, double beta1, double beta2, float eps,
                          int64_t step) {
  struct flat_job j = {.k = k,
                       .n = n,
                       .parts = s.parts,
                       .theta = theta,
                       .grad = grad,
                       .first = m,
                       .second = v,
                       .lr = lr,
                       .beta1 = beta1,
                       .beta2 = beta2,
                       .eps = eps,
                       .step = step};
  share_out(&s, adam_part, &j);
}

static void adagrad_part(const void *job, ptrdiff_t part, int thread) {
  const struct flat_job own = *(const struct flat_job *)job, *j = &own;
  const struct range r = elements(j, part);
  (void)thread;
  j->k->adagrad(j->theta + r.from, j->grad + r.from, j->second + r.from, r.to - r.from, j->lr, j->eps);
}

void paceline_kernel_adagrad(const struct paceline_kernels *k, struct paceline_share s, float *theta, const float *grad,
                             float *sq, ptrdiff_t n, float lr, float eps) {
  struct flat_job j = {
      .k = k, .n = n, .parts = s.parts, .theta = theta, .grad = grad, .second = sq, .lr = lr, .eps = eps};
  share_out(&s, adagrad_part, &j);
}

static void sum_part(const void *job, ptrdiff_t part, int thread) {
  const struct flat_job own = *(const struct flat_job *)job, *j = &own;
  const struct range r = elements(j, part);
  (void)thread;
  j->sums[part] = j->k->sum_squares(j->grad + r.from, r.to - r.from);
}

void paceline_kernel_sum_squares(const struct paceline_kernels *k, struct paceline_share s, const float *x, ptrdiff_t n,
                                 double *sums) {
  struct flat_job j = {.k = k, .n = n, .parts = s.parts, .grad = x, .sums = sums};
  share_out(&s, sum_part, &j);
}

static void scale_part(const void *job, ptrdiff_t part, int thread) {
  const struct flat_job own = *(const struct flat_job *)job, *j = &own;
  const struct range r = elements(j, part);
  (void)thread;
  j->k->scale(j->theta + r.from, r.to - r.from, j->lr);
}

void paceline_kernel_scale(const struct paceline_kernels *k, struct paceline_share s, float *x, ptrdiff_t n, float a) {
  struct flat_job j = {.k = k, .n = n, .parts = s.parts, .theta = x, .lr = a};
  share_out(&s, scale_part, &j);
}

/* --------------------------------------------------------------- the others */

void paceline_kernel_add(const struct paceline_kernels *k, float *x, const float *y, ptrdiff_t n) {
  IN_OUR_MODE(k->add(x, y, n));
}

void paceline_kernel_exp(const struct paceline_kernels *k, float *y, const float *x, ptrdiff_t n) {
  IN_OUR_MODE(k->exp(y, x, n));
}

void paceline_kernel_log(const struct paceline_kernels *k, float *y, const float *x, ptrdiff_t n) {
  IN_OUR_MODE(k->log(y, x, n));
}

void paceline_kernel_tanh(const struct paceline_kernels *k, float *y, const float *x, ptrdiff_t n) {
  IN_OUR_MODE(k->tanh(y, x, n));
}

void paceline_kernel_tanh_backward(const struct paceline_kernels *k, float *dx, const float *y, const float *dy,
                                   ptrdiff_t n) {
  IN_OUR_MODE(k->tanh_backward(dx, y, dy, n));
}

void paceline_kernel_td_targets(const struct paceline_kernels *k, float *targets, const float *next,
                                const float *rewards, const float *discounts, ptrdiff_t n, ptrdiff_t width) {
  IN_OUR_MODE(k->td_targets(targets, next, rewards, discounts, n, width));
}

double paceline_kernel_td_loss(const struct paceline_kernels *k, float *dq, const float *q, const int32_t *actions,
                               const float *targets, ptrdiff_t n, ptrdiff_t width, int squared, float weight) {
  double loss;
  IN_OUR_MODE(loss = k->td_loss(dq, q, actions, targets, n, width, squared, weight));
  return loss;
}

void paceline_kernel_log_softmax(const struct paceline_kernels *k, float *y, const float *x, ptrdiff_t n,
                                 ptrdiff_t width) {
  IN_OUR_MODE(k->log_softmax(y, x, n, width));
}

void paceline_kernel_actor_critic(const struct paceline_kernels *k, float *dlogits, float *dvalues, const float *logits,
                                  const float *values, const int32_t *actions, const float *advantages,
                                  const float *returns, const float *weights, ptrdiff_t n, ptrdiff_t width,
                                  float entropy_coef, float value_coef, double *parts) {
  IN_OUR_MODE(k->actor_critic(dlogits, dvalues, logits, values, actions, advantages, returns, weights, n, width,
                              entropy_coef, value_coef, parts));
}

float paceline_kernel_peak(const struct paceline_kernels *k, ptrdiff_t rounds) {
  float sum;
  IN_OUR_MODE(sum = k->peak(rounds));
  return sum;
}
