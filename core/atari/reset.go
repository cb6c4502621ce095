package atari

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/rng"
)

// Reset is a way to begin an episode.
type Reset int

const (
	// ResetALE is ALE's procedure, frame for frame. RAM carries over from the last
	// episode, so that episodes differ.
	ResetALE Reset = iota
	// ResetCached goes on from one of a few stored states, as fast as memory is copied.
	ResetCached
)

var resetNames = [...]string{"ale", "cached"}

// String returns the name: ale, cached.
func (r Reset) String() string { return resetNames[r] }

// ParseReset returns the way to begin an episode that has this name.
func ParseReset(name string) (Reset, error) {
	if i := slices.Index(resetNames[:], name); i >= 0 {
		return Reset(i), nil
	}
	return 0, fmt.Errorf("reset: %q, must be %s", name, strings.Join(resetNames[:], " or "))
}

// Reset begins an episode, in the way that the settings say.
func (c *Console) Reset() error {
	if c.settings.Reset == ResetCached {
		return c.restart(c.starts.Intn(numStarts))
	}
	c.resetAsALE()
	return nil
}

// SeedStarts sets the generator that ResetCached chooses with.
func (c *Console) SeedStarts(seed uint64) { c.starts = *rng.New(seed, "env", 0) }

// Frames of the reset procedure.
const (
	framesOfIdling = 60
	framesOfReset  = 4
)

// resetAsALE begins an episode as ALE does: the machine is reset, left alone for a
// second, and RESET is pressed; then the mode is chosen, RESET pressed again, and
// the game's own start actions follow. RAM carries over from the last episode.
func (c *Console) resetAsALE() {
	c.episodeFrames = 0
	if c.game.LeftPaddles {
		c.centrePaddles()
	}
	c.powerCycle()
	for range framesOfIdling {
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
	for range framesOfReset {
		c.play(games.Reset, 1)
	}
}

// hold keeps SELECT down for frames of which the game's rule sees none.
func (c *Console) hold(frames int) {
	c.holdSelect()
	for range frames {
		c.box.frame(c.rom.cartridge, true)
	}
	c.play(games.Noop, 1)
	c.count()
}

// mostHolds ends the search for a mode that does not come.
const mostHolds = 10_000

// selectMode brings the game into the mode chosen.
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
	for i := 0; i < mostHolds && !g.Selected(c.box.ram(), c.cart, c.mode); i++ {
		if sel.RandomHold {
			c.hold(2 + int(c.generator.draw()%256))
			c.Act(games.Noop, 1)
		} else {
			c.hold(sel.Hold)
		}
	}
	g.Chosen(&c.rule, c.box.ram(), c.cart, c.mode)
	c.softReset()
	if sel.HasSteer {
		for i := 0; i < mostHolds && !g.Steered(c.box.ram(), c.cart, c.mode); i++ {
			c.Act(sel.Steer, 1)
		}
	}
}

// chooseFromMenu walks Double Dunk's menu.
func (c *Console) chooseFromMenu(m *games.Menu) {
	press := func(a games.Action) {
		c.Act(a, 1)
		c.Act(games.Noop, 1)
	}
	ram := c.box.ram()
	goDown := func() {
		for from, n := ram[m.Cursor&0x7F], 0; n < mostHolds && ram[m.Cursor&0x7F] == from; n++ {
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
		want, way := c.mode&int(bit.Mode) != 0, games.Left
		if want {
			way = games.Right
		}
		for n := 0; n < mostHolds && (ram[m.Options&0x7F]&bit.RAM != 0) != want; n++ {
			press(way)
		}
	}
	c.softReset()
	c.Act(games.UpFire, 1)
	c.Act(games.Noop, 1)
}

// Mode returns the mode that the next reset chooses.
func (c *Console) Mode() int { return c.mode }

// SetMode chooses a mode of the game, from the next reset on.
func (c *Console) SetMode(mode int) error {
	if !slices.Contains(c.game.Modes, mode) {
		return fmt.Errorf("mode: %d, %s has %v", mode, c.game.ID, c.game.Modes)
	}
	c.mode = mode
	return nil
}

// Difficulty returns the difficulty switches: bit 0 the left one, bit 1 the right
// one, set at A.
func (c *Console) Difficulty() int { return c.difficulty }

// SetDifficulty sets the difficulty switches from the next frame on.
func (c *Console) SetDifficulty(difficulty int) error {
	if !slices.Contains(c.game.Difficulties, difficulty) {
		return fmt.Errorf("difficulty: %d, %s has %v", difficulty, c.game.ID, c.game.Difficulties)
	}
	c.difficulty = difficulty
	return nil
}
