/*
 * The loops of one path. No include guard: each path includes this file once, after it has defined
 *
 *	vec, VW     the vector type and its number of floats
 *	v_*         operations on vec; also sums, transpose4, interleave4x16
 *	MR          rows of the largest tile; TILES(X) lists X(1) ... X(MR)
 *	DOT_ROWS    rows of x that DenseForward multiplies at a time
 *	TARGET      the attribute that lets a function use the path's instructions
 *	INLINE      TARGET, always inlined
 *	KERNELS     the name of the table defined at the end
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { NR = 2 * VW }; /* columns of a tile */

INLINE ptrdiff_t min(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t max(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t round_up(ptrdiff_t a, ptrdiff_t to) { return (a + to - 1) / to * to; }

/*
 * Cuts n floats off the workspace. aligned() moved the start of the workspace to a multiple of 64
 * bytes; take keeps it there. workspace.go adds up the same pieces.
 */
INLINE float *take(float **ws, ptrdiff_t n) {
  float *p = *ws;
  *ws += round_up(n, 16);
  return p;
}

INLINE float *aligned(float *ws) { return (float *)(((uintptr_t)ws + 63) & ~(uintptr_t)63); }

/* The next vector of an array: `count` is VW, or the floats that are left at the end. */
INLINE vec get(const float *p, ptrdiff_t count) { return count == VW ? v_load(p) : v_load_some(p, count); }

INLINE void put(float *p, vec a, ptrdiff_t count) {
  if (count == VW)
    v_store(p, a);
  else
    v_store_some(p, a, count);
}

/*
 * Calls f(at, count, ...) for the vectors of n floats. `count` is the constant VW for all but the
 * last vector, so that get and put of whole vectors have no branch.
 */
#define FOR_VECTORS(f, n, ...)                                           \
  do {                                                                   \
    ptrdiff_t vector = 0;                                                \
    for (; vector + VW <= (n); vector += VW) f(vector, VW, __VA_ARGS__); \
    if (vector < (n)) f(vector, (n) - vector, __VA_ARGS__);              \
  } while (0)

/*
 * A unit is 32 bits of operands of a product: one float, or two bf16 that follow each other in k
 * (PER_UNIT 2). PLAIN is 1 if a unit is the float itself, unrounded. A path with PER_UNIT 1 defines
 * v_operand(a), which rounds operands. A path with PER_UNIT 2 defines
 *
 *	v_unit(a, b)       the units (a[i], b[i]); a[i] alone where PER_UNIT is 1
 *	v_row_unit(a, b)   the units of a row of operands, a and then b; of a where PER_UNIT is 1
 *	v_row_units(p, n)  the units of n <= VW * PER_UNIT operands in a row
 *	put_operands(row, chunk, k, a, n)
 *	                   writes n <= VW operands as operands k to k+n-1 of a row; each 16 units of
 *	                   the row lie `chunk` floats after the 16 before
 */
#ifndef PER_UNIT
#define PER_UNIT 1

INLINE vec v_unit(vec a, vec unused) {
  (void)unused;
  return v_operand(a);
}

INLINE vec v_row_unit(vec a, vec unused) { return v_unit(a, unused); }

INLINE vec v_row_units(const float *p, ptrdiff_t n) { return v_operand(get(p, n)); }

INLINE void put_operands(float *row, ptrdiff_t chunk, ptrdiff_t k, vec a, ptrdiff_t n) {
  a = v_operand(a);
  if (n == VW && k % VW == 0) {
    v_store(row + k / 16 * chunk + k % 16, a);
    return;
  }
  float t[VW];
  v_store(t, a);
  for (ptrdiff_t j = 0; j < n; j++, k++) row[k / 16 * chunk + k % 16] = t[j];
}
#endif

INLINE ptrdiff_t in_units(ptrdiff_t operands) { return (operands + PER_UNIT - 1) / PER_UNIT; }

#include "layout.h"
#ifdef MULTIPLIES_TILES
#include "amx.h"
#include "amx_conv.h"
#include "amx_dense.h"
#else
#include "gemm.h"
#include "conv.h"
#include "dense.h"
#endif
#include "norm.h"
#include "update.h"
#include "losses.h"
#include "distributions.h"
#include "modulate.h"

const struct paceline_kernels KERNELS = {
    .conv_pack = conv_pack,
    .conv_pack_back = conv_pack_back,
    .conv_forward = conv_forward,
    .conv_backward = conv_backward,
    .dense_pack = dense_pack,
    .dense_forward = dense_forward,
#ifndef MULTIPLIES_TILES
    .dense_tiled = PLAIN ? dense_tiled : NULL,
#endif
    .dense_backward = dense_backward,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .norm_arrange = norm_arrange,
    .rmsprop = rmsprop,
    .adam = adam,
    .radam = radam,
    .adagrad = adagrad,
    .sum_squares = sum_squares,
    .average = average,
    .add = map_add,
    .exp = map_exp,
    .log = map_log,
    .tanh = map_tanh,
    .tanh_backward = tanh_backward,
    .td_targets = td_targets,
    .td_loss = td_loss,
    .log_softmax = log_softmax,
    .gaussian_log_probs = gaussian_log_probs,
    .actor_critic = actor_critic,
    .categorical_means = categorical_means,
    .project = project,
    .categorical_loss = categorical_loss,
    .quantile_loss = quantile_loss,
    .modulate = modulate,
    .modulate_backward = modulate_backward,
    .peak = peak,
    .peak_flop = 2.0 * PEAK_STEPS * VW * PER_UNIT,
};
