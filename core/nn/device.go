package nn

import (
	"fmt"
	"time"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/threads"
)

// Device is what computes: memory for parameters, and the graphs that run on them.
// nn/devices opens one by name. Everything made by a device is used with parameters of the
// same device.
type Device interface {
	// Name says what computes: "cpu", or "cuda:0", a space and in brackets the GPU's name.
	Name() string
	// Another returns a device like this one for another goroutine: of n threads of a budget,
	// where it is the CPU. Each is closed by itself.
	Another(n int, budget *threads.Budget) (Device, error)
	// Network returns a network for up to rows rows a call, 1 to MaxRows.
	Network(s Spec, rows int) (Network, error)
	// Learner returns a learner for batches of exactly rows rows, 1 to MaxRows.
	Learner(s Spec, rows int, loss Loss) (Learner, error)
	// Optimizer returns an optimiser for parameters of size floats, before its first
	// step.
	Optimizer(c OptimizerConfig, size int) (Optimizer, error)
	// Stepper returns what does whole updates.
	Stepper(c StepperConfig) (Stepper, error)
	// QStepper returns what does whole updates of Q-learning. The loss is a TD that is not
	// Weighted.
	QStepper(c StepperConfig, double bool) (QStepper, error)
	// Backup returns what keeps copies of sets and of an optimiser of this device in host
	// memory.
	Backup(sets []*Params, o Optimizer) (Backup, error)
	// Average moves to towards from, element by element: to = (1-weight)*to +
	// weight*from. Updates becomes from's. As CopyFrom, it panics where they have not
	// the same size.
	Average(to, from *Params, weight float64)
	// Bytes returns the memory that so much of a network takes, to within a few
	// kilobytes.
	Bytes(s Spec, n Needs) (int64, error)
	// Busy returns how long cores of a budget have worked for callers, beside the callers'
	// own, added over them. It may be called at any time.
	Busy() time.Duration
	// Lost returns the error, which wraps fault.ErrDeviceLost, that has ended the device; nil:
	// none has.
	Lost() error
	// Close frees the device. There must be no call in progress, and none after on
	// anything that it made; calling Close again does nothing.
	Close()
}

// Needs is what Device.Bytes adds up.
type Needs struct {
	Sets        int             // parameter sets, and gradients that a caller holds
	NetworkRows []int           // of each Network
	LearnerRows []int           // of each Learner
	Optimizer   OptimizerConfig // Name "": none
}

// Network computes the outputs of the heads. It holds buffers and a graph but no
// parameters: those come with each call. One goroutine at a time; many Networks may
// read the same Params at once while nobody writes them.
type Network interface {
	// Forward returns the outputs for rows observations, 1 to the network's rows.
	// obs holds rows*Obs.Bytes() bytes, and stays the caller's; float32
	// observations must be aligned to 4 bytes. p may be another set, of an equal
	// layout, in each call. The result is valid until the next call. A row's outputs
	// depend on its observation and p alone, bit for bit. Forward does not allocate.
	Forward(p *Params, obs []byte, rows int) (Outputs, error)
}

// Outputs are those of a network's heads for some rows, in memory of what computed them.
type Outputs struct {
	Rows   int
	Values [][]float32 // Values[h] is [Rows, Out] of Spec.Heads[h]
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
	// Rows, [n], stand for Obs, which is nil then: the observation of row i is row Rows[i] of
	// those that Keep was given, or zeros where Rows[i] is -1. nil: there are Obs.
	Rows    []int32
	Actions []int32     // [n]
	Columns [][]float32 // [n] each, in the order of Loss.Columns
	// Masks are [n, actions] of a loss on a policy: 0 where an action may not be taken.
	// nil: all may. Other losses have none.
	Masks []byte
}

// Report is what an update reports of itself. It is the caller's, and its memory is
// used again by the next call that fills it in.
type Report struct {
	Loss  float64
	Parts []float64 // what the loss is made of, in the order of Loss.Parts
	// Norm is the gradient's Euclidean norm before it was clipped; 0 where no norm
	// was computed.
	Norm float64
}

