package actor

import (
	"slices"

	"github.com/paceline-rl/paceline/core/vec"
)

// This file is about what a host gets to see of a round of the source's, and about the resets of
// a source that is Disabled, which must leave that as it was.

// Latest returns the rows that the source's latest round wrote and the actions that it
// took. They are the Group's, until its next call. FinalObs and FinalInfos are written where an
// episode ended, whether it is reset at once or not. A row that took no step in the round has
// no reward and no End.
func (g *Group) Latest() (*vec.Rows, []int32) { return g.rows, g.actions }

// rest clears what a row of the source's that takes no step would show of an earlier round.
func (g *Group) rest(i int) {
	if g.Source != nil {
		g.rows.Rewards[i], g.rows.Ends[i] = 0, 0
	}
}

// keepFinal keeps what row i shows of an episode that has ended, as its reset, which comes
// later, will write over it.
func (g *Group) keepFinal(i int) {
	copy(g.row(g.rows.FinalObs, i), g.row(g.rows.Obs, i))
	copy(g.mask(g.rows.FinalMasks, i), g.mask(g.rows.Masks, i))
	for k, to := range g.rows.FinalInfos {
		size := len(to) / g.Envs
		copy(to[i*size:(i+1)*size], g.rows.Infos[k][i*size:])
	}
}

// StartResets begins to reset the environments whose episodes have ended (Disabled), beside
// what the caller does, who calls FinishResets behind it. It reports whether there are any.
func (g *Group) StartResets() (any bool, err error) {
	if !g.Disabled || !slices.Contains(g.resetting, true) {
		return false, nil
	}
	g.rewards, g.ends = append(g.rewards[:0], g.rows.Rewards...), append(g.ends[:0], g.rows.Ends...)
	return true, g.Source.StartReset(g.rows, g.resetting)
}

// FinishResets waits for the resets and begins a segment with each first observation. After an
// error all of them are left to Repair. The rows still have the rewards and the Ends of the latest
// round, beside the first observations, as where a reset comes at once.
func (g *Group) FinishResets() error {
	err := g.Source.FinishReset()
	copy(g.rows.Rewards, g.rewards)
	copy(g.rows.Ends, g.ends)
	for i, ended := range g.resetting {
		if !ended {
			continue
		}
		g.resetting[i] = false
		if err == nil {
			err = g.start(i)
		}
		g.broken[i] = err != nil
	}
	return err
}
