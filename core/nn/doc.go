// Package nn holds the Q-networks: their shapes and parameters, the graphs that
// compute and differentiate them, the losses and the optimisers.
//
// # Parameters are one flat array
//
// A Spec names a network; its Layout cuts one flat float32 array into named
// pieces; Params is such an array. Gradients and the state of an optimiser are
// flat arrays of the same layout, so everything that treats parameters alike
// (an optimiser, a norm, a copy to the target network, a sum over machines) is
// one pass over one slice. Names and shapes are those of the q_net of a
// Stable-Baselines3 DQN policy, and so is the memory order: convolutions
// [out, in, height, width], dense layers [out, in], and the first dense layer
// after a convolution reads its input in channel, row, column order. Weights go
// in and out (WriteSafetensors, Params.Tensors) without any conversion.
//
// # Graphs
//
// Gorgonia holds the graph and differentiates it; the nodes are ops of this
// package, each a call into core/kernel. A network is a trunk, which turns
// observations into features, and heads, which are functions of the features;
// the Q-head is the only one so far. Four rules keep the graphs fast and safe:
//
//   - Leaves own no memory. A run points them at the caller's slices and lets go
//     of them when it ends; parameters, minibatches and observations are never
//     copied, and a change of parameter set costs a few stores.
//   - An op owns its output. The gradients of parameters are the exception:
//     they are written into the caller's flat gradient.
//   - A graph is built for a number of rows and computes the first n of them.
//     No result depends on n or on another row, bit for bit: one state gives the
//     same Q-values alone and inside any batch.
//   - A graph is run on the caller's goroutine by a machine (machine.go) that
//     allocates nothing and turns a panic of an op into an error.
//
// # Goroutines
//
// A Network, a Learner and an Optimizer each belong to one goroutine at a time.
// Any number of them may read the same Params while nobody writes it.
//
// # Gradient and apply are two calls
//
// Learner.Gradient computes, Optimizer.Apply steps. What lies between (clipping,
// a sum over several learners, a check for NaN) is the caller's.
package nn
