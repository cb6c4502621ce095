package classic

import "github.com/paceline-rl/paceline/core/env"

// ContinuousCar is Gymnasium's MountainCarContinuous-v0: MountainCar with a force of -1 to 1 and
// the goal at position 0.45. The reward of a step is -0.1 force^2, and 100 more at the goal. The
// observation is position and speed. The episode is truncated after 999 steps.
//
// As in Gymnasium with NumPy 2, the state is float32 from the first step on: the start state is
// float64.
type ContinuousCar struct{ boxTask }

const (
	continuousGoal  = 0.45
	continuousForce = 0.0015
)

// NewContinuousCar returns a ContinuousCar, not yet reset.
func NewContinuousCar() *ContinuousCar {
	return &ContinuousCar{boxTask{newTask(continuousCar, env.Spec{
		ID: "MountainCarContinuous-v0",
		Obs: env.ObsSpec{DType: env.Float32, Shape: []int{2},
			Low: []float32{carMin, -carMaxSpeed}, High: []float32{carMax, carMaxSpeed}},
		Action:    env.ActionSpec{Low: []float32{-1}, High: []float32{1}},
		MaxSteps:  999,
		FPS:       30,
		Threshold: 90,
	})}}
}

// Reset draws the position from [-0.6, -0.4) and stops the car.
func (c *ContinuousCar) Reset(obs []byte) error {
	c.state = [4]float64{c.stream.Uniform(-0.6, -0.4), 0}
	c.startEpisode()
	put(obs, c.state[:2]...)
	return nil
}

// StepAction pushes the car once.
func (c *ContinuousCar) StepAction(_ []int32, box []float32, obs []byte) (float32, env.End, error) {
	if !c.active {
		return 0, 0, errNotActive
	}
	force := box[0]
	var x, v float64
	var atGoal bool
	if c.steps == 0 {
		x, v, atGoal = pushCar(c.state[0], c.state[1], force)
	} else {
		x32, v32, at := pushCar(float32(c.state[0]), float32(c.state[1]), force)
		x, v, atGoal = float64(x32), float64(v32), at
	}
	c.state = [4]float64{float64(float32(x)), float64(float32(v))}
	put(obs, c.state[:2]...)
	reward := -float64(float64(float64(force)*float64(force)) * 0.1)
	if atGoal {
		reward += 100
	}
	return float32(reward), c.count(atGoal), nil
}

// pushCar returns the state after a step, computed in the type of the state before it, and whether
// the car has reached the goal.
func pushCar[T float32 | float64](x, v T, force float32) (T, T, bool) {
	slope := 0.0025 * cosine(float64(3*x))
	v += T(float32(force*continuousForce) - float32(slope))
	v = min(max(v, -carMaxSpeed), carMaxSpeed)
	x = min(max(x+v, carMin), carMax)
	if x == carMin && v < 0 {
		v = 0 // the wall on the left
	}
	return x, v, x >= continuousGoal && v >= 0
}