// Learner computes the loss of a batch and its gradient. It holds buffers and a
// graph but no parameters. One goroutine at a time.
type Learner interface {
	// Gradient fills in r with the loss of b at p, and overwrites grad, which has
	// p's layout, with the loss's gradient. p and b are only read and stay the
	// caller's. A loss or gradient that is not finite is no error: the caller looks
	// at r. Gradient does not allocate, but for r.Parts in a Report's first use.
	Gradient(p *Params, b Batch, grad []float32, r *Report) error
	// Keep brings rows of observations to where the Learner computes, for batches that name
	// them by their numbers (Batch.Rows), in the place of those of the Keep before. They stay
	// the caller's, who changes none of them before the last such batch, or the next Keep or
	// Refresh. Float32 observations must be aligned to 4 bytes. Only a Keep of more rows than
	// ever before allocates.
	Keep(obs []byte) error
	// Refresh brings some of these rows there again, as the caller has changed them: so many
	// from row first on, and behind the last row of all from row 0 on. It does not allocate.
	Refresh(first, rows int) error
	// Outputs returns the heads' outputs at p for the observations of b, of which it reads Obs
	// or Rows and nothing else, with the bits that Gradient has of them. The result is valid
	// until the next call. Outputs does not allocate.
	Outputs(p *Params, b Batch) (Outputs, error)
	// Look adds to a, which the network's Spec has made, what the latest Gradient (or
	// Outputs) found of hidden units and outputs. It does not allocate.
	Look(a *Activity)
	// Layout is that of the parameters.
	Layout() *Layout
}

// Optimizer steps parameters along a gradient. Steps are element by element, so
// they do not depend on the layout. One goroutine at a time.
type Optimizer interface {
	// Apply changes p by one step with learning rate lr along factor*grad, rounded to
	// float32, and counts it: here, in p.Updates and in p.Writes. p and grad have the
	// size the optimiser was made for; grad is left as it was. It does not allocate.
	Apply(p *Params, grad []float32, factor float32, lr float64) error
	// ClipGradNorm returns the Euclidean norm of grad and the factor that brings it to
	// at most max (above 0), as PyTorch's clip_grad_norm_ does: max/(norm + 1e-6) where
	// that is below 1, else 1. A norm that is not finite would make the step NaN, as
	// there; the caller looks at the norm. It does not allocate.
	ClipGradNorm(grad []float32, max float64) (norm float64, factor float32)
	// Step returns how many steps were applied.
	Step() int64
	// SetStep overwrites that number; it must be at least 0.
	SetStep(step int64)
	// State returns the optimiser's arrays, each as long as the parameters, in place
	// and always in the same order: with Step, all that a checkpoint must hold.
	State() []Tensor
}

// StepperConfig says what a Stepper does.
type StepperConfig struct {
	Net       Spec
	Rows      int // of a minibatch, 1 to MaxRows
	Loss      Loss
	Optimizer OptimizerConfig
	// MaxGradNorm is what the norm of a gradient is scaled down to where it is above; 0: never.
	MaxGradNorm float64
	// Window is how many minibatches a StackStepper should have memory for; 0: as it likes.
	Window int
}

// Stepper does whole updates, each of a gradient, which it keeps, and a step along it. A
// device may do one in a single launch. Learner and Optimizer stay apart beside it for
// whoever puts something between them (a sum over several learners). One goroutine at a
// time.
type Stepper interface {
	// Learn computes the loss of b at p and its gradient. p and b are only read and stay
	// the caller's. r gets Loss and Parts.
	Learn(p *Params, b Batch, r *Report) error
	// Step changes p by one step with learning rate lr along the gradient of the latest
	// Learn, which filled in r, and fills in r.Norm. Where loss or norm is not finite, p
	// and the optimiser stay as they are, and the error is a *NotFinite.
	Step(p *Params, lr float64, r *Report) error
	// Update is Learn and Step. On a GPU it is one launch.
	Update(p *Params, b Batch, lr float64, r *Report) error
	// Keep is that of Learner: a method with several minibatches to a rollout keeps the
	// rollout's observations once, which on a GPU are uploaded by that, and by nothing else.
	Keep(obs []byte) error
	// Refresh is that of Learner.
	Refresh(first, rows int) error
	// Outputs is that of Learner. On a GPU it is one launch.
	Outputs(p *Params, b Batch) (Outputs, error)
	// Look is that of Learner.
	Look(a *Activity)
	// Optimizer is what a checkpoint holds of the Stepper.
	Optimizer() Optimizer
}

