// Package rollout stores the experience of an on-policy method, Horizon rounds of Envs
// environments, and computes its returns (returns.go): n-step returns, GAE(lambda) and advantages.
//
// # Rows
//
// A round is one step of each environment. Row t*Envs + i is the step of environment i in round t.
// All arrays of a Batch have this order. A full rollout is therefore a minibatch of Horizon*Envs
// rows, without a copy.
//
// A row without a step is a hole. An environment takes no step in a round if it only resets
// (autoreset NEXT_STEP), if it waits for its reset during the update, or if it has failed. A hole
// has weight 0, action 0 and zeros everywhere else. Losses, means and normalisations must not count
// holes. With holes all environments finish Horizon rounds at the same time in every autoreset
// mode. The update is due for all in the same round, and each round needs one forward pass. Returns
// skip holes: the step before a hole bootstraps from the step after it, unless the episode ended in
// between.
//
// # Segments
//
// The pending observation of environment i is the first observation of its next step. It is stored
// in the row of that step, which is in round Horizon if the rollout is full. Next copies it to the
// following rollout. An episode may therefore extend over any number of rollouts.
//
// Every end cuts the trace of returns. The value after env.Terminated is 0. The same holds for
// env.Lost: a learner treats a lost life as a termination although the episode continues. The value
// after env.Truncated is V of the true last observation, which is stored apart from the rows until
// Next because no step begins with it. Cut truncates after the newest step of this rollout, with
// the pending observation as the last one. At the end of the rollout the value is V of the pending
// observation.
//
// # Windows
//
// Drop drops only the oldest rounds, so that a rollout may also be a moving window of the latest
// Horizon rounds. The rounds are then a ring: Drop moves no row (Obs).
//
// # Memory and goroutines
//
// A rollout stores (Horizon+1)*Envs whole observations (Config.Bytes), and one more for each
// truncation until Next. Frames of stacked observations are stored once per observation, because a
// rollout is small compared with a replay memory.
//
// Begin, Add and Cut of one environment belong to one goroutine at a time. Different environments
// are independent. No other method may run concurrently with any method.
package rollout

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// ColumnValue names the column that every rollout has: V of the row's observation, computed by the
// network that acted.
const ColumnValue = "value"

// Config describes a Rollout.
type Config struct {
	Obs     env.ObsSpec
	Action  env.ActionSpec
	Horizon int // rounds, 1 to 2^20: the setting n_steps
	Envs    int // environments, 1 to 2^20; Horizon*Envs at most 2^24
	// Masks says that steps have action masks.
	Masks bool
	// Columns are the names of experience.Step.Columns, in the same order. The names differ from
	// each other, and ColumnValue is one of them.
	Columns []string
}

// Bytes returns the memory that New allocates for a valid Config. The last observations of
// truncated episodes need additional memory.
func (cfg Config) Bytes() int64 {
	rows := int64(cfg.Horizon+1) * int64(cfg.Envs)
	const perRow = 4 + 1 + 8 + 3*4 // reward, end, updates; weight, advantage, return
	return rows * int64(cfg.Obs.Bytes()+cfg.Action.Bytes()+perRow+4*len(cfg.Columns)+cfg.maskBytes())
}

// maskBytes returns the size of an action mask, 0 without Masks.
func (cfg Config) maskBytes() int {
	if cfg.Masks {
		return cfg.Action.Logits()
	}
	return 0
}

func (cfg Config) check() error {
	const maxSize, maxRows = 1 << 20, 1 << 24
	if err := cfg.Action.Check(); err != nil {
		return err
	}
	switch {
	case cfg.Obs.Bytes() < 1 || cfg.Obs.Bytes() > 1<<28:
		return fmt.Errorf("observation: %d bytes, must be 1 to %d", cfg.Obs.Bytes(), 1<<28)
	case cfg.Horizon < 1 || cfg.Horizon > maxSize:
		return fmt.Errorf("n_steps: %d, must be 1 to %d", cfg.Horizon, maxSize)
	case cfg.Envs < 1 || cfg.Envs > maxSize:
		return fmt.Errorf("num_envs: %d, must be 1 to %d", cfg.Envs, maxSize)
	case cfg.Horizon > maxRows/cfg.Envs:
		return fmt.Errorf("n_steps: %d, must be at most %d with num_envs %d", cfg.Horizon, maxRows/cfg.Envs, cfg.Envs)
	case !slices.Contains(cfg.Columns, ColumnValue):
		return fmt.Errorf("columns: %q, must hold %q", cfg.Columns, ColumnValue)
	}
	for k, name := range cfg.Columns {
		if slices.Contains(cfg.Columns[:k], name) {
			return fmt.Errorf("columns: %q, must be different from one another", cfg.Columns)
		}
	}
	return nil
}

