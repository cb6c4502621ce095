// Package env defines what an environment is to the rest of the library, and
// keeps the register of the built-in ones.
//
// An environment is stepped by one goroutine at a time and writes its
// observation into memory that somebody else owns: a row of a batch. An
// observation is a row of bytes whose meaning the ObsSpec gives; float32
// components are stored in the machine's byte order.
//
// All randomness of an environment comes from its own stream (core/rng), so an
// environment's future is a function of its saved state and the actions taken.
package env

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/fault"
)

// DType is the type of one number. Observations have the first two.
type DType uint8

const (
	Uint8   DType = iota // one byte, 0..255: pixels
	Float32              // four bytes: physical quantities
	Int32                // four bytes: counts
	Bool                 // one byte, 0 or 1
)

// Size returns the bytes one number takes.
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
	// Low and High bound every component; one entry each, or one per component.
	Low, High []float32
	// FrameStack says that the first axis of Shape holds that many successive
	// frames, oldest first, so that an observation is the previous one shifted
	// by one frame. 0 or 1: no stack.
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

// ActionSpec describes an action: an integer 0..N-1 (Gymnasium's Discrete), or, with N 0, as
// many float32 as Low and High have entries, each within its bounds (a Box of one axis).
type ActionSpec struct {
	N         int
	Low, High []float32
	// Names are what the N discrete actions are called; nil: nothing.
	Names []string
}

// Equal reports whether two specs are the same.
func (s ActionSpec) Equal(o ActionSpec) bool {
	return s.N == o.N && slices.Equal(s.Low, o.Low) && slices.Equal(s.High, o.High)
}

// Bytes returns the size of an action in bytes: an int32, or the float32 of a box.
func (s ActionSpec) Bytes() int {
	if s.N > 0 {
		return 4
	}
	return 4 * len(s.Low)
}

// String returns "5 discrete" or "a box of 3".
func (s ActionSpec) String() string {
	if s.N > 0 {
		return fmt.Sprintf("%d discrete", s.N)
	}
	return fmt.Sprintf("a box of %d", len(s.Low))
}

// Spec describes an environment.
type Spec struct {
	ID     string
	Obs    ObsSpec
	Action ActionSpec
	// LifeLoss says that a step may be Lost.
	LifeLoss bool
	// Masks says that not every action may be taken in every state, and that the
	// environment is a Masker.
	Masks bool
	// Waits says that Step and Reset mostly wait, for a device, a clock or another program,
	// asleep or blocked in C, and compute little. Each of such environments is stepped on a
	// thread of its own (up to threads.Max), which holds no core of a thread budget
	// meanwhile. It changes the time taken and nothing else.
	Waits bool
	// MaxSteps truncates an episode after that many steps; 0: never.
	MaxSteps int
	// FPS is how many steps make a second of what a person would see.
	FPS int
	// Threshold is the mean return at which the task counts as solved, as in
	// Gymnasium's registry; 0 if none is defined.
	Threshold float64
}

// maxObsBytes bounds an observation; a larger one is a mistake in its shape.
const maxObsBytes = 1 << 28

// Check reports what is wrong with a Spec, in one sentence.
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
	if o.FrameStack < 0 || o.FrameStack > 1 && o.FrameStack != o.Shape[0] {
		return fmt.Errorf("observation frame_stack: %d, must be 0, 1 or the first axis of the shape %v", o.FrameStack, o.Shape)
	}
	if a := s.Action; a.N < 0 || a.N == 0 && (len(a.Low) == 0 || len(a.Low) != len(a.High)) {
		return fmt.Errorf("actions: %d, must be at least 1", a.N)
	}
	if s.Masks && s.Action.N == 0 {
		return fmt.Errorf("actions: %v, must be discrete where there are action masks", s.Action)
	}
	if s.MaxSteps < 0 {
		return fmt.Errorf("max_steps: %d, must not be negative", s.MaxSteps)
	}
	return nil
}

