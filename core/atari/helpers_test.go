package atari

import (
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// The tests make their own cartridges, so that they need no games. The programs store their inputs
// in RAM, at these indices.
const (
	seenSticks   = iota // SWCHA
	seenSwitches        // SWCHB
	seenButton          // INPT4
	heldLeft            // number of frames with LEFT
	numFrames
	mixed     // a hash of all inputs, also of those before a reset
	seenTurns // INPT0 to 3: lines until the capacitor was charged
)

// code is a program for the 6507.
type code []byte

func (c *code) add(bytes ...byte)         { *c = append(*c, bytes...) }
func (c *code) store(address, value byte) { c.add(0xA9, value, 0x85, address) }
func (c *code) copy(from uint16, to byte) { c.add(0xAD, byte(from), byte(from>>8), 0x85, to) }
func (c *code) here() uint16              { return 0xF000 + uint16(len(*c)) }
func (c *code) jump(to uint16)            { c.add(0x4C, byte(to), byte(to>>8)) }

// skip is a branch over what body adds.
func (c *code) skip(branch byte, body func()) {
	c.add(branch, 0)
	at := len(*c)
	body()
	(*c)[at-1] = byte(len(*c) - at)
}

// wait adds a loop that waits for a number of lines.
func (c *code) wait(lines byte) { c.add(0xA2, lines, 0x85, 0x02, 0xCA, 0xD0, 0xFB) }

// sync adds VSYNC, which ends a frame and starts the next.
func (c *code) sync() {
	c.add(0x85, 0x02)
	c.store(0x00, 2)
	c.add(0x85, 0x02, 0x85, 0x02, 0x85, 0x02)
	c.store(0x00, 0)
}

func (c *code) begin(zero ...byte) (frame uint16) {
	c.add(0xD8, 0xA2, 0xFF, 0x9A)
	for _, address := range zero {
		c.store(address, 0)
	}
	frame = c.here()
	c.add(0xE6, 0x80+numFrames)
	c.sync()
	return frame
}

func (c *code) image() []byte {
	image := make([]byte, 4096)
	for i := range image {
		image[i] = byte(i * 7)
	}
	copy(image, *c)
	copy(image[4090:], []byte{0, 0xF0, 0, 0xF0, 0, 0xF0})
	return image
}

// tetrisImage follows the rule of Tetris: the score is in $F1 and $F2, and the game is over when
// bit 7 of $F3 is set. RIGHT scores a point a frame, the 50th frame of LEFT ends the game, and
// RESET starts a new game. The program mixes its inputs into the image.
func tetrisImage() []byte {
	var c code
	frame := c.begin(0xF1, 0xF2, 0xF3, 0x80+heldLeft, 0x80+numFrames)
	c.copy(0x280, 0x80+seenSticks)
	c.copy(0x282, 0x80+seenSwitches)
	c.copy(0x0C, 0x80+seenButton)
	c.add(0xA5, 0x80+seenSticks, 0x45, 0x80+numFrames, 0x18, 0x65, 0x80+mixed, 0x85, 0x80+mixed)
	c.add(0x85, 0x08, 0x85, 0x0E, 0x85, 0x1B)                                 // COLUPF, PF1, GRP0
	c.add(0x65, 0x80+seenButton, 0x85, 0x0F, 0x85, 0x06, 0x49, 0xFF, 0x85, 9) // PF2, COLUP0, COLUBK
	c.add(0x24, 0x80+seenSticks)
	c.skip(0x30, func() { // BMI: not RIGHT
		c.add(0xF8, 0x18, 0xA5, 0xF1, 0x69, 1, 0x85, 0xF1, 0xA5, 0xF2, 0x69, 0, 0x85, 0xF2, 0xD8)
	})
	c.add(0x24, 0x80+seenSticks)
	c.skip(0x70, func() { // BVS: not LEFT
		c.add(0xE6, 0x80+heldLeft, 0xA5, 0x80+heldLeft, 0xC9, 50)
		c.skip(0xD0, func() { c.store(0xF3, 0x80) })
	})
	c.add(0xA5, 0x80+seenSwitches, 0x4A)
	c.skip(0xB0, func() { // BCS: not RESET
		for _, address := range []byte{0xF1, 0xF2, 0xF3, 0x80 + heldLeft} {
			c.store(address, 0)
		}
	})
	c.wait(220)
	c.jump(frame)
	return c.image()
}

// paddleImage counts, for each paddle input, the lines until its capacitor is charged. By the rules
// of Kaboom and Pong its game is never over.
func paddleImage() []byte {
	var c code
	frame := c.begin(0x8D, 0x8E, 0x96)
	c.store(0xA1, 1)
	c.copy(0x280, 0x80+seenSticks)
	c.copy(0x0C, 0x80+seenButton)
	c.store(0x01, 0x80) // VBLANK: capacitors shorted
	c.wait(10)
	for i := range byte(4) {
		c.store(0x80+seenTurns+i, 0)
	}
	c.store(0x01, 0x00)
	c.add(0xA2, 200) // number of lines
	line := c.here()
	c.add(0x85, 0x02)
	for i := range byte(4) {
		c.add(0xA5, 8+i)
		c.skip(0x30, func() { c.add(0xE6, 0x80+seenTurns+i) }) // BMI: charged
	}
	c.add(0xCA)
	c.skip(0xF0, func() { c.jump(line) })
	c.jump(frame)
	return c.image()
}

// requireMachine skips a test in builds without the machine.
func requireMachine(t testing.TB) {
	t.Helper()
	if err := available(); err != nil {
		t.Skip(err)
	}
}

// newROM returns a cartridge with these bytes and the facts of a game.
func newROM(t testing.TB, game string, image []byte) *ROM {
	t.Helper()
	requireMachine(t)
	g, err := games.ByID(game)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := schemeOf(image)
	if err != nil {
		t.Fatal(err)
	}
	return &ROM{game: g, md5: digest(image), cartridge: newCartridge(image, machineSchemes[scheme])}
}

func newConsole(t testing.TB, rom *ROM, s Settings) *Console {
	t.Helper()
	c, err := NewConsole(rom, s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newTetris(t testing.TB, s Settings) *Console {
	t.Helper()
	return newConsole(t, newROM(t, "tetris", tetrisImage()), s)
}