// Batch is a rollout as a minibatch. The rows are in the order of the rounds, unless Drop was
// called. The arrays belong to the Rollout.
type Batch struct {
	Obs     []byte      // [rows] observations
	Actions []int32     // [rows][Config.Action.Ints()]
	Rewards []float32   // [rows], as added
	Ends    []env.End   // [rows], as added; Cut adds env.Truncated
	Updates []uint64    // [rows]: number of updates of the parameters that acted
	Columns [][]float32 // [columns][rows], in the order of Config.Columns
	Weights []float32   // [rows]: 1 for a step, 0 for a hole
	// Continuous is [rows][Config.Action.Floats()]: the boxes of the actions as they were sampled,
	// not clipped to the bounds.
	Continuous []float32
	// Masks is [rows][Config.Action.Logits()]: the mask under which each action was chosen. It is
	// nil without Config.Masks, and undefined in holes.
	Masks []byte

	// Written by Finish, 0 in holes.
	Advantages []float32 // [rows]
	Returns    []float32 // [rows]: advantage + value
}

// Rollout is [Horizon][Envs] experience. It is an experience.Sink.
type Rollout struct {
	cfg          Config
	size         int // bytes of an observation
	ints, floats int // of an action
	value        int // index of ColumnValue
	// data is [Horizon+1][Envs] rows, a ring of rounds. Round base of the ring is the oldest. The
	// pending observations are in the rows of the first round without steps. rows are the first
	// Horizon rounds of the ring.
	data, rows Batch
	base       int
	envs       []envState
	round      int // number of finished rounds

	pendingValues []float32  // [Envs]: V of the pending observations
	cutRows       []byte     // [Envs] observations of one forward pass; nil before the first truncation
	cutTargets    []*float32 // where the values of cutRows are stored
}

// envState is the state of one environment apart from its rows.
type envState struct {
	pending bool // there is a pending observation
	stepped bool // the environment has taken its step of the round in progress
	newest  int  // round of the newest step of the segment; -1: none in this rollout
	// The truncations, the oldest first: their rounds, [cuts] true last observations, and V of
	// these observations, which Finish computes.
	cuts      []int
	cutObs    []byte
	cutValues []float32
	_         [64]byte // keeps environments of different goroutines off the same cache line
}

var _ experience.Sink = (*Rollout)(nil)

// New returns an empty rollout.
func New(cfg Config) (*Rollout, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Columns = slices.Clone(cfg.Columns)
	rows, size := (cfg.Horizon+1)*cfg.Envs, cfg.Obs.Bytes()
	r := &Rollout{
		cfg: cfg, size: size, ints: cfg.Action.Ints(), floats: cfg.Action.Floats(), value: slices.Index(cfg.Columns, ColumnValue),
		envs: make([]envState, cfg.Envs), pendingValues: make([]float32, cfg.Envs),
		data: Batch{
			Obs: make([]byte, rows*size), Rewards: make([]float32, rows), Ends: make([]env.End, rows),
			Actions: make([]int32, rows*cfg.Action.Ints()), Continuous: make([]float32, rows*cfg.Action.Floats()),
			Updates: make([]uint64, rows), Columns: make([][]float32, len(cfg.Columns)), Weights: make([]float32, rows),
			Advantages: make([]float32, rows), Returns: make([]float32, rows), Masks: make([]byte, rows*cfg.maskBytes()),
		},
	}
	if !cfg.Masks {
		r.data.Masks = nil
	}
	for k := range r.data.Columns {
		r.data.Columns[k] = make([]float32, rows)
	}
	r.rows = r.data.prefix(rows-cfg.Envs, rows)
	for i := range r.envs {
		r.envs[i].newest = -1
	}
	return r, nil
}

// prefix returns the first n of rows rows.
func (b *Batch) prefix(n, rows int) Batch {
	f := Batch{Obs: b.Obs[:n*(len(b.Obs)/rows)], Actions: b.Actions[:n*(len(b.Actions)/rows)], Continuous: b.Continuous[:n*(len(b.Continuous)/rows)], Rewards: b.Rewards[:n], Ends: b.Ends[:n], Updates: b.Updates[:n],
		Columns: make([][]float32, len(b.Columns)), Weights: b.Weights[:n], Advantages: b.Advantages[:n], Returns: b.Returns[:n]}
	for c, column := range b.Columns {
		f.Columns[c] = column[:n]
	}
	if b.Masks != nil {
		f.Masks = b.Masks[:n*(len(b.Masks)/rows)]
	}
	return f
}

