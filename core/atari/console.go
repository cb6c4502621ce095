package atari

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/atari/screen"
	"github.com/paceline-rl/paceline/core/rng"
)

// Width is the number of pixels in a row.
const Width = 160

// palRows is the height of an image for PAL, which is the largest.
const palRows = 250

// Settings configures a console. The zero value is ALE's default, except that ALE's
// RepeatActionProbability is not 0.
type Settings struct {
	// Seed is the seed of the generator for sticky actions and of the stream for stored starts.
	Seed uint32
	// FrameSkip is the number of frames of one Act; 0 counts as 1.
	FrameSkip int
	// RepeatActionProbability is the probability, 0 to 1, that a frame repeats the last action
	// instead of the new one ("sticky actions", Machado et al. 2018).
	RepeatActionProbability float64
	// MaxEpisodeFrames is the length at which an episode is truncated; 0: never.
	MaxEpisodeFrames int
	// RewardMin and RewardMax clamp the reward of an Act if RewardMin is less than RewardMax.
	RewardMin, RewardMax int
	// Reset selects how an episode starts.
	Reset Reset
	// ColourAveraging blends each image with the previous image, for games that draw some
	// objects only in every second frame.
	ColourAveraging bool
}

// Console is an Atari 2600 with a cartridge and a player. One goroutine at a time may use it.
type Console struct {
	rom       *ROM
	game      *games.Game
	settings  Settings
	cart      games.Cart
	pal       bool
	rows      int // height of the image
	blended   []byte
	observer  *screen.Observer // for Observe
	drawLater bool             // the image of the next frame is probably not read

	mode int // for the next reset

	// earlier is the image before the last frame, if the last frame continued an unfinished one in
	// the same buffer. Otherwise it is empty, and the machine has that image.
	earlier []byte

	state
}

// state is all state that changes during play, as plain data.
type state struct {
	machine       machine
	rule          games.State
	generator     generator  // draws for sticky actions
	starts        rng.Stream // draws the stored starts of episodes
	hardwareDraws int        // number of draws from the hardware's generator
	action        games.Action
	strength      float32
	paddle        [2]int // resistances
	difficulty    int
	frames        int // since the cartridge was inserted
	episodeFrames int
}

// paddleMode says what a paddle's input reads.
type paddleMode uint8

const (
	readsZero paddleMode = iota
	readsOne
	charges
)

// paddleStep is the change of a paddle's resistance in one frame.
const paddleStep = 23000

// NewConsole inserts the cartridge into a console and turns the console on. The console is at the
// start of an episode.
func NewConsole(rom *ROM, s Settings) (*Console, error) {
	if err := available(); err != nil {
		return nil, err
	}
	c := &Console{rom: rom, game: rom.game, mode: rom.game.DefaultMode}
	if err := c.Set(s); err != nil {
		return nil, err
	}
	c.cart = func(address uint16) byte { return c.machine.cartridgeRAM()[address&0x7F] }
	c.Restart(s.Seed)
	var err error
	c.observer, err = observerOf(screen.GreyArea, c.rows, Side, Side)
	return c, err
}

// Restart removes the cartridge and inserts it again, with a new seed. Mode and difficulty stay.
func (c *Console) Restart(seed uint32) {
	mode, difficulty := c.mode, c.difficulty
	c.state = state{}
	c.mode = c.game.DefaultMode
	if s := c.rom.powerOn.Load(); s != nil {
		c.state, c.rows, c.pal = s.state, s.rows, s.pal
		c.generator = newGenerator(seed)
	} else {
		c.generator = newGenerator(seed)
		c.turnOn()
		if c.generator == newGenerator(seed) { // turnOn drew nothing, so its state does not depend on the seed
			c.machine.drawPending(c.rom.cartridge)
			c.rom.powerOn.Store(&powerOnState{c.state, c.rows, c.pal})
		}
	}
	c.earlier = nil // powerOn does not have it
	c.SeedStarts(uint64(seed))
	c.mode, c.difficulty = mode, difficulty
}

// powerOnState is the state of a console directly after turnOn.
type powerOnState struct {
	state state
	rows  int
	pal   bool
}

// Set changes the settings from the next Act on. Only NewConsole uses the seed.
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

