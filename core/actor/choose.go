package actor

import (
	"fmt"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

// choosing is how a Group chooses actions: policy.Chooser asks a policy.Row for the network's
// outputs, and draws from the row's stream.
type choosing struct {
	streams []*rng.Stream // "explore", i
	steps   []experience.Step
	ints    int         // integers of an action
	floats  int         // numbers of the box of an action
	boxes   [][]float32 // [envs]: steps[i].Continuous as the environment takes it: by policy.Boxer, or clipped
	actions vec.Actions // of the latest batch, as the environments take them
	shown   vec.Actions // with Agents, those of the latest step of each row

	// With a nn.TauNetwork each step that needs outputs draws the key of its taus from the row's
	// stream, before its action, so that a row has the same taus alone and in a batch.
	drawsTaus bool
	keys      []uint64 // [envs]

	outputs nn.Outputs // of the latest batch
	first   int        // the batch's first row
	joint   []jointRow

	single aloneRow       // computes with Joint, for Choose without a batch
	alone  []aloneRow     // for Run
	unused chan *aloneRow // those of alone that no thread uses; needed where steps wait
}

func newChoosing(g *Group) choosing {
	w := g.Envs
	c := choosing{
		streams: make([]*rng.Stream, w), steps: make([]experience.Step, w), ints: g.Spec.Action.Ints(), floats: g.Spec.Action.Floats(),
		joint: make([]jointRow, w), alone: make([]aloneRow, len(g.Alone)), unused: make(chan *aloneRow, len(g.Alone)),
		single: aloneRow{g: g, net: g.Joint},
	}
	_, c.drawsTaus = g.Joint.(nn.TauNetwork)
	c.keys = make([]uint64, w)
	c.actions = vec.Actions{Discrete: make([]int32, w*c.ints), Box: make([]float32, w*c.floats)}
	c.shown = c.actions
	if g.Agents {
		c.shown = vec.Actions{Discrete: make([]int32, w*c.ints), Box: make([]float32, w*c.floats)}
	}
	c.boxes = numbersByRow[float32](w, c.floats)
	ints, boxes := numbersByRow[int32](w, c.ints), numbersByRow[float32](w, c.floats)
	columns := make([]float32, w*g.Columns)
	for i := range w {
		c.steps[i].Action, c.steps[i].Continuous = ints[i], boxes[i]
		c.streams[i] = rng.New(g.Seed, "explore", g.First+i)
		c.steps[i].Columns = columns[i*g.Columns : (i+1)*g.Columns : (i+1)*g.Columns]
		if g.Spec.Masks {
			c.steps[i].Mask = make([]byte, g.Spec.Action.Logits())
		}
		c.joint[i] = jointRow{g: g, i: i}
	}
	for k := range c.alone {
		c.alone[k] = aloneRow{g: g, net: g.Alone[k]}
		c.unused <- &c.alone[k]
	}
	return c
}

// numbersByRow returns n numbers for each of w rows. The numbers of two rows share no cache line,
// because several threads write them.
func numbersByRow[T int32 | float32](w, n int) [][]T {
	const line = 64 / 4
	rows := make([][]T, w)
	for i := range rows {
		rows[i] = make([]T, n, (n+line-1)/line*line)[:n:n]
	}
	return rows
}

// jointRow is a row of the latest batch.
type jointRow struct {
	g *Group
	i int
}

func (r *jointRow) LogStd() []float32             { return r.g.Acting.LogStd() }
func (r *jointRow) Head(k int) ([]float32, error) { return r.g.outputs.Row(k, r.i-r.g.first), nil }

// aloneRow computes the outputs of one row when the chooser asks for them.
type aloneRow struct {
	g        *Group
	net      nn.Network
	i        int
	computed bool
	outputs  nn.Outputs
	took     time.Duration
}

// at makes r the row of environment i, with nothing computed.
func (r *aloneRow) at(i int) { r.i, r.computed = i, false }

func (r *aloneRow) LogStd() []float32 { return r.g.Acting.LogStd() }

func (r *aloneRow) Head(k int) ([]float32, error) {
	if !r.computed {
		began := time.Now()
		var err error
		if r.outputs, err = r.g.forward(r.net, r.i, r.i+1); err != nil {
			return nil, err
		}
		r.took += time.Since(began)
		r.computed = true
	}
	return r.outputs.Row(k, 0), nil
}

// Choose chooses the actions of all rows; t is the number of the first of these steps. With jointly
// the network's outputs are computed in one batch; otherwise each row's are computed when the
// chooser asks for them.
func (g *Group) Choose(t int64, c policy.Chooser, jointly bool) error {
	_, err := g.chooseRows(0, g.Envs, t, c, jointly)
	return err
}

// Actions returns the actions that Choose chose last, as the environments take them. They are valid
// until the Group's next call.
func (g *Group) Actions() vec.Actions { return g.actions }

// chooseRows is Choose for the rows first to end-1. It returns how many of them take a step.
func (g *Group) chooseRows(first, end int, t int64, c policy.Chooser, jointly bool) (steps int64, err error) {
	jointly = jointly && end-first > 1 // a single row computes outputs when asked: a random action needs none
	needed := false
	for k := range end - first {
		needed = needed || c.NeedsOutputs(t+int64(k))
	}
	if jointly && needed {
		g.first = first
		g.drawKeys(first, end, t, c)
		if g.outputs, err = g.forward(g.Joint, first, end); err != nil {
			return 0, err
		}
	}
	for i := first; i < end; i++ {
		if g.idle(i) {
			g.clearIdle(i)
			continue
		}
		var row policy.Row = &g.joint[i]
		if !jointly {
			g.drawKey(i, t+steps, c)
			g.single.at(i)
			row = &g.single
		}
		if err := g.choose(t+steps, i, c, row); err != nil {
			return 0, err
		}
		g.shareAction(i)
		steps++
	}
	return steps, nil
}

// drawKey draws the key of row i's taus for step number t, if c needs outputs there.
func (g *Group) drawKey(i int, t int64, c policy.Chooser) {
	if g.drawsTaus && c.NeedsOutputs(t) {
		g.keys[i] = g.streams[i].Uint64()
	}
}

// drawKeys is drawKey for the rows first to end-1 that take a step; t is the number of the first.
func (g *Group) drawKeys(first, end int, t int64, c policy.Chooser) {
	for i := first; i < end; i++ {
		if !g.idle(i) {
			g.drawKey(i, t, c)
			t++
		}
	}
}

// forward computes the outputs of the rows first to end-1.
func (g *Group) forward(net nn.Network, first, end int) (nn.Outputs, error) {
	obs := g.inputs()[first*g.size : end*g.size]
	if g.drawsTaus {
		return net.(nn.TauNetwork).ForwardAt(g.Acting, obs, end-first, g.keys[first:end])
	}
	return net.Forward(g.Acting, obs, end-first)
}

// ErrAction is wrapped by the error of an action that is not finite, because an output of the
// network or exp(log_std) is not. Nothing was stepped. It wraps fault.ErrNotFinite.
var ErrAction = fmt.Errorf("%w", fault.ErrNotFinite)

// choose lets c choose row i's action for step number t. It refuses a box that is not finite also
// where clipping would make it finite, because the loss of that action is not.
func (g *Group) choose(t int64, i int, c policy.Chooser, row policy.Row) error {
	s := &g.steps[i]
	copy(s.Mask, g.mask(g.rows.Masks, i)) // the environment's step overwrites the row's mask
	if err := c.Choose(t, row, s.Mask, g.streams[i], s); err != nil {
		return err
	}
	if g.floats == 0 {
		return nil
	}
	for k, x := range s.Continuous {
		if x-x != 0 { // NaN or infinite
			return &env.Error{Index: i, Err: fmt.Errorf("action[%d]: %v, %w", k, x, ErrAction)}
		}
	}
	if b, ok := c.(policy.Boxer); ok {
		b.ToBox(g.boxes[i], s.Continuous)
	} else {
		g.Spec.Action.Clip(g.boxes[i], s.Continuous)
	}
	return nil
}

// shareAction copies row i's action to actions.
func (g *Group) shareAction(i int) {
	if g.Spec.Action.N > 0 {
		g.actions.Discrete[i] = g.steps[i].Action[0]
		return
	}
	copy(g.actions.Discrete[i*g.ints:], g.steps[i].Action)
	copy(g.actions.Box[i*g.floats:], g.boxes[i])
}

// chooseAlone chooses row i's action for step number t on one of several threads. took is how long
// its outputs took.
func (g *Group) chooseAlone(worker, i int, t int64) (took time.Duration, err error) {
	var row *aloneRow
	if g.waits { // more threads than networks, but not more that hold a core
		row = <-g.unused
		defer func() { g.unused <- row }()
	} else {
		row = &g.alone[worker]
	}
	row.at(i)
	row.took = 0
	g.drawKey(i, t, g.run.chooser)
	err = g.choose(t, i, g.run.chooser, row)
	return row.took, err
}
