/*
 * The loops of one path. No include guard: each path includes this once, after
 * it has defined
 *
 *	vec, VW     the vector type and its floats
 *	v_*         operations on it, sums, transpose4
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
INLINE ptrdiff_t round_up(ptrdiff_t a, ptrdiff_t to) { return (a + to - 1) / to * to; }

/*
 * Cuts n floats off the workspace, at a multiple of 64 bytes from its start
 * (which aligned() moved to such an address). workspace.go adds up the same pieces.
 */
INLINE float *take(float **ws, ptrdiff_t n)
{
	float *p = *ws;
	*ws += round_up(n, 16);
	return p;
}

INLINE float *aligned(float *ws) { return (float *)(((uintptr_t)ws + 63) & ~(uintptr_t)63); }

/* The next vector of an array: `some` is VW, or what is left at the end. */
INLINE vec get(const float *p, ptrdiff_t some) { return some == VW ? v_load(p) : v_load_some(p, some); }

INLINE void put(float *p, vec a, ptrdiff_t some)
{
	if (some == VW)
		v_store(p, a);
	else
		v_store_some(p, a, some);
}

#include "gemm.h"
#include "conv.h"
#include "dense.h"
#include "update.h"

const struct paceline_kernels KERNELS = {
	.conv_forward = conv_forward,
	.conv_grad_w = conv_grad_w,
	.conv_grad_x = conv_grad_x,
	.relu_grad = relu_grad,
	.dense_forward = dense_forward,
	.dense_grad_w = dense_grad_w,
	.dense_grad_x = dense_grad_x,
	.rmsprop = rmsprop,
	.adam = adam,
	.adagrad = adagrad,
	.sum_squares = sum_squares,
	.scale = scale_by,
};
