package atari

import (
	"slices"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// This file starts episodes for recipes with Wrappers. The functions correspond to
// Stable-Baselines3's wrappers, from the inside out: NoopResetEnv, MaxAndSkipEnv, EpisodicLifeEnv,
// FireResetEnv.

// resetWrapped starts an episode. continueGame says that only a life is over.
func (e *Env) resetWrapped(continueGame bool, obs []byte) error {
	e.stack.Clear()
	e.running = true
	if err := e.nextLife(continueGame); err != nil {
		return err
	}
	cached := !continueGame && e.console.settings.Reset == ResetCached // stored states come after the start
	if e.recipe.FireReset && !cached && slices.Contains(e.actions, games.Fire) {
		for k, a := range []games.Action{games.Fire, e.actions[2]} {
			e.act(a, 1)
			if k == 1 {
				e.Observe(obs) // the images of a new life or game below are not shown
			}
			over := e.gameOver()
			if over || e.recipe.EpisodicLife && e.lostLife() {
				if err := e.nextLife(!over); err != nil {
					return err
				}
				e.stacked = k == 1
			}
			e.lives = e.console.Lives()
		}
	}
	e.rawReward = 0
	e.Observe(obs)
	return nil
}

// nextLife continues the game with an act of NOOP, or starts a new game.
func (e *Env) nextLife(continueGame bool) error {
	if continueGame {
		e.act(games.Noop, 1)
	}
	if !continueGame || e.gameOver() {
		if err := e.newGame(); err != nil {
			return err
		}
	}
	e.lives = e.console.Lives()
	return nil
}

// newGame starts a game with frames of NOOP and shows the last of them. If the game ends, newGame
// starts another game.
func (e *Env) newGame() error {
	r := &e.recipe
	e.atStart, e.stacked = true, false
	if err := e.console.Reset(); err != nil {
		return err
	}
	e.gameFrames = e.console.EpisodeFrameNumber()
	if e.console.settings.Reset == ResetCached {
		return nil
	}
	noops := r.NoopMin
	if more := r.NoopMax - r.NoopMin; more > 1 {
		noops += e.stream.Intn(more)
	}
	for ; noops > 0; noops-- {
		e.console.actUntilOver(games.Noop, 1, 1)
		if e.gameFrames++; e.gameOver() {
			if err := e.console.Reset(); err != nil {
				return err
			}
			e.gameFrames = e.console.EpisodeFrameNumber()
		}
	}
	return nil
}

// remember saves the images of the last two frames of an act. If the act is cut short, it keeps the
// images of an earlier act for the missing frames.
func (e *Env) remember() {
	now, before := e.console.images()
	switch e.actFrames {
	case e.recipe.FrameSkip:
		copy(e.savedImages[copy(e.savedImages, now):], before)
	case e.recipe.FrameSkip - 1:
		copy(e.savedImages[len(now):], now)
	}
}