// turnOn prepares the first episode. It fills RAM with random bytes and runs 60 frames without a
// player; the number of their lines shows whether the game is for PAL.
func (c *Console) turnOn() {
	const detection, ignored, palLines, palFrames = 60, 30, 285, 15
	g := c.game
	c.rows = g.Rows
	c.machine.setImage(g.YStart, c.rows, g.HMOVEComb)
	for i := range c.machine.ram() {
		c.machine.ram()[i] = byte(c.drawHardware())
	}
	c.drawHardware() // for the timer, which powerCycle sets again
	c.powerCycle()
	c.difficulty = g.PowerOn
	c.release()
	long := 0
	for i := range detection {
		c.machine.frame(c.rom.cartridge, true)
		if i >= ignored && c.machine.lines() > palLines {
			long++
		}
	}
	if c.pal = long >= palFrames; c.pal {
		c.machine.setPAL(true)
		c.rows = palRows
		c.machine.setImage(g.YStart, c.rows, g.HMOVEComb)
	}
	c.difficulty = 0
	c.game.Load(&c.rule)
	c.powerCycle()
	c.resetAsALE()
}

func (c *Console) drawHardware() uint32 {
	c.hardwareDraws++
	return hardwareDraw(c.hardwareDraws - 1)
}

// powerCycle switches the machine off and on so quickly that RAM survives.
func (c *Console) powerCycle() {
	timer := 25 + c.drawHardware()%75
	c.machine.reset(c.rom.cartridge, byte(timer))
	if s := c.game.Scheme; s == games.F8SC || s == games.F6SC {
		for i := range c.machine.cartridgeRAM() {
			c.machine.cartridgeRAM()[i] = byte(c.drawHardware())
		}
	}
}

// Act plays an action for FrameSkip frames and returns the reward. strength, 0 to 1, scales the
// turn of a paddle; sticks ignore it.
func (c *Console) Act(a games.Action, strength float32) (reward int) {
	for remaining := c.settings.FrameSkip; remaining > 0; remaining-- {
		reward += c.actOnce(a, strength, remaining)
	}
	if s := &c.settings; s.RewardMin < s.RewardMax {
		reward = min(max(reward, s.RewardMin), s.RewardMax)
	}
	return reward
}

// actUntilOver plays an action for `frames` frames or until the episode is over. It returns the
// number of frames played.
func (c *Console) actUntilOver(a games.Action, strength float32, frames int) (reward, played int) {
	for played < frames && !c.over() {
		reward += c.actOnce(a, strength, frames-played)
		played++
	}
	return reward, played
}

// over reports whether the episode is over. The machine then does not run until the next reset.
func (c *Console) over() bool { return c.rule.Terminal() || c.Truncated() }

// actOnce plays one frame. remaining is the number of frames left in the act, this frame included.
// Usually only the images of the last two frames are read.
func (c *Console) actOnce(a games.Action, strength float32, remaining int) (reward int) {
	sticky := c.generator.uniform() < c.settings.RepeatActionProbability
	c.generator.draw() // for the second player
	if !sticky {
		c.action, c.strength = a, strength
	}
	if c.over() {
		return 0
	}
	c.drawLater = remaining > 2
	c.play(c.legal(c.action), c.strength)
	c.drawLater = false
	c.count()
	return c.rule.Reward()
}

// legal returns a, or NOOP if a is not a legal action of the game.
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

// play runs a frame with an action, which may be RESET, and applies the game's rule.
func (c *Console) play(a games.Action, strength float32) {
	c.turnPaddles(a, strength)
	c.press(a)
	c.frame()
}

func (c *Console) frame() {
	c.earlier = c.earlier[:0]
	if !c.drawLater && c.machine.unfinished() { // the frame goes on in the same image
		c.machine.drawPending(c.rom.cartridge)
		c.earlier = append(c.earlier, c.machine.image()...)
	}
	c.machine.frame(c.rom.cartridge, !c.drawLater)
	c.game.Step(&c.rule, c.machine.ram(), c.cart)
}

// GameOver reports whether the game is over. The machine then does not run until the next reset.
func (c *Console) GameOver() bool { return c.rule.Terminal() }

// Truncated reports whether the episode has reached MaxEpisodeFrames.
func (c *Console) Truncated() bool {
	return c.settings.MaxEpisodeFrames > 0 && c.episodeFrames >= c.settings.MaxEpisodeFrames
}

// Lives returns the lives left, 0 in games without lives.
func (c *Console) Lives() int { return c.rule.Lives() }

// FrameNumber returns the number of frames since the console was turned on.
func (c *Console) FrameNumber() int { return c.frames }

// EpisodeFrameNumber returns the number of frames since the last reset.
func (c *Console) EpisodeFrameNumber() int { return c.episodeFrames }

// ROM returns the cartridge.
func (c *Console) ROM() *ROM { return c.rom }

// PAL reports whether the game is shown in PAL's colours.
func (c *Console) PAL() bool { return c.pal }

// RAM returns the machine's own 128 bytes.
func (c *Console) RAM() *[128]byte { return c.machine.ram() }

// Rows returns the height of the image.
func (c *Console) Rows() int { return c.rows }
