package atari

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// randomPlay acts so many times by a stream of its own and returns what was seen.
func randomPlay(c *Console, acts int, seed uint32) (record []byte) {
	g := newGenerator(seed)
	for range acts {
		if c.GameOver() {
			c.resetAsALE()
		}
		reward := c.Act(games.Action(g.draw()%18), 1)
		record = append(record, byte(reward), byte(c.Lives()))
		record = append(record, c.RAM()[:]...)
		record = binary.LittleEndian.AppendUint32(record, crc32.ChecksumIEEE(c.Screen()))
		record = binary.LittleEndian.AppendUint64(record, uint64(c.FrameNumber()))
	}
	return record
}

func TestSaveRestore(t *testing.T) {
	for _, cartridge := range []struct {
		game  string
		image []byte
	}{{"tetris", tetrisImage()}, {"kaboom", paddleImage()}} {
		rom := newROM(t, cartridge.game, cartridge.image)
		settings := Settings{Seed: 4, RepeatActionProbability: 0.25}
		a := newConsole(t, rom, settings)
		for k := range 5 {
			randomPlay(a, 37, uint32(k))
			saved := a.Save(true)
			b := newConsole(t, rom, Settings{Seed: 99, RepeatActionProbability: 0.25})
			randomPlay(b, 11*k, 50)
			if err := b.Restore(saved); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Save(true), saved) {
				t.Fatal("saved again, the state differs")
			}
			if !bytes.Equal(a.Screen(), b.Screen()) || *a.RAM() != *b.RAM() {
				t.Fatal("a restored console does not show what was saved")
			}
			if !bytes.Equal(randomPlay(a, 200, 8), randomPlay(b, 200, 8)) {
				t.Fatalf("%s: 200 frames after a restore differ", cartridge.game)
			}
		}
	}
}

// Without the generator, a state is the same for all generators, and restoring it goes
// on with the console's own.
func TestSaveWithoutGenerator(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	a := newConsole(t, rom, Settings{Seed: 1})
	b := newConsole(t, rom, Settings{Seed: 2})
	if !bytes.Equal(a.Save(false), b.Save(false)) {
		t.Error("consoles that differ in their generators only have different states")
	}
	if bytes.Equal(a.Save(true), b.Save(true)) {
		t.Error("with their generators they have the same")
	}
	own := b.generator
	if err := b.Restore(a.Save(false)); err != nil {
		t.Fatal(err)
	}
	if b.generator != own {
		t.Error("a state without a generator changed the console's")
	}
	if err := b.Restore(a.Save(true)); err != nil {
		t.Fatal(err)
	}
	if b.generator != a.generator {
		t.Error("a state with a generator did not bring it")
	}
}

// resum writes the checksum that belongs to the bytes.
func resum(saved []byte) []byte {
	body := saved[:len(saved)-4]
	binary.LittleEndian.PutUint32(saved[len(body):], crc32.ChecksumIEEE(body))
	return saved
}

func TestRestoreRefuses(t *testing.T) {
	c := newTetris(t, Settings{})
	randomPlay(c, 20, 1)
	saved := c.Save(true)
	other := newConsole(t, newROM(t, "kaboom", paddleImage()), Settings{}).Save(true)
	sameGame := newConsole(t, newROM(t, "tetris", paddleImage()), Settings{}).Save(true)
	damaged := func(at int) []byte {
		b := slices.Clone(saved)
		b[at] ^= 0x10
		return b
	}
	randomPlay(c, 20, 2)
	before := c.Save(true)
	for what, state := range map[string]struct {
		bytes []byte
		says  string
	}{
		"nothing":            {nil, "0 bytes that are not a console's state"},
		"a byte":             {saved[:1], "1 bytes that are not a console's state"},
		"the head alone":     {saved[:stateHead], "cut off"},
		"all but a byte":     {saved[:len(saved)-1], "cut off"},
		"a byte more":        {append(slices.Clone(saved), 0), "must be"},
		"another kind":       {append([]byte("a checkpoint of some kind"), saved...), "not a console's state"},
		"a damaged head":     {damaged(3), "not a console's state"},
		"a damaged flag":     {damaged(stateHead - 4), "checksum"},
		"a damaged body":     {damaged(stateHead + 5000), "checksum"},
		"a damaged checksum": {damaged(len(saved) - 1), "checksum"},
		"another game":       {other, "of the cartridge with MD5"},
		"another cartridge":  {sameGame, "of the cartridge with MD5"},
	} {
		err := c.Restore(state.bytes)
		if err == nil || !strings.HasPrefix(err.Error(), "state: ") || !strings.Contains(err.Error(), state.says) {
			t.Errorf("%s: %v, want an error that says %q", what, err, state.says)
		}
		if !bytes.Equal(c.Save(true), before) {
			t.Fatalf("%s was refused, and changed the console", what)
		}
	}
	if err := c.Restore(saved); err != nil {
		t.Errorf("the sound one: %v", err)
	}
}

// States that no console has saved, with a checksum that is right: refused, or played on
// without harm.
func TestForgedStates(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	c := newConsole(t, rom, Settings{RepeatActionProbability: 0.25})
	randomPlay(c, 30, 1)
	sound := c.Save(true)
	g := newGenerator(12)
	refused, played := 0, 0
	try := func(forged []byte) {
		before := c.Save(true)
		if err := c.Restore(resum(forged)); err != nil {
			refused++
			if !strings.HasPrefix(err.Error(), "state: ") {
				t.Errorf("%v", err)
			}
			if !bytes.Equal(c.Save(true), before) {
				t.Fatal("a refused state changed the console")
			}
			return
		}
		played++
		randomPlay(c, 3, 5)
		c.Screen()
		if err := c.Restore(sound); err != nil {
			t.Fatal(err)
		}
	}
	// The images are most of a state; what comes before and after them is what counts.
	end := len(sound) - 4
	for range 3000 {
		forged := slices.Clone(sound)
		for range 1 + g.draw()%3 {
			at := stateHead + int(g.draw())%1200
			if g.draw()%2 == 0 {
				at = end - 1 - int(g.draw())%3000
			}
			forged[at] = byte(g.draw())
			if g.draw()%4 == 0 && at+8 < end {
				copy(forged[at:], []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F})
			}
		}
		try(forged)
	}
	for range 100 {
		forged := slices.Clone(sound)
		for i := stateHead; i < end; i++ {
			forged[i] = byte(g.draw())
		}
		try(forged)
	}
	if refused < 100 || played < 100 {
		t.Errorf("%d states were refused, %d played", refused, played)
	}
}

// A state is a function of what was played, not of when somebody looked at the screen.
func TestLookingChangesNothing(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	for skip := 1; skip <= 4; skip++ {
		s := Settings{Seed: 4, RepeatActionProbability: 0.25, FrameSkip: skip}
		a, b := newConsole(t, rom, s), newConsole(t, rom, s)
		for i := range 60 {
			action := games.Action(i * 5 % 18)
			if a.GameOver() {
				a.resetAsALE()
				b.resetAsALE()
			}
			a.Act(action, 1)
			b.Act(action, 1)
			a.Screen()
		}
		if !bytes.Equal(a.Screen(), b.Screen()) {
			t.Errorf("frame skip %d: the images differ", skip)
		}
		if !bytes.Equal(a.Save(true), b.Save(true)) {
			t.Errorf("frame skip %d: the states differ", skip)
		}
	}
}
