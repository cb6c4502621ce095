/*
 * The C side of package kernel: one table of functions per path, and one entry point per function.
 * The entry points share a call among threads and set the floating-point mode.
 *
 * A path is a file that defines its vectors (avx512.c, avx2.c, generic.c) and includes the loops
 * (gemm.h, conv.h, dense.h, norm.h, update.h, losses.h).
 */
#ifndef PACELINE_KERNEL_H
#define PACELINE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "team.h"

/* a*b + c is rounded twice; v_fma rounds once. gcc has this by -std=c11. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#pragma GCC visibility push(hidden)

struct paceline_conv {
  ptrdiff_t in_c, in_h, in_w, out_c, kernel, stride, out_h, out_w;
  int planar_in, planar_out; /* [channel, height, width], not [height, width, channel] */
  int linear;                /* no ReLU */
};

/* Normalisation of rows of [positions][channels], or planar [channels][positions]. */
struct paceline_norm {
  ptrdiff_t channels, positions;
  int planar, relu;
  int all; /* normalise over a row, not over the channels at each position */
  float eps;
};

/* What the weight of a row multiplies; see WeightOrder. */
enum paceline_weight_order { PACELINE_WEIGHT_LOSS, PACELINE_WEIGHT_GRADIENT, PACELINE_WEIGHT_ERROR };

/* Writes or adds n floats to y; y[i] depends on x[i] alone. */
typedef void paceline_map(float *y, const float *x, ptrdiff_t n);

/*
 * The arguments of actor_critic: n rows of actions. An action has num_branches integers and `size`
 * numbers. See ActorCriticBatch and ActorCriticGradients.
 */
struct paceline_actor_critic_args {
  float *dlogits, *dmeans, *dlog_std, *dvalues;
  const float *logits, *means, *log_std, *values;
  const int32_t *branches, *actions; /* branches: NULL if there is at most one */
  const float *continuous;
  const uint8_t *masks; /* or NULL */
  const float *advantages, *returns, *weights;
  const float *log_probs, *clips, *old_values, *value_clips; /* NULL: not PPO's loss */
  float *softmax, *inverse;                                  /* scratch: 3 for each branch; [size] */
  double *log_std_sum;                                       /* scratch: [size] */
  ptrdiff_t n, width, num_branches, size;
  float entropy_coef, value_coef;
  int largest_error;
};

/* Atoms of a categorical distribution: MaxAtoms. */
enum { PACELINE_MOST_ATOMS = 1024 };

/*
 * The arguments of categorical_loss and quantile_loss: n rows of `width` actions, each with
 * `points` logits or quantiles, and of `goals` targets. See DistributionBatch.
 */
struct paceline_distribution_args {
  float *dx, *per_row; /* per_row: or NULL */
  const float *x;
  const int32_t *actions;
  const float *targets, *weights, *taus; /* weights, taus: or NULL */
  ptrdiff_t n, width, points, goals;
  float weight;
};

