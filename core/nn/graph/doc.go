// Package graph is the half that the CPU (nn/cpu) and the GPU (nn/gpu) share: a network and its
// loss as a Gorgonia graph, the order of its ops, and the checks of what a call passes.
//
// Gorgonia holds the graph and differentiates it. An op here says what is computed and in which
// tensors the result lies; it has no memory and computes nothing. nn/cpu runs the ops in order with
// core/kernel; nn/gpu walks them once and lists the kernels of core/cuda.
//
//   - Leaves own no memory. The CPU points them at the caller's slices during a run; the GPU knows
//     their addresses.
//   - An op owns its output. The gradients of parameters are the exception: they are written into
//     one flat gradient.
//   - A graph is built for a number of rows. A network may compute its first n rows alone; no
//     output depends on n or on another row, bit for bit.
package graph
