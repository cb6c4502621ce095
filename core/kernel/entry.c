#include "kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

/* Exceptions masked, round to nearest, flush results and inputs to zero. */
#define MODE (0x1F80u | 0x8000u | 0x0040u)

uint64_t paceline_kernel_float_mode(void) { return _mm_getcsr(); }
void paceline_kernel_set_float_mode(uint64_t mode) { _mm_setcsr((unsigned)mode); }

#elif defined(__aarch64__)

#define MODE (UINT64_C(1) << 24) /* FZ, round to nearest */

uint64_t paceline_kernel_float_mode(void)
{
	uint64_t mode;
	__asm__ volatile("mrs %0, fpcr" : "=r"(mode));
	return mode;
}

void paceline_kernel_set_float_mode(uint64_t mode)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}

#else

#define MODE 0

uint64_t paceline_kernel_float_mode(void) { return 0; }
void paceline_kernel_set_float_mode(uint64_t mode) { (void)mode; }

#endif

/*
 * Nothing here computes with floats: the arithmetic is behind a pointer, in
 * another file, so no compiler can move it out of the mode it belongs to.
 */
#define IN_OUR_MODE(call)                                    \
	do {                                                 \
		uint64_t callers = paceline_kernel_float_mode(); \
		paceline_kernel_set_float_mode(MODE);        \
		call;                                        \
		paceline_kernel_set_float_mode(callers);     \
	} while (0)

void paceline_kernel_conv_pack(const struct paceline_kernels *k, float *packed, const float *w,
			       float scale, struct paceline_conv c, ptrdiff_t from, ptrdiff_t to,
			       float *ws)
{
	IN_OUR_MODE(k->conv_pack(packed, w, scale, &c, from, to, ws));
}

void paceline_kernel_conv_pack_back(const struct paceline_kernels *k, float *packed, const float *w,
				    struct paceline_conv c, ptrdiff_t from, ptrdiff_t to, float *ws)
{
	IN_OUR_MODE(k->conv_pack_back(packed, w, &c, from, to, ws));
}

void paceline_kernel_conv_forward(const struct paceline_kernels *k, float *y, const float *x,
				  const uint8_t *x8, const float *packed, const float *b,
				  ptrdiff_t n, struct paceline_conv c, float *ws)
{
	IN_OUR_MODE(k->conv_forward(y, x, x8, packed, b, n, &c, ws));
}

void paceline_kernel_conv_backward(const struct paceline_kernels *k, float *dw, float *db, float *dx,
				   const float *x, const uint8_t *x8, float scale,
				   const float *packed, const float *y, const float *dy,
				   ptrdiff_t n, struct paceline_conv c, float *ws)
{
	IN_OUR_MODE(k->conv_backward(dw, db, dx, x, x8, scale, packed, y, dy, n, &c, ws));
}

void paceline_kernel_dense_forward(const struct paceline_kernels *k, float *y, const float *x,
				   const float *w, const float *b, ptrdiff_t n, ptrdiff_t in,
				   ptrdiff_t out, ptrdiff_t all, int relu, float *ws)
{
	IN_OUR_MODE(k->dense_forward(y, x, w, b, n, in, out, all, relu, ws));
}

void paceline_kernel_dense_backward(const struct paceline_kernels *k, float *dw, float *db, float *dx,
				    const float *x, const float *w, const float *y, const float *dy,
				    ptrdiff_t n, ptrdiff_t in, ptrdiff_t all, ptrdiff_t out, float *ws)
{
	IN_OUR_MODE(k->dense_backward(dw, db, dx, x, w, y, dy, n, in, all, out, ws));
}

void paceline_kernel_rmsprop(const struct paceline_kernels *k, float *theta, const float *grad,
			     float *avg, float *sq, ptrdiff_t n, float lr, double decay, float eps,
			     int centered, int eps_inside)
{
	IN_OUR_MODE(k->rmsprop(theta, grad, avg, sq, n, lr, decay, eps, centered, eps_inside));
}

void paceline_kernel_adam(const struct paceline_kernels *k, float *theta, const float *grad,
			  float *m, float *v, ptrdiff_t n, float lr, double beta1, double beta2,
			  float eps, int64_t step)
{
	IN_OUR_MODE(k->adam(theta, grad, m, v, n, lr, beta1, beta2, eps, step));
}

void paceline_kernel_adagrad(const struct paceline_kernels *k, float *theta, const float *grad,
			     float *sq, ptrdiff_t n, float lr, float eps)
{
	IN_OUR_MODE(k->adagrad(theta, grad, sq, n, lr, eps));
}

double paceline_kernel_sum_squares(const struct paceline_kernels *k, const float *x, ptrdiff_t n)
{
	double sum;
	IN_OUR_MODE(sum = k->sum_squares(x, n));
	return sum;
}

void paceline_kernel_scale(const struct paceline_kernels *k, float *x, ptrdiff_t n, float a)
{
	IN_OUR_MODE(k->scale(x, n, a));
}

void paceline_kernel_add(const struct paceline_kernels *k, float *x, const float *y, ptrdiff_t n)
{
	IN_OUR_MODE(k->add(x, y, n));
}

float paceline_kernel_peak(const struct paceline_kernels *k, ptrdiff_t rounds)
{
	float sum;
	IN_OUR_MODE(sum = k->peak(rounds));
	return sum;
}
