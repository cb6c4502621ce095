package atari

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/atari/screen"
)

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	c := newTetris(t, Settings{FrameSkip: 2})
	for want, s := range map[string]Settings{
		"frame_skip: -1, must be at least 1":                 {FrameSkip: -1},
		"repeat_action_probability: -0.1, must be 0 to 1":    {RepeatActionProbability: -0.1},
		"repeat_action_probability: 1.5, must be 0 to 1":     {RepeatActionProbability: 1.5},
		"repeat_action_probability: NaN, must be 0 to 1":     {RepeatActionProbability: math.NaN()},
		"max_num_frames_per_episode: -5, must be at least 0": {MaxEpisodeFrames: -5},
	} {
		if err := c.Set(s); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
		if _, err := NewConsole(c.rom, s); err == nil || err.Error() != want {
			t.Errorf("a new console with %+v: %v, want %q", s, err, want)
		}
	}
	if c.Act(games.Noop, 1); c.EpisodeFrameNumber() != 2 {
		t.Errorf("refused settings had an effect: an act took %d frames, want 2", c.EpisodeFrameNumber())
	}
}

// RIGHT scores a point a frame. The 50th frame of LEFT ends the game.
func TestRewardsAndEnd(t *testing.T) {
	c := newTetris(t, Settings{FrameSkip: 4})
	// The program scores in the frame that reads the action.
	if r := c.Act(games.Right, 1); r != 4 {
		t.Errorf("four frames of RIGHT: reward %d, want 4", r)
	}
	if r := c.Act(games.Noop, 1); r != 0 {
		t.Errorf("NOOP: reward %d, want 0", r)
	}
	if err := c.Set(Settings{FrameSkip: 4, RewardMin: -1, RewardMax: 3}); err != nil {
		t.Fatal(err)
	}
	if r := c.Act(games.Right, 1); r != 3 {
		t.Errorf("four points clamped to 3: reward %d", r)
	}
	if err := c.Set(Settings{FrameSkip: 4, RewardMin: 7, RewardMax: 7}); err != nil {
		t.Fatal(err)
	}
	if r := c.Act(games.Right, 1); r != 4 {
		t.Errorf("four points with equal bounds, which do not clamp: reward %d", r)
	}
	for range 12 {
		c.Act(games.Left, 1)
	}
	if c.GameOver() {
		t.Error("over after 48 frames of LEFT, want 50")
	}
	frames := c.FrameNumber()
	if c.Act(games.Left, 1); !c.GameOver() {
		t.Error("not over after 50 frames of LEFT")
	}
	if got := c.FrameNumber() - frames; got != 2 {
		t.Errorf("the act that ended the game took %d frames, want 2", got)
	}
	ram, image := *c.RAM(), slices.Clone(c.Screen())
	if r := c.Act(games.Right, 1); r != 0 || *c.RAM() != ram || !bytes.Equal(c.Screen(), image) || c.FrameNumber() != frames+2 {
		t.Error("the machine ran after the end of the game")
	}
	c.resetAsALE()
	if c.GameOver() || c.EpisodeFrameNumber() != 0 || c.FrameNumber() != frames+2 {
		t.Errorf("after a reset: over %v, %d frames of the episode, %d in all", c.GameOver(), c.EpisodeFrameNumber(), c.FrameNumber())
	}
}

func TestEpisodesAreTruncated(t *testing.T) {
	c := newTetris(t, Settings{FrameSkip: 3, MaxEpisodeFrames: 10})
	for i := range 6 {
		if c.Truncated() != (i >= 4) || c.GameOver() || c.EpisodeFrameNumber() != min(3*i, 10) {
			t.Errorf("after %d acts of 3 frames: truncated %v at frame %d, want at 10", i, c.Truncated(), c.EpisodeFrameNumber())
		}
		c.Act(games.Noop, 1)
	}
	if c.resetAsALE(); c.Truncated() {
		t.Error("truncated after a reset")
	}
	if err := c.Set(Settings{}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		c.Act(games.Noop, 1)
	}
	if c.Truncated() {
		t.Error("truncated without a limit")
	}
}

