package actor

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/vec"
)

// This file is a Group whose environments the host steps. All of the host's rows are checked before
// any of them is recorded.

// Use sets the host's rows that the next calls act on, and begins a segment with every observation
// that is the first of its episode. If an observation or a mask is refused, no segment has begun.
// step is for errors.
func (g *Group) Use(rows *vec.Rows, step int64) error {
	if err := g.CheckUse(rows, step); err != nil {
		return err
	}
	if err := g.startEpisodes(); err != nil {
		return err
	}
	g.normalizeInputs()
	return nil
}

// CheckUse returns the error with which Use refuses the rows.
func (g *Group) CheckUse(rows *vec.Rows, step int64) error {
	g.rows = rows
	for i, resetting := range g.resetting {
		if err := g.checkObs(i, step, "", rows.Obs); err != nil {
			return err
		}
		if !resetting {
			if err := g.checkMask(i, step, "", rows.Masks); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Group) checkStarts(step int64) error {
	for i, first := range g.starting {
		if first {
			if err := g.checkObs(i, step, "", g.rows.Obs); err != nil {
				return err
			}
		}
	}
	return nil
}

// startEpisodes begins a segment with every observation that is the first of its episode. They have
// been checked.
func (g *Group) startEpisodes() error {
	g.normalizeStarts(g.starting)
	for i, first := range g.starting {
		if first {
			if err := g.start(i); err != nil {
				return err
			}
			g.starting[i] = false
		}
	}
	return nil
}

// Observe records the rows that the host's step wrote: all of them, or, if one is refused, none. If
// accept is not nil, it may refuse each row whose step leads to a next observation. made is how
// many rows were steps; step is for errors.
func (g *Group) Observe(rows *vec.Rows, step int64, accept func(i int, next []byte) error) (made int64, err error) {
	if err := g.CheckRows(rows, step, accept); err != nil {
		return 0, err
	}
	return g.recordRows()
}

// CheckRows is Observe without recording: it returns the error with which Observe refuses the rows.
func (g *Group) CheckRows(rows *vec.Rows, step int64, accept func(i int, next []byte) error) error {
	g.rows = rows
	if err := g.checkStarts(step); err != nil {
		return err
	}
	if err := g.startEpisodes(); err != nil {
		return err
	}
	for i := range g.Envs {
		next, err := g.check(i, step)
		if err == nil && next != nil && accept != nil {
			err = accept(i, next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check refuses a row of the host's that would corrupt the experience. It returns the observation
// that will be recorded as the next one, or nil if there is none. step is for errors.
func (g *Group) check(i int, step int64) (next []byte, err error) {
	rows := g.rows
	if err := g.checkObs(i, step, "", rows.Obs); err != nil {
		return nil, err
	}
	if g.resetting[i] {
		return nil, g.checkMask(i, step, "", rows.Masks)
	}
	if err := env.CheckReward(rows.Rewards[i]); err != nil {
		return nil, refused(i, step, err)
	}
	end := rows.Ends[i]
	terminated := end&env.Terminated != 0
	switch {
	case end > env.Terminated|env.Truncated:
		return nil, refused(i, step, fmt.Errorf("ended: %d, must be 0 to 3", end))
	case terminated && g.NextStep:
		return nil, nil // the mask is of a terminal state, in which no action is taken
	}
	if err := g.checkMask(i, step, "", rows.Masks); err != nil || terminated {
		return nil, err
	}
	if end != 0 && !g.NextStep {
		if err := g.checkMask(i, step, "final ", rows.FinalMasks); err != nil {
			return nil, err
		}
		return g.row(rows.FinalObs, i), g.checkObs(i, step, "final ", rows.FinalObs)
	}
	return g.row(rows.Obs, i), nil
}

func (g *Group) checkMask(i int, step int64, what string, masks []byte) error {
	if err := g.Spec.Action.CheckMask(g.mask(masks, i)); err != nil {
		return refused(i, step, fmt.Errorf("%s%w", what, err))
	}
	return nil
}

func (g *Group) checkObs(i int, step int64, what string, rows []byte) error {
	if err := g.Spec.Obs.CheckFinite(g.row(rows, i)); err != nil {
		return refused(i, step, fmt.Errorf("%s%w", what, err))
	}
	return nil
}

// Refused is the error of a row of the host that is not valid. Step is the number of steps before
// the step of the row.
type Refused struct {
	Step int64
	Err  error
}

func (r *Refused) Error() string { return fmt.Sprintf("step %d: %v", r.Step, r.Err) }
func (r *Refused) Unwrap() error { return r.Err }

// refused returns the error of the host's row of environment i.
func refused(i int, step int64, err error) error {
	return &env.Error{Index: i, Err: &Refused{step, err}}
}

// recordRows adds the host's rows, which check has accepted, to the sink. made is how many of them
// were steps.
func (g *Group) recordRows() (made int64, err error) {
	g.normalizeHost()
	g.made.Store(0)
	for i := range g.Envs {
		if g.resetting[i] {
			g.resetting[i] = false
			err = g.start(i)
		} else {
			err = g.record(i, int64(i), true)
		}
		if err != nil {
			return g.made.Load(), err
		}
	}
	return g.made.Load(), nil
}
