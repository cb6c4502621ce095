package atari

import "fmt"

// Evaluate makes episodes whole games and rewards unclipped, as papers report them.
func (e *Env) Evaluate() {
	e.Restart()
	e.recipe.EpisodicLife, e.recipe.LifeLossInfo, e.recipe.ClipRewards = false, false, false
}

// LimitFrames truncates games after `frames` frames, instead of after the recipe's MaxFrames.
func (e *Env) LimitFrames(frames int) { e.recipe.MaxFrames = frames }

// mostFrames limits the frames of a game before a start, so that sums of frames do not overflow.
const mostFrames = 1 << 30

// StartAt starts an episode in a state that Save of a Console with the same cartridge returned. The
// observation is that of the start of a game: the image of the state, and black frames before it.
// The frames since the console's reset (EpisodeFrameNumber) count as frames of the game. The
// recipe's NOOP frames and start actions are not played. If the state has no generators, the
// environment's seed decides sticky actions.
func (e *Env) StartAt(state, obs []byte) error {
	e.episode = episode{}
	e.takeSeed()
	c := e.console
	if err := c.Restore(state); err != nil {
		return err
	}
	frames := c.EpisodeFrameNumber()
	switch {
	case frames < 0 || frames > mostFrames:
		return fmt.Errorf("state: %d frames of its game are played, must be 0 to %d", frames, mostFrames)
	case c.GameOver():
		return fmt.Errorf("state: its game is over, must go on")
	case e.recipe.MaxFrames > 0 && frames >= e.recipe.MaxFrames:
		return fmt.Errorf("state: %d frames of its game are played, must be fewer than %d, at which a game is truncated",
			frames, e.recipe.MaxFrames)
	}
	if e.savedImages != nil { // Wrappers shows these images in place of those that a short act lacks
		now, before := c.images()
		copy(e.savedImages[copy(e.savedImages, now):], before)
	}
	e.stack.Clear()
	e.running, e.atStart, e.stacked = true, true, false
	e.gameFrames, e.lives = frames, c.Lives()
	e.Observe(obs)
	return nil
}
