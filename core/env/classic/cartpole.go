package classic

import (
	"math"

	"github.com/paceline-rl/paceline/core/env"
)

// CartPole is Gymnasium's CartPole-v1. The task is to push a cart left (0) or right (1) so that
// the pole on the cart stays up. The reward is 1 for every step, the last step included. The
// observation is the cart's position and speed and the pole's angle (rad) and angular speed. The
// episode terminates beyond position 2.4 or 12 degrees, and is truncated after 500 steps.
type CartPole struct{ task }

const (
	cartGravity     = 9.8
	cartPoleMass    = 0.1
	cartTotalMass   = 0.1 + 1.0
	cartHalfLength  = 0.5
	cartPoleMoment  = cartPoleMass * cartHalfLength
	cartForce       = 10.0
	cartTau         = 0.02 // seconds a step
	cartLimit       = 2.4
	cartAngleLimit  = 0.20943951023931953 // 12*2*pi/360 as float64 arithmetic rounds it
	cartStartBounds = 0.05
)

// NewCartPole returns a CartPole, not yet reset.
func NewCartPole() *CartPole {
	inf := float32(math.Inf(1))
	high := []float32{cartLimit * 2, inf, cartAngleLimit * 2, inf}
	return &CartPole{newTask(cartPole, env.Spec{
		ID:        "CartPole-v1",
		Obs:       env.ObsSpec{DType: env.Float32, Shape: []int{4}, Low: negative(high), High: high},
		Action:    env.ActionSpec{N: 2},
		MaxSteps:  500,
		FPS:       50,
		Threshold: 475,
	})}
}

// Reset draws each number of the state from [-0.05, 0.05).
func (c *CartPole) Reset(obs []byte) error {
	for i := range c.state {
		c.state[i] = c.stream.Uniform(-cartStartBounds, cartStartBounds)
	}
	c.startEpisode()
	put(obs, c.state[:]...)
	return nil
}

// Step pushes the cart for one fiftieth of a second, by one step of Euler's method.
func (c *CartPole) Step(action int32, obs []byte) (float32, env.End, error) {
	if !c.active {
		return 0, 0, errNotActive
	}
	x, xDot, theta, thetaDot := c.state[0], c.state[1], c.state[2], c.state[3]
	force := -cartForce
	if action == 1 {
		force = cartForce
	}
	sin, cos := sineAndCosine(theta)
	temp := (force + float64(cartPoleMoment*(thetaDot*thetaDot)*sin)) / cartTotalMass
	thetaAcc := (float64(cartGravity*sin) - float64(cos*temp)) /
		(cartHalfLength * (4.0/3.0 - cartPoleMass*(cos*cos)/cartTotalMass))
	xAcc := temp - cartPoleMoment*thetaAcc*cos/cartTotalMass

	x += float64(cartTau * xDot)
	xDot += float64(cartTau * xAcc)
	theta += float64(cartTau * thetaDot)
	thetaDot += float64(cartTau * thetaAcc)
	c.state = [4]float64{x, xDot, theta, thetaDot}
	put(obs, c.state[:]...)
	return 1, c.count(math.Abs(x) > cartLimit || math.Abs(theta) > cartAngleLimit), nil
}

func negative(a []float32) []float32 {
	b := make([]float32, len(a))
	for i := range a {
		b[i] = -a[i]
	}
	return b
}
