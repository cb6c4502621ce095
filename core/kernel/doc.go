// Package kernel holds the numeric inner loops of the networks on float32 slices. Convolution,
// dense layers with bias and ReLU, layer normalisation and tanh are computed forward and backward.
// The losses and the optimisers are here, too.
//
// Layouts. Every array is row-major. Images are [n, height, width, channel], or
// [n, channel, height, width] where a Conv says planar. Convolution weights are
// [out, in, kernel, kernel] and dense weights [out, in], as in PyTorch. Convolution kernels are
// square and never padded. A slice may be longer than a call needs; the call neither reads nor
// writes the rest. Outputs must not overlap inputs, except where a function says so.
//
// Paths. Every function exists once per path:
//
//	amx         avx512, but bfloat16 products by AMX tiles and direct bfloat16 convolutions
//	avx512bf16  avx512, but bfloat16 products by the instructions of AVX-512 BF16
//	avx512      C on vectors of 16 floats, tiles of 14x32
//	avx2        C on vectors of 8 floats, tiles of 6x16
//	generic     the same C on vectors of 4 floats in the compilers' vector extension, for any
//	            processor (arm64 included)
//	portable    the layers of generic, all other functions of the best path above
//	go          plain Go, the textbook's loops; the only path of a build without cgo
//
// core/cpu chooses the path: the best that the processor runs, or the one that the environment
// variable PACELINE_ISA names. Paths agree to rounding, not to the bit, because their sums run in
// different orders.
//
// Determinism, on one path:
//   - Same arguments, same bits. The order of a sum depends on the shapes and on constants of the
//     path, never on the number of cores, the size of a cache or the address of a slice.
//   - A Team changes the time of a call and nothing else. Work is cut at rows, columns or elements,
//     where a cut changes no sum, or into blocks fixed by the shapes, whose sums are added in
//     order.
//   - Row i of a forward pass or of an input gradient depends on row i of the input alone. A state
//     gets the same Q-values alone and in a batch of any size.
//   - The C paths set the floating-point mode (round to nearest, denormals flushed to zero) on
//     entry and restore the caller's mode on return. The caller's mode is that of the host program.
//     The "go" path computes in the mode of its thread.
//   - Layer normalisation, the optimisers, SumSquares, Average, Exp, Log, Tanh and the losses give
//     the same bits on all paths, denormals aside. The exponentials and logarithms are written
//     here, because those of C libraries differ from version to version.
//
// Any number of goroutines may call any functions at once, on different outputs, workspaces and
// teams. No function allocates. A slice that is too short is a mistake of the calling code and
// panics. NaN and infinities propagate; in a convolution, from one input to the whole tile of
// outputs around it.
//
// # For contributors
//
// Files. kernel.go and layers.go are the Go side: they check arguments and call the path's table.
// The C side is one set of loops that use macros for vector operations. loops.h includes gemm.h
// (tiles of a matrix product), conv.h with conv_forward.h and conv_backward.h (Winograd), dense.h,
// norm.h, update.h (the optimisers), losses.h (exponentials and the losses), distributions.h
// (those of distributions) and modulate.h (features times embeddings of
// taus). The file of a path (avx512.c, avx2.c, generic.c) defines the macros and
// includes the loops. X_rounded.c and avx512_bf16.c include the path's file again for bfloat16
// products; amx.c does so with loops of its own for the layers. entry.c holds the functions that
// cgo calls: it cuts a call into parts, which the threads of a team (team.c) share.
//
// Blocking. A convolution whose kernel is r = 2 or 3 strides wide is an r x r convolution over
// cells of stride x stride pixels. Winograd's filtering with 4 x 4 points computes it with 16
// matrix products over tiles of cells, with 1.7 to 2.3 times fewer multiplications. The points are
// computed in four groups, row by row, so that the operands of a group (64 to 400 KB) stay in the
// L2 cache. A forward pass works on about 54 tiles at a time. A backward pass works on 64 tiles for
// the input gradients and on about 200 for the weight gradients, which are sums over tiles. In a
// product the tile of C stays in registers for the whole of k: 14x32 floats are 28 of AVX-512's 32
// registers. An element of C is a single chain of sums in the order of k, which makes rows
// independent.
//
// Packing. Weights are transformed and packed once a batch, [point][columns of a tile][k][NR], so
// that tiles read B in order. Callers keep packed weights until the weights change, which while
// acting is rare. The input transform writes the other operand straight into panels
// [k/16][rows][16], which tiles read at constant offsets from one pointer. In weight gradients,
// where k counts tiles or rows, both operands are written as columns of a tile, [k][NR]. The
// backward pass of a dense layer copies x and w into that form, because NR columns otherwise lie
// pages apart. The forward pass of a dense layer reads the weights in place. It computes 8 outputs
// over 448 inputs at a time; their weights stay in the L1 cache for 32 rows, and the next weights
// are prefetched. Accumulators are stored and loaded between two such spans, which changes no bit.
// Layers of IQN have thousands of rows, for which the weights would be read a hundred times: with
// Dense.Tiled their forward pass is a product by tiles, 512 inputs at a time. A pair of bfloat16
// operands takes the place of one float, so the same loops, with half the k, serve both precisions.
//
// A new path: copy avx2.c; define its vectors and, for its registers, MR and NR (MR * 2
// accumulators, 2 columns of B, one broadcast); list it in kernel.h, isa_*.go and core/cpu.
// maxRows, maxCols and maxVector in workspace.go are the largest of any path. The tests run on
// every path that ISAs lists.
//
// RATIONALE.md lists what was measured and rejected.
package kernel