// Batch returns the rows. Add, Cut, EndRound, Finish and Next change their contents. Rows of rounds
// that are not finished are undefined. The adopt of Load replaces the arrays.
func (r *Rollout) Batch() *Batch { return &r.rows }

// Obs returns the observations of Horizon+1 rounds in the order of memory: the ring with the rows
// of Batch and the pending observations. Gather and Newest return indices of these rows. The adopt
// of Load replaces the array.
func (r *Rollout) Obs() []byte { return r.data.Obs }

// Newest returns the rows of the newest n finished rounds as indices of Obs: rows rows from first
// on, wrapping to row 0.
func (r *Rollout) Newest(n int) (first, rows int) { return r.row(r.round-n, 0), n * r.cfg.Envs }

// row returns the index in data of environment i in round t.
func (r *Rollout) row(t, i int) int { return (r.base+t)%(r.cfg.Horizon+1)*r.cfg.Envs + i }

// action returns the action of row k of data.
func (r *Rollout) action(k int) (branches []int32, box []float32) {
	return r.data.Actions[k*r.ints : (k+1)*r.ints], r.data.Continuous[k*r.floats : (k+1)*r.floats]
}

// Full reports whether Horizon rounds are finished. Next or Drop must then be called before the
// next round.
func (r *Rollout) Full() bool { return r.round == r.cfg.Horizon }

// Left returns the number of rounds until the rollout is full.
func (r *Rollout) Left() int { return r.cfg.Horizon - r.round }

// Steps returns the number of steps in the finished rounds.
func (r *Rollout) Steps() int {
	n := 0
	for t := range r.round {
		first := r.row(t, 0)
		for _, w := range r.data.Weights[first : first+r.cfg.Envs] {
			n += int(w)
		}
	}
	return n
}

// at returns the observation of environment i in round t.
func (r *Rollout) at(t, i int) []byte {
	k := r.row(t, i) * r.size
	return r.data.Obs[k : k+r.size : k+r.size]
}

// pendingAt returns the memory of environment i's pending observation: in the round in progress, or
// in the next round if the environment has taken its step.
func (r *Rollout) pendingAt(i int) []byte {
	if r.envs[i].stepped {
		return r.at(r.round+1, i)
	}
	return r.at(r.round, i)
}

// Begin starts a segment of environment i with its first observation. It first cuts a segment in
// progress.
func (r *Rollout) Begin(i int, obs []byte) error {
	if len(obs) != r.size {
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", i, len(obs), r.size)
	}
	r.Cut(i)
	copy(r.pendingAt(i), obs)
	r.envs[i].pending, r.envs[i].newest = true, -1
	return nil
}

// Add records environment i's step of the round in progress, at most one (experience.Sink). With
// env.Lost and no other end the segment continues from next, but the value after the step is 0.
func (r *Rollout) Add(i int, s *experience.Step, next []byte) error {
	e := &r.envs[i]
	// next is ignored after an end whose value is 0. After a lost life the episode continues: next
	// is the pending observation.
	cut := s.End.Over() && s.End&(env.Terminated|env.Lost) == 0
	keepsNext := cut || !s.End.Over()
	switch {
	case r.Full():
		return fmt.Errorf("environment %d: a step beyond the horizon of %d rounds", i, r.cfg.Horizon)
	case e.stepped:
		return fmt.Errorf("environment %d: a second step in one round", i)
	case !e.pending:
		return fmt.Errorf("environment %d: a step without a first observation", i)
	case len(s.Action) != r.ints || len(s.Continuous) != r.floats:
		return fmt.Errorf("environment %d: action of %d integers and %d numbers of a box, must be %d and %d", i, len(s.Action), len(s.Continuous), r.ints, r.floats)
	case len(s.Mask) != r.cfg.maskBytes():
		return fmt.Errorf("environment %d: action mask of %d, must be %d", i, len(s.Mask), r.cfg.maskBytes())
	case len(s.Columns) != len(r.cfg.Columns):
		return fmt.Errorf("environment %d: %d columns, must be %d: %q", i, len(s.Columns), len(r.cfg.Columns), r.cfg.Columns)
	case keepsNext && len(next) != r.size:
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", i, len(next), r.size)
	}
	k := r.row(r.round, i)
	d := &r.data
	d.Rewards[k], d.Ends[k], d.Updates[k], d.Weights[k] = s.Reward, s.End, s.Updates, 1
	if r.cfg.Action.N > 0 { // a call of copy would take as long as the rest of Add
		d.Actions[k] = s.Action[0]
	} else {
		copy(d.Actions[k*r.ints:], s.Action)
		copy(d.Continuous[k*r.floats:], s.Continuous)
	}
	for c, v := range s.Columns {
		d.Columns[c][k] = v
	}
	copy(d.Masks[k*len(s.Mask):], s.Mask)
	e.stepped, e.newest, e.pending = true, r.round, false
	switch {
	case cut:
		e.truncate(r.round, next)
	case keepsNext:
		copy(r.pendingAt(i), next)
		e.pending = true
	}
	return nil
}

