/*
 * The matrix product C = A B of all convolutions and dense layers. A, B and C are never stored as
 * matrices: a Source locates the elements of A or B in memory, an Output stores the elements of C.
 *
 * A block computes a tile of 32 x 32 elements of C. The sum over k is split into chunks of 16, and
 * each of the 4 warps takes every fourth chunk. For its chunks a warp computes the whole tile, with
 * its own stages in shared memory, so it needs no barrier of the block before the end. Then the
 * four sums are added in the order of the warps. Layers of a minibatch of 32 are small: this way
 * every warp has loads in flight. Tiles large enough to be bound by arithmetic would leave most of
 * the GPU idle.
 *
 * If there are few tiles and many k, the chunks are first split into parts (split-K). The blocks of
 * a part (blockIdx.z) write their sums to the memory of this part, and a second kernel adds up the
 * parts in order. The split follows from the shape alone (geometry.go). In forward passes and input
 * gradients it does not depend on the number of rows, so a row has the same bits in any batch.
 *
 * The address of a Source's element is row(i) + depth(k), which suits convolutions without padding.
 * A Source may also leave out elements. It has
 *
 *	typedef Row, Depth       the part of an address that depends on i, or on k
 *	typedef Raw              an element before conversion; a register holds it while the previous
 *	                         chunk is multiplied
 *	ALONG_DEPTH              adjacent lanes read adjacent k, otherwise adjacent rows
 *	Row row(i), Depth depth(k)
 *	void get(Raw &, row, depth)
 *	bool paired()            elements of k = 2j and 2j + 1 are adjacent and aligned as a pair
 *	void pair(Raw (&)[2], row, depth)     only called if ALONG_DEPTH
 *	float value(Raw)
 *
 * Rows after the last one repeat the last row; their results are not stored.
 */
#pragma once

#include "args.cuh"
#include "mma.cuh"

const int TILE = 32;          // rows, and columns, of C that a block computes
const int CHUNK = 16;         // k that a warp stages at a time
const int PAIRS = CHUNK / 2;  // pair p of a chunk is k = 2p and 2p + 1
const int WARPS = 4;          // per block
const int GEMM_THREADS = WARPS * WARP_THREADS;
const int STAGE_WIDTH = 40;  // words per k of a stage: the lanes of a fragment read from 32 banks

__device__ __forceinline__ int divide(int n, const Divisor &d) {
  return (int)((__umulhi((unsigned)n, d.magic) + (unsigned)n) >> d.shift);
}

// ------------------------------------------------------------- arithmetics

// Stage is a chunk of one operand in shared memory, as words [k][row]. The numbers of pair p lie at
// p and p + 8, or as one word of two bfloat16 at p: any fixed order of summation is allowed. Stages
// are aligned for loads of four words.
template <class Word>
struct alignas(16) Stage {
  Word at[CHUNK][STAGE_WIDTH];
};

// Fp32 sums the k of a chunk in the order 0, 2 ... 14, 1, 3 ... 15. A lane has 4 x 8 elements of C.
struct Fp32 {
  typedef float Word;
  float sums[4][8];

  __device__ __forceinline__ Fp32() {
    UNROLL
    for (int i = 0; i < 4; i++) UNROLL
    for (int j = 0; j < 8; j++) sums[i][j] = 0;
  }
  __device__ __forceinline__ static void put(Stage<Word> &to, int p, int row, float first, float second) {
    to.at[p][row] = first;
    to.at[p + PAIRS][row] = second;
  }
  __device__ __forceinline__ void multiply(const Stage<Word> &a, const Stage<Word> &b, int lane) {
    const int m = lane / 4 * 4, n = lane % 4 * 4;
    UNROLL
    for (int k = 0; k < CHUNK; k++) {
      const float4 x = *(const float4 *)&a.at[k][m], y = *(const float4 *)&b.at[k][n];
      const float4 z = *(const float4 *)&b.at[k][n + 16];
      const float left[4] = {x.x, x.y, x.z, x.w}, right[8] = {y.x, y.y, y.z, y.w, z.x, z.y, z.z, z.w};
      UNROLL
      for (int i = 0; i < 4; i++) UNROLL
      for (int j = 0; j < 8; j++) sums[i][j] = multiply_add(left[i], right[j], sums[i][j]);
    }
  }
  __device__ __forceinline__ void store(float (*to)[TILE + 1], int lane) const {
    const int m = lane / 4 * 4, n = lane % 4 * 4;
    UNROLL
    for (int i = 0; i < 4; i++) UNROLL
    for (int j = 0; j < 8; j++) to[m + i][n + j % 4 + j / 4 * 16] = sums[i][j];
  }
};

