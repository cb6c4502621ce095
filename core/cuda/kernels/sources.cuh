/*
 * The Sources of the layers' matrix products; gemm.cuh documents Source.
 */
#pragma once

#include "gemm.cuh"

// bytes must be a power of two.
__device__ __forceinline__ bool aligned(const void *p, int bytes) {
  return ((unsigned long long)p & (unsigned long long)(bytes - 1)) == 0;
}

__device__ __forceinline__ void load_pair(float (&to)[2], const float *from) {
  const float2 both = *(const float2 *)from;
  to[0] = both.x;
  to[1] = both.y;
}

__device__ __forceinline__ void load_pair(unsigned char (&to)[2], const unsigned char *from) {
  const uchar2 both = *(const uchar2 *)from;
  to[0] = both.x;
  to[1] = both.y;
}

// Matrix is a matrix in memory times a factor. Element (i, k) is at i * row_step + k * depth_step.
template <bool DEPTH>
struct Matrix {
  static const bool ALONG_DEPTH = DEPTH;
  typedef int Row;
  typedef int Depth;
  typedef float Raw;
  const float *from;
  int row_step, depth_step;
  float factor;

  __device__ __forceinline__ Row row(int i) const { return i * row_step; }
  __device__ __forceinline__ Depth depth(int k) const { return k * depth_step; }
  __device__ __forceinline__ void get(Raw &to, Row r, Depth d) const { to = from[r + d]; }
  __device__ __forceinline__ bool paired() const { return depth_step == 1 && row_step % 2 == 0 && aligned(from, 8); }
  __device__ __forceinline__ void pair(Raw (&to)[2], Row r, Depth d) const { load_pair(to, from + (r + d)); }
  __device__ __forceinline__ float value(Raw x) const { return x * factor; }
};

// GradientByChannel is dz, the gradient of a layer's output before the ReLU: dy where y > 0, or dy
// everywhere if y is null. Rows are channels and k are positions of [image][channel][position]. A
// dense layer has one position per image.
template <bool DEPTH>
struct GradientByChannel {
  static const bool ALONG_DEPTH = DEPTH;
  typedef int Row;
  typedef int Depth;
  struct Raw {
    float dy, y;
  };
  const float *dy, *y;
  int image;  // elements per image
  int area;   // positions per image
  Divisor positions;

  __device__ __forceinline__ Row row(int channel) const { return channel * area; }
  __device__ __forceinline__ Depth depth(int k) const {
    const int i = divide(k, positions);
    return i * image + (k - i * area);
  }
  __device__ __forceinline__ void get(Raw &to, Row r, Depth d) const {
    to.dy = dy[r + d];
    to.y = y == nullptr ? 1 : y[r + d];
  }
  __device__ __forceinline__ bool paired() const { return area % 2 == 0 && aligned(dy, 8) && aligned(y, 8); }
  __device__ __forceinline__ void pair(Raw (&to)[2], Row r, Depth d) const {
    float first[2], second[2] = {1, 1};
    load_pair(first, dy + (r + d));
    if (y != nullptr) load_pair(second, y + (r + d));
    to[0] = {first[0], second[0]};
    to[1] = {first[1], second[1]};
  }
  __device__ __forceinline__ float value(Raw x) const { return x.y > 0 ? x.dy : 0; }
};

// GradientByRow is dz of a dense layer. Rows are rows of the batch and k are outputs.
struct GradientByRow {
  static const bool ALONG_DEPTH = true;
  typedef int Row;
  typedef int Depth;
  typedef GradientByChannel<true>::Raw Raw;
  const float *dy, *y;
  int row_step;

  __device__ __forceinline__ Row row(int i) const { return i * row_step; }
  __device__ __forceinline__ Depth depth(int k) const { return k; }
  __device__ __forceinline__ void get(Raw &to, Row r, Depth d) const {
    to.dy = dy[r + d];
    to.y = y == nullptr ? 1 : y[r + d];
  }
  __device__ __forceinline__ bool paired() const { return false; }
  __device__ __forceinline__ void pair(Raw (&)[2], Row, Depth) const {}
  __device__ __forceinline__ float value(Raw x) const { return x.y > 0 ? x.dy : 0; }
};

// Patches are the inputs of a convolution as a matrix of positions and taps. A position is an
// output of any image, and a tap is an input channel, row and column of the kernel.
template <class Element>
struct Patches {
  const ConvShape &s;
  const Element *from;

  __device__ __forceinline__ int position(int i) const {
    const int image = divide(i, s.positions), rest = i - image * (s.out_h * s.out_w);
    const int y = divide(rest, s.width), x = rest - y * s.out_w;
    return (image * s.in_c * s.in_h + y * s.stride) * s.in_w + x * s.stride;
  }
  __device__ __forceinline__ int tap(int k) const {
    const int channel = divide(k, s.taps), rest = k - channel * (s.kernel * s.kernel);
    const int y = divide(rest, s.side), x = rest - y * s.kernel;
    return (channel * s.in_h + y) * s.in_w + x;
  }
  __device__ __forceinline__ void get(Element &to, int r, int d) const { to = from[r + d]; }
  __device__ __forceinline__ float value(Element x) const { return x; }
};

