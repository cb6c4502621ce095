package classic

import (
	"math"

	"github.com/paceline-rl/paceline/core/env"
)

// Acrobot is Gymnasium's Acrobot-v1, with the equations of Sutton and Barto's book. The task is to
// swing the tip of a two-link pendulum above a line by a torque of -1, 0 or 1 (actions 0, 1, 2) on
// the middle joint. The reward is -1 a step, and 0 for the step that terminates. The observation is
// cos and sin of both angles (the second relative to the first) and both angular speeds. The
// state is both angles (rad) and both speeds (rad/s).
type Acrobot struct{ task }

const (
	acroDT      = 0.2 // seconds a step
	acroMaxVel1 = 4 * math.Pi
	acroMaxVel2 = 9 * math.Pi
	acroStart   = 0.1
	acroGravity = 9.8
	// Both links are equal: mass 1 kg, length 1 m, centre of mass at 0.5 m, moment of inertia 1.
	acroMass   = 1.0
	acroLength = 1.0
	acroCentre = 0.5
	acroMoment = 1.0
	// (m·lc + m·l)·g as float64 arithmetic rounds it; Go would fold it exactly.
	acroWeight = 14.700000000000001
)

// NewAcrobot returns an Acrobot, not yet reset.
func NewAcrobot() *Acrobot {
	high := []float32{1, 1, 1, 1, acroMaxVel1, acroMaxVel2}
	return &Acrobot{newTask(acrobot, env.Spec{
		ID:        "Acrobot-v1",
		Obs:       env.ObsSpec{DType: env.Float32, Shape: []int{6}, Low: negative(high), High: high},
		Action:    env.ActionSpec{N: 3},
		MaxSteps:  500,
		FPS:       15,
		Threshold: -100,
	})}
}

// Reset draws each number of the state from [-0.1, 0.1) and rounds to float32, as Gymnasium does.
func (a *Acrobot) Reset(obs []byte) error {
	for i := range a.state {
		a.state[i] = float64(float32(a.stream.Uniform(-acroStart, acroStart)))
	}
	a.startEpisode()
	a.observe(obs)
	return nil
}

func (a *Acrobot) observe(obs []byte) {
	s := &a.state
	sin1, cos1 := sineAndCosine(s[0])
	sin2, cos2 := sineAndCosine(s[1])
	put(obs, cos1, sin1, cos2, sin2, s[2], s[3])
}

// Step applies the torque for a fifth of a second, by one step of the classical Runge-Kutta method.
func (a *Acrobot) Step(action int32, obs []byte) (float32, env.End, error) {
	if !a.active {
		return 0, 0, errNotActive
	}
	torque := float64(action - 1)
	s := a.state
	k1 := acroDerivative(s, torque)
	k2 := acroDerivative(along(s, acroDT/2, k1), torque)
	k3 := acroDerivative(along(s, acroDT/2, k2), torque)
	k4 := acroDerivative(along(s, acroDT, k3), torque)
	for i := range s {
		s[i] += float64(acroDT / 6 * (k1[i] + float64(2*k2[i]) + float64(2*k3[i]) + k4[i]))
	}
	s[0], s[1] = wrap(s[0]), wrap(s[1])
	s[2] = min(max(s[2], -acroMaxVel1), acroMaxVel1)
	s[3] = min(max(s[3], -acroMaxVel2), acroMaxVel2)
	a.state = s
	a.observe(obs)

	if -cosine(s[0])-cosine(s[1]+s[0]) > 1 {
		return 0, a.count(true), nil
	}
	return -1, a.count(false), nil
}

// along returns s + h·d.
func along(s [4]float64, h float64, d [4]float64) [4]float64 {
	for i := range s {
		s[i] += float64(h * d[i])
	}
	return s
}

// acroDerivative returns the time derivative of both angles and both speeds.
func acroDerivative(s [4]float64, torque float64) [4]float64 {
	const (
		m, l, lc, inertia, g = acroMass, acroLength, acroCentre, acroMoment, acroGravity
	)
	theta1, theta2, v1, v2 := s[0], s[1], s[2], s[3]
	sin2, cos2 := sineAndCosine(theta2)
	d1 := m*(lc*lc) + float64(m*(l*l+lc*lc+float64(2*l*lc*cos2))) + inertia + inertia
	d2 := float64(m*(lc*lc+float64(l*lc*cos2))) + inertia
	phi2 := float64(m * lc * g * cosine(theta1+theta2-math.Pi/2))
	phi1 := float64(-m*l*lc*(v2*v2)*sin2) - float64(2*m*l*lc*v2*v1*sin2) + float64(acroWeight*cosine(theta1-math.Pi/2)) + phi2
	a2 := (torque + float64(d2/d1*phi1) - float64(m*l*lc*(v1*v1)*sin2) - phi2) / (m*(lc*lc) + inertia - d2*d2/d1)
	a1 := -(float64(d2*a2) + phi1) / d1
	return [4]float64{v1, v2, a1, a2}
}

// wrap moves an angle into [-pi, pi] by whole turns.
func wrap(x float64) float64 {
	for x > math.Pi {
		x -= 2 * math.Pi
	}
	for x < -math.Pi {
		x += 2 * math.Pi
	}
	return x
}
