package atari

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/rng"
)

// Reset is a way to start an episode.
type Reset int

const (
	// ResetALE is ALE's procedure, frame by frame. RAM survives from the last episode, so
	// episodes differ.
	ResetALE Reset = iota
	// ResetCached copies one of a few stored states, which is fast.
	ResetCached
)

var resetNames = [...]string{"ale", "cached"}

// String returns the name: ale, cached.
func (r Reset) String() string { return resetNames[r] }

// ParseReset returns the Reset with this name.
func ParseReset(name string) (Reset, error) {
	if i := slices.Index(resetNames[:], name); i >= 0 {
		return Reset(i), nil
	}
	return 0, fmt.Errorf("reset: %q, must be %s", name, strings.Join(resetNames[:], " or "))
}

// Reset starts an episode in the way that the settings select.
func (c *Console) Reset() error {
	if c.settings.Reset == ResetCached {
		return c.startFrom(c.starts.Intn(numStarts))
	}
	c.resetAsALE()
	return nil
}

// SeedStarts seeds the stream with which ResetCached draws its states.
func (c *Console) SeedStarts(seed uint64) { c.starts = *rng.New(seed, "env", 0) }

// Numbers of frames in the reset procedure.
const (
	idleFrames  = 60
	resetFrames = 4
)

// resetAsALE starts an episode as ALE does. It resets the machine, waits for a second and presses
// RESET. Then it selects the mode, presses RESET again and plays the game's start actions. RAM
// survives from the last episode.
func (c *Console) resetAsALE() {
	c.episodeFrames = 0
	if c.game.LeftPaddles {
		c.centrePaddles()
	}
	c.powerCycle()
	for range idleFrames {
		c.play(games.Noop, 1)
	}
	c.softReset()
	c.game.Start(&c.rule)
	c.selectMode()
	c.softReset()
	for _, a := range c.game.StartActions {
		if a == games.Reset {
			c.action = games.Noop
		}
		c.play(a, 1)
	}
}

// softReset holds the RESET switch.
func (c *Console) softReset() {
	c.action, c.strength = games.Noop, 1
	for range resetFrames {
		c.play(games.Reset, 1)
	}
}

// hold holds SELECT for a number of frames, to which the game's rule is not applied.
func (c *Console) hold(frames int) {
	c.holdSelect()
	for range frames {
		c.machine.frame(c.rom.cartridge, true)
	}
	c.play(games.Noop, 1)
	c.count()
}

// maxHolds limits the search for a mode that the game does not reach.
const maxHolds = 10_000

// selectMode selects the game's mode.
func (c *Console) selectMode() {
	g, sel := c.game, &c.game.Selection
	if sel.Menu != nil {
		c.chooseFromMenu(sel.Menu)
		return
	}
	if sel.Hold == 0 && !sel.RandomHold {
		return
	}
	if sel.BeforeReset {
		c.softReset()
	}
	for _, a := range sel.BeforeActs {
		c.Act(a, 1)
	}
	if sel.BeforeHold > 0 {
		c.hold(sel.BeforeHold)
	}
	for i := 0; i < maxHolds && !g.Selected(c.machine.ram(), c.cart, c.mode); i++ {
		if sel.RandomHold {
			c.hold(2 + int(c.generator.draw()%256))
			c.Act(games.Noop, 1)
		} else {
			c.hold(sel.Hold)
		}
	}
	g.Chosen(&c.rule, c.machine.ram(), c.cart, c.mode)
	c.softReset()
	if sel.HasSteer {
		for i := 0; i < maxHolds && !g.Steered(c.machine.ram(), c.cart, c.mode); i++ {
			c.Act(sel.Steer, 1)
		}
	}
}

// chooseFromMenu selects the mode in Double Dunk's menu.
func (c *Console) chooseFromMenu(m *games.Menu) {
	press := func(a games.Action) {
		c.Act(a, 1)
		c.Act(games.Noop, 1)
	}
	ram := c.machine.ram()
	goDown := func() {
		for from, n := ram[m.Cursor&0x7F], 0; n < maxHolds && ram[m.Cursor&0x7F] == from; n++ {
			press(games.Down)
		}
	}
	c.hold(1)
	goDown()
	goDown()
	for i, bit := range m.Bits {
		if i > 0 {
			goDown()
		}
		want, direction := c.mode&int(bit.Mode) != 0, games.Left
		if want {
			direction = games.Right
		}
		for n := 0; n < maxHolds && (ram[m.Options&0x7F]&bit.RAM != 0) != want; n++ {
			press(direction)
		}
	}
	c.softReset()
	c.Act(games.UpFire, 1)
	c.Act(games.Noop, 1)
}

// Mode returns the mode for the next reset.
func (c *Console) Mode() int { return c.mode }

// SetMode sets the game's mode from the next reset on.
func (c *Console) SetMode(mode int) error {
	if !slices.Contains(c.game.Modes, mode) {
		return fmt.Errorf("mode: %d, %s has %v", mode, c.game.ID, c.game.Modes)
	}
	c.mode = mode
	return nil
}

// Difficulty returns the difficulty switches: bit 0 is the left switch, bit 1 the right switch, and
// a set bit is position A.
func (c *Console) Difficulty() int { return c.difficulty }

// SetDifficulty sets the difficulty switches from the next frame on.
func (c *Console) SetDifficulty(difficulty int) error {
	if !slices.Contains(c.game.Difficulties, difficulty) {
		return fmt.Errorf("difficulty: %d, %s has %v", difficulty, c.game.ID, c.game.Difficulties)
	}
	c.difficulty = difficulty
	return nil
}
