/*
 * The C side of package kernel: one table of functions per path, and one entry
 * per function that sets the floating-point mode around the call.
 *
 * Every path is a file that defines its vectors (avx512.c, avx2.c, generic.c)
 * and then includes the same loops (gemm.h, conv.h, dense.h, update.h).
 */
#ifndef PACELINE_KERNEL_H
#define PACELINE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* a*b + c is rounded twice unless it says v_fma. gcc has this by -std=c11. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#pragma GCC visibility push(hidden)

struct paceline_conv {
	ptrdiff_t in_c, in_h, in_w, out_c, kernel, stride, out_h, out_w;
	int planar_in, planar_out; /* [channel, height, width], not [height, width, channel] */
};

/* A batch of pictures: floats, or bytes times scale; the other pointer is NULL. */
struct paceline_kernels {
	void (*conv_pack)(float *packed, const float *w, float scale, const struct paceline_conv *c,
			  ptrdiff_t from, ptrdiff_t to, float *ws);
	void (*conv_pack_back)(float *packed, const float *w, const struct paceline_conv *c,
			       ptrdiff_t from, ptrdiff_t to, float *ws);
	void (*conv_forward)(float *y, const float *x, const uint8_t *x8, const float *packed,
			     const float *b, ptrdiff_t n, const struct paceline_conv *c, float *ws);
	void (*conv_backward)(float *dw, float *db, float *dx, const float *x, const uint8_t *x8,
			      float scale, const float *packed, const float *y, const float *dy,
			      ptrdiff_t n, const struct paceline_conv *c, float *ws);
	void (*dense_forward)(float *y, const float *x, const float *w, const float *b, ptrdiff_t n,
			      ptrdiff_t in, ptrdiff_t out, ptrdiff_t all, int relu, float *ws);
	void (*dense_backward)(float *dw, float *db, float *dx, const float *x, const float *w,
			       const float *y, const float *dy, ptrdiff_t n, ptrdiff_t in,
			       ptrdiff_t all, ptrdiff_t out, float *ws);
	void (*rmsprop)(float *theta, const float *grad, float *avg, float *sq, ptrdiff_t n,
			float lr, double decay, float eps, int centered, int eps_inside);
	void (*adam)(float *theta, const float *grad, float *m, float *v, ptrdiff_t n,
		     float lr, double beta1, double beta2, float eps, int64_t step);
	void (*adagrad)(float *theta, const float *grad, float *sq, ptrdiff_t n, float lr, float eps);
	double (*sum_squares)(const float *x, ptrdiff_t n);
	void (*scale)(float *x, ptrdiff_t n, float a);
	void (*add)(float *x, const float *y, ptrdiff_t n);
	float (*peak)(ptrdiff_t rounds);
	double peak_flop; /* of a round */
};

/* For each path one table of fp32 and one whose products are of bf16. */
#if defined(__x86_64__)
extern const struct paceline_kernels paceline_kernels_avx512, paceline_kernels_avx512_bf16;
extern const struct paceline_kernels paceline_kernels_avx512_rounded;
extern const struct paceline_kernels paceline_kernels_avx2, paceline_kernels_avx2_rounded;
#endif
extern const struct paceline_kernels paceline_kernels_generic, paceline_kernels_generic_rounded;

void paceline_kernel_conv_pack(const struct paceline_kernels *k, float *packed, const float *w,
			       float scale, struct paceline_conv c, ptrdiff_t from, ptrdiff_t to,
			       float *ws);
void paceline_kernel_conv_pack_back(const struct paceline_kernels *k, float *packed, const float *w,
				    struct paceline_conv c, ptrdiff_t from, ptrdiff_t to, float *ws);
void paceline_kernel_conv_forward(const struct paceline_kernels *k, float *y, const float *x,
				  const uint8_t *x8, const float *packed, const float *b,
				  ptrdiff_t n, struct paceline_conv c, float *ws);
void paceline_kernel_conv_backward(const struct paceline_kernels *k, float *dw, float *db, float *dx,
				   const float *x, const uint8_t *x8, float scale,
				   const float *packed, const float *y, const float *dy,
				   ptrdiff_t n, struct paceline_conv c, float *ws);
void paceline_kernel_dense_forward(const struct paceline_kernels *k, float *y, const float *x,
				   const float *w, const float *b, ptrdiff_t n, ptrdiff_t in,
				   ptrdiff_t out, ptrdiff_t all, int relu, float *ws);
void paceline_kernel_dense_backward(const struct paceline_kernels *k, float *dw, float *db, float *dx,
				    const float *x, const float *w, const float *y, const float *dy,
				    ptrdiff_t n, ptrdiff_t in, ptrdiff_t all, ptrdiff_t out, float *ws);
void paceline_kernel_rmsprop(const struct paceline_kernels *k, float *theta, const float *grad,
			     float *avg, float *sq, ptrdiff_t n, float lr, double decay, float eps,
			     int centered, int eps_inside);
void paceline_kernel_adam(const struct paceline_kernels *k, float *theta, const float *grad,
			  float *m, float *v, ptrdiff_t n, float lr, double beta1, double beta2,
			  float eps, int64_t step);
void paceline_kernel_adagrad(const struct paceline_kernels *k, float *theta, const float *grad,
			     float *sq, ptrdiff_t n, float lr, float eps);
double paceline_kernel_sum_squares(const struct paceline_kernels *k, const float *x, ptrdiff_t n);
void paceline_kernel_scale(const struct paceline_kernels *k, float *x, ptrdiff_t n, float a);
void paceline_kernel_add(const struct paceline_kernels *k, float *x, const float *y, ptrdiff_t n);
float paceline_kernel_peak(const struct paceline_kernels *k, ptrdiff_t rounds);

/* The calling thread's floating-point control register; 0 where we set none. */
uint64_t paceline_kernel_float_mode(void);
void paceline_kernel_set_float_mode(uint64_t mode);

#pragma GCC visibility pop

#endif
