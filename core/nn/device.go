package nn

import (
	"fmt"
	"time"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/threads"
)

// Device computes networks. nn/devices opens a device by its name.
type Device interface {
	// Name returns "cpu", or a GPU as "cuda:0 (NVIDIA H100)".
	Name() string
	// Another returns a device of the same kind for another goroutine. On the CPU it has n threads
	// of a budget. The caller closes each device.
	Another(n int, budget *threads.Budget) (Device, error)
	// Network returns a network for up to rows rows a call, 1 to MaxRows.
	Network(s Spec, rows int) (Network, error)
	// Learner returns a learner for batches of exactly rows rows, 1 to MaxRows.
	Learner(s Spec, rows int, loss Loss) (Learner, error)
	// Optimizer returns an optimiser for parameters of size floats, before its first step.
	Optimizer(c OptimizerConfig, size int) (Optimizer, error)
	Stepper(c StepperConfig) (Stepper, error)
	// QStepper returns a QStepper, which computes the column "target" of its loss. target says how,
	// and its Check what goes together.
	QStepper(c StepperConfig, target Target) (QStepper, error)
	// Backup returns a Backup of sets and an optimiser of this device.
	Backup(sets []*Params, o Optimizer) (Backup, error)
	// ClipGradNorm returns the Euclidean norm of grad and the factor that scales it to at most max
	// (above 0), as PyTorch's clip_grad_norm_: max/(norm + 1e-6) if that is below 1, else 1. A norm
	// that is not finite would make the step NaN, as in PyTorch: the caller checks the norm. It does
	// not allocate.
	ClipGradNorm(grad []float32, max float64) (norm float64, factor float32)
	// Average computes to = (1-weight)*to + weight*from, element by element. It also copies Updates.
	// It panics if the sizes differ.
	Average(to, from *Params, weight float64)
	// Bytes returns the memory of n, to within a few kilobytes.
	Bytes(s Spec, n Needs) (int64, error)
	// Busy returns the time that helpers have computed for callers, added over the helpers. It may
	// be called at any time.
	Busy() time.Duration
	// Lost returns the error that ended the device, which wraps fault.ErrDeviceLost, or nil.
	Lost() error
	// Close frees the device. No call may be in progress, and no call on an object of the device may
	// follow. A second Close does nothing.
	Close()
}

// Needs is what Device.Bytes adds up.
type Needs struct {
	Sets        int             // parameter sets, and gradients in memory of the caller
	NetworkRows []int           // of each Network
	LearnerRows []int           // of each Learner
	Optimizer   OptimizerConfig // Name "": none
}

// Network computes the outputs of the heads. It has buffers and a graph; each call passes the
// parameters. One goroutine at a time may call it. Several Networks may read the same Params at the
// same time if no goroutine writes them.
type Network interface {
	// Forward returns the outputs for `rows` observations, 1 to the network's rows. obs, of
	// rows*Obs.Bytes() bytes, is only read; float32 observations must be aligned to 4 bytes. Each
	// call may pass another set of an equal layout. The result is valid until the next call. The
	// outputs of a row depend on its observation and p alone, bit for bit. Forward does not
	// allocate. The Network of a head with taus is a TauNetwork.
	Forward(p *Params, obs []byte, rows int) (Outputs, error)
}

// Outputs are the outputs of a network's heads, in memory of the Network or Learner.
type Outputs struct {
	Rows   int
	Values [][]float32 // Values[h] is [Rows, Out] of Spec.Heads[h]; of distributions, the means
}

// Row returns the outputs of head h for row i.
func (o *Outputs) Row(h, i int) []float32 {
	width := len(o.Values[h]) / o.Rows
	return o.Values[h][i*width : (i+1)*width : (i+1)*width]
}

// Argmax returns the first index of the largest value that mask allows; nil allows all.
func Argmax(values []float32, mask []byte) int32 {
	best := -1
	for a, v := range values {
		if (mask == nil || mask[a] != 0) && (best < 0 || v > values[best]) {
			best = a
		}
	}
	return int32(best)
}

// Batch is a minibatch of n rows, in the caller's memory.
type Batch struct {
	Obs []byte // n*Obs.Bytes(); float32 aligned to 4 bytes
	// Rows, [n], take the place of Obs, which is nil then: the observation of row i is row Rows[i]
	// of the latest SetObs, or zeros where Rows[i] is -1. nil: the batch has Obs.
	Rows []int32
	// Actions are [n, branches of the head "pi"]: [n] for one branch and for a head "q", none for a
	// policy without "pi".
	Actions    []int32
	Continuous []float32   // [n, outputs of the head "mu"]; none without "mu"
	Columns    [][]float32 // [n, Column.Width] each, in the order of Loss.Columns
	// Masks are [n, outputs of the head "pi"]: 0 where a choice is not allowed. Each branch allows
	// one. nil: all choices are allowed.
	Masks []byte
	// Complete, if it is not nil, gets the outputs of the heads for the batch before the loss is
	// computed, and may set the elements of Columns. An error of it ends the call.
	Complete func(Outputs) error
}

