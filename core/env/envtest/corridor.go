package envtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// Corridor is the smallest environment, an example for the author of a new one. It has the cells
// 0 to 8; an episode starts in the middle. Action 0 moves left, 1 right. A reset puts the goal at
// either end with equal probability. The episode terminates at both ends, with reward 1 at the
// goal and -1 at the other end. It is truncated after 40 steps. The observation is the cell, scaled
// to -1..1, and the end with the goal, -1 or 1. The best policy always scores 1. A policy that
// ignores the observation scores 0 on average.
type Corridor struct {
	spec   env.Spec
	stream *rng.Stream
	cell   int
	goal   int // -1: cell 0; 1: the last cell
	steps  int
	active bool
}

const (
	corridorLast  = 8
	corridorSteps = 40
)

// NewCorridor returns a Corridor, not yet reset.
func NewCorridor() *Corridor {
	c := &Corridor{cell: corridorLast / 2, goal: 1, spec: env.Spec{
		ID:       "Corridor-v0",
		Obs:      env.ObsSpec{DType: env.Float32, Shape: []int{2}, Low: []float32{-1}, High: []float32{1}},
		Action:   env.ActionSpec{N: 2},
		MaxSteps: corridorSteps,
	}}
	c.Seed(0)
	return c
}

// Spec describes the task.
func (c *Corridor) Spec() env.Spec { return c.spec }

// Seed restarts the stream of goals.
func (c *Corridor) Seed(seed uint64) { c.stream = rng.New(seed, "env", 0) }

// Close does nothing.
func (c *Corridor) Close() error { return nil }

// Reset draws the goal.
func (c *Corridor) Reset(obs []byte) error {
	c.cell, c.goal, c.steps, c.active = corridorLast/2, 2*c.stream.Intn(2)-1, 0, true
	c.observe(obs)
	return nil
}

// Step moves by one cell.
func (c *Corridor) Step(action int32, obs []byte) (float32, env.End, error) {
	if !c.active {
		return 0, 0, errors.New("step before reset")
	}
	c.cell += 2*int(action) - 1
	c.steps++
	c.observe(obs)
	reward, end := float32(0), env.End(0)
	switch c.cell {
	case 0:
		reward, end = float32(-c.goal), env.Terminated
	case corridorLast:
		reward, end = float32(c.goal), env.Terminated
	}
	if c.steps == corridorSteps {
		end |= env.Truncated
	}
	c.active = end == 0
	return reward, end, nil
}

func (c *Corridor) observe(obs []byte) {
	binary.NativeEndian.PutUint32(obs, math.Float32bits(float32(2*c.cell)/corridorLast-1))
	binary.NativeEndian.PutUint32(obs[4:], math.Float32bits(float32(c.goal)))
}

// Save returns the state: one byte each for the cell, the goal, the steps and whether an episode
// is in progress, then the stream.
func (c *Corridor) Save() ([]byte, error) {
	b := []byte{byte(c.cell), byte(c.goal + 1), byte(c.steps), 0}
	if c.active {
		b[3] = 1
	}
	stream, err := c.stream.MarshalBinary()
	return append(b, stream...), err
}

// Restore loads a state from Save. After an error the environment is unchanged.
func (c *Corridor) Restore(b []byte) error {
	if len(b) != 4+rng.StateSize || b[0] > corridorLast || b[1]|2 != 2 || b[2] > corridorSteps || b[3] > 1 {
		return fmt.Errorf("Corridor-v0 state: %v, must be what Save returned", b)
	}
	stream := new(rng.Stream)
	if err := stream.UnmarshalBinary(b[4:]); err != nil {
		return err
	}
	c.cell, c.goal, c.steps, c.active, c.stream = int(b[0]), int(b[1])-1, int(b[2]), b[3] == 1, stream
	return nil
}
