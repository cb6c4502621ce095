//go:build cgo

package atari

import (
	"bytes"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/cpu"
)

// A frame is compiled for several vector units. All give the same results and the same states.
func TestUnitsGiveTheSameBytes(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	defer useUnits(cpu.AtLeast)
	play := func(path string) (record, state []byte) {
		paths := cpu.Paths()
		useUnits(func(p string) bool {
			return slices.Contains(paths, p) && slices.Index(paths, path) <= slices.Index(paths, p)
		})
		c := newConsole(t, rom, Settings{Seed: 4, RepeatActionProbability: 0.25})
		record = randomPlay(c, 300, 6)
		return record, c.Save(true)
	}
	wantRecord, wantState := play(cpu.Generic)
	for _, path := range cpu.Paths() {
		if record, state := play(path); !bytes.Equal(record, wantRecord) || !bytes.Equal(state, wantState) {
			t.Errorf("%s: 300 frames differ from those of %s", path, cpu.Generic)
		}
	}
}