// Report is the result of an update. The next call that gets the same Report overwrites it, Parts
// included.
type Report struct {
	Loss  float64
	Parts []float64 // in the order of Loss.Parts
	// Norm is the Euclidean norm of the gradient before clipping; 0 if it was not computed.
	Norm float64
	// Rows are the caller's memory for a number of each row, from which priorities are computed:
	// the loss says which. nil: they are not wanted. Learner.Gradient, Stepper.Learn and the Updates
	// fill them in. Losses that have no such number refuse them.
	Rows []float32
}

// Evaluator is what Learner and Stepper share: it computes the outputs of a network for a batch.
type Evaluator interface {
	// SetObs sets the observations that Batch.Rows refers to. A GPU uploads them once, also for
	// several minibatches of a rollout; the CPU reads the caller's memory. The caller does not change
	// obs before the last batch that refers to it, or before the next SetObs or Refresh. Float32
	// observations must be aligned to 4 bytes. Only more rows than ever before allocate memory.
	SetObs(obs []byte) error
	// Refresh uploads `rows` rows of SetObs again, from `first` on, wrapping to row 0, because the
	// caller has changed them. It does not allocate.
	Refresh(first, rows int) error
	// Outputs returns the outputs of the heads at p for the observations of b, with the same bits as
	// in Gradient and Learn; those of a head with taus are at MiddleTaus. It reads only Obs or Rows of
	// b. The result is valid until the next call. Outputs does not allocate. On a GPU it is one
	// launch.
	Outputs(p *Params, b Batch) (Outputs, error)
	// Look adds the hidden units and outputs of the latest Gradient, Learn or Outputs to a, which
	// Spec.NewActivity made. It does not allocate.
	Look(a *Activity)
}

// Learner computes the loss of a batch and its gradient. It has buffers and a graph; each call
// passes the parameters. One goroutine at a time may call it.
type Learner interface {
	// Gradient fills in r with the loss of b at p, and overwrites grad, which has p's layout, with
	// the gradient of the loss. p and b are only read. A loss or gradient that is not finite is no
	// error: the caller checks r. Gradient does not allocate, except r.Parts at the first use of a
	// Report.
	Gradient(p *Params, b Batch, grad []float32, r *Report) error
	Evaluator
	Layout() *Layout
}

// Optimizer changes parameters along a gradient, element by element. One goroutine at a time may
// call it; ApplyRange says what it allows.
type Optimizer interface {
	// Apply takes one step with learning rate lr along factor*grad, rounded to float32. It counts
	// the step in Step, p.Updates and p.Writes. p and grad have the size of the optimiser; grad is
	// only read. Apply does not allocate.
	Apply(p *Params, grad []float32, factor float32, lr float64) error
	// ApplyRange takes step number step, at least 1, for the parameters first to first+len(grad)-1
	// alone. grad is the gradient of these parameters. Ranges that cover all parameters, each with
	// the same step, give the same bits as one Apply with that number. ApplyRange counts nothing: the
	// caller counts steps, Updates and Writes. Goroutines may call it at the same time for ranges that
	// do not overlap, if the device has one thread. A GPU refuses it. It does not allocate.
	ApplyRange(p *Params, first int, grad []float32, factor float32, lr float64, step int64) error
	// Step returns the number of steps taken.
	Step() int64
	// SetStep overwrites that number, which must be at least 0.
	SetStep(step int64)
	// State returns the optimiser's arrays in place, each as long as the parameters, in an order
	// that never changes. Step and State are all that a checkpoint needs.
	State() []Tensor
}

// StepperConfig is the configuration of a Stepper or QStepper.
type StepperConfig struct {
	Net       Spec
	Rows      int // of a minibatch, 1 to MaxRows
	Loss      Loss
	Optimizer OptimizerConfig
	// External takes the steps instead of Optimizer; nil: none. A GPU refuses it.
	External Optimizer
	// MaxGradNorm is the norm to which larger gradients are scaled down; 0: gradients are not
	// clipped.
	MaxGradNorm float64
	// Admit is asked before every step, with the report of the gradient, whose loss is finite. false:
	// no step is taken, and nothing else is changed. nil: every step is taken. A GPU refuses it.
	Admit func(*Report) bool
	// Seed is the seed of the noise of a noisy network's QStepper; nil: 0. The noise of an update is a
	// function of Seed and of Optimizer.Step, so it needs no state of its own. It is drawn apart for
	// the parameters that are learned, for those that choose in double Q-learning, and for the target.
	// The caller may change it between two updates.
	Seed *uint64
	// Window is the number of minibatches for which a StackStepper allocates memory; 0: a default.
	Window int
}

