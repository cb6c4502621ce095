package atari

import (
	"bytes"
	"sync"
	"testing"
)

// Episodes begin at stored states: the same for all consoles, whatever was played
// before, and 30 different ones.
func TestRestart(t *testing.T) {
	rom := newROM(t, "tetris", tetrisImage())
	a := newConsole(t, rom, Settings{Seed: 1, RepeatActionProbability: 0.25})
	b := newConsole(t, rom, Settings{Seed: 2})
	randomPlay(b, 50, 3)
	seen := map[string]bool{}
	for i := range numStarts {
		frames, own := b.FrameNumber(), b.generator
		for _, c := range []*Console{a, b} {
			if err := c.Restart(i); err != nil {
				t.Fatal(err)
			}
		}
		if *a.RAM() != *b.RAM() || !bytes.Equal(a.Screen(), b.Screen()) {
			t.Fatalf("start %d is not the same for two consoles", i)
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
	// What is played from a stored state does not change it.
	if err := a.Restart(0); err != nil {
		t.Fatal(err)
	}
	first := *a.RAM()
	randomPlay(a, 30, 9)
	if err := a.Restart(0); err != nil || *a.RAM() != first {
		t.Errorf("start 0 is another one the second time, %v", err)
	}
}

// A difficulty has starts of its own, and many consoles may ask for them at once.
func TestRestartWithSettings(t *testing.T) {
	rom := newROM(t, "pong", paddleImage())
	var wait sync.WaitGroup
	var switches [4]byte
	for d := range switches {
		c := newConsole(t, rom, Settings{})
		if err := c.SetDifficulty(d); err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			if err := c.Restart(3); err != nil {
				t.Error(err)
				return
			}
			switches[d] = byte(c.Difficulty())
		})
	}
	wait.Wait()
	if switches != [4]byte{0, 1, 2, 3} {
		t.Errorf("difficulties after a restart: %v", switches)
	}
}
