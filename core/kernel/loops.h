/*
 * The loops of one path. No include guard: each path includes this once, after
 * it has defined
 *
 *	vec, VW     the vector type and its floats
 *	v_*         operations on it, sums, transpose4, interleave4x16
 *	MR          rows of the largest tile; TILES(X) lists X(1) ... X(MR)
 *	DOT_ROWS    rows of x that DenseForward multiplies at a time
 *	TARGET      the attribute that lets a function use the path's instructions
 *	INLINE      the same, always inlined
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
 * Cuts n floats off the workspace, at a multiple of 64 bytes from its start
 * (which aligned() moved to such an address). workspace.go adds up the same pieces.
 */
INLINE float *take(float **ws, ptrdiff_t n) {
  float *p = *ws;
  *ws += round_up(n, 16);
  return p;
}

INLINE float *aligned(float *ws) { return (float *)(((uintptr_t)ws + 63) & ~(uintptr_t)63); }

/* The next vector of an array: `some` is VW, or what is left at the end. */
INLINE vec get(const float *p, ptrdiff_t some) { return some == VW ? v_load(p) : v_load_some(p, some); }

INLINE void put(float *p, vec a, ptrdiff_t some) {
  if (some == VW)
    v_store(p, a);
  else
    v_store_some(p, a, some);
}

/*
 * Calls f(at, some, ...) for the vectors of n floats. `some` is VW, a constant, but
 * at the end: get and put of whole vectors have no branch then.
 */
#define FOR_VECTORS(f, n, ...)                                           \
  do {                                                                   \
    ptrdiff_t vector = 0;                                                \
    for (; vector + VW <= (n); vector += VW) f(vector, VW, __VA_ARGS__); \
    if (vector < (n)) f(vector, (n) - vector, __VA_ARGS__);              \
  } while (0)

/*
 * Operands of a product travel in units of 32 bits: one float, or on a path
 * that multiplies bf16 (PER_UNIT 2) a pair that follow each other in k. PLAIN
 * says that a unit is the float itself. A path defines
 *
 *	v_unit(a, b)             units of the operands a, or of the pairs (a[i], b[i])
 *	v_row_unit(a, b)         units of the operands a in a row, or of a and then b
 *	v_row_units(p, n)        units of n <= VW * PER_UNIT operands in a row
 *	put_operands(p, k, a, n) puts n <= VW operands, from number k on, of a row
 *	                         whose units 16 and up lie `chunk` further
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

const struct paceline_kernels KERNELS = {
    .conv_pack = conv_pack,
    .conv_pack_back = conv_pack_back,
    .conv_forward = conv_forward,
    .conv_backward = conv_backward,
    .dense_pack = dense_pack,
    .dense_forward = dense_forward,
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
    .add = add_to,
    .exp = exponentials,
    .log = logarithms,
    .tanh = tangents,
    .tanh_backward = tangents_backward,
    .td_targets = td_targets,
    .td_loss = td_loss,
    .log_softmax = log_softmax,
    .actor_critic = actor_critic,
    .peak = peak,
    .peak_flop = 2.0 * PEAK_STEPS * VW * PER_UNIT,
};
