/*
 * What every kernel starts from. The text of the kernels is compiled by NVRTC for the GPU,
 * in C++17 without headers of others, and by the host's compiler behind
 * core/cuda/software/shim.h for tests. It is compiled with --fmad=false: each operation is
 * rounded by itself, as core/kernel does it, but for multiply_add. Denormals are zero.
 *
 * Determinism: the same arguments give the same bits. No floating-point number is added by
 * an atomic operation; what is added up is cut by constants of the shape and added in a
 * fixed order.
 *
 * Every kernel takes one struct of args.cuh by value. KERNEL names it, the struct, and the
 * threads of a block, of which there are always exactly so many.
 */
#pragma once

#ifndef KERNEL
#define KERNEL(name, Args, threads) \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Args args)

// Tensor cores multiply tf32 and bf16 from this chip on.
#define TENSOR_CORES (__CUDA_ARCH__ >= 800)
#endif

#define UNROLL _Pragma("unroll")

const int WARP_THREADS = 32;

// A number below the smallest positive one is not above zero: NaN is not, too.
__device__ __forceinline__ float relu(float x) { return x < 0 ? 0 : x; }

// The first element that a thread of a grid of one axis has, and how far the next one is.
__device__ __forceinline__ int first_element() { return (int)(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ __forceinline__ int element_step() { return (int)(gridDim.x * blockDim.x); }
