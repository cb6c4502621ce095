/*
 * The common header of all kernels. NVRTC compiles the kernels for the GPU, as C++17 without other
 * headers. For tests the host's compiler compiles them after core/cuda/software/shim.h. NVRTC gets
 * --fmad=false: each operation except multiply_add is rounded separately, as in core/kernel.
 * Denormals are flushed to zero.
 *
 * Determinism: the same arguments give the same bits. No atomic operation adds floating-point
 * numbers. Sums are split by constants of the shape and added in a fixed order.
 *
 * Every kernel takes one struct of args.cuh by value. KERNEL takes the kernel's name, the struct,
 * and the number of threads per block, which is always exactly this number.
 */
#pragma once

#ifndef KERNEL
#define KERNEL(name, Args, threads) \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Args args)

// Tensor cores multiply tf32 and bf16 on sm_80 and newer chips.
#define TENSOR_CORES (__CUDA_ARCH__ >= 800)
#endif

#define UNROLL _Pragma("unroll")

const int WARP_THREADS = 32;

// NaN stays NaN: it is not below zero.
__device__ __forceinline__ float relu(float x) { return x < 0 ? 0 : x; }

// The first element of a thread in a one-dimensional grid, and the distance to its next element.
__device__ __forceinline__ int first_element() { return (int)(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ __forceinline__ int element_step() { return (int)(gridDim.x * blockDim.x); }
