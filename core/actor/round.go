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
	made, err := g.stepAll()
	ran := Ran{Steps: int64(n), Made: made, Acting: chosen.Sub(began), Stepping: time.Since(chosen)}
	if !g.waits {
		ran.Cores = ran.Stepping + pool.Busy() - before
	}
	return ran, err
}

// stepAll takes the chosen actions.
func (g *Group) stepAll() (made int64, err error) {
	g.made.Store(0)
	if !g.waits {
		err = g.Source.Pool().Do(g.Envs, g.stepChosen)
		return g.made.Load(), err
	}
	if err = g.Source.Pool().Do(g.Envs, g.takeChosen); err != nil {
		return 0, err
	}
	// The caller has its core again: recording takes too little time to be shared.
	for i := range g.Envs {
		if g.idle(i) {
			continue
		}
		if failed := g.stepped(i, int64(i), g.failed[i]); err == nil {
			err = failed
		}
	}
	return g.made.Load(), err
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
