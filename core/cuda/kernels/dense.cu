/*
 * Dense layers, and the sums of the parts of a matrix product (gemm.cuh). dz is the gradient before
 * the ReLU: dy where y > 0.
 *
 *	y[row, o]  = sum over i    x[row, i] w[o, i]
 *	dw[o, i]   = sum over rows dz[row, o] x[row, i]
 *	dx[row, i] = sum over o    dz[row, o] w[o, i]
 */
#include "weight_gradient.cuh"

struct DenseOutput {
  static const bool ROW_SUMS = false;
  typedef int Column;
  const DenseForwardArgs &args;
  float *sums;  // of this part; null: one part

  __device__ __forceinline__ Column column(int n) const { return n; }
  __device__ __forceinline__ void put(int row, Column o, float sum) const {
    const int at = row * args.out + o;
    if (sums != nullptr) {
      sums[at] = sum;
      return;
    }
    const float y = sum + args.b[o];
    args.y[at] = args.relu ? relu(y) : y;
  }
  __device__ __forceinline__ void put_row_sum(int, float) const {}
};

template <class Arithmetic>
using DenseForwardShared = GemmShared<Arithmetic, Matrix<true>, Matrix<true>>;

template <class Arithmetic>
__device__ __forceinline__ void dense_forward(DenseForwardShared<Arithmetic> &shared, const DenseForwardArgs &args) {
  const Matrix<true> x = {args.x, args.in, 1, 1}, w = {args.w, args.in, 1, 1};
  const int part = (int)blockIdx.z;
  float *sums = args.split.parts == 1 ? nullptr : args.parts + (long long)part * (args.rows * args.out);
  gemm(shared, x, args.rows, w, args.out, args.in, args.split, part, DenseOutput{args, sums});
}

KERNEL(dense_forward_sum, DenseForwardSumArgs, 256) {
  const int size = args.rows * args.out;
  for (int i = first_element(); i < size; i += element_step()) {
    float y = args.parts[i];
    for (int part = 1; part < args.parts_count; part++) y += args.parts[(long long)part * size + i];
    y += args.b[i - divide(i, args.width) * args.out];
    args.y[i] = args.relu ? relu(y) : y;
  }
}

template <class Arithmetic>
using DenseWeightGradientShared = GemmShared<Arithmetic, GradientByChannel<false>, Matrix<false>>;

template <class Arithmetic>
__device__ __forceinline__ void dense_weight_gradient(DenseWeightGradientShared<Arithmetic> &shared,
                                                      const DenseWeightGradientArgs &args) {
  const Divisor one = {1, 1, 0};
  const GradientByChannel<false> dz = {args.dy, args.y, args.out, 1, one};
  const Matrix<false> x = {args.x, 1, args.in, 1};
  const int part = (int)blockIdx.z;
  gemm(shared, dz, args.out, x, args.in, args.rows, args.split, part,
       WeightGradient(args.dw, args.db, args.parts, args.split, part, args.out, args.in, 1));
}

KERNEL(weight_gradient_sum, WeightGradientSumArgs, 256) {
  const int size = args.weights + args.biases;
  for (int i = first_element(); i < size; i += element_step()) {
    float sum = args.parts[i];
    for (int part = 1; part < args.parts_count; part++) sum += args.parts[(long long)part * size + i];
    if (i < args.weights)
      args.dw[i] = sum * args.scale;
    else
      args.db[i - args.weights] = sum;
  }
}

struct DenseInputGradient {
  static const bool ROW_SUMS = false;
  typedef int Column;
  float *dx;
  int in;

  __device__ __forceinline__ Column column(int n) const { return n; }
  __device__ __forceinline__ void put(int row, Column i, float sum) const { dx[row * in + i] = sum; }
  __device__ __forceinline__ void put_row_sum(int, float) const {}
};

template <class Arithmetic>
using DenseInputGradientShared = GemmShared<Arithmetic, GradientByRow, Matrix<false>>;

template <class Arithmetic>
__device__ __forceinline__ void dense_input_gradient(DenseInputGradientShared<Arithmetic> &shared,
                                                     const DenseInputGradientArgs &args) {
  const GradientByRow dz = {args.dy, args.y, args.out};
  const Matrix<false> w = {args.w, 1, args.in, 1};
  const SplitK whole = {1, (args.out + CHUNK - 1) / CHUNK};
  gemm(shared, dz, args.rows, w, args.in, args.out, whole, 0, DenseInputGradient{args.dx, args.in});
}

#define DENSE(precision, Arithmetic)                                                 \
  KERNEL(dense_forward_##precision, DenseForwardArgs, GEMM_THREADS) {                \
    __shared__ DenseForwardShared<Arithmetic> shared;                                \
    dense_forward<Arithmetic>(shared, args);                                         \
  }                                                                                  \
  KERNEL(dense_weight_gradient_##precision, DenseWeightGradientArgs, GEMM_THREADS) { \
    __shared__ DenseWeightGradientShared<Arithmetic> shared;                         \
    dense_weight_gradient<Arithmetic>(shared, args);                                 \
  }                                                                                  \
  KERNEL(dense_input_gradient_##precision, DenseInputGradientArgs, GEMM_THREADS) {   \
    __shared__ DenseInputGradientShared<Arithmetic> shared;                          \
    dense_input_gradient<Arithmetic>(shared, args);                                  \
  }

DENSE(fp32, Fp32)
#if TENSOR_CORES
DENSE(tf32, Tf32)
DENSE(bf16, Bf16)
#endif
