/*
 * Sums over the threads of a block, in a fixed order.
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