/*
 * The functions of one path and precision. x or x8 is a batch of images, of floats or of bytes
 * times scale; the other is NULL. Packing packs the outputs `from` to `to`-1. A call of a dense
 * layer computes `out` of its all_out outputs, or `in` of its all_in inputs.
 */
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
                        ptrdiff_t out, ptrdiff_t all_out, int relu, float *ws);
  void (*dense_tiled)(float *y, const float *x, const float *w, const float *b, ptrdiff_t n, ptrdiff_t in,
                      ptrdiff_t out, ptrdiff_t all_out, int relu, float *ws); /* NULL with bf16 products */
  void (*dense_backward)(float *dw, float *db, float *dx, const float *x, const float *w, const float *y,
                         const float *dy, ptrdiff_t n, ptrdiff_t in, ptrdiff_t all_in, ptrdiff_t out, float *ws);
  void (*norm_forward)(float *y, float *statistics, const float *x, const float *scale, const float *bias, ptrdiff_t n,
                       const struct paceline_norm *c, float *ws);
  void (*norm_backward)(float *dscale, float *dbias, float *dx, const float *statistics, const float *x, const float *y,
                        const float *dy, const float *scale, ptrdiff_t n, const struct paceline_norm *c, float *ws);
  void (*norm_arrange)(float *to, const float *from, const struct paceline_norm *c, int back);
  void (*rmsprop)(float *theta, const float *grad, float factor, float *avg, float *sq, ptrdiff_t n, float lr,
                  double decay, float eps, int centered, int eps_inside);
  void (*adam)(float *theta, const float *grad, float factor, float *m, float *v, ptrdiff_t n, float lr, double beta1,
               double beta2, float eps, int64_t step);
  void (*radam)(float *theta, const float *grad, float factor, float *m, float *v, ptrdiff_t n, float size,
                double beta1, double beta2, float eps, int rectified);
  void (*adagrad)(float *theta, const float *grad, float factor, float *sq, ptrdiff_t n, float lr, float eps);
  double (*sum_squares)(const float *x, ptrdiff_t n);
  void (*average)(float *x, const float *y, ptrdiff_t n, double weight);
  paceline_map *add, *exp, *log, *tanh;
  void (*tanh_backward)(float *dx, const float *y, const float *dy, ptrdiff_t n);
  void (*td_targets)(float *targets, const float *next, const float *rewards, const float *discounts, ptrdiff_t n,
                     ptrdiff_t width);
  double (*td_loss)(float *dq, const float *q, const int32_t *actions, const float *targets, const float *weights,
                    ptrdiff_t n, ptrdiff_t width, int squared, enum paceline_weight_order order, float weight);
  void (*log_softmax)(float *y, const float *x, ptrdiff_t n, ptrdiff_t width);
  void (*gaussian_log_probs)(float *log_probs, const float *means, const float *log_std, const float *x, ptrdiff_t n,
                             ptrdiff_t size);
  void (*actor_critic)(const struct paceline_actor_critic_args *a, double *parts);
  void (*categorical_means)(float *means, const float *x, ptrdiff_t n, ptrdiff_t atoms, double low, double step);
  void (*project)(float *to, const float *x, const int32_t *actions, const float *rewards, const float *discounts,
                  ptrdiff_t n, ptrdiff_t width, ptrdiff_t atoms, double low, double step);
  double (*categorical_loss)(const struct paceline_distribution_args *a, float least, int divergence);
  double (*quantile_loss)(const struct paceline_distribution_args *a, float kappa);
  void (*modulate)(float *y, const float *x, const float *by, ptrdiff_t n, ptrdiff_t times, ptrdiff_t width);
  void (*modulate_backward)(float *dby, float *dx, const float *x, const float *by, const float *dy, ptrdiff_t n,
                            ptrdiff_t times, ptrdiff_t width);
  float (*peak)(ptrdiff_t rounds);
  double peak_flop; /* floating-point operations of a round */
};

/* Each path has a table with fp32 products and a table with bf16 products. */
#if defined(__x86_64__)
extern const struct paceline_kernels paceline_kernels_amx, paceline_kernels_avx512, paceline_kernels_avx512_bf16;
extern const struct paceline_kernels paceline_kernels_avx512_rounded;
extern const struct paceline_kernels paceline_kernels_avx2, paceline_kernels_avx2_rounded;
#endif
extern const struct paceline_kernels paceline_kernels_generic, paceline_kernels_generic_rounded;

/* How a call is shared: the caller and the helpers do its parts. */
struct paceline_share {
  struct paceline_team *team; /* may be NULL without helpers */
  int helpers;
  ptrdiff_t parts;
};

/* Images in a block of a backward pass. Each block sums its own gradients of weights and biases. */
enum { PACELINE_CONV_BLOCK = 8 };

/* Rows in a block of a backward pass. Each block sums its own gradients of scales and biases. */
enum { PACELINE_NORM_BLOCK = 8 };

/*
 * The functions that cgo calls, in entry.c. Shared calls get their arguments as structs; a call
 * reads the fields that its function in the table needs. ws is scratch, ws_per_thread floats for
 * each thread.
 */
struct paceline_conv_args {
  struct paceline_conv c;
  float scale, *into, *db, *dx;    /* into: packed weights, y or dw */
  const float *x, *w, *b, *y, *dy; /* w: packed, except in calls that pack */
  const uint8_t *x8;
  ptrdiff_t n;
  float *ws, *sums; /* sums: of a backward pass's blocks from the second on */
  ptrdiff_t ws_per_thread;
};

