/*
 * Exponential, logarithm and hyperbolic tangent: the same operations as in core/kernel/losses.h,
 * for the same bits. losses.h explains the constants.
 */
#pragma once

#include "kernel.cuh"

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7F800000u); }

__device__ __forceinline__ float power_of_two(int k) { return __uint_as_float((unsigned)(k + 127) << 23); }

__device__ __forceinline__ float exponential(float x) {
  const float whole = 0x1.8p23f;  // adding it rounds to a whole number
  const float t = x * 0x1.715476p0f + whole, n = t - whole;
  const float r = (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
  float q = 0x1.6a4f88p-10f;
  q = q * r + 0x1.123988p-7f;
  q = q * r + 0x1.5558aep-5f;
  q = q * r + 0x1.555492p-3f;
  q = q * r + 0x1.fffffcp-2f;
  const float p = (r * r * q + r) + 1;
  if (x != x) return x;
  if (x < -0x1.5d589ep6f) return 0;
  if (x > 0x1.62e42ep6f) return infinity();
  const int k = (int)(__float_as_uint(t) - __float_as_uint(whole)), half = k >> 1;
  return p * power_of_two(half) * power_of_two(k - half);
}

__device__ __forceinline__ float logarithm(float x) {
  const unsigned b = __float_as_uint(x), root_half = 0x3F3504F3;
  if (x != x) return x;
  if ((b & 0x7F800000) == 0) return -infinity();
  if (x < 0) return __uint_as_float(0x7FC00000u);
  if (b == 0x7F800000) return x;
  const unsigned from_root = b - root_half;
  const float n = (float)((int)from_root >> 23);
  const float f = __uint_as_float((from_root & 0x7FFFFF) + root_half) - 1, ff = f * f;
  float q = -0x1.38c9dep-4f;
  q = q * f + 0x1.055ec6p-3f;
  q = q * f + -0x1.0d8242p-3f;
  q = q * f + 0x1.22d92ep-3f;
  q = q * f + -0x1.54728ap-3f;
  q = q * f + 0x1.99a01cp-3f;
  q = q * f + -0x1.000226p-2f;
  q = q * f + 0x1.555554p-2f;
  float y = q * f * ff + n * -0x1.bd0106p-13f;
  y = f + (y - 0.5f * ff);
  return y + n * 0x1.63p-1f;
}

__device__ __forceinline__ float hyperbolic_tangent(float x) {
  const unsigned sign = __float_as_uint(x) & 0x80000000u;
  const float a = __uint_as_float(__float_as_uint(x) & 0x7FFFFFFFu), aa = a * a;
  float q = -0x1.750ce4p-8f;
  q = q * aa + 0x1.51f8cep-6f;
  q = q * aa + -0x1.b835a4p-5f;
  q = q * aa + 0x1.1106f6p-3f;
  q = q * aa + -0x1.555532p-2f;
  if (x != x) return x;
  const float y = a < 0.625f ? q * aa * a + a : 1 - 2 / (exponential(a + a) + 1);
  return __uint_as_float(__float_as_uint(y) | sign);
}