// PatchesByTap is for forward passes: rows are positions and k are taps.
template <class Element>
struct PatchesByTap : Patches<Element> {
  static const bool ALONG_DEPTH = true;
  typedef int Row;
  typedef int Depth;
  typedef Element Raw;
  __device__ __forceinline__ PatchesByTap(const ConvShape &s, const void *x)
      : Patches<Element>{s, (const Element *)x} {}
  __device__ __forceinline__ Row row(int i) const { return this->position(i); }
  __device__ __forceinline__ Depth depth(int k) const { return this->tap(k); }
  __device__ __forceinline__ bool paired() const {
    const ConvShape &s = this->s;
    return s.kernel % 2 == 0 && s.stride % 2 == 0 && s.in_w % 2 == 0 && aligned(this->from, 2 * sizeof(Element));
  }
  __device__ __forceinline__ void pair(Raw (&to)[2], Row r, Depth d) const { load_pair(to, this->from + (r + d)); }
};

// PatchesByPosition is for weight gradients: rows are taps and k are positions.
template <class Element>
struct PatchesByPosition : Patches<Element> {
  static const bool ALONG_DEPTH = false;
  typedef int Row;
  typedef int Depth;
  typedef Element Raw;
  __device__ __forceinline__ PatchesByPosition(const ConvShape &s, const void *x)
      : Patches<Element>{s, (const Element *)x} {}
  __device__ __forceinline__ Row row(int i) const { return this->tap(i); }
  __device__ __forceinline__ Depth depth(int k) const { return this->position(k); }
};

/*
 * The gradient of a convolution's input. Consider an input in row y = phase_y + stride * cell_y. The
 * outputs in rows cell_y - j that exist multiply it by the taps in rows phase_y + stride * j. Columns
 * are treated likewise. So the gradients of one phase are a product over k = (output channel, j_y,
 * j_x). PhaseWeights has the weights of one phase; its rows are input channels.
 */
struct PhaseWeights {
  static const bool ALONG_DEPTH = true;
  typedef int Row;
  typedef int Depth;
  typedef float Raw;
  const ConvShape &s;
  const float *w;
  int phase_y, phase_x;

  __device__ __forceinline__ Row row(int channel) const { return channel * s.kernel * s.kernel; }
  __device__ __forceinline__ Depth depth(int k) const {
    const int cells = s.kernel / s.stride, o = divide(k, s.cell_taps), rest = k - o * cells * cells;
    const int y = divide(rest, s.cell_side), x = rest - y * cells;
    return (o * s.in_c * s.kernel + phase_y + y * s.stride) * s.kernel + phase_x + x * s.stride;
  }
  __device__ __forceinline__ void get(Raw &to, Row r, Depth d) const { to = w[r + d]; }
  __device__ __forceinline__ bool paired() const { return false; }
  __device__ __forceinline__ void pair(Raw (&)[2], Row, Depth) const {}
  __device__ __forceinline__ float value(Raw x) const { return x; }
};

// GradientByCell is dz for input gradients: rows are cells of all images. Elements of outputs that
// do not exist stay 0.
struct GradientByCell {
  static const bool ALONG_DEPTH = false;
  struct Row {
    int at, y, x;
  };
  typedef Row Depth;
  typedef GradientByChannel<true>::Raw Raw;
  const ConvShape &s;
  const float *dy, *y;

  __device__ __forceinline__ Row row(int i) const {
    const int image = divide(i, s.cells), rest = i - image * (s.cell_h * s.cell_w);
    const int y = divide(rest, s.cell_width), x = rest - y * s.cell_w;
    return {(image * s.out_c * s.out_h + y) * s.out_w + x, y, x};
  }
  __device__ __forceinline__ Depth depth(int k) const {
    const int cells = s.kernel / s.stride, o = divide(k, s.cell_taps), rest = k - o * cells * cells;
    const int y = divide(rest, s.cell_side), x = rest - y * cells;
    return {(o * s.out_h - y) * s.out_w - x, y, x};
  }
  __device__ __forceinline__ void get(Raw &to, const Row &r, const Depth &d) const {
    if ((unsigned)(r.y - d.y) >= (unsigned)s.out_h || (unsigned)(r.x - d.x) >= (unsigned)s.out_w) return;
    to.dy = dy[r.at + d.at];
    to.y = y == nullptr ? 1 : y[r.at + d.at];
  }
  __device__ __forceinline__ float value(Raw x) const { return x.y > 0 ? x.dy : 0; }
};
