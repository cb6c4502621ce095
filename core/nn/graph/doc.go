// Package graph has what the CPU (nn/cpu) and the GPU (nn/gpu) share: a network and its loss as a
// Gorgonia graph, the order of the ops, and the checks of arguments.
//
// Gorgonia holds the graph and differentiates it. An op of this package describes a computation and
// the tensors of its result; it has no memory and does not compute. nn/cpu runs the ops in order
// with core/kernel. nn/gpu walks them once and lists the kernels of core/cuda.
//
//   - Leaves own no memory. The CPU points them at the caller's slices during a run; the GPU has
//     their addresses.
//   - An op owns its output, except gradients of parameters: these are parts of one flat gradient.
//   - A graph is built for a number of rows. A network may compute only its first n rows; no output
//     depends on n or on another row, bit for bit.
package graph
