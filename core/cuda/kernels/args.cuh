/*
 * The arguments of the kernels, one struct each. core/cuda/args.go mirrors them field by
 * field (TestArgs compares sizes and offsets), core/cuda/geometry.go fills in what follows
 * from a shape. A pointer that says "or null" may be null; all others are set.
 *
 * No array has 2^31 elements or more: geometry.go refuses the shape.
 */
#pragma once

// Divisor divides numbers of 31 bits by a constant that only the host knows: by a product
// and a shift, as Granlund and Montgomery 1994 show.
struct Divisor {
  unsigned by, magic, shift;
};

// How the k of a product are cut: each warp of a block sums every fourth chunk of its part,
// and each part is summed by blocks of its own (gemm.cuh).
struct Cut {
  int parts;   // 1 or more
  int chunks;  // of a part; the last one may have fewer
};

// ConvShape is core/kernel's Conv, planar, for so many images.
struct ConvShape {
  int images, in_c, in_h, in_w, out_c, out_h, out_w, kernel, stride;
  Divisor positions;  // out_h * out_w
  Divisor width;      // out_w
  Divisor taps;       // kernel * kernel
  Divisor side;       // kernel
  // A kernel is 2 or 3 cells of stride * stride wide; an image, rounded up, cell_h x cell_w.
  int cell_h, cell_w;
  Divisor cells;       // cell_h * cell_w
  Divisor cell_width;  // cell_w
  Divisor cell_taps;   // (kernel / stride) squared
  Divisor cell_side;   // kernel / stride
  Divisor phase;       // stride
};

// y = act(conv(x scale, w) + b)
struct ConvForwardArgs {
  ConvShape shape;
  const void *x;  // float, or bytes where the kernel's name says so
  const float *w, *b;
  float *y;
  float scale;  // of bytes; not read elsewhere
  int relu;
};

// dw and db from x and the gradient of y. With cut.parts above 1 each part goes to parts,
// [parts][weights and biases], for weight_gradient_sum.
struct ConvWeightGradientArgs {
  ConvShape shape;
  const void *x;
  const float *dy;
  const float *y;  // or null: no ReLU
  float *dw, *db;
  float *parts;  // or null
  Cut cut;
  float scale;
};

struct ConvInputGradientArgs {
  ConvShape shape;
  const float *w, *dy;
  const float *y;  // or null: no ReLU
  float *dx;
};

// y = act(x w' + b), x [rows, in], w [out, in]. With cut.parts above 1 each part of the
// sums goes to parts, [parts][rows, out], for dense_forward_sum.
struct DenseForwardArgs {
  int rows, in, out, relu;
  const float *x, *w, *b;
  float *y;
  float *parts;  // or null
  Cut cut;
};

struct DenseForwardSumArgs {
  int rows, out, relu, count;  // count: of the parts
  Divisor width;               // out
  const float *parts, *b;
  float *y;
};

struct DenseWeightGradientArgs {
  int rows, in, out;
  const float *x, *dy;
  const float *y;  // or null: no ReLU
  float *dw, *db;
  float *parts;  // or null
  Cut cut;
};

struct DenseInputGradientArgs {
  int rows, in, out;
  const float *w, *dy;
  const float *y;  // or null: no ReLU
  float *dx;
};

// dw = scale * the sum of the parts' first `weights` numbers, db that of the `biases` behind them.
struct WeightGradientSumArgs {
  int weights, biases, count;
  float scale;
  const float *parts;
  float *dw, *db;
};
