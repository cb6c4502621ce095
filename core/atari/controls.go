package atari

import "github.com/paceline-rl/paceline/core/atari/games"

// The parts of an action.
const (
	up = 1 << iota
	down
	left
	right
	fire
)

var directions = [games.NumActions]uint8{
	games.Noop: 0, games.Fire: fire, games.Up: up, games.Right: right, games.Left: left, games.Down: down,
	games.UpRight: up | right, games.UpLeft: up | left, games.DownRight: down | right, games.DownLeft: down | left,
	games.UpFire: up | fire, games.RightFire: right | fire, games.LeftFire: left | fire, games.DownFire: down | fire,
	games.UpRightFire: up | right | fire, games.UpLeftFire: up | left | fire,
	games.DownRightFire: down | right | fire, games.DownLeftFire: down | left | fire,
}

func parts(a games.Action) uint8 {
	if a == games.Reset {
		return 0
	}
	return directions[a]
}

// Bits of SWCHB. A pressed switch is 0. A difficulty switch is 1 in position A.
const (
	switchReset  = 1 << 0
	switchSelect = 1 << 1
	switchOthers = 0x3C // the colour switch, and unconnected bits
)

// press sets the inputs of sticks, buttons and switches.
func (c *Console) press(a games.Action) {
	switches := byte(switchOthers | switchReset | switchSelect | c.difficulty<<6)
	if a == games.Reset {
		switches &^= switchReset
	}
	c.machine.setSwitches(switches)
	c.setPlayer(parts(a))
}

// release releases all controls and sets the paddles to resistance 0.
func (c *Console) release() {
	c.paddle = [2]int{}
	c.press(games.Noop)
}

// holdSelect presses only SELECT.
func (c *Console) holdSelect() {
	c.press(games.Noop)
	c.machine.setSwitches(byte(switchOthers | switchReset | c.difficulty<<6))
}

func (c *Console) setPlayer(parts uint8) {
	g := c.game
	sticks, buttons := byte(0xFF), [2]byte{1, 1}
	if g.LeftPaddles {
		first, second := 0, 1 // the inputs of paddles 0 and 1
		if g.Swapped {
			first, second = 1, 0
		}
		c.setPaddle(first, c.paddle[0])
		c.setPaddle(second, c.paddle[1])
		if parts&fire != 0 {
			sticks &^= 0x80 >> first
		}
		if g.RightPaddles {
			c.setPaddle(2, 0)
			c.setPaddle(3, 0)
		}
	} else {
		port, shift := 0, 4
		if g.Swapped {
			port, shift = 1, 0
		}
		sticks &^= parts & (up | down | left | right) << shift
		if parts&fire != 0 {
			buttons[port] = 0
		}
	}
	c.machine.setSticks(sticks)
	c.machine.setButton(0, buttons[0])
	c.machine.setButton(1, buttons[1])
}

// setPaddle connects a paddle with this resistance to an input. The time to charge the capacitor is
// proportional to the resistance.
func (c *Console) setPaddle(input, resistance int) {
	if resistance == 0 {
		c.machine.setPaddle(input, readsOne, 0)
		return
	}
	// Seconds, then cycles. The order of the operations decides the last bits.
	seconds := 1.6 * float64(resistance)
	seconds *= 0.01e-6
	c.machine.setPaddle(input, charges, uint32(seconds*1.19e6))
}

// turnPaddles turns the first paddle by an action; right reduces the resistance.
func (c *Console) turnPaddles(a games.Action, strength float32) {
	if !c.game.LeftPaddles {
		return
	}
	step := int(paddleStep * abs(strength))
	switch p := parts(a); {
	case p&right != 0:
		c.paddle[0] -= step
	case p&left != 0:
		c.paddle[0] += step
	}
	for i := range c.paddle {
		c.paddle[i] = min(max(c.paddle[i], games.PaddleMin), c.game.PaddleMax)
	}
}

func (c *Console) centrePaddles() {
	middle := (games.PaddleMin + c.game.PaddleMax) / 2
	c.paddle = [2]int{middle, middle}
}

func abs(x float32) float32 {
	if x < 0 {
		return -x
	}
	return x
}
