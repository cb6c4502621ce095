package classic

import "github.com/paceline-rl/paceline/core/env"

// MountainCar is Gymnasium's MountainCar-v0. The task is to push a weak car left (0), not at all
// (1) or right (2) until the car has swung up to the goal at position 0.5. The reward is -1 a step.
// The observation is position and speed.
type MountainCar struct{ task }

const (
	carMin, carMax = -1.2, 0.6
	carMaxSpeed    = 0.07
	carGoal        = 0.5
	carForce       = 0.001
	carGravity     = 0.0025
)

// NewMountainCar returns a MountainCar, not yet reset.
func NewMountainCar() *MountainCar {
	return &MountainCar{newTask(mountainCar, env.Spec{
		ID: "MountainCar-v0",
		Obs: env.ObsSpec{DType: env.Float32, Shape: []int{2},
			Low: []float32{carMin, -carMaxSpeed}, High: []float32{carMax, carMaxSpeed}},
		Action:    env.ActionSpec{N: 3},
		MaxSteps:  200,
		FPS:       30,
		Threshold: -110,
	})}
}

// Reset draws the position from [-0.6, -0.4) and stops the car.
func (m *MountainCar) Reset(obs []byte) error {
	m.state = [4]float64{m.stream.Uniform(-0.6, -0.4), 0}
	m.startEpisode()
	put(obs, m.state[:2]...)
	return nil
}

// Step pushes the car once.
func (m *MountainCar) Step(action int32, obs []byte) (float32, env.End, error) {
	if !m.active {
		return 0, 0, errNotActive
	}
	x, v := m.state[0], m.state[1]
	v += float64(float64(action-1)*carForce) + float64(cosine(3*x)*-carGravity)
	v = min(max(v, -carMaxSpeed), carMaxSpeed)
	x = min(max(x+v, carMin), carMax)
	if x == carMin && v < 0 {
		v = 0 // the wall on the left
	}
	m.state = [4]float64{x, v}
	put(obs, x, v)
	return -1, m.count(x >= carGoal && v >= 0), nil
}
