// Package env defines the environment interfaces and keeps the registry of environments.
//
// One goroutine at a time steps an environment. The environment writes its observation into the
// caller's memory, a row of a batch. ObsSpec describes the bytes of the row; float32 components
// are stored in the machine's byte order.
//
// All randomness of an environment comes from its own stream (core/rng). The future of an
// environment is therefore a function of its saved state and of the actions.
package env

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/fault"
)

// DType is the type of one number. An observation is Uint8 or Float32.
type DType uint8

const (
	Uint8   DType = iota // one byte, 0..255: pixels
	Float32              // four bytes: physical quantities
	Int32                // four bytes: counts
	Bool                 // one byte, 0 or 1
)

// Size returns the size of one number in bytes.
func (d DType) Size() int {
	if d == Float32 || d == Int32 {
		return 4
	}
	return 1
}

// String returns the name NumPy uses: "uint8", "float32", "int32" or "bool".
func (d DType) String() string { return [...]string{"uint8", "float32", "int32", "bool"}[d] }

// ObsSpec describes an observation (a Gymnasium Box).
type ObsSpec struct {
	DType DType
	// Shape is [C, H, W] for images and [n] for vectors.
	Shape []int
	// Low and High bound every component. Each has one entry, or one entry per component.
	Low, High []float32
	// FrameStack is the number of successive frames on the first axis of Shape, oldest first. It
	// divides that axis: a frame may have several planes. An observation is then the previous
	// observation shifted by one frame. 0 or 1: no stack.
	FrameStack int
}

// Len returns the number of components of an observation.
func (s ObsSpec) Len() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// Bytes returns the size of an observation in bytes.
func (s ObsSpec) Bytes() int { return s.Len() * s.DType.Size() }

// CheckStack refuses a FrameStack that does not divide the first axis.
func (s ObsSpec) CheckStack() error {
	if n := s.FrameStack; n < 0 || n > 0 && (len(s.Shape) == 0 || s.Shape[0]%n != 0) {
		return fmt.Errorf("frame_stack: %d, must be 0 or divide the first axis of the observation shape %v", n, s.Shape)
	}
	return nil
}

// Spec describes an environment.
type Spec struct {
	ID     string
	Obs    ObsSpec
	Action ActionSpec
	// LifeLoss says that Step may return Lost.
	LifeLoss bool
	// Masks says that some states forbid some actions and that the environment is a Masker.
	Masks bool
	// Waits says that Step and Reset compute little and mostly wait, asleep or blocked in C, for
	// a device, a clock or another program. Each waiting environment is stepped on its own
	// thread (up to threads.Max), which holds no core of a thread budget. Waits changes how
	// long a step takes, and no result.
	Waits bool
	// MaxSteps is the length in steps at which an episode is truncated; 0: no limit.
	MaxSteps int
	// FPS is the number of steps in one second of play as a person would watch it.
	FPS int
	// Threshold is the mean return at which the task counts as solved, as in Gymnasium's
	// registry; 0: not defined.
	Threshold float64
}

// maxObsBytes limits the size of an observation. A larger size is a mistake in the shape.
const maxObsBytes = 1 << 28

// Check returns the first mistake in a Spec, as one sentence.
func (s Spec) Check() error {
	o := s.Obs
	if o.DType > Float32 {
		return fmt.Errorf("observation dtype: %d, must be uint8 or float32", uint8(o.DType))
	}
	if len(o.Shape) == 0 {
		return fmt.Errorf("observation shape: %v, must have at least one axis", o.Shape)
	}
	size := o.DType.Size()
	for _, d := range o.Shape {
		if d < 1 || d > maxObsBytes/size {
			return fmt.Errorf("observation shape: %v, every axis must be at least 1 and the whole at most %d bytes", o.Shape, maxObsBytes)
		}
		size *= d
	}
	for _, bound := range []struct {
		name   string
		values []float32
	}{{"low", o.Low}, {"high", o.High}} {
		if n := len(bound.values); n != 1 && n != o.Len() {
			return fmt.Errorf("observation %s: %d entries, must be 1 or %d", bound.name, n, o.Len())
		}
	}
	if err := o.CheckStack(); err != nil {
		return fmt.Errorf("observation %w", err)
	}
	if err := s.Action.Check(); err != nil {
		return err
	}
	if s.Masks && s.Action.Ints() == 0 {
		return fmt.Errorf("actions: %v, must be discrete or have branches where there are action masks", s.Action)
	}
	if s.MaxSteps < 0 {
		return fmt.Errorf("max_steps: %d, must not be negative", s.MaxSteps)
	}
	return nil
}

// End says how a step left the episode; 0: the episode goes on. If Terminated and Truncated are
// both set, Terminated decides the value of the last state.
type End uint8

const (
	Terminated End = 1 << iota // the task is over: the return after the last state is zero
	Truncated                  // cut off (time limit): the return after the last state is not zero
	// Lost marks the loss of a life that the learner treats as a termination. The episode and
	// its observations go on without a Reset.
	Lost
)

// Over reports whether the next call must be Reset.
func (e End) Over() bool { return e&(Terminated|Truncated) != 0 }

// Env is one environment. After Step returns an End that is Over, the next call must be Reset.
// Reset and Step write the observation into obs, which has exactly Spec().Obs.Bytes() bytes and
// belongs to the caller.
type Env interface {
	Spec() Spec
	// Seed restarts the environment's own random stream. Seed takes effect at the next Reset.
	Seed(seed uint64)
	// Reset starts an episode. Reset draws on from the environment's stream.
	Reset(obs []byte) error
	// Step takes one action. The caller has checked the range of the action.
	Step(action int32, obs []byte) (reward float32, end End, err error)
	Close() error
}

