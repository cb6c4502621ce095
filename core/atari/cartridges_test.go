package atari

// Indices of the RAM that livesImage uses, besides those of the other cartridges.
const (
	doom     = 0x07 // 1: every tenth frame costs a life
	logged   = 0x08 // number of logged frames
	sticksOf = 0x10 // log of SWCHA in the last 32 frames
	buttonOf = 0x30 // log of INPT4 in the last 32 frames
	lives    = 0x56
	score    = 0x59
)

// livesImage follows the rule of Amidar: the lives are in $D6, $80 when the game is over, and the
// score is in $D9 to $DB. RIGHT scores a point a frame. Every tenth frame of LEFT costs a life.
// After DOWN every tenth frame costs a life. The program mixes its inputs into the image and logs
// them for 32 frames.
func livesImage() []byte { return livesOf(220) }

// palImage is livesImage with more lines in a frame.
func palImage() []byte { return livesOf(255) }

func livesOf(lines byte) []byte {
	var c code
	begin := func() {
		for _, index := range []byte{heldLeft, doom, score, score + 1, score + 2} {
			c.store(0x80+index, 0)
		}
		c.store(0x80+lives, 3)
	}
	c.add(0xD8, 0xA2, 0xFF, 0x9A)
	begin()
	frame := c.here()
	c.add(0xE6, 0x80+numFrames)
	c.sync()
	c.copy(0x280, 0x80+seenSticks)
	c.copy(0x282, 0x80+seenSwitches)
	c.copy(0x0C, 0x80+seenButton)
	c.add(0xE6, 0x80+logged, 0xA5, 0x80+logged, 0x29, 31, 0xAA) // INC logged; LDA logged; AND #31; TAX
	c.add(0xA5, 0x80+seenSticks, 0x95, 0x80+sticksOf)
	c.add(0xA5, 0x80+seenButton, 0x95, 0x80+buttonOf)
	c.add(0xA5, 0x80+seenSticks, 0x45, 0x80+numFrames, 0x18, 0x65, 0x80+mixed, 0x85, 0x80+mixed)
	c.add(0x85, 0x08, 0x85, 0x0E, 0x85, 0x1B)                                 // COLUPF, PF1, GRP0
	c.add(0x65, 0x80+seenButton, 0x85, 0x0F, 0x85, 0x06, 0x49, 0xFF, 0x85, 9) // PF2, COLUP0, COLUBK
	c.add(0x24, 0x80+seenSticks)
	c.skip(0x30, func() { // BMI: not RIGHT
		c.add(0xF8, 0x18, 0xA5, 0x80+score, 0x69, 1, 0x85, 0x80+score, 0xA5, 0x81+score, 0x69, 0, 0x85, 0x81+score, 0xD8)
	})
	c.add(0x24, 0x80+seenSticks)
	c.skip(0x70, func() { c.add(0xE6, 0x80+heldLeft) }) // BVS: not LEFT
	c.add(0xA5, 0x80+seenSticks, 0x29, 0x20)
	c.skip(0xD0, func() { c.store(0x80+doom, 1) }) // BNE: not DOWN
	c.add(0xA5, 0x80+doom)
	c.skip(0xF0, func() { c.add(0xE6, 0x80+heldLeft) }) // BEQ: no doom
	c.add(0xA5, 0x80+heldLeft, 0xC9, 10)
	c.skip(0x90, func() { // BCC: not yet
		c.store(0x80+heldLeft, 0)
		c.add(0xC6, 0x80+lives)
		c.skip(0xD0, func() { c.store(0x80+lives, 0x80) }) // BNE: lives are left
	})
	c.add(0xA5, 0x80+seenSwitches, 0x4A)
	c.skip(0xB0, begin) // BCS: not RESET
	c.wait(lines)
	if lines > 220 {
		c.wait(50)
	}
	c.jump(frame)
	return c.image()
}