struct paceline_dense_args {
  float *into, *db, *dx; /* into: y or dw */
  const float *x, *w, *b, *y, *dy;
  ptrdiff_t n, in, out;
  int relu, packed, tiled; /* packed: dense_pack made w */
  float *ws;
  ptrdiff_t ws_per_thread;
};

struct paceline_norm_args {
  struct paceline_norm c;
  float *into, *statistics, *db, *dx; /* into: y or dscale; statistics: [group][mean, 1/std] */
  const float *x, *scale, *bias, *y, *dy;
  ptrdiff_t n;
  float *ws, *params, *sums; /* params: scale and bias in the order of a row; sums: of the blocks */
  ptrdiff_t ws_per_thread;
};

struct paceline_modulate_args {
  float *into, *dx; /* into: y or dby */
  const float *x, *by, *dy;
  ptrdiff_t n, times, width;
};

struct paceline_flat_args {
  ptrdiff_t n;
  float *theta, *first, *second; /* first and second: the running means of the moments */
  const float *grad;
  float factor, lr, eps; /* factor: of the gradient; lr: in RAdam the step size */
  double beta1, beta2;   /* beta1: in average the weight; beta2: in RMSProp the decay */
  int64_t step;
  int centered, eps_inside, rectified;
  double *sums; /* sums[i]: of part i */
};

enum paceline_conv_call { PACELINE_CONV_PACK, PACELINE_CONV_PACK_BACK, PACELINE_CONV_FORWARD, PACELINE_CONV_BACKWARD };
enum paceline_dense_call { PACELINE_DENSE_PACK, PACELINE_DENSE_FORWARD, PACELINE_DENSE_BACKWARD };
enum paceline_norm_call { PACELINE_NORM_FORWARD, PACELINE_NORM_BACKWARD };
enum paceline_modulate_call { PACELINE_MODULATE_FORWARD, PACELINE_MODULATE_BACKWARD };
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
void paceline_kernel_modulate(const struct paceline_kernels *k, struct paceline_share s,
                              enum paceline_modulate_call which, struct paceline_modulate_args a);
void paceline_kernel_flat(const struct paceline_kernels *k, struct paceline_share s, enum paceline_flat_call which,
                          struct paceline_flat_args a);
void paceline_kernel_map(paceline_map *f, float *y, const float *x, ptrdiff_t n);
void paceline_kernel_tanh_backward(const struct paceline_kernels *k, float *dx, const float *y, const float *dy,
                                   ptrdiff_t n);
void paceline_kernel_td_targets(const struct paceline_kernels *k, float *targets, const float *next,
                                const float *rewards, const float *discounts, ptrdiff_t n, ptrdiff_t width);
double paceline_kernel_td_loss(const struct paceline_kernels *k, float *dq, const float *q, const int32_t *actions,
                               const float *targets, const float *weights, ptrdiff_t n, ptrdiff_t width, int squared,
                               enum paceline_weight_order order, float weight);
void paceline_kernel_log_softmax(const struct paceline_kernels *k, float *y, const float *x, ptrdiff_t n,
                                 ptrdiff_t width);
void paceline_kernel_gaussian_log_probs(const struct paceline_kernels *k, float *log_probs, const float *means,
                                        const float *log_std, const float *x, ptrdiff_t n, ptrdiff_t size);
void paceline_kernel_actor_critic(const struct paceline_kernels *k, struct paceline_actor_critic_args a, double *parts);
void paceline_kernel_categorical_means(const struct paceline_kernels *k, float *means, const float *x, ptrdiff_t n,
                                       ptrdiff_t atoms, double low, double step);
void paceline_kernel_project(const struct paceline_kernels *k, float *to, const float *x, const int32_t *actions,
                             const float *rewards, const float *discounts, ptrdiff_t n, ptrdiff_t width,
                             ptrdiff_t atoms, double low, double step);
double paceline_kernel_categorical_loss(const struct paceline_kernels *k, struct paceline_distribution_args a,
                                        float least, int divergence);
double paceline_kernel_quantile_loss(const struct paceline_kernels *k, struct paceline_distribution_args a,
                                     float kappa);
void paceline_kernel_peak(const struct paceline_kernels *k, ptrdiff_t rounds);

#pragma GCC visibility pop

#endif