// ActionEnv is an Env whose actions may be of every kind. If ActionSpec.N is 0, the caller calls
// StepAction instead of Step: branches has an integer for each branch, box a number for each entry
// of the box. The caller has checked their ranges.
type ActionEnv interface {
	Env
	StepAction(branches []int32, box []float32, obs []byte) (reward float32, end End, err error)
}

// BatchStep is the step of one environment in a call of StepBatch.
type BatchStep struct {
	Env Env
	Row int // the environment's row of the observations
	// The action, within its ranges: Branches has an entry where ActionSpec.N is above 0.
	Branches []int32
	Box      []float32

	// Results.
	Reward float32
	End    End
	Err    error // this environment failed
}

// Batcher is an Env that steps several environments of its kind in one call.
type Batcher interface {
	Env
	// Batched reports whether this environment's kind does.
	Batched() bool
	// StepBatch takes one step in each environment of steps, which are of the receiver's kind.
	// It writes observations to obs, where row steps[k].Row of Spec().Obs.Bytes() bytes is that
	// of steps[k]. An error means that all of them failed. Calls for different environments may
	// run concurrently.
	StepBatch(steps []BatchStep, obs []byte) error
}

// Delayer is an Env that can step before the caller knows the memory for the observation. Advance
// takes the step; Observe writes its observation, any number of times until the next call.
// branches has one entry where ActionSpec.N is above 0.
type Delayer interface {
	Env
	Advance(branches []int32, box []float32) (reward float32, end End, err error)
	Observe(obs []byte)
}

// InfoSpec describes a column of an Informer. An entry of the column is one number, or with Len
// above 0 a row of Len numbers.
type InfoSpec struct {
	Name  string
	DType DType
	Len   int
}

// Bytes returns the size of one environment's entry.
func (s InfoSpec) Bytes() int { return max(1, s.Len) * s.DType.Size() }

// Informer is an Env that reports more about its state than its observation does.
type Informer interface {
	Env
	// Infos describes the columns. The result never changes.
	Infos() []InfoSpec
	// Inform writes row i of each column, in the machine's byte order.
	Inform(columns [][]byte, i int)
}

// Indexed is an Env that uses its index in a vector.
type Indexed interface{ SetIndex(i int) }

// Evaluable is an Env that changes episodes and rewards for learning. After Evaluate, from the
// next reset on, the episodes and rewards are those of the task itself.
type Evaluable interface{ Evaluate() }

// Restarter is an Env whose episodes may be parts of a game, such as single lives. If the last
// episode ended before the game did, Reset continues the game. After Restart the next Reset starts
// a new game.
type Restarter interface{ Restart() }

// Game is an Env whose episodes are games of an emulator, which counts frames.
type Game interface {
	Env
	// StartAt starts an episode in a saved state of the emulator, instead of a Reset. The frames
	// played before the state count as frames of the game. After an error the next call must be
	// Reset or StartAt.
	StartAt(state, obs []byte) error
	// LimitFrames truncates games after `frames` frames, 1 or more. It replaces the limit of the
	// environment's options.
	LimitFrames(frames int)
}

// RecipeEnv is an Env whose observations follow a recipe. Recipe returns the name of the recipe
// and a hash of all its settings, by which two runs can be compared.
type RecipeEnv interface {
	Recipe() (name, hash string)
}

// Saver is an Env that can save its whole state, its stream included. A new environment of the
// same kind goes on with the same bits after Restore.
type Saver interface {
	Env
	Save() ([]byte, error)
	Restore(state []byte) error
}

// Sized is an Env that reports the memory it uses, in bytes, without observations.
type Sized interface {
	Env
	Bytes() int64
}

// BytesOf estimates the memory that e uses: the size that a Sized reports, or a size typical for
// the observations.
func BytesOf(e Env) int64 {
	if e, ok := e.(Sized); ok {
		return e.Bytes()
	}
	spec := e.Spec()
	return 1024 + int64(spec.Obs.Bytes())
}

// Renderer is an Env that can draw an image of its state.
type Renderer interface {
	// Render returns an RGB image, 8 bits a channel, row by row.
	Render() (rgb []byte, width, height int, err error)
}

// Error is a failure of environment Index of a vector.
type Error struct {
	Index int
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("environment %d: %v", e.Index, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// OfEnvironment implements fault.OfEnvironment.
func (e *Error) OfEnvironment() {}

// RowError refuses an argument for one environment, or one row or step of the arguments. Nothing
// has failed: an Error is the failure of an environment.
type RowError struct {
	Of    string // "environment", "row" or "step"
	Index int
	Err   error
}

func (e *RowError) Error() string { return fmt.Sprintf("%s %d: %v", e.Of, e.Index, e.Err) }
func (e *RowError) Unwrap() error { return e.Err }

// CheckFinite returns an error if a component of an observation is NaN or infinite. Such a
// component would spread to all weights.
func (s *ObsSpec) CheckFinite(obs []byte) error {
	if s.DType != Float32 {
		return nil
	}
	const exponent = 0x7f800000 // all of it set: NaN or infinity
	for k := 0; k+4 <= len(obs); k += 4 {
		if bits := binary.NativeEndian.Uint32(obs[k:]); bits&exponent == exponent {
			return fmt.Errorf("observation: component %d is %v, %w", k/4, math.Float32frombits(bits), fault.ErrNotFinite)
		}
	}
	return nil
}

// CheckReward returns an error if a reward is NaN or infinite.
func CheckReward(r float32) error {
	if r-r != 0 {
		return fmt.Errorf("reward: %v, %w", r, fault.ErrNotFinite)
	}
	return nil
}
