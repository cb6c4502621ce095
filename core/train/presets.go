package train

import (
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/settings"
)

// StookeAbbeelGames are env_options of presets of Stooke & Abbeel 2018: the frames of their paper,
// and the random steps at the start of all their experiments (section 5.3), up to the 2,000 of
// max_decorrelation_steps in their code (accel_rl, sampler/base.py), which all methods have there.
const StookeAbbeelGames = `{"recipe": "stooke_abbeel", "decorrelation_steps": 2000}`

// IsGame reports whether an environment is an Atari game.
func IsGame(envID string) bool { return strings.HasPrefix(env.Canonical(envID), "atari/") }

// InGames returns a preset's rows, those of all lists, with env_options (a JSON object) for Atari
// games.
func InGames(options string, lists ...[]settings.Row) func(envID string) ([]settings.Row, error) {
	rows := slices.Concat(lists...)
	return func(envID string) ([]settings.Row, error) {
		if IsGame(envID) {
			return append(slices.Clone(rows), settings.Row{"env_options", options}), nil
		}
		return rows, nil
	}
}
