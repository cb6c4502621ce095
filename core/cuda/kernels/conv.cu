/*
 * Convolutions over [image][channel][row][column], as in core/kernel: square kernels two or three
 * strides wide, without padding. Each pass is one matrix product (gemm.cuh):
 *
 *	y[o, position]  = sum over taps       w[o, tap] patch[tap, position]
 *	dw[o, tap]      = sum over positions  dz[o, position] patch[tap, position]
 *	dx[c, cell]     = sum over o, j       w[c; o, j] dz[o, cell - j], for every phase
 *
 * A position is an output of any image. dz is the gradient before the ReLU: dy where y > 0.
 */
#include "weight_gradient.cuh"

struct ConvOutput {
  static const bool ROW_SUMS = false;
  typedef int Column;
  const ConvForwardArgs &args;

  __device__ __forceinline__ Column column(int n) const {
    const ConvShape &s = args.shape;
    const int area = s.out_h * s.out_w, image = divide(n, s.positions);
    return image * s.out_c * area + (n - image * area);
  }
  __device__ __forceinline__ void put(int o, Column at, float sum) const {
    const float y = sum + args.b[o];
    args.y[at + o * args.shape.out_h * args.shape.out_w] = args.relu ? relu(y) : y;
  }
  __device__ __forceinline__ void put_row_sum(int, float) const {}
};

// The weights are multiplied by the factor of the bytes before they are rounded, as in core/kernel.
__device__ __forceinline__ float factor(const float *, float) { return 1; }
__device__ __forceinline__ float factor(const unsigned char *, float scale) { return scale; }

template <class Arithmetic, class Element>
using ConvForwardShared = GemmShared<Arithmetic, Matrix<true>, PatchesByTap<Element>>;

template <class Arithmetic, class Element>
__device__ __forceinline__ void conv_forward(ConvForwardShared<Arithmetic, Element> &shared,
                                             const ConvForwardArgs &args) {
  const ConvShape &s = args.shape;
  const int patch = s.in_c * s.kernel * s.kernel;
  const Matrix<true> weights = {args.w, patch, 1, factor((const Element *)nullptr, args.scale)};
  const PatchesByTap<Element> patches(s, args.x);
  const SplitK whole = {1, (patch + CHUNK - 1) / CHUNK};
  gemm(shared, weights, s.out_c, patches, s.images * s.out_h * s.out_w, patch, whole, 0, ConvOutput{args});
}

template <class Arithmetic, class Element>
using ConvWeightGradientShared = GemmShared<Arithmetic, GradientByChannel<true>, PatchesByPosition<Element>>;

template <class Arithmetic, class Element>
__device__ __forceinline__ void conv_weight_gradient(ConvWeightGradientShared<Arithmetic, Element> &shared,
                                                     const ConvWeightGradientArgs &args) {
  const ConvShape &s = args.shape;
  const int patch = s.in_c * s.kernel * s.kernel, area = s.out_h * s.out_w, part = (int)blockIdx.z;
  const GradientByChannel<true> dz = {args.dy, args.y, s.out_c * area, area, s.positions};
  const PatchesByPosition<Element> patches(s, args.x);
  const float scale = factor((const Element *)nullptr, args.scale);
  gemm(shared, dz, s.out_c, patches, patch, s.images * area, args.split, part,
       WeightGradient(args.dw, args.db, args.parts, args.split, part, s.out_c, patch, scale));
}

struct ConvInputGradient {
  static const bool ROW_SUMS = false;
  typedef int Column;  // negative: outside the image
  const ConvInputGradientArgs &args;
  int phase_y, phase_x;

  __device__ __forceinline__ Column column(int n) const {
    const ConvShape &s = args.shape;
    const int image = divide(n, s.cells), rest = n - image * (s.cell_h * s.cell_w), cell = divide(rest, s.cell_width);
    const int y = phase_y + cell * s.stride, x = phase_x + (rest - cell * s.cell_w) * s.stride;
    return y < s.in_h && x < s.in_w ? (image * s.in_c * s.in_h + y) * s.in_w + x : -1;
  }
  __device__ __forceinline__ void put(int channel, Column at, float sum) const {
    if (at >= 0) args.dx[at + channel * args.shape.in_h * args.shape.in_w] = sum;
  }
  __device__ __forceinline__ void put_row_sum(int, float) const {}
};

template <class Arithmetic>
using ConvInputGradientShared = GemmShared<Arithmetic, PhaseWeights, GradientByCell>;

template <class Arithmetic>
__device__ __forceinline__ void conv_input_gradient(ConvInputGradientShared<Arithmetic> &shared,
                                                    const ConvInputGradientArgs &args) {
  const ConvShape &s = args.shape;
  const int phase_y = divide((int)blockIdx.z, s.phase), phase_x = (int)blockIdx.z - phase_y * s.stride;
  const int cells = s.kernel / s.stride, depth = s.out_c * cells * cells;
  const PhaseWeights weights = {s, args.w, phase_y, phase_x};
  const GradientByCell dz = {s, args.dy, args.y};
  const SplitK whole = {1, (depth + CHUNK - 1) / CHUNK};
  gemm(shared, weights, s.in_c, dz, s.images * s.cell_h * s.cell_w, depth, whole, 0,
       ConvInputGradient{args, phase_y, phase_x});
}

#define CONVOLUTIONS(precision, Arithmetic)                                              \
  KERNEL(conv_forward_##precision, ConvForwardArgs, GEMM_THREADS) {                      \
    __shared__ ConvForwardShared<Arithmetic, float> shared;                              \
    conv_forward<Arithmetic, float>(shared, args);                                       \
  }                                                                                      \
  KERNEL(conv_forward_bytes_##precision, ConvForwardArgs, GEMM_THREADS) {                \
    __shared__ ConvForwardShared<Arithmetic, unsigned char> shared;                      \
    conv_forward<Arithmetic, unsigned char>(shared, args);                               \
  }                                                                                      \
  KERNEL(conv_weight_gradient_##precision, ConvWeightGradientArgs, GEMM_THREADS) {       \
    __shared__ ConvWeightGradientShared<Arithmetic, float> shared;                       \
    conv_weight_gradient<Arithmetic, float>(shared, args);                               \
  }                                                                                      \
  KERNEL(conv_weight_gradient_bytes_##precision, ConvWeightGradientArgs, GEMM_THREADS) { \
    __shared__ ConvWeightGradientShared<Arithmetic, unsigned char> shared;               \
    conv_weight_gradient<Arithmetic, unsigned char>(shared, args);                       \
  }                                                                                      \
  KERNEL(conv_input_gradient_##precision, ConvInputGradientArgs, GEMM_THREADS) {         \
    __shared__ ConvInputGradientShared<Arithmetic> shared;                               \
    conv_input_gradient<Arithmetic>(shared, args);                                       \
  }

CONVOLUTIONS(fp32, Fp32)
#if TENSOR_CORES
CONVOLUTIONS(tf32, Tf32)
CONVOLUTIONS(bf16, Bf16)
#endif