#if TENSOR_CORES

// TensorCores is the common part of tf32 and bf16: fragments of 16 rows of A and 8 columns of B.
// The words of a stage have the same layout in both.
template <class Kind>
struct TensorCores {
  typedef unsigned Word;
  float sums[2][4][4];

  __device__ __forceinline__ TensorCores() {
    UNROLL
    for (int i = 0; i < 2 * 4 * 4; i++) sums[i / 16][i / 4 % 4][i % 4] = 0;
  }
  __device__ __forceinline__ static void put(Stage<Word> &to, int p, int row, float first, float second) {
    Kind::put(to, p, row, first, second);
  }
  __device__ __forceinline__ void multiply(const Stage<Word> &a, const Stage<Word> &b, int lane) {
    const int group = lane / 4, inner = lane % 4;
    UNROLL
    for (int first = 0; first < Kind::WORDS; first += 8) {
      const int k = first + inner;
      unsigned right[4][2];
      UNROLL
      for (int j = 0; j < 4; j++) {
        right[j][0] = b.at[k][8 * j + group];
        right[j][1] = b.at[k + 4][8 * j + group];
      }
      UNROLL
      for (int i = 0; i < 2; i++) {
        const int m = 16 * i + group;
        const unsigned left[4] = {a.at[k][m], a.at[k][m + 8], a.at[k + 4][m], a.at[k + 4][m + 8]};
        UNROLL
        for (int j = 0; j < 4; j++) Kind::mma(sums[i][j], left, right[j]);
      }
    }
  }
  __device__ __forceinline__ void store(float (*to)[TILE + 1], int lane) const {
    const int group = lane / 4, inner = lane % 4;
    UNROLL
    for (int i = 0; i < 2; i++) UNROLL
    for (int j = 0; j < 4; j++) UNROLL
    for (int c = 0; c < 4; c++) to[16 * i + group + c / 2 * 8][8 * j + 2 * inner + c % 2] = sums[i][j][c];
  }
};

struct Tf32Kind {
  static const int WORDS = CHUNK;  // words per row of a stage: two products of 8 k
  __device__ __forceinline__ static void put(Stage<unsigned> &to, int p, int row, float first, float second) {
    to.at[p][row] = round_tf32(first);
    to.at[p + PAIRS][row] = round_tf32(second);
  }
  __device__ __forceinline__ static void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    mma_tf32(c, a, b);
  }
};

struct Bf16Kind {
  static const int WORDS = PAIRS;  // one product of 16 k
  __device__ __forceinline__ static void put(Stage<unsigned> &to, int p, int row, float first, float second) {
    to.at[p][row] = pack_bf16(first, second);
  }
  __device__ __forceinline__ static void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    mma_bf16(c, a, b);
  }
};

typedef TensorCores<Tf32Kind> Tf32;
typedef TensorCores<Bf16Kind> Bf16;

#endif

// ------------------------------------------------------------------ loading

/*
 * Loader loads one operand's chunks into a warp's stage: fetch starts the loads of a chunk, put
 * waits for the loads and writes the stage. A lane loads 8 pairs of k: of one row if adjacent lanes
 * have adjacent rows, of 8 rows if adjacent lanes have adjacent k.
 */
template <class Source, bool ALONG_DEPTH = Source::ALONG_DEPTH>
struct Loader;

