package actor

import (
	"errors"

	"github.com/paceline-rl/paceline/core/vec"
)

// Round takes one step in every environment of the source, with the actions that
// Choose chose. made is how many were taken.
func (g *Group) Round() (made int64, err error) {
	g.made.Store(0)
	if !g.waits {
		err = g.Source.Pool().Do(len(g.actions), g.stepChosen)
		return g.made.Load(), err
	}
	if err = g.Source.Pool().Do(len(g.actions), g.waitChosen); err != nil {
		return 0, err
	}
	// The caller has its core again: recording takes too little time to be shared.
	for i, failed := range g.failed {
		if rerr := g.stepped(i, int64(i), failed); err == nil {
			err = rerr
		}
	}
	return g.made.Load(), err
}

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