// End says how a step left the episode. Both bits can be set: termination then
// decides the value of the last state.
type End uint8

const (
	Terminated End = 1 << iota // the task is over: the return beyond is zero
	Truncated                  // cut off (time limit): the return beyond is not zero
	// Lost is reported as a termination, but the episode goes on: a life was lost in a game
	// whose learner takes that for an end, and whose observations go on all the same.
	Lost
)

// Over reports whether the next call must be Reset.
func (e End) Over() bool { return e&(Terminated|Truncated) != 0 }

// Env is one environment. After Step returns an End that is Over the next call
// must be Reset. Reset and Step write the observation into obs, which has
// exactly Spec().Obs.Bytes() bytes and belongs to the caller.
type Env interface {
	Spec() Spec
	// Seed restarts the environment's own stream of random numbers. It takes
	// effect at the next Reset.
	Seed(seed uint64)
	// Reset starts an episode, going on along the environment's stream.
	Reset(obs []byte) error
	// Step takes one action; the caller has checked its range.
	Step(action int32, obs []byte) (reward float32, end End, err error)
	Close() error
}

// BoxEnv is an Env whose actions may be a box: where its ActionSpec says so, StepBox takes
// the place of Step. The caller has checked the range.
type BoxEnv interface {
	Env
	StepBox(action []float32, obs []byte) (reward float32, end End, err error)
}

// Delayer is an Env that can take a step before it is known where the observation goes:
// Observe writes it afterwards, any number of times until the next call. action is a
// number or, where the ActionSpec is a box, box is the action.
type Delayer interface {
	Env
	Advance(action int32, box []float32) (reward float32, end End, err error)
	Observe(obs []byte)
}

// InfoSpec describes what an Informer reports under one name: a number, or with Len above 0
// a row of as many.
type InfoSpec struct {
	Name  string
	DType DType
	Len   int
}

// Bytes returns what one environment's entry takes.
func (s InfoSpec) Bytes() int { return max(1, s.Len) * s.DType.Size() }

// Informer is an Env that reports more about its state than its observation does.
type Informer interface {
	Env
	// Infos describes the columns; it never changes.
	Infos() []InfoSpec
	// Inform writes row i of each column, in the machine's byte order.
	Inform(columns [][]byte, i int)
}

// Numbered is an Env that wants to know its index in a vector.
type Numbered interface{ Number(i int) }

// Evaluable is an Env whose episodes and rewards are made for learning, and which shows
// the task's own from the next reset on once Evaluate is called.
type Evaluable interface{ Evaluate() }

// Restarter is an Env whose episodes may be parts of a game, such as its lives: Reset goes on with
// the game where the last episode ended before it. After Restart the next Reset begins a game.
type Restarter interface{ Restart() }

// Named is an Env whose observations follow a recipe: a name, and a hash of all that the
// recipe says, so that two runs can be compared.
type Named interface {
	Recipe() (name, hash string)
}

// Saver is an Env whose whole state, its stream included, can be written down:
// Restore into a fresh environment of the same kind goes on with the same bits.
type Saver interface {
	Env
	Save() ([]byte, error)
	Restore(state []byte) error
}

// Sized is an Env that says how much memory it takes, observations aside.
type Sized interface {
	Env
	Bytes() int64
}

// BytesOf returns about how much memory e takes: what it says, or what is usual for its
// observations.
func BytesOf(e Env) int64 {
	if e, ok := e.(Sized); ok {
		return e.Bytes()
	}
	spec := e.Spec()
	return 1024 + int64(spec.Obs.Bytes())
}

// Renderer is an Env that can draw itself.
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

// CheckFinite refuses an observation with a component that is NaN or infinite,
// which would spread to all weights.
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

// CheckReward refuses a reward that is NaN or infinite.
func CheckReward(r float32) error {
	if r-r != 0 {
		return fmt.Errorf("reward: %v, %w", r, fault.ErrNotFinite)
	}
	return nil
}
