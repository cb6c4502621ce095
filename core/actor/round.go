package actor

import (
	"errors"
	"time"

	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/vec"
)

// Round chooses an action for every environment of the source, all by Joint, and takes a
// step in each; t counts the first. Rows that failed or wait for their reset take none.
//
// With two Groups, more says that another round follows, at once and by the same Acting,
// whatever the caller learns meanwhile: the first group's share of it may then begin before
// this one is over (InRound).
func (g *Group) Round(t int64, c policy.Chooser, more bool) (Ran, error) {
	if len(g.halves) > 0 {
		return g.alternate(t, c, more)
	}
	began := time.Now()
	n := g.Steps()
	if _, err := g.chooseRows(0, g.Envs, t, c, true); err != nil {
		return Ran{}, err
	}
	chosen, pool := time.Now(), g.Source.Pool()
	before := pool.Busy()
	g.made.Store(0)
	err := g.recordLate(0, g.Envs, pool.Do(g.Envs, g.takeChosen))
	ran := Ran{Steps: int64(n), Made: g.made.Load(), Acting: chosen.Sub(began), Stepping: time.Since(chosen)}
	if !g.waits {
		ran.Cores = ran.Stepping + pool.Busy() - before
	}
	return ran, err
}

// take takes the chosen action of row i, if it takes a step. open says that the sink is in the
// step's round: the step is recorded at once, but where steps wait, whose threads have no core.
func (g *Group) take(i int, open bool) {
	if g.failed[i], g.late[i] = nil, false; g.idle(i) {
		return
	}
	g.failed[i] = g.stepOne(i)
	if g.late[i] = g.waits || !open; !g.late[i] {
		g.failed[i] = g.stepped(i, int64(i), g.failed[i])
	}
}

// recordLate records those of the rows first to end-1 whose steps are still to be: the caller has
// a core, and recording takes too little time to be shared. It returns err, or else what the
// first row that failed returned.
func (g *Group) recordLate(first, end int, err error) error {
	for i := first; i < end; i++ {
		if g.late[i] {
			g.failed[i] = g.stepped(i, int64(i), g.failed[i])
		}
		if err == nil {
			err = g.failed[i]
		}
	}
	return err
}

// idle reports whether row i takes no step in the round at hand.
func (g *Group) idle(i int) bool { return g.resetting[i] || g.broken[i] }

// stepOne takes the chosen action in environment i of the source.
func (g *Group) stepOne(i int) error {
	return g.Source.StepOne(i, vec.Action{Discrete: g.steps[i].Action}, g.rows)
}

// stepped records what came of a step in environment i of the source, which returned err.
// at is its number among the steps of the loop.
func (g *Group) stepped(i int, at int64, err error) error {
	var failure *vec.Failure
	stepped := err == nil
	if errors.As(err, &failure) {
		stepped = failure.Rows[0].Stepped // only the episode behind it could not begin
	}
	if stepped {
		err = errors.Join(err, g.record(i, at, err == nil))
	}
	if err != nil {
		g.broken[i] = true
	}
	return err
}
