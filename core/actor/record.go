package actor

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/vec"
)

// recording is what a Group keeps of the steps that it has recorded.
type recording struct {
	score    score
	returns  []float64 // of the episodes in progress
	lengths  []int64
	finished [][]Episode  // by row, since the last TakeFinished
	sorted   []Episode    // TakeFinished's memory
	made     atomic.Int64 // steps recorded in this Round or Run

	// Copies of the latest round's, which the resets of StartResets overwrite.
	rewards []float32
	ends    []env.End
}

func (r *recording) prepare(c *Config) {
	r.returns, r.lengths, r.finished = make([]float64, c.Envs), make([]int64, c.Envs), make([][]Episode, c.Envs)
	if c.Source != nil {
		r.score = scoreOf(c.Source.Infos())
	}
}

// Episode is one that ended.
type Episode struct {
	Return float64
	Length int64
	at     int64 // number of the step that ended it, from the start of the Round or Run
}

// record adds row i's step to the sink. at is its number from the start of the Round or Run. If the
// step ended a segment and begins says that the row has the next first observation, record begins
// the next segment.
func (g *Group) record(i int, at int64, begins bool) error {
	s := &g.steps[i]
	s.Reward, s.End = g.reward(i), g.rows.Ends[i]
	if !g.Agents {
		s.Updates = g.Acting.Updates
	}
	next, masks := g.row(g.inputs(), i), g.rows.Masks
	inObs := g.NextStep || g.Disabled // the last observation of an episode is in Obs
	if s.End.Over() && !inObs {
		next, masks = g.lastObs(i), g.rows.FinalMasks
	}
	if s.End.Over() && g.Disabled {
		g.copyFinal(i)
	}
	s.NextMask = g.mask(masks, i)
	if err := g.Sink.Add(i, s, next); err != nil {
		return err
	}
	g.made.Add(1)
	reward, over := g.score.of(g.rows, i, inObs)
	g.returns[i] += reward
	g.lengths[i]++
	if !s.End.Over() {
		return nil // after a lost life, the sink continues with next
	}
	if over {
		g.finished[i] = append(g.finished[i], Episode{g.returns[i], g.lengths[i], at})
		g.returns[i], g.lengths[i] = 0, 0
	}
	switch {
	case inObs:
		g.resetting[i] = true
		return nil
	case !begins:
		return nil
	}
	return g.start(i)
}

// start begins a segment in the sink with the observation of row i.
func (g *Group) start(i int) error {
	g.broken[i] = false
	return g.Sink.Begin(i, g.row(g.inputs(), i))
}

// Cut ends row i's segment. The return of the episode in progress is dropped.
func (g *Group) Cut(i int) {
	g.Sink.Cut(i)
	g.returns[i], g.lengths[i] = 0, 0
	if g.discounted != nil {
		g.discounted[i] = 0
	}
}

// TakeFinished calls f with every episode that ended since the last call, in the order of the steps
// that ended them. The order depends neither on threads nor on how many steps a Run takes.
func (g *Group) TakeFinished(f func(Episode)) {
	g.sorted = g.sorted[:0]
	for i := range g.finished {
		g.sorted = append(g.sorted, g.finished[i]...)
		g.finished[i] = g.finished[i][:0]
	}
	slices.SortStableFunc(g.sorted, func(a, b Episode) int { return cmp.Compare(a.at, b.at) })
	for _, e := range g.sorted {
		f(e)
	}
}

// Latest returns the rows that the Source's latest round wrote and the actions that it took, valid
// until the Group's next call. Boxes are clipped to their bounds. FinalObs and FinalInfos are
// written where an episode ended, also where the environment is reset later. A row that took no
// step has no reward and no End.
func (g *Group) Latest() (*vec.Rows, vec.Actions) { return g.rows, g.shown }

// clearIdle clears the action of row i, which takes no step, and what row i of the Source shows of
// an earlier round.
func (g *Group) clearIdle(i int) {
	clear(g.steps[i].Action)
	clear(g.steps[i].Continuous)
	g.Spec.Action.Clip(g.boxes[i], g.steps[i].Continuous) // a host's environment may check its range
	g.shareAction(i)
	if g.Source != nil {
		g.rows.Rewards[i], g.rows.Ends[i] = 0, 0
	}
}

// copyFinal copies what row i shows of an ended episode to the Final rows: its reset, which comes
// later (Disabled), overwrites the row.
func (g *Group) copyFinal(i int) {
	copy(g.row(g.rows.FinalObs, i), g.row(g.rows.Obs, i))
	copy(g.mask(g.rows.FinalMasks, i), g.mask(g.rows.Masks, i))
	for k, to := range g.rows.FinalInfos {
		size := len(to) / g.Envs
		copy(to[i*size:(i+1)*size], g.rows.Infos[k][i*size:])
	}
}

// score finds the rewards of an episode's return. Environments that clip rewards, or end an episode
// with a life, report the unclipped reward and the game's end as infos. The return is then that of
// a whole game, as in papers.
type score struct{ raw, over int } // columns of the infos plus 1; 0: there are none

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

// of returns what row i's step adds to the return, and whether the episode is over. With inObs the
// rows still show the ended episode.
func (s score) of(rows *vec.Rows, i int, inObs bool) (reward float64, over bool) {
	end := rows.Ends[i]
	if s.raw == 0 {
		return float64(rows.Rewards[i]), end.Over()
	}
	columns := rows.Infos
	if end.Over() && !inObs { // Infos are the next episode's
		columns = rows.FinalInfos
	}
	raw := int32(binary.NativeEndian.Uint32(columns[s.raw-1][4*i:]))
	return float64(raw), columns[s.over-1][i] != 0
}
