/*
 * The part of CUDA C that the kernels use, for the host's compiler. The same kernel sources compile
 * for the CPU, so that tests run them on machines without a GPU.
 *
 * One block runs at a time. Its threads run concurrently, as fibers on the calling thread or as
 * system threads (block.cpp). So __shared__ memory is static memory here. It lies in its own
 * section, which is filled with NaN before each block, so that tests notice reads of uninitialised
 * memory.
 *
 * Arithmetic is the host's: each operation is rounded separately and denormals are flushed to zero,
 * as on the GPU. The only difference is multiply_add, which is fused on the GPU and not here.
 */
#ifndef PACELINE_SOFTWARE_SHIM_H
#define PACELINE_SOFTWARE_SHIM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __forceinline__ inline
#define __shared__ static __attribute__((section("paceline_shared")))

struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(2) uchar2 {
  unsigned char x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y) { return {x, y}; }

namespace software {

enum { WARP = 32, MOST_THREADS = 1024 };

struct Warp;

// Thread is one CUDA thread of the block that runs.
struct Thread {
  uint3 index;
  int lane;
  Warp *warp;
};

// Grid has the blocks of the grid, the threads per block, and the index of the current block.
struct Grid {
  uint3 blocks, threads, block;
};

extern thread_local Thread *current;
extern Grid grid;

void block_barrier();
void warp_barrier();

// Every lane of a warp passes `bytes` bytes, at most 32, and gets the bytes of all lanes. They are
// valid until the next barrier of the warp.
const unsigned char (*exchange(const void *own, size_t bytes))[32];

// Kernel is an entry in the list of kernels. KERNEL adds entries.
struct Kernel {
  const char *name;
  size_t arg_bytes;
  unsigned threads;  // per block
  void (*call)(const void *args);
  const Kernel *next;
  Kernel(const char *name, size_t arg_bytes, unsigned threads, void (*call)(const void *));
};

const Kernel *find_kernel(const char *name);

// Whether PACELINE_SOFTWARE_ORDER is "reverse".
bool reversed();

// Runs every block of a grid.
void launch(const Kernel &kernel, uint3 blocks, uint3 threads, const void *args);

}  // namespace software

#define threadIdx (software::current->index)
#define blockIdx (software::grid.block)
#define blockDim (software::grid.threads)
#define gridDim (software::grid.blocks)

inline void __syncthreads() { software::block_barrier(); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline unsigned atomicAdd(unsigned *to, unsigned value) { return __atomic_fetch_add(to, value, __ATOMIC_SEQ_CST); }

inline void __syncwarp() { software::warp_barrier(); }

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  T got;
  memcpy(&got, software::exchange(&value, sizeof value)[lane & 31], sizeof got);
  software::warp_barrier();
  return got;
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync(mask, value, software::current->lane ^ lanes);
}

inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
inline unsigned __float_as_uint(float x) {
  unsigned b;
  memcpy(&b, &x, sizeof b);
  return b;
}
inline float __uint_as_float(unsigned b) {
  float x;
  memcpy(&x, &b, sizeof x);
  return x;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

// The prefix avoids clashes with functions of the host's libraries, such as select.
#define KERNEL(name, Args, threads)                                                                                    \
  static void run_##name(const Args args);                                                                             \
  static const software::Kernel kernel_##name(#name, sizeof(Args), threads,                                            \
                                              [](const void *args) { run_##name(*static_cast<const Args *>(args)); }); \
  static void run_##name(const Args args)

// ------------------------------------------------------- tensor cores (kernels/mma.cuh)

#define TENSOR_CORES 1

inline float multiply_add(float a, float b, float c) { return a * b + c; }

// Rounds to 11 significant bits: to nearest, ties away from zero.
inline unsigned round_tf32(float x) {
  const unsigned b = __float_as_uint(x);
  return x != x ? b : (b + 0x1000) & ~0x1FFFu;
}

inline unsigned round_bf16(float x) {
  const unsigned b = __float_as_uint(x);
  return x != x ? b >> 16 | 0x40 : (b + 0x7FFF + (b >> 16 & 1)) >> 16;
}

// Rounds two numbers to bfloat16: to nearest, ties to even. low gets the lower half of the word.
inline unsigned pack_bf16(float low, float high) { return round_bf16(high) << 16 | round_bf16(low); }

namespace software {

/*
 * The fragments of a warp's product, from the tables of the PTX manual (mma.m16n8k8 with .tf32,
 * mma.m16n8k16 with .bf16). With group = lane / 4 and inner = lane % 4, register i of a lane holds
 *
 *	of A [16][K]  row group (i even) or group + 8 (i odd), columns from `inner` of the first half
 *	              (i < 2) or of the second half (i >= 2)
 *	of B [K][8]   column group
 */
template <int HALVES, class Element>
void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], Element element) {
  unsigned own[8] = {a[0], a[1], a[2], a[3], b[0], b[1], 0, 0};
  const auto *of = exchange(own, sizeof own);
  const auto word = [&](int lane, int i) {
    unsigned w;
    memcpy(&w, of[lane] + 4 * i, sizeof w);
    return w;
  };
  const int group = current->lane / 4, inner = current->lane % 4;
  float sums[4];
  for (int i = 0; i < 4; i++) {
    const int column = 2 * inner + i % 2;
    float sum = 0;
    for (int half = 0; half < 2; half++)
      for (int k = 0; k < 4; k++)
        for (int part = 0; part < HALVES; part++)
          sum += element(word(4 * group + k, 2 * half + i / 2), part) * element(word(4 * column + k, 4 + half), part);
    sums[i] = sum;
  }
  warp_barrier();
  for (int i = 0; i < 4; i++) c[i] += sums[i];
}

}  // namespace software

inline void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  software::mma<1>(c, a, b, [](unsigned word, int) { return __uint_as_float(word); });
}

inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  software::mma<2>(c, a, b, [](unsigned word, int part) { return __uint_as_float(word >> 16 * part << 16); });
}

#endif
