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
	"errors"
	"fmt"
	"math"
)

// DType is the type of one observation component.
type DType uint8

const (
	Uint8   DType = iota // one byte, 0..255: pixels
	Float32              // four bytes: physical quantities
)

// Size returns the bytes one component takes.
func (d DType) Size() int {
	if d == Float32 {
		return 4
	}
	return 1
}

// String returns the name NumPy uses: "uint8" or "float32".
func (d DType) String() string {
	if d == Float32 {
		return "float32"
	}
	return "uint8"
}

// ObsSpec describes an observation (a Gymnasium Box).
type ObsSpec struct {
	DType DType
	// Shape is [C, H, W] for pictures and [n] for vectors.
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

// ActionSpec describes an action. Only Discrete exists: integers 0..N-1.
type ActionSpec struct {
	N int
}

// Spec describes an environment.
type Spec struct {
	ID     string
	Obs    ObsSpec
	Action ActionSpec
	// MaxSteps truncates an episode after that many steps; 0: never.
	MaxSteps int
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
	if s.Action.N < 1 {
		return fmt.Errorf("actions: %d, must be at least 1", s.Action.N)
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
)

// Env is one environment. After Step returns an End other than 0 the next call
// must be Reset. Reset and Step write the observation into obs, which has
// exactly Spec().Obs.Bytes() bytes and belongs to the caller.
type Env interface {
	Spec() Spec
	// Seed restarts the environment's own stream of random numbers. It takes
	// effect at the next Reset.
	Seed(seed uint64)
	// Reset begins an episode, going on along the environment's stream.
	Reset(obs []byte) error
	// Step takes one action; the caller has checked its range.
	Step(action int32, obs []byte) (reward float32, end End, err error)
	Close() error
}

// Saver is an Env whose whole state, its stream included, can be written down:
// Restore into a fresh environment of the same kind goes on with the same bits.
type Saver interface {
	Env
	Save() ([]byte, error)
	Restore(state []byte) error
}

// Renderer is an Env that can draw itself.
type Renderer interface {
	// Render returns an RGB picture, 8 bits a channel, row by row.
	Render() (rgb []byte, width, height int, err error)
}

// Error is a failure of environment Index of a vector.
type Error struct {
	Index int
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("environment %d: %v", e.Index, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// ErrNotFinite is what NaN and infinity are refused with, wherever they come
// up: in observations and rewards, in a loss, in parameters.
var ErrNotFinite = errors.New("must be finite")

// CheckFinite refuses an observation with a component that is NaN or infinite,
// which would spread to all weights.
func (s ObsSpec) CheckFinite(obs []byte) error {
	if s.DType != Float32 {
		return nil
	}
	const exponent = 0x7f800000 // all of it set: NaN or infinity
	for k := 0; k+4 <= len(obs); k += 4 {
		if bits := binary.NativeEndian.Uint32(obs[k:]); bits&exponent == exponent {
			return fmt.Errorf("observation: component %d is %v, %w", k/4, math.Float32frombits(bits), ErrNotFinite)
		}
	}
	return nil
}

// CheckReward refuses a reward that is NaN or infinite.
func CheckReward(r float32) error {
	if r-r != 0 {
		return fmt.Errorf("reward: %v, %w", r, ErrNotFinite)
	}
	return nil
}

// PanicError is a panic that was caught: a bug in an environment or in the
// library.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
