// Package actor steps a group of environments that act with one network: it
// computes the network's outputs for all of them in one batch or for each alone,
// lets a policy.Chooser choose, steps, and hands every step to an
// experience.Sink. It knows no method and no replay memory.
//
// What holds for a Group:
//
//   - Environment i has a row, a stream of random numbers (its exploration RNG)
//     and a segment of the sink, all touched by one goroutine at a time. So the
//     number of threads changes the time taken and nothing else.
//   - A row that only resets its environment (autoreset next_step), or waits for a reset
//     (Disabled), is no step: it draws no random number and adds nothing to the sink.
//   - Two Groups take turns (alternate.go): while one steps, the actions of the other are
//     computed. As a row's outputs do not depend on its batch, results are those of one.
//     A step is recorded in its round, by the thread that takes it or else by the caller.
//   - Where the host steps the environments (a Group without a source), the host's
//     rows are checked as a whole before any of them is recorded.
//   - Where the source's steps wait (env.Spec.Waits), each row has a thread, which holds a
//     core of Cores while it computes, and none during the step.
//   - An environment that fails is marked and reset by the next Repair. A step
//     whose episode ended is recorded even where the reset behind it failed.
package actor

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// Config describes a Group.
type Config struct {
	Spec env.Spec
	Envs int
	Seed uint64
	// Source steps the environments, in SameStep or as Disabled says; nil where the host
	// does. It stays the caller's.
	Source Source
	// Disabled says that the Source's mode is Disabled: environments whose episode has
	// ended take no step until StartResets.
	Disabled bool
	// NextStep says that the host's environments reset in NextStep.
	NextStep bool
	// Groups is 1, or 2: the Source's environments are stepped in two groups by turns, which
	// changes the time taken and nothing else, except where a failure comes in between.
	Groups int
	Sink   experience.Sink
	// Columns is how many numbers the chooser records with a step.
	Columns int
	// Joint computes all rows in one batch; it has Envs rows. Alone has networks of
	// one row, where Run is used: one for each thread of the Source's pool, or where its
	// steps wait, one for each core.
	Joint nn.Network
	Alone []nn.Network
	// Cores is the budget of which the caller of every method holds a core. Used where
	// the Source's steps wait, and with two Groups.
	Cores *threads.Budget
	// Acting is whose outputs choose. Nobody writes it while a method of the Group
	// runs.
	Acting *nn.Params
}

// Source is what a Group steps by itself: a vec.Vec.
type Source interface {
	vec.Source
	vec.SingleStepper
	StartReset(rows *vec.Rows, mask []bool) error
	FinishReset() error
	Save(i int) ([]byte, error)
	Restore(i int, state []byte) error
	// Pool steps the environments; where their steps wait, it lends its caller's core to
	// others meanwhile (threads.NewWaiting).
	Pool() *threads.Pool
}

// Group is a number of environments and what acts in them.
type Group struct {
	Config
	rows    *vec.Rows
	actions []int32
	size    int // bytes of an observation
	score   score

	streams   []*rng.Stream // "explore", i
	steps     []experience.Step
	starting  []bool // the host's next observation begins an episode
	resetting []bool // the row's coming step only resets (NextStep), or the row waits for StartResets
	broken    []bool // the environment failed: it must be reset
	begun     bool   // the source's environments were reset
	returns   []float64
	lengths   []int64
	finished  [][]Episode // since the last TakeFinished, by row
	ended     []Episode

	outputs  nn.Outputs // of the batch computed last
	computed int        // the first row of that
	joint    []jointRow
	single   aloneRow // by Joint, where rows compute their own
	alone    []aloneRow
	unused   chan *aloneRow // those of alone that no thread uses; where steps wait
	waits    bool           // the Source's steps wait
	failed   []error        // of the round's steps
	late     []bool         // rows whose step was taken and is still to be recorded
	run      loop
	made     atomic.Int64 // steps of the loop in progress that were recorded
	rewards  []float32    // of the latest round, while StartResets's resets overwrite them
	ends     []env.End    // likewise

	halves []*half       // with two Groups
	ahead  bool          // the first of them has begun the next round
	share  int64         // its steps in the round at hand
	busy   time.Duration // that the groups' pools were until the latest round
	// The loops over rows, made once: a closure written at the call would be
	// allocated at every round.
	takeChosen, runAlone func(worker, i int) error
}

