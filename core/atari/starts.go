package atari

import (
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// numStarts is the number of stored states at which the episodes of ResetCached start. ALE's reset
// takes some 70 frames, and a stored state only a copy. The states come after ALE's first reset, a
// frame of FIRE if the game has it, and 0 to numStarts-1 frames of NOOP.
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

// startsOf returns a game's stored states. The first call computes them.
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
		if c.GameOver() { // in a very short game
			c.resetAsALE()
		}
		c.episodeFrames = 0
		s.states[i] = c.state
		c.Act(games.Noop, 1)
	}
	return nil
}

// startFrom starts an episode at stored state i, 0 to numStarts-1. The generators keep their state.
func (c *Console) startFrom(i int) error {
	states, err := startsOf(startKey{c.rom, c.mode, c.difficulty})
	if err != nil {
		return err
	}
	generator, starts, frames := c.generator, c.starts, c.frames
	c.state, c.earlier = states[i], nil
	c.generator, c.starts, c.frames = generator, starts, frames
	return nil
}
