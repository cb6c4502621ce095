/*
 * Instructions that CUDA C has no functions for: rounding to tf32 and bf16, and a warp's matrix
 * products on tensor cores. software/shim.h has the same functions for the host.
 */
#pragma once

#include "kernel.cuh"

#ifndef PACELINE_SOFTWARE_SHIM_H

__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }

#if TENSOR_CORES

// Rounds to 11 significant bits: to nearest, ties away from zero.
__device__ __forceinline__ unsigned round_tf32(float x) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
}

// Rounds two numbers to bfloat16: to nearest, ties to even. low gets the lower half of the word.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// c += a b, computed by a warp: A is 16 x 8, B is 8 x 8.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// c += a b, computed by a warp: A is 16 x 16, B is 16 x 8. A word has two numbers adjacent in k.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
#endif
