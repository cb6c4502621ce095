package atari

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// randomPlay plays random acts by its own generator and returns all results.
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

func TestRestoredConsolePlaysTheSame(t *testing.T) {
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

// A state without generators does not depend on them. Restoring it keeps the console's generators.
func TestSaveWithoutGenerators(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	a := newConsole(t, rom, Settings{Seed: 1})
	b := newConsole(t, rom, Settings{Seed: 2})
	if !bytes.Equal(a.Save(false), b.Save(false)) {
		t.Error("states without generators depend on the generators")
	}
	if bytes.Equal(a.Save(true), b.Save(true)) {
		t.Error("states with generators do not depend on the generators")
	}
	own := b.generator
	if err := b.Restore(a.Save(false)); err != nil {
		t.Fatal(err)
	}
	if b.generator != own {
		t.Error("a state without generators changed the console's generator")
	}
	if err := b.Restore(a.Save(true)); err != nil {
		t.Fatal(err)
	}
	if b.generator != a.generator {
		t.Error("a state with generators did not restore the generator")
	}
}

// resum corrects the checksum of a state.
func resum(saved []byte) []byte {
	body := saved[:len(saved)-4]
	binary.LittleEndian.PutUint32(saved[len(body):], crc32.ChecksumIEEE(body))
	return saved
}

func TestRestoreRefusesDamagedStates(t *testing.T) {
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
		t.Errorf("the valid state: %v", err)
	}
}

// The next reset of a forged state does not compute draws without end.
func TestRestoreLimitsTheDrawsOfAState(t *testing.T) {
	c := newTetris(t, Settings{})
	at := stateHead + int(unsafe.Offsetof(c.state.hardwareDraws))
	for _, draws := range []int64{-1, mostDraws + 1, 1 << 40, -1 << 63} {
		forged := c.Save(true)
		binary.NativeEndian.PutUint64(forged[at:], uint64(draws))
		if err := c.Restore(resum(forged)); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("state: %d draws", draws)) {
			t.Errorf("%v", err)
		}
	}
}

// Forged states with correct checksums are refused, or can be played.
func TestForgedStatesDoNoHarm(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	c := newConsole(t, rom, Settings{RepeatActionProbability: 0.25})
	randomPlay(c, 30, 1)
	valid := c.Save(true)
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
		if err := c.Restore(valid); err != nil {
			t.Fatal(err)
		}
	}
	// Most of a state is images. Change the bytes before and after the images.
	end := len(valid) - 4
	for range 3000 {
		forged := slices.Clone(valid)
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
		forged := slices.Clone(valid)
		for i := stateHead; i < end; i++ {
			forged[i] = byte(g.draw())
		}
		try(forged)
	}
	if refused < 100 || played < 100 {
		t.Errorf("%d states refused, %d played", refused, played)
	}
}

// A state does not depend on reads of the screen.
func TestReadingTheScreenChangesNothing(t *testing.T) {
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
