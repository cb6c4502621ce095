package atari

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/atari/screen"
	"github.com/paceline-rl/paceline/core/rng"
)

// Width is the pixels of a row.
const Width = 160

// palRows is the height of an image for PAL, the largest.
const palRows = 250

// Settings are what a console is used with; the zero value is ALE's default but for
// RepeatActionProbability, which is 0 here.
type Settings struct {
	// Seed of the generator that sticky actions draw from, and of the one that chooses
	// stored start states.
	Seed uint32
	// FrameSkip is the frames that one Act takes; 0 counts as 1.
	FrameSkip int
	// RepeatActionProbability is that of ignoring a new action for a frame
	// ("sticky actions", Machado et al. 2018), 0 to 1.
	RepeatActionProbability float64
	// MaxEpisodeFrames truncates an episode; 0: never.
	MaxEpisodeFrames int
	// RewardMin and RewardMax clamp the reward of an Act where RewardMin is less.
	RewardMin, RewardMax int
	// Reset is how an episode begins.
	Reset Reset
	// ColourAveraging blends each image with the one before, for games that draw
	// some things in every second frame only.
	ColourAveraging bool
}

// Console is a 2600 with a cartridge and a player. One goroutine at a time.
type Console struct {
	rom      *ROM
	game     *games.Game
	settings Settings
	cart     games.Cart
	pal      bool
	rows     int // of the image
	blended  []byte
	observer *screen.Observer // Observe's
	unseen   bool             // the frame to come is not expected to be looked at

	// chosen for the next reset
	mode int

	state
}

// state is all that changes while playing, as plain data.
type state struct {
	box           box
	rule          games.State
	generator     generator  // the environment's: sticky actions
	starts        rng.Stream // which stored states episodes begin at
	drawn         int        // of the hardware's generator
	action        games.Action
	strength      float32
	paddle        [2]int // resistances
	difficulty    int
	frames        int // since the cartridge was put in
	episodeFrames int
}

// paddleMode is what a paddle's input reads.
type paddleMode uint8

const (
	readsZero paddleMode = iota
	readsOne
	charges
)

// paddleStep is what the resistance changes by in a frame.
const paddleStep = 23000

// NewConsole puts the cartridge into a console and turns it on; it stands at the
// beginning of an episode then.
func NewConsole(rom *ROM, s Settings) (*Console, error) {
	if err := available(); err != nil {
		return nil, err
	}
	c := &Console{rom: rom, game: rom.game, mode: rom.game.DefaultMode}
	if err := c.Set(s); err != nil {
		return nil, err
	}
	c.cart = func(address uint16) byte { return c.box.cartridgeRAM()[address&0x7F] }
	c.Restart(s.Seed)
	var err error
	c.observer, err = observerOf(screen.GreyArea, c.rows, Side, Side)
	return c, err
}

// Restart takes the cartridge out and puts it in again, with a new seed. Mode and
// difficulty stay as they were chosen.
func (c *Console) Restart(seed uint32) {
	mode, difficulty := c.mode, c.difficulty
	c.state = state{}
	c.mode = c.game.DefaultMode
	if on := c.rom.on.Load(); on != nil {
		c.state, c.rows, c.pal = on.state, on.rows, on.pal
		c.generator = newGenerator(seed)
	} else {
		c.generator = newGenerator(seed)
		c.turnOn()
		if c.generator == newGenerator(seed) { // so it does not depend on the seed
			c.box.settle(c.rom.cartridge)
			c.rom.on.Store(&turnedOn{c.state, c.rows, c.pal})
		}
	}
	c.SeedStarts(uint64(seed))
	c.mode, c.difficulty = mode, difficulty
}

// turnedOn is a console just after it was turned on.
type turnedOn struct {
	state state
	rows  int
	pal   bool
}

// Set changes the settings from the next Act on. The seed counts only when a
// console is made.
func (c *Console) Set(s Settings) error {
	switch {
	case s.FrameSkip < 0:
		return fmt.Errorf("frame_skip: %d, must be at least 1", s.FrameSkip)
	case !(s.RepeatActionProbability >= 0 && s.RepeatActionProbability <= 1):
		return fmt.Errorf("repeat_action_probability: %v, must be 0 to 1", s.RepeatActionProbability)
	case s.Reset < 0 || int(s.Reset) >= len(resetNames):
		return fmt.Errorf("reset: %d, must be %s", s.Reset, strings.Join(resetNames[:], " or "))
	case s.MaxEpisodeFrames < 0:
		return fmt.Errorf("max_num_frames_per_episode: %d, must be at least 0", s.MaxEpisodeFrames)
	}
	c.settings = s
	c.settings.FrameSkip = max(1, s.FrameSkip)
	return nil
}

