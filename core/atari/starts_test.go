package atari

import (
	"bytes"
	"sync"
	"testing"
)

// Stored states are equal for all consoles and independent of earlier episodes.
func TestStoredStatesAreShared(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	a := newConsole(t, rom, Settings{Seed: 1, RepeatActionProbability: 0.25})
	b := newConsole(t, rom, Settings{Seed: 2})
	randomPlay(b, 50, 3)
	seen := map[string]bool{}
	for i := range numStarts {
		frames, own := b.FrameNumber(), b.generator
		for _, c := range []*Console{a, b} {
			if err := c.startFrom(i); err != nil {
				t.Fatal(err)
			}
		}
		if *a.RAM() != *b.RAM() || !bytes.Equal(a.Screen(), b.Screen()) {
			t.Fatalf("start %d differs between two consoles", i)
		}
		if a.EpisodeFrameNumber() != 0 || a.GameOver() {
			t.Errorf("start %d: frame %d, over %v", i, a.EpisodeFrameNumber(), a.GameOver())
		}
		if b.FrameNumber() != frames || b.generator != own {
			t.Errorf("start %d changed the console's frame number or generator", i)
		}
		seen[string(a.RAM()[:])] = true
		randomPlay(b, 5, uint32(i))
	}
	if len(seen) < 2 {
		t.Errorf("%d different starts", len(seen))
	}
	// Playing from a stored state does not change the stored state.
	if err := a.startFrom(0); err != nil {
		t.Fatal(err)
	}
	first := *a.RAM()
	randomPlay(a, 30, 9)
	if err := a.startFrom(0); err != nil || *a.RAM() != first {
		t.Errorf("start 0 differs the second time, %v", err)
	}
}

// Each difficulty has its own stored states, and consoles may use them concurrently.
func TestEachDifficultyHasItsStates(t *testing.T) {
	rom := newROM(t, "pong", paddleImage())
	var wait sync.WaitGroup
	var switches [4]byte
	for d := range switches {
		c := newConsole(t, rom, Settings{})
		if err := c.SetDifficulty(d); err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			if err := c.startFrom(3); err != nil {
				t.Error(err)
				return
			}
			switches[d] = byte(c.Difficulty())
		})
	}
	wait.Wait()
	if switches != [4]byte{0, 1, 2, 3} {
		t.Errorf("difficulties of the stored states: %v", switches)
	}
}

// ParseReset reads the names of String. The seed decides the cached starts, and a restored console
// continues with the saved console's starts.
func TestResetsByName(t *testing.T) {
	for _, want := range []Reset{ResetALE, ResetCached} {
		if got, err := ParseReset(want.String()); err != nil || got != want {
			t.Errorf("%v is read as %v, %v", want, got, err)
		}
	}
	if _, err := ParseReset("fast"); err == nil || err.Error() != `reset: "fast", must be ale or cached` {
		t.Error(err)
	}
	rom := newROM(t, "tetris", tetrisImage())
	begin := func(c *Console) (first []byte) {
		for range 20 {
			if err := c.Reset(); err != nil {
				t.Fatal(err)
			}
			first = append(first, c.RAM()[:]...)
			randomPlay(c, 7, 1)
		}
		return first
	}
	cached := func(seed uint32) *Console { return newConsole(t, rom, Settings{Seed: seed, Reset: ResetCached}) }
	a, same, other := begin(cached(5)), begin(cached(5)), begin(cached(6))
	if !bytes.Equal(a, same) || bytes.Equal(a, other) {
		t.Error("cached starts do not follow the seed")
	}
	c, d := cached(7), cached(8)
	if err := d.Restore(c.Save(true)); err != nil || !bytes.Equal(begin(c), begin(d)) {
		t.Errorf("a restored console starts at other states, %v", err)
	}
	if _, err := NewConsole(rom, Settings{Reset: 2}); err == nil {
		t.Error("an unknown Reset was accepted")
	}
}
