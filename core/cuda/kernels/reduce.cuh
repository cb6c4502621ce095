/*
 * Sums over the threads of a block, in a fixed order, and the end of a grid.
 */
#pragma once

#include "kernel.cuh"

// Every thread's own number, added up half by half; all threads get the sum. The memory may
// be used again after the call.
template <class Number, int THREADS>
__device__ __forceinline__ Number block_sum(Number (&shared)[THREADS], Number own) {
  const int thread = (int)threadIdx.x;
  __syncthreads();  // the call before has been read
  shared[thread] = own;
  UNROLL
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) shared[thread] += shared[thread + half];
  }
  __syncthreads();
  return shared[0];
}

// Whether this block is the last of the grid to come here; it sees what the first threads of the others wrote before
// that, where it reads it as volatile. All threads get the answer. *arrived is 0 before the launch, and after it again.
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
