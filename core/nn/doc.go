// Package nn holds the networks: their shapes and parameters, the graphs that
// compute and differentiate them, the losses and the optimisers.
//
// # A network is trunks and heads
//
// A trunk turns an observation into features, a head is one dense layer on the
// features of a trunk. A Q-network is one trunk under a head "q"; an actor-critic
// network has heads "pi" (logits) and "v" (a value), on one trunk or on one each. A
// Loss is a value that says what is made of the heads' outputs and of numbers that
// come with each row: TD (Q-learning) and ActorCritic. What a loss compares with,
// such as a target network's values, is computed beforehand and comes as a column.
//
// Trunk.Norm puts layer normalisation between every layer of a trunk and its
// activation (PQN, Gallici et al. 2025), in either of two published forms. Behind a
// layer it is a layer of its own here (norm.go), with a scale and a bias.
//
// # Parameters are one flat array
//
// A Spec names a network; its Layout cuts one flat float32 array into named
// pieces; Params is such an array. Gradients and the state of an optimiser are
// flat arrays of the same layout, so everything that treats parameters alike
// (an optimiser, a norm, a copy to the target network, a sum over machines) is
// one pass over one slice. Names and shapes are those of Stable-Baselines3's
// policies (names.go), and so is the memory order: convolutions [out, in, height,
// width], dense layers [out, in], and the first dense layer after a convolution
// reads its input in channel, row, column order. Weights go in and out
// (TensorsPart, ReadParams) without any conversion.
//
// Whoever changes parameters counts it in Params.Writes (the methods do): what is
// derived from them, the packed weights of convolutions, is kept while the number
// stays.
//
// # Devices
//
// A Device makes Networks (forward passes), Learners (gradients), Optimizers and
// Steppers (whole updates). One computes with core/kernel (NewCPU), the other with
// core/cuda (gpu*.go); NewDevice takes a name. No type of these packages is in an exported
// signature but Stack, so that no caller knows which device it has.
//
// On a GPU the same Gorgonia graph is walked once (recorder.go): each op names its kernels
// (record.go), and what was listed becomes a graph of CUDA, which is one launch. A call of
// Forward, Outputs, Learn, Step or Update copies its input there, launches one graph, copies its
// result back, and waits; a StackStepper does many updates between two waits. Parameters are in host
// memory and, where a GPU computes with them, in its own; Params brings the one up to date with
// the other where somebody asks. What is made on a GPU is freed when the last Device on it is
// closed. When a GPU is lost, every call returns an error that wraps ErrLost, and Backup has
// what was copied before.
//
// # Minibatches of a rollout
//
// A rollout is learnt from many times, in minibatches of a few of its rows each. Keep says
// once where its observations are, and Batch.Rows names rows of them by their numbers; what is
// small (actions, columns, masks) comes with each Batch. Where some rows change, as those of a
// window that moves on do, Refresh says which. Where a column depends on what the network
// computes of the rows now, as V-trace's do, Outputs computes it where they are.
//
// The CPU copies a batch's rows together where it computes its gradient. A GPU gets the whole
// rollout in one copy, or the rows of a Refresh alone, and the graph of an update begins with
// the kernel that copies rows together there, so that a minibatch step stays one launch and
// uploads no observation. Both give the bits of a Batch with copies in Obs, which is for
// whoever learns once from what it has.
//
// # Graphs
//
// Gorgonia holds the graph and differentiates it; the nodes are ops of this
// package, each a call into core/kernel. Four rules keep the graphs fast and safe:
//
//   - Leaves own no memory. A run points them at the caller's slices and lets go
//     of them when it ends; parameters, minibatches and observations are never
//     copied, and a change of parameter set costs a few stores.
//   - An op owns its output, which the machine allocates. The gradients of parameters
//     are the exception: they are written into the caller's flat gradient.
//   - A graph is built for a number of rows; a network computes the first n of
//     them. No output depends on n or on another row, bit for bit: one state has
//     the same outputs alone and inside any batch.
//   - A graph is run on the caller's goroutine by a machine (machine.go) that
//     allocates nothing and turns a panic of an op into an error.
//
// # Goroutines
//
// A Network, a Learner, an Optimizer and a Stepper each belong to one goroutine at a
// time, and all of a device of several threads to the same one. Any number of them
// may read the same Params while nobody writes it.
//
// # Gradient and apply are two calls
//
// Learner.Gradient computes, Optimizer.Apply steps. What lies between (clipping,
// a sum over several learners, a check for NaN) is the caller's. A Stepper does the
// usual: it clips, and refuses what is not finite.
package nn
