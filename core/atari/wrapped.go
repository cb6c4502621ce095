package atari

import (
	"slices"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// This file is how an episode begins where Recipe.Wrappers is set. The functions are
// Stable-Baselines3's wrappers, from the inside out: NoopResetEnv, MaxAndSkipEnv,
// EpisodicLifeEnv, FireResetEnv.

// resetWrapped begins an episode. goOn: only a life is over.
func (e *Env) resetWrapped(goOn bool, obs []byte) error {
	e.stack.Clear()
	e.running = true
	if err := e.nextLife(goOn); err != nil {
		return err
	}
	cached := !goOn && e.console.settings.Reset == ResetCached // all of the start is behind it
	if e.recipe.FireReset && !cached && slices.Contains(e.actions, games.Fire) {
		for k, a := range []games.Action{games.Fire, e.actions[2]} {
			e.act(a, 1)
			if k == 1 {
				e.Observe(obs) // what comes below is not shown
			}
			over := e.gameOver()
			if over || e.recipe.EpisodicLife && e.lostLife() {
				if err := e.nextLife(!over); err != nil {
					return err
				}
				e.drawn = k == 1
			}
			e.lives = e.console.Lives()
		}
	}
	e.reward = 0
	e.Observe(obs)
	return nil
}

// nextLife goes on with the next life, by an act of NOOP, or begins a game.
func (e *Env) nextLife(goOn bool) error {
	if goOn {
		e.act(games.Noop, 1)
	}
	if !goOn || e.gameOver() {
		if err := e.newGame(); err != nil {
			return err
		}
	}
	e.lives = e.console.Lives()
	return nil
}

// newGame begins a game with frames of NOOP, of which the last is shown. A game so short
// begins again.
func (e *Env) newGame() error {
	r := &e.recipe
	e.first, e.drawn = true, false
	if err := e.console.Reset(); err != nil {
		return err
	}
	e.frames = e.console.EpisodeFrameNumber()
	if e.console.settings.Reset == ResetCached {
		return nil
	}
	noops := r.NoopMin
	if more := r.NoopMax - r.NoopMin; more > 1 {
		noops += e.chance.Intn(more)
	}
	for ; noops > 0; noops-- {
		e.console.actUntilOver(games.Noop, 1, 1)
		if e.frames++; e.gameOver() {
			if err := e.console.Reset(); err != nil {
				return err
			}
			e.frames = e.console.EpisodeFrameNumber()
		}
	}
	return nil
}

// remember keeps the images of an act that are to be shown: the last frame's and that of
// the frame before it, where the act came to them.
func (e *Env) remember() {
	now, before := e.console.images()
	switch e.played {
	case e.recipe.FrameSkip:
		copy(e.seen[copy(e.seen, now):], before)
	case e.recipe.FrameSkip - 1:
		copy(e.seen[len(now):], now)
	}
}
