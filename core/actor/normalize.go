package actor

// This file is a Group with a Normalizer. The network and the sink get normalised observations, and
// the sink normalised rewards. The rows, infos and episode returns stay as the environments wrote
// them.
//
// A round's steps are recorded after all of them are taken, by one goroutine. The statistics first
// get all of the round's rows, in the order of environments, and then scale them:
//
//   - An observation that follows a step or a reset is added.
//   - The last observation of an episode is scaled by the same statistics and not added.
//   - Environments that are reset apart from a round (Reset, Repair, FinishResets) are added then.

// normalizing is what a Group with a Normalizer adds.
type normalizing struct {
	normal     []byte    // [envs]: normalised observations; nil: observations are not normalised
	last       []byte    // a normalised last observation
	discounted []float64 // [envs]: discounted returns; nil: rewards are not normalised
	scaled     []float32 // [envs]: normalised rewards of the round

	// Rows that the next call of normalize adds: those that took a step, and those that show an
	// observation of an episode in progress or that begins.
	steppedRows, shownRows []int
}

func newNormalizing(c *Config) (z normalizing) {
	if c.Normalizer == nil {
		return z
	}
	if c.Normalizer.Obs != nil {
		z.normal, z.last = make([]byte, c.Envs*c.Spec.Obs.Bytes()), make([]byte, c.Spec.Obs.Bytes())
	}
	if c.Normalizer.Returns != nil {
		z.discounted, z.scaled = make([]float64, c.Envs), make([]float32, c.Envs)
	}
	return z
}

// inputs returns the rows of observations for the network and the sink.
func (g *Group) inputs() []byte {
	if g.normal != nil {
		return g.normal
	}
	return g.rows.Obs
}

// normalizeSteps normalises the steps of rows first to end-1 that stepInRound did not record.
func (g *Group) normalizeSteps(first, end int) {
	if g.Normalizer == nil {
		return
	}
	for i := first; i < end; i++ {
		if !g.unrecorded[i] || !wasTaken(g.failed[i]) {
			continue
		}
		g.steppedRows = append(g.steppedRows, i)
		if g.failed[i] == nil && !g.showsLast(i) {
			g.shownRows = append(g.shownRows, i)
		}
	}
	g.normalize()
}

// normalizeHost normalises the host's rows.
func (g *Group) normalizeHost() {
	if g.Normalizer == nil {
		return
	}
	for i, resetting := range g.resetting {
		if !resetting {
			g.steppedRows = append(g.steppedRows, i)
		}
		if resetting || !g.showsLast(i) {
			g.shownRows = append(g.shownRows, i)
		}
	}
	g.normalize()
}

// normalizeStarts normalises the first observations of the rows that starts marks.
func (g *Group) normalizeStarts(starts []bool) {
	if g.Normalizer == nil {
		return
	}
	for i, start := range starts {
		if start {
			g.shownRows = append(g.shownRows, i)
		}
	}
	g.normalize()
}

// showsLast reports whether row i, which took a step, shows the last observation of an episode.
func (g *Group) showsLast(i int) bool { return g.rows.Ends[i].Over() && (g.NextStep || g.Disabled) }

// normalize adds the rows of steppedRows and shownRows to the statistics and scales them.
func (g *Group) normalize() {
	if len(g.steppedRows)+len(g.shownRows) == 0 {
		return
	}
	if g.normal != nil {
		m := g.Normalizer.Obs
		for _, i := range g.shownRows {
			m.AddRow(g.row(g.rows.Obs, i))
		}
		m.Refresh()
		for _, i := range g.shownRows {
			m.Scale(g.row(g.normal, i), g.row(g.rows.Obs, i))
		}
		for _, i := range g.steppedRows {
			if g.showsLast(i) {
				m.Scale(g.row(g.normal, i), g.row(g.rows.Obs, i))
			}
		}
	}
	if g.discounted != nil {
		m := g.Normalizer.Returns
		for _, i := range g.steppedRows {
			g.discounted[i] = float64(g.discounted[i]*g.Normalizer.Gamma) + float64(g.rows.Rewards[i])
			m.Add(g.discounted[i])
		}
		m.Refresh()
		for _, i := range g.steppedRows {
			g.scaled[i] = m.ScaleReward(g.rows.Rewards[i])
			if g.rows.Ends[i] != 0 {
				g.discounted[i] = 0
			}
		}
	}
	g.steppedRows, g.shownRows = g.steppedRows[:0], g.shownRows[:0]
}

// normalizeInputs scales the host's rows, on which the next actions are chosen.
func (g *Group) normalizeInputs() {
	if g.normal == nil {
		return
	}
	for i := range g.Envs {
		g.Normalizer.Obs.Scale(g.row(g.normal, i), g.row(g.rows.Obs, i))
	}
}

// reward returns the reward of row i's step for the sink.
func (g *Group) reward(i int) float32 {
	if g.scaled != nil {
		return g.scaled[i]
	}
	return g.rows.Rewards[i]
}

// lastObs returns the last observation of row i's episode, from Final rows, for the sink.
func (g *Group) lastObs(i int) []byte {
	final := g.row(g.rows.FinalObs, i)
	if g.normal == nil {
		return final
	}
	g.Normalizer.Obs.Scale(g.last, final)
	return g.last
}
