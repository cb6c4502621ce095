// Package builtin registers every environment of the library. Import it for this side effect.
package builtin

import (
	_ "github.com/paceline-rl/paceline/core/atari"       // atari/pong and 103 more
	_ "github.com/paceline-rl/paceline/core/env/classic" // CartPole-v1, Pendulum-v1 and three more
	_ "github.com/paceline-rl/paceline/core/env/mini"    // Mini-Asterix-v0 and four more
	_ "github.com/paceline-rl/paceline/core/env/pixel"   // Catch-v0, Bricks-v0
)
