package actor

import "github.com/paceline-rl/paceline/core/policy"

// This file is a Group whose rows move one by one (Config.Agents), each when its outputs are there.
// Calls for different rows may run concurrently. The calls for one row do not overlap.

// Row returns the observation on which row i acts next.
func (g *Group) Row(i int) []byte { return g.row(g.rows.Obs, i) }

// Idle reports whether row i takes no step: it failed, or the host's next observation only resets
// it.
func (g *Group) Idle(i int) bool { return g.idle(i) }

// Failed reports whether row i must be repaired.
func (g *Group) Failed(i int) bool { return g.broken[i] }

// ChooseRow chooses row i's action for step number t from outputs of parameters after a number of
// updates.
func (g *Group) ChooseRow(i int, t int64, c policy.Chooser, outputs policy.Row, updates uint64) error {
	g.steps[i].Updates = updates
	if err := g.choose(t, i, c, outputs); err != nil {
		return err
	}
	g.shareAction(i)
	return nil
}

// SkipRow clears the action of row i, which is idle.
func (g *Group) SkipRow(i int) { g.clearIdle(i) }

// StepRow takes the chosen action of row i in its environment and records the step, whose number is
// at. taken says whether the environment has taken the step; it may have done so in spite of an
// error. The caller holds a core, except during a step that waits.
func (g *Group) StepRow(i int, at int64) (taken bool, err error) {
	g.show(i)
	err = g.stepWithoutCore(i)
	taken = wasTaken(err)
	return taken, g.recordStep(i, at, err)
}

// TakeFinishedRow calls f with every episode of row i that ended since the last call.
func (g *Group) TakeFinishedRow(i int, f func(Episode)) {
	for _, e := range g.finished[i] {
		f(e)
	}
	g.finished[i] = g.finished[i][:0]
}

// show copies row i's action to shown: the next one may be chosen before Latest is called.
func (g *Group) show(i int) {
	copy(g.shown.Discrete[i*g.ints:(i+1)*g.ints], g.actions.Discrete[i*g.ints:])
	copy(g.shown.Box[i*g.floats:(i+1)*g.floats], g.actions.Box[i*g.floats:])
}

// ClearLatest makes Latest show no step of any row. A row that does not step keeps its observation,
// and the action that led there.
func (g *Group) ClearLatest() {
	for i, end := range g.rows.Ends {
		if end != 0 {
			clear(g.shown.Discrete[i*g.ints : (i+1)*g.ints])
			clear(g.shown.Box[i*g.floats : (i+1)*g.floats])
		}
	}
	clear(g.rows.Rewards)
	clear(g.rows.Ends)
}