// Episode is one that ended.
type Episode struct {
	Return float64
	Length int64
	at     int64 // the step that ended it, counted from the start of the loop
}

// New returns a group whose environments are all to be reset. Its owner must Close it.
func New(c Config) (*Group, error) {
	w := c.Envs
	g := &Group{
		Config: c, size: c.Spec.Obs.Bytes(), actions: make([]int32, w),
		streams: make([]*rng.Stream, w), steps: make([]experience.Step, w),
		starting: make([]bool, w), resetting: make([]bool, w), broken: make([]bool, w),
		returns: make([]float64, w), lengths: make([]int64, w), finished: make([][]Episode, w),
		joint: make([]jointRow, w), alone: make([]aloneRow, len(c.Alone)),
	}
	if c.Source != nil {
		g.rows = vec.NewRows(c.Spec.Obs, w)
		g.rows.AddInfos(c.Source.Infos())
		if c.Spec.Masks {
			g.rows.AddMasks(c.Spec.Action.N)
		}
		g.score = scoreOf(c.Source.Infos())
	}
	columns := make([]float32, w*c.Columns)
	for i := range w {
		g.streams[i] = rng.New(c.Seed, "explore", i)
		g.steps[i].Columns = columns[i*c.Columns : (i+1)*c.Columns : (i+1)*c.Columns]
		if c.Spec.Masks {
			g.steps[i].Mask = make([]byte, c.Spec.Action.N)
		}
		g.joint[i] = jointRow{g: g, i: i}
	}
	g.single = aloneRow{g: g, net: c.Joint}
	g.waits = c.Source != nil && c.Source.Spec().Waits
	g.unused, g.failed, g.late = make(chan *aloneRow, len(g.alone)), make([]error, w), make([]bool, w)
	for k := range g.alone {
		g.alone[k] = aloneRow{g: g, net: c.Alone[k]}
		g.unused <- &g.alone[k]
	}
	g.takeChosen = func(_, i int) error {
		g.take(i, true)
		return nil
	}
	g.runAlone = g.runRow
	if c.Source != nil && c.Groups > 1 {
		if err := g.alternates(); err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

// Obs returns the rows of observations that a group with a source acts on.
func (g *Group) Obs() []byte { return g.rows.Obs }

func (g *Group) row(rows []byte, i int) []byte { return rows[i*g.size : (i+1)*g.size] }

// mask is row i of masks: nil, which allows all, where these are nil.
func (g *Group) mask(masks []byte, i int) []byte {
	if masks == nil {
		return nil
	}
	n := g.Spec.Action.N
	return masks[i*n : (i+1)*n]
}

// choose lets c choose row i's action for the step that t counts.
func (g *Group) choose(t int64, i int, c policy.Chooser, row policy.Row) error {
	s := &g.steps[i]
	copy(s.Mask, g.mask(g.rows.Masks, i)) // the environment's step writes the next one over it
	return c.Choose(t, row, s.Mask, g.streams[i], s)
}

// Steps returns how many rows of the round at hand are steps: not those that only
// reset, nor those that failed.
func (g *Group) Steps() int {
	n := 0
	for i := range g.Envs {
		if !g.idle(i) {
			n++
		}
	}
	return n
}

// jointRow is a row of the batch computed last.
type jointRow struct {
	g *Group
	i int
}

func (r *jointRow) Head(k int) ([]float32, error) { return r.g.outputs.Row(k, r.i-r.g.computed), nil }

// Choose chooses the actions of all rows, the first of which is the step that t
// counts. jointly computes the network's outputs in one batch; otherwise each row
// computes its own when the chooser asks.
func (g *Group) Choose(t int64, c policy.Chooser, jointly bool) error {
	_, err := g.chooseRows(0, g.Envs, t, c, jointly)
	return err
}

// chooseRows is Choose for the rows first to end-1. steps is how many of them take one.
func (g *Group) chooseRows(first, end int, t int64, c policy.Chooser, jointly bool) (steps int64, err error) {
	needed := false
	for k := range end - first {
		needed = needed || c.NeedsOutputs(t+int64(k))
	}
	if jointly && needed {
		g.computed = first
		if g.outputs, err = g.Joint.Forward(g.Acting, g.rows.Obs[first*g.size:end*g.size], end-first); err != nil {
			return 0, err
		}
	}
	for i := first; i < end; i++ {
		g.steps[i].Action, g.actions[i] = 0, 0
		if g.idle(i) {
			g.rest(i)
			continue
		}
		var row policy.Row = &g.joint[i]
		if !jointly {
			g.single.at(i)
			row = &g.single
		}
		if err := g.choose(t+steps, i, c, row); err != nil {
			return 0, err
		}
		g.actions[i] = g.steps[i].Action
		steps++
	}
	return steps, nil
}

// record adds row i's step to the sink, and begins the next segment there where
// one ended and begins says that the row has its first observation.
func (g *Group) record(i int, at int64, begins bool) error {
	s := &g.steps[i]
	s.Reward, s.End, s.Updates = g.rows.Rewards[i], g.rows.Ends[i], g.Acting.Updates
	next, masks := g.rows.Obs, g.rows.Masks
	stays := g.NextStep || g.Disabled // the last observation, in Obs
	if s.End != 0 && !stays {
		next, masks = g.rows.FinalObs, g.rows.FinalMasks
	}
	if s.End != 0 && g.Disabled {
		g.keepFinal(i)
	}
	s.NextMask = g.mask(masks, i)
	if err := g.Sink.Add(i, s, g.row(next, i)); err != nil {
		return err
	}
	g.made.Add(1)
	reward, over := g.score.of(g.rows, i, stays)
	g.returns[i] += reward
	g.lengths[i]++
	if s.End == 0 {
		return nil
	}
	if over {
		g.finished[i] = append(g.finished[i], Episode{g.returns[i], g.lengths[i], at})
		g.returns[i], g.lengths[i] = 0, 0
	}
	switch {
	case stays:
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
	return g.Sink.Begin(i, g.row(g.rows.Obs, i))
}

// TakeFinished hands over the episodes that ended since the last call, in the
// order of the steps that ended them: it depends neither on threads nor on how
// long loops are.
func (g *Group) TakeFinished(f func(Episode)) {
	g.ended = g.ended[:0]
	for i := range g.finished {
		g.ended = append(g.ended, g.finished[i]...)
		g.finished[i] = g.finished[i][:0]
	}
	slices.SortStableFunc(g.ended, func(a, b Episode) int { return cmp.Compare(a.at, b.at) })
	for _, e := range g.ended {
		f(e)
	}
}

// Cut ends row i's segment and forgets the episode in progress.
func (g *Group) Cut(i int) {
	g.Sink.Cut(i)
	g.returns[i], g.lengths[i] = 0, 0
}

// Reset cuts every episode in progress and begins new ones; where the host steps,
// with the observations of the next Choose.
func (g *Group) Reset() error {
	for i := range g.broken {
		g.Cut(i)
		g.broken[i], g.starting[i], g.resetting[i] = g.Source != nil, g.Source == nil, false
	}
	if g.Source == nil {
		return nil
	}
	return g.startBroken()
}

// Repair cuts the episodes of environments that failed and begins new ones, so
// that the others' work goes on. Where none failed it does nothing.
func (g *Group) Repair() error {
	if !slices.Contains(g.broken, true) {
		return nil
	}
	for i, broken := range g.broken {
		if broken {
			g.Cut(i)
		}
	}
	return g.startBroken()
}

func (g *Group) startBroken() error {
	if err := g.Source.Reset(g.rows, g.broken); err != nil {
		return err
	}
	for i, broken := range g.broken {
		if broken {
			if err := g.start(i); err != nil {
				return err
			}
		}
	}
	g.begun = true
	return nil
}

// Actions returns the actions that Choose chose last.
func (g *Group) Actions() []int32 { return g.actions }
