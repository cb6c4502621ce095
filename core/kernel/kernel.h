/*
 * The C side of package kernel: one table of functions per path, and one entry
 * per function that shares a call among threads and sets the floating-point mode.
 *
 * Every path is a file that defines its vectors (avx512.c, avx2.c, generic.c)
 * and then includes the same loops (gemm.h, conv.h, dense.h, norm.h, update.h, losses.h).
 */
#ifndef PACELINE_KERNEL_H
#define PACELINE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "team.h"

/* a*b + c is rounded twice unless it says v_fma. gcc has this by -std=c11. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#pragma GCC visibility push(hidden)

struct paceline_conv {
  ptrdiff_t in_c, in_h, in_w, out_c, kernel, stride, out_h, out_w;
  int planar_in, planar_out; /* [channel, height, width], not [height, width, channel] */
  int linear;                /* no ReLU behind it */
};

/* Normalisation of rows of [positions][channels], or planar [channels][positions]. */
struct paceline_norm {
  ptrdiff_t channels, positions;
  int planar, relu;
  int all; /* over a row, not over the channels at each position */
  float eps;
};

/* Writes, or adds, n floats to y; each depends on that of x alone. */
typedef void paceline_map(float *y, const float *x, ptrdiff_t n);

/* x or x8 is a batch of images: floats, or bytes times scale; the other one is NULL. */
struct paceline_kernels {
  void (*conv_pack)(float *packed, const float *w, float scale, const struct paceline_conv *c, ptrdiff_t from,
                    ptrdiff_t to, float *ws);
  void (*conv_pack_back)(float *packed, const float *w, const struct paceline_conv *c, ptrdiff_t from, ptrdiff_t to,
                         float *ws);
  void (*conv_forward)(float *y, const float *x, const uint8_t *x8, const float *packed, const float *b, ptrdiff_t n,
                       const struct paceline_conv *c, float *ws);
  void (*conv_backward)(float *dw, float *db, float *dx, const float *x, const uint8_t *x8, float scale,
                        const float *packed, const float *y, const float *dy, ptrdiff_t n,
                        const struct paceline_conv *c, float *ws);
  void (*dense_pack)(float *packed, const float *w, ptrdiff_t rows, ptrdiff_t n);
  void (*dense_forward)(float *y, const float *x, const float *w, int packed, const float *b, ptrdiff_t n, ptrdiff_t in,
                        ptrdiff_t out, ptrdiff_t all, int relu, float *ws);
  void (*dense_backward)(float *dw, float *db, float *dx, const float *x, const float *w, const float *y,
                         const float *dy, ptrdiff_t n, ptrdiff_t in, ptrdiff_t all, ptrdiff_t out, float *ws);
  void (*norm_forward)(float *y, float *statistics, const float *x, const float *scale, const float *bias, ptrdiff_t n,
                       const struct paceline_norm *c, float *ws);
  void (*norm_backward)(float *dscale, float *dbias, float *dx, const float *statistics, const float *x, const float *y,
                        const float *dy, const float *scale, ptrdiff_t n, const struct paceline_norm *c, float *ws);
  void (*norm_arrange)(float *to, const float *from, const struct paceline_norm *c, int back);
  void (*rmsprop)(float *theta, const float *grad, float by, float *avg, float *sq, ptrdiff_t n, float lr, double decay,
                  float eps, int centered, int eps_inside);
  void (*adam)(float *theta, const float *grad, float by, float *m, float *v, ptrdiff_t n, float lr, double beta1,
               double beta2, float eps, int64_t step);
  void (*radam)(float *theta, const float *grad, float by, float *m, float *v, ptrdiff_t n, float size, double beta1,
                double beta2, float eps, int rectified);
  void (*adagrad)(float *theta, const float *grad, float by, float *sq, ptrdiff_t n, float lr, float eps);
  double (*sum_squares)(const float *x, ptrdiff_t n);
  void (*average)(float *x, const float *y, ptrdiff_t n, double weight);
  paceline_map *add, *exp, *log, *tanh;
  void (*tanh_backward)(float *dx, const float *y, const float *dy, ptrdiff_t n);
  void (*td_targets)(float *targets, const float *next, const float *rewards, const float *discounts, ptrdiff_t n,
                     ptrdiff_t width);
  double (*td_loss)(float *dq, const float *q, const int32_t *actions, const float *targets, const float *weights,
                    ptrdiff_t n, ptrdiff_t width, int squared, float weight);
  void (*log_softmax)(float *y, const float *x, ptrdiff_t n, ptrdiff_t width);
  void (*actor_critic)(float *dlogits, float *dvalues, const float *logits, const float *values, const int32_t *actions,
                       const uint8_t *masks, const float *advantages, const float *returns, const float *weights,
                       const float *log_probs, const float *clips, const float *old_values, const float *value_clips,
                       ptrdiff_t n, ptrdiff_t width, float entropy_coef, float value_coef, int largest_error,
                       double *parts);
  float (*peak)(ptrdiff_t rounds);
  double peak_flop; /* of a round */
};

