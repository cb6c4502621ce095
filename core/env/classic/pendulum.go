package classic

import (
	"math"

	"github.com/paceline-rl/paceline/core/env"
)

// Pendulum is Gymnasium's Pendulum-v1. The task is to swing a pendulum up and to hold it there by a
// torque of -2 to 2 Nm. The reward of a step is -(angle^2 + 0.1 speed^2 + 0.001 torque^2), where
// angle, in [-pi, pi), is 0 if the pendulum is upright. The observation is the cosine and the sine
// of the angle and the speed (rad/s). The state is the angle (rad), whole turns included, and the
// speed. The episode is truncated after 200 steps and never terminates.
type Pendulum struct{ boxTask }

const (
	pendDT        = 0.05 // seconds a step
	pendMaxTorque = 2
	pendMaxSpeed  = 8
	// Gravity is 10 m/s^2, the rod's mass 1 kg and its length 1 m.
	pendWeight = 15 // 3/2 of gravity by length
	pendLever  = 3  // 3 by mass by length^2
	pendLength = 1.0
)

// NewPendulum returns a Pendulum, not yet reset.
func NewPendulum() *Pendulum {
	high := []float32{1, 1, pendMaxSpeed}
	return &Pendulum{boxTask{newTask(pendulum, env.Spec{
		ID:       "Pendulum-v1",
		Obs:      env.ObsSpec{DType: env.Float32, Shape: []int{3}, Low: negative(high), High: high},
		Action:   env.ActionSpec{Low: []float32{-pendMaxTorque}, High: []float32{pendMaxTorque}},
		MaxSteps: 200,
		FPS:      30,
	})}}
}

// Reset draws the angle from [-pi, pi) and the speed from [-1, 1).
func (p *Pendulum) Reset(obs []byte) error {
	p.state = [4]float64{p.stream.Uniform(-math.Pi, math.Pi), p.stream.Uniform(-1, 1)}
	p.startEpisode()
	p.observe(obs)
	return nil
}

func (p *Pendulum) observe(obs []byte) {
	sin, cos := sineAndCosine(p.state[0])
	put(obs, cos, sin, p.state[1])
}

// StepAction applies the torque for a twentieth of a second, by one step of the semi-implicit Euler
// method. As in Gymnasium with NumPy 2, products of the torque are rounded to float32.
func (p *Pendulum) StepAction(_ []int32, box []float32, obs []byte) (float32, env.End, error) {
	if !p.active {
		return 0, 0, errNotActive
	}
	angle, speed, torque := p.state[0], p.state[1], box[0]
	off := upright(angle)
	effort := float32(0.001 * float32(torque*torque))
	cost := float64(off*off) + float64(0.1*float64(speed*speed)) + float64(effort)

	push := float32(pendLever * torque)
	speed += float64((float64(pendWeight*sine(angle)) + float64(push)) * pendDT)
	speed = min(max(speed, -pendMaxSpeed), pendMaxSpeed)
	angle += float64(speed * pendDT)
	p.state = [4]float64{angle, speed}
	p.observe(obs)
	return float32(-cost), p.count(false), nil
}

// upright moves an angle into [-pi, pi) by whole turns.
func upright(x float64) float64 {
	turned := math.Mod(x+math.Pi, 2*math.Pi)
	if turned < 0 {
		turned += 2 * math.Pi
	}
	return turned - math.Pi
}