// A frame draws two numbers, also after the end of the game and without sticky actions. The first
// number decides.
func TestStickyActions(t *testing.T) {
	const p = 0.25
	c := newTetris(t, Settings{Seed: 77, RepeatActionProbability: p})
	g, last := newGenerator(77), games.Noop
	actions := []games.Action{games.Up, games.Down, games.Noop, games.UpFire}
	sticks := map[games.Action]byte{games.Up: 0xEF, games.Down: 0xDF, games.Noop: 0xFF, games.UpFire: 0xEF}
	repeated := 0
	for i := range 2000 {
		a := actions[i%len(actions)]
		if g.uniform() >= p {
			last = a
		} else {
			repeated++
		}
		g.draw()
		c.Act(a, 1)
		if got := c.RAM()[seenSticks]; got != sticks[last] {
			t.Fatalf("frame %d: SWCHA %02X, want that of %v", i, got, last)
		}
	}
	if repeated < 400 || repeated > 600 {
		t.Errorf("%d of 2000 actions were repeated", repeated)
	}
	if c.generator != g {
		t.Error("the generator did not draw two numbers a frame")
	}
	if err := c.Set(Settings{}); err != nil {
		t.Fatal(err)
	}
	for range 60 { // the game ends on the way
		c.Act(games.Left, 1)
		g.draw()
		g.draw()
	}
	if !c.GameOver() || c.generator != g {
		t.Error("some frames drew nothing")
	}
	always := newTetris(t, Settings{RepeatActionProbability: 1})
	for range 5 {
		if always.Act(games.Right, 1); always.RAM()[seenSticks] != 0xFF {
			t.Error("with probability 1 an action had an effect")
		}
	}
}

func TestUnknownModesAndDifficultiesAreRefused(t *testing.T) {
	c := newConsole(t, newROM(t, "pong", paddleImage()), Settings{})
	for _, err := range []error{c.SetMode(2), c.SetMode(-1), c.SetMode(1 << 40)} {
		if err == nil || !strings.HasPrefix(err.Error(), "mode: ") || !strings.Contains(err.Error(), "pong has [0 1]") {
			t.Errorf("a mode that pong lacks: %v", err)
		}
	}
	for _, err := range []error{c.SetDifficulty(4), c.SetDifficulty(-1)} {
		if err == nil || !strings.HasPrefix(err.Error(), "difficulty: ") || !strings.Contains(err.Error(), "pong has [0 1 2 3]") {
			t.Errorf("a difficulty that pong lacks: %v", err)
		}
	}
	if c.Mode() != 0 || c.Difficulty() != 0 {
		t.Errorf("after the refusals: mode %d, difficulty %d", c.Mode(), c.Difficulty())
	}
	// This cartridge has no modes, so the search for the mode ends without success.
	if err := c.SetMode(1); err != nil {
		t.Fatal(err)
	}
	if c.Mode() != 1 {
		t.Errorf("mode %d, want 1", c.Mode())
	}
}

// Equal seeds give equal futures, also concurrently with other consoles.
func TestConcurrentConsolesAreIndependent(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	play := func(seed uint32) []byte {
		c := newConsole(t, rom, Settings{Seed: seed, RepeatActionProbability: 0.25, FrameSkip: 2})
		actions := newGenerator(seed)
		var record []byte
		for range 150 {
			if c.GameOver() {
				c.resetAsALE()
			}
			record = append(record, byte(c.Act(games.Action(actions.draw()%18), 1)))
		}
		return append(append(record, c.RAM()[:]...), c.Screen()...)
	}
	const consoles = 12
	var alone, together [consoles][]byte
	for i := range consoles {
		alone[i] = play(uint32(i))
	}
	var wait sync.WaitGroup
	for i := range consoles {
		wait.Go(func() { together[i] = play(uint32(i)) })
	}
	wait.Wait()
	for i := range consoles {
		if !bytes.Equal(alone[i], together[i]) {
			t.Errorf("console %d plays differently concurrently with others", i)
		}
		if i > 0 && bytes.Equal(alone[i], alone[0]) {
			t.Errorf("consoles 0 and %d play the same", i)
		}
	}
}

// RAM survives a reset, so the second episode differs from the first.
func TestResetKeepsRAM(t *testing.T) {
	a, b := newTetris(t, Settings{}), newTetris(t, Settings{})
	first := a.RAM()[mixed]
	a.resetAsALE()
	if a.RAM()[mixed] == first {
		t.Error("two resets led to the same RAM")
	}
	b.Act(games.Up, 1)
	b.resetAsALE()
	if a.RAM()[mixed] == b.RAM()[mixed] {
		t.Error("RAM after a reset does not depend on the episode before")
	}
}

func TestViewsShowTheSameImage(t *testing.T) {
	c := newTetris(t, Settings{})
	for range 7 {
		c.Act(games.Up, 1)
	}
	if c.Rows() != 210 || c.PAL() || c.Palette() != screen.NTSC {
		t.Errorf("%d rows, PAL %v", c.Rows(), c.PAL())
	}
	colours := slices.Clone(c.Screen())
	if len(colours) != 210*Width {
		t.Fatalf("%d pixels", len(colours))
	}
	seen := map[byte]bool{}
	for _, v := range colours {
		seen[v] = true
		if v&1 != 0 {
			t.Fatalf("colour $%02X has bit 0 set", v)
		}
	}
	if len(seen) < 3 {
		t.Errorf("%d colours, want the background's, the playfield's and the player's", len(seen))
	}
	grey, rgb := make([]byte, len(colours)), make([]byte, 3*len(colours))
	c.Grey(grey)
	c.RGB(rgb)
	wantGrey, wantRGB := make([]byte, len(colours)), make([]byte, 3*len(colours))
	screen.ToGrey(wantGrey, colours, screen.NTSC)
	screen.ToRGB(wantRGB, colours, screen.NTSC)
	if !bytes.Equal(grey, wantGrey) || !bytes.Equal(rgb, wantRGB) {
		t.Error("grey or RGB does not match the colours")
	}
	previous := slices.Clone(c.machine.other())
	if err := c.Set(Settings{ColourAveraging: true}); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(colours)
	screen.NewBlend(screen.NTSC).Average(want, colours, previous)
	if got := c.Screen(); !bytes.Equal(got, want) || bytes.Equal(got, colours) {
		t.Error("the blended image is not the average of the last two images")
	}
}