/* For each path one table of fp32 and one whose products are of bf16. */
#if defined(__x86_64__)
extern const struct paceline_kernels paceline_kernels_amx, paceline_kernels_avx512, paceline_kernels_avx512_bf16;
extern const struct paceline_kernels paceline_kernels_avx512_rounded;
extern const struct paceline_kernels paceline_kernels_avx2, paceline_kernels_avx2_rounded;
#endif
extern const struct paceline_kernels paceline_kernels_generic, paceline_kernels_generic_rounded;

/* How a call is shared: in so many parts, by the caller and so many helpers. */
struct paceline_share {
  struct paceline_team *team; /* may be NULL where there are no helpers */
  int helpers;
  ptrdiff_t parts;
};

/* Images in a block of a backward pass. A block sums up its own gradients. */
enum { PACELINE_CONV_BLOCK = 8 };

/* The same of rows, for the scales and biases of a normalisation. */
enum { PACELINE_NORM_BLOCK = 8 };

/*
 * What cgo calls, in entry.c. The arguments of calls that are shared come as structs,
 * of which a call reads what its function in the table needs. ws is scratch, of which
 * each thread gets `each` floats.
 */
struct paceline_conv_args {
  struct paceline_conv c;
  float scale, *into, *db, *dx;    /* into: packed weights, y or dw */
  const float *x, *w, *b, *y, *dy; /* w: packed, but for what packs them */
  const uint8_t *x8;
  ptrdiff_t n;
  float *ws, *sums; /* sums: those of a backward pass's blocks but the first */
  ptrdiff_t each;
};

struct paceline_dense_args {
  float *into, *db, *dx; /* into: y or dw */
  const float *x, *w, *b, *y, *dy;
  ptrdiff_t n, in, out;
  int relu, packed; /* packed: w is what dense_pack makes */
  float *ws;
  ptrdiff_t each;
};

struct paceline_norm_args {
  struct paceline_norm c;
  float *into, *statistics, *db, *dx; /* into: y or dscale; statistics: of each group, its mean and 1/deviation */
  const float *x, *scale, *bias, *y, *dy;
  ptrdiff_t n;
  float *ws, *params, *sums; /* params: scale and bias in the order of a row's numbers; sums: those of the blocks */
  ptrdiff_t each;
};

struct paceline_flat_args {
  ptrdiff_t n;
  float *theta, *first, *second; /* first and second: running means */
  const float *grad;
  float by, lr, eps;   /* by: of the gradient; lr: also RAdam's size of a step */
  double beta1, beta2; /* beta2: RMSProp's decay; beta1: also the weight of an average */
  int64_t step;
  int centered, eps_inside, rectified;
  double *sums; /* sums[i] is that of part i */
};

enum paceline_conv_call { PACELINE_CONV_PACK, PACELINE_CONV_PACK_BACK, PACELINE_CONV_FORWARD, PACELINE_CONV_BACKWARD };
enum paceline_dense_call { PACELINE_DENSE_PACK, PACELINE_DENSE_FORWARD, PACELINE_DENSE_BACKWARD };
enum paceline_norm_call { PACELINE_NORM_FORWARD, PACELINE_NORM_BACKWARD };
enum paceline_flat_call {
  PACELINE_RMSPROP,
  PACELINE_ADAM,
  PACELINE_RADAM,
  PACELINE_ADAGRAD,
  PACELINE_SUM_SQUARES,
  PACELINE_AVERAGE
};

void paceline_kernel_conv(const struct paceline_kernels *k, struct paceline_share s, enum paceline_conv_call which,
                          struct paceline_conv_args a);
void paceline_kernel_dense(const struct paceline_kernels *k, struct paceline_share s, enum paceline_dense_call which,
                           struct paceline_dense_args a);
void paceline_kernel_norm(const struct paceline_kernels *k, struct paceline_share s, enum paceline_norm_call which,
                          struct paceline_norm_args a);
void paceline_kernel_flat(const struct paceline_kernels *k, struct paceline_share s, enum paceline_flat_call which,
                          struct paceline_flat_args a);
void paceline_kernel_map(paceline_map *f, float *y, const float *x, ptrdiff_t n);
void paceline_kernel_tanh_backward(const struct paceline_kernels *k, float *dx, const float *y, const float *dy,
                                   ptrdiff_t n);
void paceline_kernel_td_targets(const struct paceline_kernels *k, float *targets, const float *next,
                                const float *rewards, const float *discounts, ptrdiff_t n, ptrdiff_t width);
double paceline_kernel_td_loss(const struct paceline_kernels *k, float *dq, const float *q, const int32_t *actions,
                               const float *targets, const float *weights, ptrdiff_t n, ptrdiff_t width, int squared,
                               float weight);
void paceline_kernel_log_softmax(const struct paceline_kernels *k, float *y, const float *x, ptrdiff_t n,
                                 ptrdiff_t width);
void paceline_kernel_actor_critic(const struct paceline_kernels *k, float *dlogits, float *dvalues, const float *logits,
                                  const float *values, const int32_t *actions, const uint8_t *masks,
                                  const float *advantages, const float *returns, const float *weights,
                                  const float *log_probs, const float *clips, const float *old_values,
                                  const float *value_clips, ptrdiff_t n, ptrdiff_t width, float entropy_coef,
                                  float value_coef, int largest_error, double *parts);
void paceline_kernel_peak(const struct paceline_kernels *k, ptrdiff_t rounds);

#pragma GCC visibility pop

#endif
