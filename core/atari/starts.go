package atari

import (
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// Episodes that need not be ALE's to the frame begin at one of a few stored states:
// a reset is some 70 frames, and the way back from a stored one is a copy. The states
// are those of ALE's first reset with FIRE, where a game has that button, and 0 to
// numStarts-1 frames of NOOP behind it.
const numStarts = 30

type startKey struct {
	rom              *ROM
	mode, difficulty int
}

type starts struct {
	once   sync.Once
	states [numStarts]state
	err    error
}

var stored struct {
	sync.Mutex
	starts map[startKey]*starts
}

// startsOf returns a game's start states, which are made when first asked for.
func startsOf(key startKey) ([]state, error) {
	stored.Lock()
	if stored.starts == nil {
		stored.starts = map[startKey]*starts{}
	}
	s := stored.starts[key]
	if s == nil {
		s = new(starts)
		stored.starts[key] = s
	}
	stored.Unlock()
	s.once.Do(func() { s.err = s.make(key) })
	return s.states[:], s.err
}

func (s *starts) make(key startKey) error {
	c, err := NewConsole(key.rom, Settings{})
	if err == nil {
		err = c.SetMode(key.mode)
	}
	if err == nil {
		err = c.SetDifficulty(key.difficulty)
	}
	if err != nil {
		return err
	}
	c.resetAsALE()
	if slices.Contains(c.game.MinActions, games.Fire) {
		c.Act(games.Fire, 1)
	}
	for i := range s.states {
		if c.GameOver() { // a game so short begins where it began
			c.resetAsALE()
		}
		c.episodeFrames = 0
		s.states[i] = c.state
		c.Act(games.Noop, 1)
	}
	return nil
}

// restart begins an episode at stored state number i, 0 to numStarts-1. The generators go on.
func (c *Console) restart(i int) error {
	states, err := startsOf(startKey{c.rom, c.mode, c.difficulty})
	if err != nil {
		return err
	}
	generator, starts, frames := c.generator, c.starts, c.frames
	c.state = states[i]
	c.generator, c.starts, c.frames = generator, starts, frames
	return nil
}