// QStepper does whole updates of Q-learning with a target network. One goroutine at a time.
type QStepper interface {
	// Update changes theta by one step along the gradient of the loss of t, whose targets
	// are r + discount max_a Q(s', a; target), over the a that s' allows; or, for double
	// Q-learning, r + discount Q(s', argmax_a Q(s', a; theta); target). r gets Loss and
	// Norm. Where one of them is not finite, theta and the optimiser stay as they are, and
	// the error is a *NotFinite.
	Update(theta, target *Params, t *experience.Transitions, lr float64, r *Report) error
	// Look is that of Learner.
	Look(a *Activity)
	// Optimizer is what a checkpoint holds of the QStepper.
	Optimizer() Optimizer
}

// StackStepper is a QStepper that holds frames of observations, as a GPU does in its own
// memory, and does many updates of minibatches of them without the host in between. They have
// the bits of as many calls of Update. One goroutine at a time.
type StackStepper interface {
	QStepper
	// Free returns how many bytes there are for frames.
	Free() (int64, error)
	// Resize makes memory for so many slots of frames of width bytes, and drops what it held.
	Resize(slots, width int) error
	// Put copies frames to the slots from slot on. Frames in memory that was registered stay as they are
	// until the next Finish.
	Put(slot int, frames []byte) error
	// Register prepares memory of whole pages, outside Go's heap, for a Put that need not wait. The caller
	// calls release, with no updates in progress, before the memory moves or is unmapped.
	Register(memory []byte) (release func(), err error)
	// Minibatches are memory for minibatches, of Stacks: StepperConfig.Window, or fewer where these are large.
	Minibatches() []experience.Transitions
	// Upload copies n of the Minibatches, from number first on, to where updates gather them.
	// It may be called between Start and Finish, for others than those of Start.
	Upload(first, n int) error
	// Uploaded waits until every Upload is over: until then the caller leaves these minibatches alone.
	Uploaded() error
	// Start begins one update for each learning rate, of the Minibatches from number first on as
	// they were at Upload; masked says that they have masks. The caller leaves these, theta and
	// target alone until Finish.
	Start(theta, target *Params, first int, rates []float64, masked bool) error
	// Finish waits for the updates, and returns what each reports, Parts but no more. Where a
	// loss or norm is not finite, that update and those behind it changed nothing: the reports
	// are of those before it and of itself, and the error is a *NotFinite. The reports are in
	// memory that is used again.
	Finish() ([]Report, error)
	// OwnTransitions is memory for a minibatch that Update takes without copying it.
	OwnTransitions() *experience.Transitions
}

// Backup keeps copies in host memory of what a device changes in its own, for the case that the
// device is lost. That of a device that computes in host memory does nothing. One goroutine at a
// time.
type Backup interface {
	// Make begins a copy of the sets and the optimiser as they are; they may change once Make
	// returns.
	Make() error
	// Poll notes whether the copy that Make began last is complete: a lost device no longer says.
	Poll()
	// Restore overwrites sets and optimiser, in host memory, with the newest complete copy. It
	// reports whether there is one, and whether it is the one that Make began last. It is called
	// after the device was lost.
	Restore() (ok, last bool)
}

// NotFinite is the error of an update whose loss or gradient is not finite. It wraps
// fault.ErrNotFinite.
type NotFinite struct {
	What  string // "loss" or "gradient norm"
	Value float64
}

func (e *NotFinite) Error() string {
	return fmt.Sprintf("%s: %v, %v", e.What, e.Value, fault.ErrNotFinite)
}
func (e *NotFinite) Unwrap() error { return fault.ErrNotFinite }

// CheckRows checks the number of rows that a Network or a Learner is made for.
func CheckRows(rows int) error {
	if rows < 1 || rows > MaxRows {
		return fmt.Errorf("rows: %d, must be 1 to %d", rows, MaxRows)
	}
	return nil
}