// Adjacent lanes have adjacent k: lane l has pair l % 8 of the rows l / 8 + 4i.
template <class Source>
struct Loader<Source, true> {
  struct Table {};  // unused: each lane computes Depth for its two k
  typename Source::Row rows[8];
  typename Source::Raw held[8][2];
  float sums[8];  // per row
  bool paired;

  __device__ __forceinline__ void start(const Source &from, int first, int count, int lane) {
    paired = from.paired();
    UNROLL
    for (int i = 0; i < 8; i++) {
      rows[i] = from.row(min(first + lane / 8 + 4 * i, count - 1));
      sums[i] = 0;
    }
  }
  __device__ __forceinline__ void prepare(const Source &, Table &, int, int, int) const {}
  __device__ __forceinline__ void fetch(const Source &from, const Table &, int first_k, int depth, int lane) {
    const int k = first_k + lane % 8 * 2;
    UNROLL
    for (int i = 0; i < 8; i++) held[i][0] = held[i][1] = typename Source::Raw();
    if (k >= depth) return;
    const typename Source::Depth d = from.depth(k);
    if (paired) {
      UNROLL
      for (int i = 0; i < 8; i++) from.pair(held[i], rows[i], d);
      return;
    }
    UNROLL
    for (int i = 0; i < 8; i++) from.get(held[i][0], rows[i], d);
    if (k + 1 >= depth) return;
    const typename Source::Depth e = from.depth(k + 1);
    UNROLL
    for (int i = 0; i < 8; i++) from.get(held[i][1], rows[i], e);
  }
  template <class Arithmetic>
  __device__ __forceinline__ void put(const Source &from, Stage<typename Arithmetic::Word> &to, int lane) {
    UNROLL
    for (int i = 0; i < 8; i++) {
      const float first = from.value(held[i][0]), second = from.value(held[i][1]);
      sums[i] += first + second;
      Arithmetic::put(to, lane % 8, lane / 8 + 4 * i, first, second);
    }
  }
  // Stores the sum of each row over all chunks of this warp.
  __device__ __forceinline__ void store_sums(float (&to)[TILE], int lane) const {
    UNROLL
    for (int i = 0; i < 8; i++) {
      float sum = sums[i];
      UNROLL
      for (int lanes = 1; lanes < 8; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
      if (lane % 8 == 0) to[lane / 8 + 4 * i] = sum;
    }
  }
};

// Adjacent lanes have adjacent rows: lane l has row l and all pairs. The lanes share a table of
// Depth, in which each lane computes the entry of one k.
template <class Source>
struct Loader<Source, false> {
  struct Table {
    typename Source::Depth at[CHUNK];
  };
  typename Source::Row own;
  typename Source::Raw held[PAIRS][2];
  float sum;