// Open implements experience.Sink.
func (r *Rollout) Open(i int) bool { return r.envs[i].pending }

// Cut ends environment i's segment. If the newest step of the segment is in this rollout, that step
// becomes a truncation with the pending observation as the last one.
func (r *Rollout) Cut(i int) {
	e := &r.envs[i]
	if !e.pending {
		return
	}
	e.pending = false
	if e.newest < 0 {
		return
	}
	// After a lost life the value is 0: nothing is truncated.
	if end := &r.data.Ends[r.row(e.newest, i)]; *end == 0 {
		*end = env.Truncated
		e.truncate(e.newest, r.pendingAt(i))
	}
}

// truncate stores the last observation of a segment that ended with the step of round t.
func (e *envState) truncate(t int, obs []byte) {
	e.cuts = append(e.cuts, t)
	e.cutObs = append(e.cutObs, obs...)
	e.cutValues = append(e.cutValues, 0)
}

// EndRound ends the round in progress. The rows of environments that took no step become holes.
func (r *Rollout) EndRound() error {
	if r.Full() {
		return fmt.Errorf("rollout: a round beyond the horizon of %d", r.cfg.Horizon)
	}
	for i := range r.envs {
		e := &r.envs[i]
		if e.stepped {
			e.stepped = false
			continue
		}
		if e.pending {
			copy(r.at(r.round+1, i), r.at(r.round, i))
		}
		r.hole(r.round, i)
	}
	r.round++
	return nil
}

// hole clears environment i's row of round t.
func (r *Rollout) hole(t, i int) {
	k := r.row(t, i)
	d := &r.data
	clear(r.at(t, i)) // the network evaluates holes, too: their rows must be finite and reproducible
	d.Rewards[k], d.Ends[k], d.Updates[k], d.Weights[k] = 0, 0, 0, 0
	actions, box := r.action(k)
	clear(actions)
	clear(box)
	for _, column := range d.Columns {
		column[k] = 0
	}
}

// Next begins the next rollout. It drops all rows and copies the pending observations to round 0.
// It must be called between two rounds.
func (r *Rollout) Next() error {
	if err := r.checkBetweenRounds("next"); err != nil {
		return err
	}
	for i := range r.envs {
		copy(r.data.Obs[i*r.size:(i+1)*r.size], r.at(r.round, i)) // row i of round 0, with base 0
	}
	r.base, r.round = 0, 0
	for i := range r.envs {
		r.envs[i].drop(math.MaxInt, r.size)
	}
	return nil
}

// Drop drops the oldest n of the finished rounds. It must be called between two rounds.
func (r *Rollout) Drop(n int) error {
	if err := r.checkBetweenRounds("drop"); err != nil {
		return err
	}
	if n < 0 || n > r.round {
		return fmt.Errorf("rollout: %d rounds to drop, must be 0 to %d", n, r.round)
	}
	r.base, r.round = (r.base+n)%(r.cfg.Horizon+1), r.round-n
	for i := range r.envs {
		r.envs[i].drop(n, r.size)
	}
	return nil
}

// drop drops the oldest n rounds; size is the bytes of an observation.
func (e *envState) drop(n, size int) {
	dropped := 0
	for dropped < len(e.cuts) && e.cuts[dropped] < n {
		dropped++
	}
	e.cuts = slices.Delete(e.cuts, 0, dropped)
	e.cutObs = slices.Delete(e.cutObs, 0, dropped*size)
	e.cutValues = slices.Delete(e.cutValues, 0, dropped)
	for k := range e.cuts {
		e.cuts[k] -= n
	}
	if e.newest < n {
		e.newest = -1
	} else {
		e.newest -= n
	}
}

// finishedRows returns the rows of the finished rounds, the oldest first, as two spans of indices
// in data: from span[0] to span[1]-1.
func (r *Rollout) finishedRows() (spans [2][2]int) {
	first, rows := r.Newest(r.round)
	end := min(first+rows, len(r.data.Weights))
	return [2][2]int{{first, end}, {0, first + rows - end}}
}

// checkBetweenRounds returns an error if a round is in progress.
func (r *Rollout) checkBetweenRounds(what string) error {
	for i := range r.envs {
		if r.envs[i].stepped {
			return fmt.Errorf("rollout: %s in mid-round, must follow EndRound", what)
		}
	}
	return nil
}