// Stepper does updates: it computes a gradient, stores it, and takes a step along it. A caller that
// needs something between the two, such as a sum over several learners, uses a Learner and an
// Optimizer instead. One goroutine at a time may call it.
type Stepper interface {
	// Learn computes the loss of b at p and its gradient, and sets r.Loss and r.Parts. p and b are
	// only read.
	Learn(p *Params, b Batch, r *Report) error
	// Step takes one step of p with learning rate lr along the gradient of the latest Learn, which
	// filled in r, and sets r.Norm. If loss or norm is not finite, p and the optimiser do not change,
	// and the error is a *NotFinite. The CPU checks r.Rows, too; a GPU does not.
	Step(p *Params, lr float64, r *Report) error
	// Update is Learn and Step. On a GPU it is one launch.
	Update(p *Params, b Batch, lr float64, r *Report) error
	Evaluator
	// Optimizer has the state that a checkpoint holds.
	Optimizer() Optimizer
}

// QStepper does updates of Q-learning with a target network. One goroutine at a time may call it.
type QStepper interface {
	// Update takes one step of theta along the gradient of the loss of t, and sets r.Loss and
	// r.Norm. A target is r + discount max_a Q(s', a; target) over the actions that s' allows, or in
	// double Q-learning r + discount Q(s', argmax_a Q(s', a; theta); target). If loss or norm is not
	// finite, theta and the optimiser do not change, and the error is a *NotFinite. The CPU checks
	// r.Rows, too; a GPU does not.
	Update(theta, target *Params, t *experience.Transitions, lr float64, r *Report) error
	// Look is that of Evaluator, for the latest Update.
	Look(a *Activity)
	// Optimizer has the state that a checkpoint holds.
	Optimizer() Optimizer
}

// StackStepper is a QStepper with a copy of the replay memory's frames in GPU memory. It does many
// updates without the host in between; the results are bit-identical to those of single calls of
// Update. One goroutine at a time may call it.
type StackStepper interface {
	QStepper
	// FreeBytes returns how much GPU memory is free for frames.
	FreeBytes() (int64, error)
	// Resize allocates memory for a number of slots, each for a frame of width bytes, and discards
	// the frames.
	Resize(slots, width int) error
	// Put copies frames to the slots from `slot` on. The caller does not change frames in registered
	// memory before the next Finish.
	Put(slot int, frames []byte) error
	// Register page-locks memory of whole pages outside Go's heap, so that Put does not wait for the
	// copy. The caller calls release, with no updates in progress, before the memory moves or is
	// unmapped.
	Register(memory []byte) (release func(), err error)
	// Minibatches are memory for minibatches of Stacks: StepperConfig.Window of them, or fewer if
	// they are large.
	Minibatches() []experience.Transitions
	// Upload copies n Minibatches, from number first on, to GPU memory. Between Start and Finish it
	// may copy minibatches other than those of Start.
	Upload(first, n int) error
	// Uploaded waits until every Upload is done. The caller does not change uploaded minibatches
	// before.
	Uploaded() error
	// Start begins one update for each learning rate, with the Minibatches from number first on as
	// they were uploaded. masked says that the minibatches have masks. The caller does not touch these
	// minibatches, theta and target before Finish.
	Start(theta, target *Params, first int, rates []float64, masked bool) error
	// Finish waits for the updates and returns their reports, without Parts, in memory that the next
	// Finish overwrites. They have Rows only if the loss has importance weights. If a loss or norm is
	// not finite, that update and the later ones change nothing. Then the last report is that of the
	// failed update, and the error is a *NotFinite.
	Finish() ([]Report, error)
	// OwnTransitions is memory for a minibatch that Update reads without a copy.
	OwnTransitions() *experience.Transitions
}

// Backup keeps copies in host memory of what a device changes in its own memory, for the case that
// the device is lost. A device that computes in host memory has a Backup that does nothing. One
// goroutine at a time may call it.
type Backup interface {
	// Make begins a copy of the sets and the optimiser. They may change when Make has returned. k, 0
	// or 1, is the index of the copy, which replaces an earlier copy of this index. After an error k
	// means nothing: Restore returns an earlier copy.
	Make() (k int, err error)
	// Poll notes whether the latest copy is complete. After a loss the device no longer tells.
	Poll()
	// Restore overwrites sets and optimiser, in host memory, with the newest complete copy, the one of
	// index k. ok says whether there is one. The caller calls it after the loss.
	Restore() (k int, ok bool)
}

// NotFinite is the error of an update with a number that is not finite. It wraps
// fault.ErrNotFinite.
type NotFinite struct {
	What  string // the number, such as "loss", "gradient norm" or, of Report.Rows, "error of a row"
	Value float64
}

func (e *NotFinite) Error() string {
	return fmt.Sprintf("%s: %v, %v", e.What, e.Value, fault.ErrNotFinite)
}
func (e *NotFinite) Unwrap() error { return fault.ErrNotFinite }

// CheckRows checks the rows of a new Network or Learner.
func CheckRows(rows int) error {
	if rows < 1 || rows > MaxRows {
		return fmt.Errorf("rows: %d, must be 1 to %d", rows, MaxRows)
	}
	return nil
}
