// Package kernel holds the numeric inner loops of the networks: convolution and
// dense layers with bias and ReLU, layer normalisation, forward and backward, tanh,
// the losses and the optimisers, on float32 slices.
//
// Layouts. Everything is row-major. Images are [n, height, width, channel], or
// [n, channel, height, width] where a Conv says planar; convolution weights are
// [out, in, kernel, kernel], dense weights [out, in], as in PyTorch. Kernels are
// square, two or three strides wide and never padded. Slices may be longer than a
// call needs; what lies beyond is neither read nor written. Outputs must not
// overlap inputs, except where a function says so.
//
// Paths. Every function exists once per path:
//
//	amx         avx512, and bfloat16 products by the processor's tiles, of convolutions
//	            by the textbook
//	avx512bf16  avx512, and bfloat16 products by the processor's instruction
//	avx512      C on vectors of 16, tiles of 14x32
//	avx2        C on vectors of 8, tiles of 6x16
//	generic     the same C on vectors of 4 in the compilers' notation, for any
//	            processor (arm64 among them)
//	go          plain Go, by the textbook; the only one in a build without cgo
//
// The one in use is core/cpu's choice: the best that the processor runs, or the one
// that the environment variable PACELINE_ISA names. Paths agree to rounding, not to
// the bit: sums run in different orders.
//
// Determinism, on one path:
//   - Same arguments, same bits. Sums run in an order fixed by the shapes and by
//     constants of the path, never by core count, cache size or the position of
//     a slice in memory.
//   - A Team changes the time taken and nothing else. Work is cut where a cut
//     changes nothing (rows, columns, elements), or at blocks fixed by the shapes,
//     whose sums are added up in their order.
//   - Row i of a forward pass or of an input gradient depends on row i of the
//     input alone: not on n, not on the other rows. A state gets the same
//     Q-values whether it is evaluated alone or in a batch.
//   - The C paths set the floating-point mode (round to nearest, denormals
//     flushed to zero) on entry and restore the caller's on return, because
//     threads inherit their mode from the program that hosts the library. The
//     "go" path computes in whatever mode its thread is in.
//   - Layer normalisation, the optimisers, SumSquares, Average, Exp, Log, Tanh
//     and the losses give the same bits on all paths, denormals aside. Exponentials and logarithms are our
//     own: those of C libraries differ from version to version.
//
// Every function may be called from any number of goroutines at once, on
// different outputs, workspaces and teams. None allocates. A slice that is too
// short is a mistake in the calling code and panics; NaN and infinities flow
// through, and in a convolution from one input to the whole tile of outputs around
// it.
//
// # For contributors
//
// Where things are. kernel.go and layers.go are the Go side: checks, then the
// path's table. The C side is one set of loops, written on a vocabulary of vector
// operations: loops.h (the frame), gemm.h (tiles of a matrix product), conv.h with
// conv_forward.h and conv_backward.h (Winograd), dense.h, norm.h, update.h (the optimisers,
// each in one pass), losses.h (exponentials and the losses). A path's file (avx512.c, avx2.c, generic.c)
// defines the vocabulary and includes the loops; X_rounded.c and avx512_bf16.c
// include the path's file again for products of bfloat16. entry.c is what cgo
// calls: it cuts a call into the parts that the threads of a team (team.c) share.
//
// The blocking. A convolution whose kernel is r strides wide is an r x r
// convolution over cells of stride x stride pixels; Winograd's filtering with
// 4 x 4 points does it with 16 matrix products over tiles of cells, and 1.7 to 2.3
// times fewer multiplications. The points are done in four groups, row by row, so
// that a group's operands (64 to 400 KB) stay in the second-level cache; a forward
// pass works on about 54 tiles at a time, a backward pass on 64 for the inputs'
// gradients and on about 200 for the weights', whose sums run over them. In a
// product the tile of C stays in registers for the whole of k: 14x32 floats are 28
// of AVX-512's 32 registers. Elements of C are single chains in the order of k,
// which is what makes rows independent.
//
// The packing. Weights are transformed and packed once a batch, [point][columns of
// a tile][k][NR], so that tiles read B in order; callers keep them while the
// weights stay the same, which is most of the time when acting. The tiles' other
// operand is written by the input transform straight into panels
// [k/16][rows][16], read at constant offsets from one pointer. Where k are tiles or rows,
// as in the gradients of weights, both operands are written as columns of a tile, [k][NR].
// A dense layer's backward pass copies x and w into that form, NR columns are pages
// apart otherwise. Its forward pass reads the weights in place, 8 outputs over 448 inputs
// at a time, which stay in the first-level cache while 32 rows pass, and asks for the
// next ones meanwhile; what an
// accumulator holds between two such spans is stored and loaded, so they change no bit.
// bfloat16 operands travel as pairs in the place of one
// float, so that the same loops, with half the k, serve both.
//
// A new path: copy avx2.c, define its vectors, MR and NR for its registers (MR * 2
// accumulators, 2 columns of B, one broadcast), list it in kernel.h,
// isa_*.go and core/cpu; maxRows, maxCols and maxVector in workspace.go are the largest of any
// path. The tests run on every path that ISAs lists.
//
// Tried and dropped, on one core of a 2-core AVX-512 machine (117 GFLOP/s):
//   - im2col, packed a panel at a time and never stored, with tiles of the same
//     size: 26.8 ms an update of batch 32, where Winograd's takes about 18
//     (BenchmarkNatureUpdate); the tiles were at 70 to 86 % of the peak.
//   - Four outputs at a time in a dense forward pass instead of two times four:
//     1.2 ms instead of 1.1.
//   - bfloat16 weights of a dense layer converted on their way into the product:
//     0.81 ms instead of 0.76.
//   - Asking for the lines of C at the start of a tile: no difference.
//   - Goroutines as helpers of a call: two threads were 1.3 to 1.7 times as fast
//     as one, where threads of the system are 1.7 to 1.85 times. With them asleep
//     after 25 microseconds instead of 100: 1.6.
//   - Helpers reading a job where the caller's stack has it: 9.5 ms for an update on
//     two threads instead of 9.2, for the lines that both use.
//
// On one core of a machine with AMX (184 GFLOP/s in fp32):
//   - Sixteen outputs at a time in a dense forward pass instead of eight, with and without
//     asking for the next ones: 0.91 to 0.97 ms instead of 0.96. With all operands in the
//     first-level cache such a loop reaches 164 GFLOP/s, from the second 138, the pass 120.
//   - Divisions of Adam as multiplications: 0.93 ms instead of 1.03; it waits for memory.
//   - Helpers that join a call when a core becomes free in the middle of it: no difference in
//     DQN's steps per second where environments wait 0.5, 5 and 20 ms a step. (At 20 ms, without
//     AMX: cores in use for 92 % of the time instead of 89, and 298 to 341 steps/s instead of
//     336 to 350.)
//
// Reckoned and not tried on avx512bf16 (the path amx does it): products of the textbook's
// convolutions, which need no transforms. At 85 % of the peak they alone would take 1.07,
// 0.87 and 0.59 ms for the three layers of the Nature CNN and 32 images, where Winograd's
// whole forward passes take 0.85, 0.48 and 0.46.
package kernel