// turnOn does what comes before the first episode: RAM holds what it happens to,
// and 60 frames without a player show by their lines whether the game is for PAL.
func (c *Console) turnOn() {
	const detection, ignored, palLines, palFrames = 60, 30, 285, 15
	g := c.game
	c.rows = g.Rows
	c.box.setImage(g.YStart, c.rows, g.HMOVEComb)
	for i := range c.box.ram() {
		c.box.ram()[i] = byte(c.drawHardware())
	}
	c.drawHardware() // the timer's, which the reset sets anew
	c.powerCycle()
	c.difficulty = g.PowerOn
	c.release()
	long := 0
	for i := range detection {
		c.box.frame(c.rom.cartridge, true)
		if i >= ignored && c.box.lines() > palLines {
			long++
		}
	}
	if c.pal = long >= palFrames; c.pal {
		c.box.setPAL(true)
		c.rows = palRows
		c.box.setImage(g.YStart, c.rows, g.HMOVEComb)
	}
	c.difficulty = 0
	c.game.Load(&c.rule)
	c.powerCycle()
	c.resetAsALE()
}

func (c *Console) drawHardware() uint32 {
	c.drawn++
	return hardwareDraw(c.drawn - 1)
}

// powerCycle presses the machine's power switch, so quickly that RAM survives.
func (c *Console) powerCycle() {
	timer := 25 + c.drawHardware()%75
	c.box.reset(c.rom.cartridge, byte(timer))
	if s := c.game.Scheme; s == games.F8SC || s == games.F6SC {
		for i := range c.box.cartridgeRAM() {
			c.box.cartridgeRAM()[i] = byte(c.drawHardware())
		}
	}
}

// Act plays an action for FrameSkip frames and returns the reward. strength, 0 to 1,
// is how far a paddle is turned; sticks do not know it.
func (c *Console) Act(a games.Action, strength float32) (reward int) {
	for left := c.settings.FrameSkip; left > 0; left-- {
		reward += c.actOnce(a, strength, left)
	}
	if s := &c.settings; s.RewardMin < s.RewardMax {
		reward = min(max(reward, s.RewardMin), s.RewardMax)
	}
	return reward
}

// actUntilOver plays an action for some frames, or until the episode is over, and returns
// how many there were.
func (c *Console) actUntilOver(a games.Action, strength float32, frames int) (reward, played int) {
	for played < frames && !c.over() {
		reward += c.actOnce(a, strength, frames-played)
		played++
	}
	return reward, played
}

// over reports whether the machine stands still until the next reset.
func (c *Console) over() bool { return c.rule.Terminal() || c.Truncated() }

// actOnce plays a frame of which left are to come, itself included. The last two are those
// that are looked at: at once, or as the brighter of two.
func (c *Console) actOnce(a games.Action, strength float32, left int) (reward int) {
	sticky := c.generator.uniform() < c.settings.RepeatActionProbability
	c.generator.draw() // the second player's
	if !sticky {
		c.action, c.strength = a, strength
	}
	if c.over() {
		return 0
	}
	c.unseen = left > 2
	c.play(c.legal(c.action), c.strength)
	c.unseen = false
	c.count()
	return c.rule.Reward()
}

// legal returns a, or NOOP where the game does not take it from a player.
func (c *Console) legal(a games.Action) games.Action {
	if a < 0 || a >= games.NumActions || len(c.game.LegalActions) < games.NumActions && !slices.Contains(c.game.LegalActions, a) {
		return games.Noop
	}
	return a
}

func (c *Console) count() {
	c.frames++
	c.episodeFrames++
}

// play runs a frame with an action, RESET among them, and applies the game's rule.
func (c *Console) play(a games.Action, strength float32) {
	c.turnPaddles(a, strength)
	c.press(a)
	c.frame()
}

func (c *Console) frame() {
	c.box.frame(c.rom.cartridge, !c.unseen)
	c.game.Step(&c.rule, c.box.ram(), c.cart)
}

// GameOver reports whether the game is over; the machine stands still then.
func (c *Console) GameOver() bool { return c.rule.Terminal() }

// Truncated reports whether the episode has reached MaxEpisodeFrames.
func (c *Console) Truncated() bool {
	return c.settings.MaxEpisodeFrames > 0 && c.episodeFrames >= c.settings.MaxEpisodeFrames
}

// Lives returns the lives left, 0 in games that have none.
func (c *Console) Lives() int { return c.rule.Lives() }

// FrameNumber returns the frames since the console was turned on, and
// EpisodeFrameNumber those since the last reset.
func (c *Console) FrameNumber() int        { return c.frames }
func (c *Console) EpisodeFrameNumber() int { return c.episodeFrames }

// ROM returns the cartridge.
func (c *Console) ROM() *ROM { return c.rom }

// PAL reports whether the game is shown in PAL's colours.
func (c *Console) PAL() bool { return c.pal }

// RAM returns the machine's 128 bytes, in place.
func (c *Console) RAM() *[128]byte { return c.box.ram() }

// Rows returns the height of the image.
func (c *Console) Rows() int { return c.rows }
