/*
 * Sums over the threads of a block, in a fixed order, and finding the last block of a grid.
 */
#pragma once

#include "kernel.cuh"

// Returns the sum of the threads' numbers to all threads, added up as a binary tree. The next call
// may use the same memory.
template <class Number, int THREADS>
__device__ __forceinline__ Number block_sum(Number (&shared)[THREADS], Number own) {
  const int thread = (int)threadIdx.x;
  __syncthreads();  // all threads have read the previous call's sum
  shared[thread] = own;
  UNROLL
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) shared[thread] += shared[thread + half];
  }
  __syncthreads();
  return shared[0];
}

// Returns to all threads of a block whether it is the last block of the grid to call this. The last
// block sees everything that thread 0 of the other blocks wrote before the call, if it reads
// through volatile pointers. *arrived must be 0 before the launch, and is 0 again after it.
__device__ __forceinline__ bool is_last_block(unsigned (&shared)[1], unsigned *arrived) {
  if (threadIdx.x == 0) {
    __threadfence();
    shared[0] = atomicAdd(arrived, 1u) == gridDim.x - 1;
    if (shared[0]) *arrived = 0;
    __threadfence();
  }
  __syncthreads();
  return shared[0] != 0;
}