  __device__ __forceinline__ void start(const Source &from, int first, int count, int lane) {
    own = from.row(min(first + lane, count - 1));
    sum = 0;
  }
  __device__ __forceinline__ void prepare(const Source &from, Table &table, int first_k, int depth, int lane) const {
    if (lane < CHUNK && first_k + lane < depth) table.at[lane] = from.depth(first_k + lane);
  }
  __device__ __forceinline__ void fetch(const Source &from, const Table &table, int first_k, int depth, int) {
    UNROLL
    for (int k = 0; k < CHUNK; k++) {
      held[k / 2][k % 2] = typename Source::Raw();
      if (first_k + k < depth) from.get(held[k / 2][k % 2], own, table.at[k]);
    }
  }
  template <class Arithmetic>
  __device__ __forceinline__ void put(const Source &from, Stage<typename Arithmetic::Word> &to, int lane) {
    UNROLL
    for (int p = 0; p < PAIRS; p++) {
      const float first = from.value(held[p][0]), second = from.value(held[p][1]);
      sum += first + second;
      Arithmetic::put(to, p, lane, first, second);
    }
  }
  __device__ __forceinline__ void store_sums(float (&to)[TILE], int lane) const { to[lane] = sum; }
};

// ------------------------------------------------------------- the product

// GemmShared is a block's shared memory: 20 KB of stages, which 17 KB of sums overwrite at the end.
template <class Arithmetic, class A, class B>
struct GemmShared {
  union {
    struct {
      Stage<typename Arithmetic::Word> a, b;
    } stage[WARPS];
    float sums[WARPS][TILE][TILE + 1];
  };
  struct {
    typename Loader<A>::Table a;
    typename Loader<B>::Table b;
  } table[WARPS];
  float row_sums[WARPS][TILE];  // of A
};

/*
 * Computes the block's tile of C over the k of part `part`. The tile starts at row 32 blockIdx.y
 * and column 32 blockIdx.x; a column of C is a row of the Source B. An Output has
 *
 *	typedef Column           the part of an address that depends on the column
 *	Column column(n)
 *	void put(m, column, sum)
 *	ROW_SUMS                 also sum the rows of A
 *	void put_row_sum(m, sum) the sum of row m of A over k; only the blocks of the first column call
 *	                         it, and only if ROW_SUMS
 */
template <class Arithmetic, class A, class B, class Output>
__device__ __forceinline__ void gemm(GemmShared<Arithmetic, A, B> &shared, const A &a, int rows, const B &b,
                                     int columns, int depth, const SplitK &split, int part, const Output &output) {
  // The unsigned remainder and the shuffle tell the compiler that lane is not negative, and that
  // all lanes of a warp have the same `warp`.
  const int thread = (int)threadIdx.x, lane = (int)(threadIdx.x % (unsigned)WARP_THREADS);
  const int warp = __shfl_sync(~0u, thread / WARP_THREADS, 0);
  const int first_m = (int)blockIdx.y * TILE, first_n = (int)blockIdx.x * TILE;
  const int all = (depth + CHUNK - 1) / CHUNK, last = min((part + 1) * split.chunks, all);
  auto &stage = shared.stage[warp];
  auto &table = shared.table[warp];
  Arithmetic arithmetic;
  Loader<A> left;
  Loader<B> right;
  left.start(a, first_m, rows, lane);
  right.start(b, first_n, columns, lane);

  int chunk = part * split.chunks + warp;
  if (chunk < last) {
    left.prepare(a, table.a, chunk * CHUNK, depth, lane);
    right.prepare(b, table.b, chunk * CHUNK, depth, lane);
    __syncwarp();
    left.fetch(a, table.a, chunk * CHUNK, depth, lane);
    right.fetch(b, table.b, chunk * CHUNK, depth, lane);
    __syncwarp();
  }
  for (; chunk < last; chunk += WARPS) {
    const int next = (chunk + WARPS) * CHUNK;
    left.template put<Arithmetic>(a, stage.a, lane);
    right.template put<Arithmetic>(b, stage.b, lane);
    if (chunk + WARPS < last) {
      left.prepare(a, table.a, next, depth, lane);
      right.prepare(b, table.b, next, depth, lane);
    }
    __syncwarp();
    if (chunk + WARPS < last) {
      left.fetch(a, table.a, next, depth, lane);
      right.fetch(b, table.b, next, depth, lane);
    }
    arithmetic.multiply(stage.a, stage.b, lane);
    __syncwarp();
  }

  if (Output::ROW_SUMS) left.store_sums(shared.row_sums[warp], lane);
  __syncthreads();  // the sums overwrite the stages: all warps must have read theirs
  arithmetic.store(shared.sums[warp], lane);
  __syncthreads();
  const int n = thread % TILE;
  if (first_n + n < columns) {
    const typename Output::Column column = output.column(first_n + n);
    for (int m = thread / TILE; m < TILE && first_m + m < rows; m += GEMM_THREADS / TILE) {
      float sum = shared.sums[0][m][n];
      for (int w = 1; w < WARPS; w++) sum += shared.sums[w][m][n];
      output.put(first_m + m, column, sum);
    }
  }
  if (Output::ROW_SUMS && blockIdx.x == 0 && thread < TILE && first_m + thread < rows) {
    float sum = shared.row_sums[0][thread];
    for (int w = 1; w < WARPS; w++) sum += shared.row_sums[w][thread];
    output.put_row_sum(first_m + thread, sum);
  }
}
