/*
 * Where the gradients of a layer's weights and biases go.
 */
#pragma once

#include "sources.cuh"

// WeightGradient is where the gradients of a layer's weights [out, in] and biases go: to
// dw and db, or to a part's place.
struct WeightGradient {
  static const bool ROW_SUMS = true;
  typedef int Column;
  float *dw, *db;
  int in;
  float scale;

  __device__ __forceinline__ WeightGradient(float *dw, float *db, float *parts, const Cut &cut, int part, int out,
                                            int in, float scale)
      : dw(dw), db(db), in(in), scale(scale) {
    if (cut.parts == 1) return;
    this->dw = parts + (long long)part * (out * in + out);
    this->db = this->dw + out * in;
    this->scale = 1;
  }
  __device__ __forceinline__ Column column(int n) const { return n; }
  __device__ __forceinline__ void put(int o, Column n, float sum) const { dw[o * in + n] = sum * scale; }
  __device__ __forceinline__ void put_row_sum(int o, float sum) const { db[o] = sum; }
};
