/*
 * The Output of the products that compute weight gradients.
 */
#pragma once

#include "sources.cuh"

// WeightGradient stores the gradients of a layer's weights [out, in] and biases: in dw and db, or
// in `parts` if the split has several parts.
struct WeightGradient {
  static const bool ROW_SUMS = true;
  typedef int Column;
  float *dw, *db;
  int in;
  float scale;

  __device__ __forceinline__ WeightGradient(float *dw, float *db, float *parts, const SplitK &split, int part, int out,
                                            int in, float scale)
      : dw(dw), db(db), in(in), scale(scale) {
    if (split.parts == 1) return;
    this->dw = parts + (long long)part * (out * in + out);
    this->db = this->dw + out * in;
    this->scale = 1;
  }
  __device__ __forceinline__ Column column(int n) const { return n; }
  __device__ __forceinline__ void put(int o, Column n, float sum) const { dw[o * in + n] = sum * scale; }
  __device__ __forceinline__ void put_row_sum(int o, float sum) const { db[o] = sum; }
};
