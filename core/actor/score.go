package actor

import (
	"encoding/binary"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/vec"
)

// score finds what an episode's return is made of. Where environments clip rewards, or end
// an episode with a life, they report the whole reward and the game's end beside: a return is
// then that of a game, as papers report it.
type score struct{ raw, over int } // columns of the infos and 1, 0 if there are none

func scoreOf(infos []env.InfoSpec) score {
	column := func(name string, dtype env.DType) int {
		return 1 + slices.IndexFunc(infos, func(s env.InfoSpec) bool { return s.Name == name && s.DType == dtype && s.Len == 0 })
	}
	s := score{column("raw_reward", env.Int32), column("game_over", env.Bool)}
	if s.raw == 0 || s.over == 0 {
		return score{}
	}
	return s
}

// of returns what row i's step adds to the return, and whether that is complete. stays says that
// rows still show the episode that has ended.
func (s score) of(rows *vec.Rows, i int, stays bool) (reward float64, over bool) {
	end := rows.Ends[i]
	if s.raw == 0 {
		return float64(rows.Rewards[i]), end.Over()
	}
	columns := rows.Infos
	if end.Over() && !stays { // Infos are the next episode's
		columns = rows.FinalInfos
	}
	raw := int32(binary.NativeEndian.Uint32(columns[s.raw-1][4*i:]))
	return float64(raw), columns[s.over-1][i] != 0
}
