// Package nn holds the networks: their shapes and parameters, the graphs that compute and
// differentiate them, the losses and the optimisers.
//
// # A network is trunks and heads
//
// A trunk turns an observation into features. A head is one dense layer on the features of a trunk.
// A Q-network is one trunk with a head "q". An actor-critic network has heads "pi" (logits) and "v"
// (a value), on one trunk or on one trunk each. A Loss (TD, CrossEntropy, QuantileHuber,
// ImplicitHuber, ActorCritic, PPO) is a function of the heads' outputs and of numbers that come
// with each row. Numbers that a loss compares with, such as the values of a target network, are
// computed before the loss and are columns of a batch. A QStepper computes them; its Target says
// how.
//
// A head "q" may have a distribution for each action: atoms with probabilities, or quantiles. It
// may have two streams, a value and advantages. A network's outputs are then the means, so that
// acting needs not know of either; losses and targets see the distributions.
//
// The quantiles of a head with taus are functions of their probabilities (implicit.go). A Network
// computes those of fixed taus, or, as a TauNetwork, of drawn ones; a Learner those of a column of
// the batch.
//
// The head "pi" may have several branches, each with its own choice. Actions of real numbers have a
// head "mu", the means of independent Gaussians, and the network has a parameter log_std for their
// standard deviations. A policy with both heads has actions of both kinds.
//
// Trunk.Norm puts layer normalisation between every layer of a trunk and its activation (PQN,
// Gallici et al. 2025), in one of two published forms. A normalisation is a Layer with a scale and
// a bias.
//
// # Parameters are one flat array
//
// A Spec describes a network. Its Layout divides one flat float32 array into named pieces. Params
// is such an array. Gradients and the arrays of an optimiser have the same layout, so an optimiser,
// a norm, a copy to the target network or a sum over machines is one pass over one slice.
//
// Names and shapes are those of Stable-Baselines3's policies (names.go). So is the memory order:
// convolutions are [out, in, height, width], dense layers are [out, in], and the first dense layer
// after a convolution reads its input in the order channel, row, column. TensorsPart and ReadParams
// therefore write and read weights without a conversion.
//
// Every method that changes parameters counts the change in Params.Writes. A device uses the packed
// weights of convolutions, which it derives from parameters, until that number changes.
//
// # Devices
//
// A Device makes Networks (forward passes), Learners (gradients), Optimizers and Steppers
// (updates). nn/cpu computes with core/kernel, nn/gpu with core/cuda; devices.Open opens either by
// its name. nn/graph has what both share. No exported signature of this package names a type of a
// device.
//
// Parameters are in host memory. A GPU has a copy in its own memory, which is uploaded or
// downloaded when it is read and out of date. Everything made on a GPU is freed when its last
// Device is closed. When a GPU is lost, every call returns an error that wraps fault.ErrDeviceLost,
// and Backup has the copies that were made before.
//
// # Minibatches of a rollout
//
// An update learns from a rollout several times, in minibatches of some of its rows. SetObs sets
// the observations of the rollout once, and Batch.Rows refers to them by row numbers. Actions,
// columns and masks, which are small, come with each Batch. If some rows change, as in a window
// that slides, Refresh says which. If a column depends on the network's current outputs, as with
// V-trace, Outputs computes them.
//
// The CPU gathers the rows of a batch when it computes the gradient. A GPU uploads the whole
// rollout in one copy, or only the rows of a Refresh, and the graph of an update begins with a
// kernel that gathers rows. A minibatch step is therefore one launch and uploads no observation.
// The bits are those of a Batch with the same observations in Obs.
//
// # Goroutines
//
// One goroutine at a time may use a Network, a Learner, an Optimizer or a Stepper. The objects of a
// device of several threads all belong to the same goroutine. Several goroutines may read the same
// Params if none writes them. Several goroutines may step different ranges of the same Params with
// the same Optimizer (ApplyRange).
//
// # Gradient and Apply are two calls
//
// Learner.Gradient computes, Optimizer.Apply takes the step. Between the two the caller may clip,
// add gradients of several learners, or check for NaN. A Stepper does the usual: it clips, and
// refuses a loss or a norm that is not finite.
package nn
