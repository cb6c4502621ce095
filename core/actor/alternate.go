package actor

import (
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/threads"
)

// This file is the alternating sampler of Stooke & Abbeel 2018, section 4.1: two groups of
// environments take turns, and while one steps, the actions of the other are computed.

// half is one of the two groups: the rows first to end-1.
type half struct {
	g          *Group
	first, end int
	pool       *threads.Pool // of its own, as both groups may step at the same time
	step       func(worker, k int) error
	// open says that the sink is in the round that the group's steps belong to, so that
	// whoever takes a step may record it: the caller, who computes actions meanwhile, then need
	// not fetch what another core wrote.
	open atomic.Bool
}

// alternates makes the two groups. Where steps wait, each row has a thread.
func (g *Group) alternates() error {
	middle := (g.Envs + 1) / 2
	g.halves = []*half{{g: g, end: middle}, {g: g, first: middle, end: g.Envs}}
	for _, h := range g.halves {
		n, err := h.end-h.first, error(nil)
		if g.waits {
			h.pool, err = threads.NewWaiting(min(n, threads.Max), g.Cores)
		} else {
			h.pool, err = threads.NewPool(g.Source.Pool().Threads(), g.Cores)
		}
		if err != nil {
			return err
		}
		h.step = func(_, k int) error {
			g.take(h.first+k, h.open.Load())
			return nil
		}
	}
	return nil
}

// begin chooses the group's actions, the first of which is the step that t counts, and
// begins their steps. steps is how many these are. ahead says that they are of the next round,
// which the sink is not in yet.
func (h *half) begin(t int64, c policy.Chooser, ahead bool) (steps int64, err error) {
	if steps, err = h.g.chooseRows(h.first, h.end, t, c, true); err == nil {
		h.open.Store(!ahead)
		h.pool.Start(h.end-h.first, h.step)
	}
	return steps, err
}

// finish waits for the steps and records those that were taken before the sink was in their
// round. The sink is in it now.
func (h *half) finish() error { return h.g.recordLate(h.first, h.end, h.pool.Wait()) }

// alternate is Round. Where the first group has begun the round already, it goes on from there.
func (g *Group) alternate(t int64, c policy.Chooser, more bool) (ran Ran, err error) {
	began := time.Now()
	first, second := g.halves[0], g.halves[1]
	begin := func(h *half, t int64, ahead bool) (int64, error) {
		began := time.Now()
		defer func() { ran.Acting += time.Since(began) }()
		return h.begin(t, c, ahead)
	}
	ran.Steps = int64(g.Steps())
	g.made.Store(0)
	if g.ahead {
		first.open.Store(true)
	} else if g.share, err = begin(first, t, false); err != nil {
		return ran, err
	}
	g.ahead = false
	_, err = begin(second, t+g.share, false)
	stepping := err == nil
	if failed := first.finish(); failed != nil {
		err = failed
	}
	if more && err == nil {
		if g.share, err = begin(first, t+ran.Steps, true); err == nil {
			g.ahead = true
		}
	}
	if stepping {
		if failed := second.finish(); err == nil {
			err = failed
		}
	}
	ran.Made, ran.Stepping = g.made.Load(), time.Since(began)-ran.Acting
	busy := first.pool.Busy() + second.pool.Busy()
	ran.Cores, g.busy = busy-g.busy, busy
	return ran, err
}

// InRound reports whether a round has begun that the next Round goes on with: the caller
// takes that one in any case, also after an error.
func (g *Group) InRound() bool { return g.ahead }

// Close ends the threads of the groups, once their steps are over.
func (g *Group) Close() {
	for _, h := range g.halves {
		if h.pool != nil {
			h.pool.Close()
		}
	}
}
