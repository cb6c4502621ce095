package onpolicy

import (
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/settings"
)

// IsGame reports whether an environment is an Atari game.
func IsGame(envID string) bool { return strings.HasPrefix(env.Canonical(envID), "atari/") }

// InGames returns a preset's rows, with env_options (a JSON object) for Atari games.
func InGames(rows []settings.Row, options string) func(envID string) ([]settings.Row, error) {
	return func(envID string) ([]settings.Row, error) {
		if IsGame(envID) {
			return append(slices.Clone(rows), settings.Row{"env_options", options}), nil
		}
		return rows, nil
	}
}