// A console with more than 285 lines a frame uses PAL, with higher images.
func TestPALIsDetected(t *testing.T) {
	for _, lines := range []byte{220, 245, 255} {
		var c code
		frame := c.begin(0xF1, 0xF2, 0xF3)
		c.wait(lines)
		c.wait(34)
		c.jump(frame)
		console := newConsole(t, newROM(t, "tetris", c.image()), Settings{})
		if want := int(lines)+34+4 > 285; console.PAL() != want {
			t.Errorf("%d lines a frame: PAL %v", int(lines)+34+4, console.PAL())
		}
		if want := map[bool]*screen.Palette{false: screen.NTSC, true: screen.PAL}[console.PAL()]; console.Palette() != want {
			t.Error("the palette is not that of the system")
		}
		if want := map[bool]int{false: 210, true: 250}[console.PAL()]; console.Rows() != want || len(console.Screen()) != want*Width {
			t.Errorf("PAL %v: %d rows, want %d", console.PAL(), console.Rows(), want)
		}
	}
}

// The cartridges never end a frame, jam the CPU, or hold random bytes.
func TestDefectiveCartridgesDoNoHarm(t *testing.T) {
	requireMachine(t)
	g := newGenerator(3)
	for _, size := range []int{2048, 4096, 8192, 16384, 10495} {
		for kind := range 6 {
			image := make([]byte, size)
			for i := range image {
				switch kind {
				case 0: // endless BRKs
				case 1:
					image[i] = 0x02
				case 2:
					image[i] = 0xEA
				default:
					image[i] = byte(g.draw())
				}
			}
			c := newConsole(t, newROM(t, "tetris", image), Settings{RepeatActionProbability: 0.25})
			for range 20 {
				if c.GameOver() {
					c.resetAsALE()
				}
				c.Act(games.Action(g.draw()%18), 1)
			}
			if c.Lives() < 0 || len(c.Screen()) != 210*Width && len(c.Screen()) != 250*Width {
				t.Errorf("%d bytes of kind %d: %d lives, %d pixels", size, kind, c.Lives(), len(c.Screen()))
			}
		}
	}
}

// thinkingImage thinks for several calls between two frames, in the middle of a frame. Each frame
// has another colour.
func thinkingImage() []byte {
	var c code
	frame := c.begin(0xF1, 0xF2, 0xF3, 0x80+numFrames)
	c.add(0xA5, 0x80+numFrames, 0x0A, 0x85, 9) // COLUBK
	c.wait(150)
	c.add(0xA0, 120)                            // LDY
	c.add(0xA2, 0xFF, 0xCA, 0xD0, 0xFD)         // LDX, DEX, BNE
	c.add(0x88, 0xD0, 0xF8, 0x85, 9, 0x85, 0x2) // DEY, BNE, COLUBK, WSYNC
	c.wait(40)
	c.jump(frame)
	return c.image()
}

// The images of the last two frames are those that were seen, also where the last frame continues
// an unfinished one, and in a saved state.
func TestImagesOfAnUnfinishedFrame(t *testing.T) {
	rom := newROM(t, "tetris", thinkingImage())
	c, twin := newConsole(t, rom, Settings{}), newConsole(t, rom, Settings{})
	continued := 0
	for n := range 40 {
		seen := slices.Clone(c.Screen())
		unfinished := c.machine.unfinished()
		if n%2 == 0 {
			c.Act(games.Noop, 1)
		} else {
			c.actUntilOver(games.Noop, 1, 1)
		}
		now, before := c.images()
		if !bytes.Equal(before, seen) {
			t.Fatalf("frame %d: the image before the last is not the one that was shown", n)
		}
		if unfinished && !bytes.Equal(c.machine.other(), seen) {
			continued++
		}
		if err := twin.Restore(c.Save(true)); err != nil {
			t.Fatal(err)
		}
		if a, b := twin.images(); !bytes.Equal(a, now) || !bytes.Equal(b, before) {
			t.Fatalf("frame %d: other images after a restore", n)
		}
	}
	if continued < 5 {
		t.Errorf("%d frames continued an unfinished one, want many", continued)
	}
}
