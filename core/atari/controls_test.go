package atari

import (
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// The cartridge's program stores the inputs of each action.
func TestActionsMoveTheStick(t *testing.T) {
	// Bits of the left port, 0 if pressed: up 4, down 5, left 6, right 7.
	sticks := map[games.Action]byte{
		games.Noop: 0xFF, games.Fire: 0xFF, games.Up: 0xEF, games.Right: 0x7F, games.Left: 0xBF, games.Down: 0xDF,
		games.UpRight: 0x6F, games.UpLeft: 0xAF, games.DownRight: 0x5F, games.DownLeft: 0x9F,
		games.UpFire: 0xEF, games.RightFire: 0x7F, games.LeftFire: 0xBF, games.DownFire: 0xDF,
		games.UpRightFire: 0x6F, games.UpLeftFire: 0xAF, games.DownRightFire: 0x5F, games.DownLeftFire: 0x9F,
		games.Reset: 0xFF, -1: 0xFF, 18: 0xFF, 1 << 30: 0xFF, // count as NOOP
	}
	c := newTetris(t, Settings{})
	for action, want := range sticks {
		c.Act(action, 1)
		button := byte(0x80)
		if action == games.Fire || action >= games.UpFire && action <= games.DownLeftFire {
			button = 0
		}
		if ram := c.RAM(); ram[seenSticks] != want || ram[seenButton]&0x80 != button {
			t.Errorf("%v: SWCHA %02X, INPT4 %02X, want %02X, %02X", action, ram[seenSticks], ram[seenButton]&0x80, want, button)
		}
		if s := c.RAM()[seenSwitches]; s != 0x3F {
			t.Errorf("%v: SWCHB %02X, want 3F", action, s)
		}
	}
	// The right port has bits 0 to 3, and INPT5.
	var swapped string
	for _, g := range games.All() {
		if g.Swapped && !g.LeftPaddles {
			swapped = g.ID
		}
	}
	c = newConsole(t, newROM(t, swapped, tetrisImage()), Settings{})
	c.Act(games.UpRightFire, 1)
	if ram := c.RAM(); ram[seenSticks] != 0xF6 || ram[seenButton]&0x80 == 0 {
		t.Errorf("%s: SWCHA %02X, INPT4 %02X, want F6, 80", swapped, ram[seenSticks], ram[seenButton]&0x80)
	}
}

func TestDifficultySetsTheSwitches(t *testing.T) {
	game := ""
	for _, g := range games.All() {
		if len(g.Difficulties) == 4 && !g.LeftPaddles && !g.Swapped && g.Selection.Hold == 0 {
			game = g.ID
		}
	}
	c := newConsole(t, newROM(t, game, tetrisImage()), Settings{})
	if n := len(c.game.Difficulties); n != 4 {
		t.Fatalf("%s has %d difficulties", c.game.ID, n)
	}
	for d, want := range []byte{0x3F, 0x7F, 0xBF, 0xFF} {
		if err := c.SetDifficulty(d); err != nil {
			t.Fatal(err)
		}
		c.Act(games.Noop, 1)
		if got := c.RAM()[seenSwitches]; got != want || c.Difficulty() != d {
			t.Errorf("difficulty %d: SWCHB %02X, want %02X", c.Difficulty(), got, want)
		}
	}
}

// turns returns the cartridge's measurements of the four paddle inputs, in lines.
func turns(c *Console) [4]byte { return [4]byte(c.RAM()[seenTurns:]) }

func TestActionsTurnThePaddle(t *testing.T) {
	const middle = (games.PaddleMin + games.PaddleMaximum) / 2
	c := newConsole(t, newROM(t, "kaboom", paddleImage()), Settings{})
	if c.paddle != [2]int{middle, middle} {
		t.Errorf("after a reset the paddles are at %v, want %d", c.paddle, middle)
	}
	for i, step := range []struct {
		action   games.Action
		strength float32
		change   int
	}{
		{games.Right, 1, -23000}, {games.UpRightFire, 1, -23000}, {games.Left, 1, 23000}, {games.DownLeft, 1, 23000},
		{games.Left, 0.5, 11500}, {games.Right, -0.25, -5750}, {games.Left, 1e-9, 0}, {games.Noop, 1, 0}, {games.Up, 1, 0},
		{games.Fire, 1, 0}, {games.Right, 0.33333, -7666},
	} {
		before := c.paddle[0]
		c.Act(step.action, step.strength)
		if got := c.paddle[0] - before; got != step.change || c.paddle[1] != middle {
			t.Errorf("%d, %v with strength %v: the paddle turned by %d, want %d", i, step.action, step.strength, got, step.change)
		}
		if pressed := c.RAM()[seenSticks]&0x80 == 0; pressed != (parts(step.action)&fire != 0) {
			t.Errorf("%d, %v: SWCHA %02X", i, step.action, c.RAM()[seenSticks])
		}
		if c.RAM()[seenSticks]|0x80 != 0xFF || c.RAM()[seenButton]&0x80 == 0 {
			t.Errorf("%d, %v: a paddle's port shows a stick: %02X", i, step.action, c.RAM()[seenSticks])
		}
	}
	// A smaller resistance charges faster. The paddle stops at both ends of its range.
	last := turns(c)[0]
	for range 60 {
		c.Act(games.Right, 1)
		now := turns(c)[0]
		if now > last {
			t.Errorf("turned right, the capacitor took %d lines after %d", now, last)
		}
		last = now
	}
	if c.paddle[0] != games.PaddleMin || last > 8 {
		t.Errorf("at the right end: %d, %d lines", c.paddle[0], last)
	}
	for range 60 {
		c.Act(games.Left, 1)
	}
	if got := turns(c); c.paddle[0] != games.PaddleMaximum || got[0] < 190 {
		t.Errorf("at the left end: %d, %v lines", c.paddle[0], got)
	}
	if got := turns(c); got[2] != 200 || got[3] != 200 {
		t.Errorf("the unconnected inputs on the right took %v lines, want 200", got[2:])
	}
	c.resetAsALE()
	if c.paddle[0] != middle {
		t.Errorf("after a reset the paddle is at %d, want %d", c.paddle[0], middle)
	}
}

// Pong exchanges its two paddles. Its two paddles on the right have resistance 0.
func TestSwappedPaddles(t *testing.T) {
	c := newConsole(t, newROM(t, "pong", paddleImage()), Settings{})
	for range 60 {
		c.Act(games.RightFire, 1)
	}
	got := turns(c)
	if got[1] > 8 || got[0] < 60 || got[2] != 0 || got[3] != 0 {
		t.Errorf("lines until the inputs were charged: %v, want few for the second, none for the last two", got)
	}
	if s := c.RAM()[seenSticks]; s != 0xBF {
		t.Errorf("SWCHA %02X with FIRE, want BF", s)
	}
}
