package atari

import (
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// Cartridges of our own, so that these tests run where no game is at hand. What they
// leave in RAM tells what the machine could see of the player.
const (
	ramSticks   = 0x00 // SWCHA
	ramSwitches = 0x01 // SWCHB
	ramButton   = 0x02 // INPT4
	ramFrames   = 0x04
	ramMix      = 0x05 // of all that was ever seen, also before a reset
	ramTurned   = 0x08 // INPT0 to 3: lines until the capacitor was charged
)

// code is a few instructions of the 6507 at a time.
type code []byte

func (c *code) add(bytes ...byte)         { *c = append(*c, bytes...) }
func (c *code) store(address, value byte) { c.add(0xA9, value, 0x85, address) }
func (c *code) copy(from uint16, to byte) { c.add(0xAD, byte(from), byte(from>>8), 0x85, to) }
func (c *code) here() uint16              { return 0xF000 + uint16(len(*c)) }
func (c *code) jump(to uint16)            { c.add(0x4C, byte(to), byte(to>>8)) }
func (c *code) image() []byte {
	image := make([]byte, 4096)
	for i := range image {
		image[i] = byte(i * 7)
	}
	copy(image, *c)
	copy(image[4090:], []byte{0, 0xF0, 0, 0xF0, 0, 0xF0})
	return image
}

// sync is the end of a frame and the start of the next.
func (c *code) sync() {
	c.add(0x85, 0x02)
	c.store(0x00, 2)
	c.add(0x85, 0x02, 0x85, 0x02, 0x85, 0x02)
	c.store(0x00, 0)
}

// wait lets so many lines go by.
func (c *code) wait(lines byte) { c.add(0xA2, lines, 0x85, 0x02, 0xCA, 0xD0, 0xFB) }

// tetris is a cartridge under the rule of Tetris, whose score is in $F1 and $F2 and
// whose game is over when bit 7 of $F3 is set. Here RIGHT scores a point a frame, LEFT
// ends the game in its 50th frame and RESET begins anew. All that it sees it mixes into
// the picture, and what it mixed outlasts a reset.
func tetris() []byte {
	var c code
	c.add(0xD8, 0xA2, 0xFF, 0x9A)
	for _, address := range []byte{0xF1, 0xF2, 0xF3, 0x83, 0x84} {
		c.store(address, 0)
	}
	frame := c.here()
	c.add(0xE6, 0x84) // INC
	c.sync()
	c.copy(0x280, 0x80)
	c.copy(0x282, 0x81)
	c.copy(0x0C, 0x82)
	c.add(0xA5, 0x80, 0x45, 0x84, 0x18, 0x65, 0x85, 0x85, 0x85) // $85 = ($80 ^ $84) + $85
	for _, register := range []byte{0x08, 0x0E, 0x1B} {         // COLUPF, PF1, GRP0
		c.add(0x85, register)
	}
	c.add(0x65, 0x82, 0x85, 0x0F, 0x85, 0x06, 0x49, 0xFF, 0x85, 0x09)                               // PF2, COLUP0, COLUBK
	c.add(0xA5, 0x80, 0x30, 13)                                                                     // BMI: not RIGHT
	c.add(0xF8, 0x18, 0xA5, 0xF1, 0x69, 0x01, 0x85, 0xF1, 0xA5, 0xF2, 0x69, 0x00, 0x85, 0xF2, 0xD8) // a point
	(*code)(&c).fixLast(0x30, 15)
	c.add(0x24, 0x80, 0x70, 12)                                                  // BVS: not LEFT
	c.add(0xE6, 0x83, 0xA5, 0x83, 0xC9, 50, 0xD0, 4, 0xA9, 0x80, 0x85, 0xF3)     // the 50th
	c.add(0xA5, 0x81, 0x4A, 0xB0, 8)                                             // BCS: not RESET
	c.add(0xA9, 0, 0x85, 0xF1, 0x85, 0xF2, 0x85, 0xF3)                           // anew
	c.add(0xA5, 0x81, 0x4A, 0xB0, 4, 0xA9, 0, 0x85, 0x83)                        // of LEFT, too
	c.wait(230)
	c.jump(frame)
	return c.image()
}

// fixLast sets the distance of the last branch with that opcode.
func (c *code) fixLast(opcode, distance byte) {
	for i := len(*c) - 2; i >= 0; i-- {
		if (*c)[i] == opcode && (*c)[i+1] == 13 {
			(*c)[i+1] = distance
			return
		}
	}
}
