// Package rollout holds the experience that an on-policy method learns from and
// then gives up: Horizon rounds of Envs environments, and what follows from
// them (returns.go): n-step returns, GAE(lambda), advantages.
//
// # Rows
//
// A round is one step of each environment. Row t*Envs + i is what environment i
// did in round t; every array of a Batch has its entries in that order, so a
// full rollout is one minibatch of Horizon*Envs rows, and no row is copied to
// make it.
//
// Not every row need be a step. In NEXT_STEP autoreset the round after an
// episode's end only resets its environment, where resets take place beside the
// update an environment whose episode has ended takes no further step, and neither
// does one that failed. Such a row is a hole: it has weight 0, action 0, zeros
// everywhere else, and no loss, mean or normalisation may count it. The rollout
// keeps the hole instead of closing up, because Horizon then means the same
// number of rounds for all environments in every autoreset mode: the update is
// due at the same round for all, and one forward pass a round serves them all.
// Nothing flows through a hole and nothing stops at one: the step before it goes
// on at the step after it, unless an end lies between.
//
// # Segments
//
// The observation from which environment i goes on is pending. It stands where
// the row of its next step will be, in row Horizon once the rollout is full, and
// Next takes it over into the following rollout. So an episode runs on through
// any number of rollouts.
//
// Every end cuts the trace of returns. Beyond env.Terminated (and env.Lost, which
// a learner takes for a termination although the episode goes on) the value is
// 0. Beyond env.Truncated it is V of the true last observation, which is kept
// until Next, beside the rows: it is the first observation of no step. Cut is a
// truncation after the newest step of this rollout, with the pending observation
// as the last one. Where the rollout ends and the episode does not, the value is
// V of the pending observation.
//
// # Windows
//
// Drop gives up the oldest rounds alone, so that a rollout may also be a window of the latest
// Horizon rounds that moves along. Nothing is copied for it: the rounds are a ring then, in which
// a round's rows stay where they are as long as the window has them (Obs).
//
// # Memory and goroutines
//
// An observation is stored whole, so a rollout takes (Horizon+1)*Envs of them
// (Config.Bytes), and one more for each truncation while the rollout lasts.
// Stacked frames are stored as often as they are seen; a rollout is small beside
// a replay memory.
//
// Begin, Add and Cut of one environment belong to one goroutine at a time;
// different environments are independent. Everything else wants everybody else
// quiet.
package rollout

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// ColumnValue is the column that every rollout has: V of the row's observation,
// as the network that acted computed it.
const ColumnValue = "value"

// Config describes a Rollout.
type Config struct {
	Obs     env.ObsSpec
	Actions int // discrete actions, 1 to 2^31 - 1
	Horizon int // rounds, 1 to 2^20: the setting n_steps
	Envs    int // environments, 1 to 2^20; Horizon*Envs at most 2^24
	// Masks says that steps come with action masks, which are then rows, too.
	Masks bool
	// Columns names what experience.Step.Columns holds, in its order. Names are
	// different, and ColumnValue is one of them.
	Columns []string
}

// Bytes returns the memory that New takes for a Config that it accepts. The last
// observations of truncated episodes come on top.
func (cfg Config) Bytes() int64 {
	rows := int64(cfg.Horizon+1) * int64(cfg.Envs)
	const perRow = 4 + 4 + 1 + 8 + 3*4 // action, reward, end, updates; weight, advantage, return
	return rows * int64(cfg.Obs.Bytes()+perRow+4*len(cfg.Columns)+cfg.maskBytes())
}

// maskBytes are those of a row's mask.
func (cfg Config) maskBytes() int {
	if cfg.Masks {
		return cfg.Actions
	}
	return 0
}

func (cfg Config) check() error {
	const most, mostRows = 1 << 20, 1 << 24
	switch {
	case cfg.Obs.Bytes() < 1 || cfg.Obs.Bytes() > 1<<28:
		return fmt.Errorf("observation: %d bytes, must be 1 to %d", cfg.Obs.Bytes(), 1<<28)
	case cfg.Actions < 1 || cfg.Actions > 1<<31-1:
		return fmt.Errorf("actions: %d, must be 1 to %d", cfg.Actions, 1<<31-1)
	case cfg.Horizon < 1 || cfg.Horizon > most:
		return fmt.Errorf("n_steps: %d, must be 1 to %d", cfg.Horizon, most)
	case cfg.Envs < 1 || cfg.Envs > most:
		return fmt.Errorf("num_envs: %d, must be 1 to %d", cfg.Envs, most)
	case cfg.Horizon > mostRows/cfg.Envs:
		return fmt.Errorf("n_steps: %d, must be at most %d with num_envs %d", cfg.Horizon, mostRows/cfg.Envs, cfg.Envs)
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

// Batch is a rollout as rows of a minibatch, in the order of rounds as long as none was
// dropped. Its arrays belong to the Rollout.
type Batch struct {
	Obs     []byte      // [rows] observations
	Actions []int32     // [rows], 0 to Config.Actions-1
	Rewards []float32   // [rows], as they were added
	Ends    []env.End   // [rows], as they were added; Cut adds env.Truncated
	Updates []uint64    // [rows]: how many updates the parameters that acted had seen
	Columns [][]float32 // [column][rows], columns in the order of Config.Columns
	Weights []float32   // [rows]: 1 for a step, 0 for a hole
	// Masks are [rows][Config.Actions], what each row's action was chosen under; nil
	// without Config.Masks. A hole's are undefined.
	Masks []byte

	// Written by Finish, 0 in holes.
	Advantages []float32 // [rows]
	Returns    []float32 // [rows]: advantage + value, what the value should have been
}

// Rollout is [Horizon][Envs] experience. It is an experience.Sink.
type Rollout struct {
	cfg   Config
	size  int // bytes of an observation
	value int // index of ColumnValue
	// data are [Horizon+1][Envs] rows, a ring of rounds of which number base is the oldest:
	// the pending observations are those of the round that no step is of yet. rows are
	// those of the first Horizon rounds.
	data, rows Batch
	base       int
	envs       []envState
	round      int // rounds that are over

	ahead   []float32  // [Envs]: V of the pending observations
	cutRows []byte     // [Envs] observations, made at the first truncation: those of one forward pass
	cutTo   []*float32 // where its values belong
}

// envState is what is known of one environment besides its rows.
type envState struct {
	pending bool // its next observation is known
	stepped bool // it took its step of the round in progress
	newest  int  // round of the newest step of its segment; -1: none in this rollout
	// Truncations, oldest first: the round of each, the true last observations one
	// after the other, and V of each once it is computed.
	cuts      []int
	cutObs    []byte
	cutValues []float32
	_         [64]byte // environments of different goroutines share no cache line
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
		cfg: cfg, size: size, value: slices.Index(cfg.Columns, ColumnValue),
		envs: make([]envState, cfg.Envs), ahead: make([]float32, cfg.Envs),
		data: Batch{
			Obs: make([]byte, rows*size), Actions: make([]int32, rows), Rewards: make([]float32, rows), Ends: make([]env.End, rows),
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
	r.rows = r.data.first(rows-cfg.Envs, rows)
	for i := range r.envs {
		r.envs[i].newest = -1
	}
	return r, nil
}

// first are the first n of so many rows.
func (b *Batch) first(n, rows int) Batch {
	f := Batch{Obs: b.Obs[:n*(len(b.Obs)/rows)], Actions: b.Actions[:n], Rewards: b.Rewards[:n], Ends: b.Ends[:n], Updates: b.Updates[:n],
		Columns: make([][]float32, len(b.Columns)), Weights: b.Weights[:n], Advantages: b.Advantages[:n], Returns: b.Returns[:n]}
	for c, column := range b.Columns {
		f.Columns[c] = column[:n]
	}
	if b.Masks != nil {
		f.Masks = b.Masks[:n*(len(b.Masks)/rows)]
	}
	return f
}

// Batch returns the rows. Their contents change with Add, Cut, EndRound, Finish
// and Next, and rows of rounds that are not over are undefined. What Load returned
// replaces the arrays that it points to.
func (r *Rollout) Batch() *Batch { return &r.rows }

// Obs returns the observations of Horizon+1 rounds as they lie in memory: those of Batch in the
// ring that Drop makes of them, and the pending ones. Gather and Newest number its rows. What Load
// returned replaces it.
func (r *Rollout) Obs() []byte { return r.data.Obs }

// Newest returns where among Obs the rows of the newest n rounds begin that are over, and how many
// they are: behind the last row of Obs they go on at row 0.
func (r *Rollout) Newest(n int) (first, rows int) { return r.row(r.round-n, 0), n * r.cfg.Envs }

// row is where environment i's row of round t is among data.
func (r *Rollout) row(t, i int) int { return (r.base+t)%(r.cfg.Horizon+1)*r.cfg.Envs + i }

// Full reports whether Horizon rounds are over: the rollout is to be learnt from,
// and Next must be called before the following round.
func (r *Rollout) Full() bool { return r.round == r.cfg.Horizon }

// Left returns how many rounds are left until then.
func (r *Rollout) Left() int { return r.cfg.Horizon - r.round }

// Steps returns how many rows of the rounds that are over are steps: their weight.
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

// pendingAt returns where environment i's next step begins: in the round in
// progress or, where it took that round's step, in the one after it.
func (r *Rollout) pendingAt(i int) []byte {
	if r.envs[i].stepped {
		return r.at(r.round+1, i)
	}
	return r.at(r.round, i)
}

// Begin starts a segment of environment i with its first observation. A segment
// in progress is cut first.
func (r *Rollout) Begin(i int, obs []byte) error {
	if len(obs) != r.size {
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", i, len(obs), r.size)
	}
	r.Cut(i)
	copy(r.pendingAt(i), obs)
	r.envs[i].pending, r.envs[i].newest = true, -1
	return nil
}

// Add records environment i's step of the round in progress, of which there is
// at most one. See experience.Sink; with env.Lost and no other end the segment
// goes on from next, and no value flows back from it.
func (r *Rollout) Add(i int, s *experience.Step, next []byte) error {
	e := &r.envs[i]
	// Where a value beyond the end is 0, next may be anything, except after a Lost
	// life, where it is what the next step begins with.
	cut := s.End.Over() && s.End&(env.Terminated|env.Lost) == 0
	keepsNext := cut || !s.End.Over()
	switch {
	case r.Full():
		return fmt.Errorf("environment %d: a step beyond the horizon of %d rounds", i, r.cfg.Horizon)
	case e.stepped:
		return fmt.Errorf("environment %d: a second step in one round", i)
	case !e.pending:
		return fmt.Errorf("environment %d: a step without a first observation", i)
	case len(s.Mask) != r.cfg.maskBytes():
		return fmt.Errorf("environment %d: action mask of %d, must be %d", i, len(s.Mask), r.cfg.maskBytes())
	case len(s.Columns) != len(r.cfg.Columns):
		return fmt.Errorf("environment %d: %d columns, must be %d: %q", i, len(s.Columns), len(r.cfg.Columns), r.cfg.Columns)
	case keepsNext && len(next) != r.size:
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", i, len(next), r.size)
	}
	k := r.row(r.round, i)
	d := &r.data
	d.Actions[k], d.Rewards[k], d.Ends[k], d.Updates[k], d.Weights[k] = s.Action, s.Reward, s.End, s.Updates, 1
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

// Open is experience.Sink's.
func (r *Rollout) Open(i int) bool { return r.envs[i].pending }

// Cut ends environment i's segment from outside: if its newest step lies in this
// rollout, that is a truncation, and the pending observation its last one.
func (r *Rollout) Cut(i int) {
	e := &r.envs[i]
	if !e.pending {
		return
	}
	e.pending = false
	if e.newest < 0 {
		return
	}
	// Behind a lost life the value is 0 already.
	if end := &r.data.Ends[r.row(e.newest, i)]; *end == 0 {
		*end = env.Truncated
		e.truncate(e.newest, r.pendingAt(i))
	}
}

// truncate keeps the last observation of a segment that ended with round t's step.
func (e *envState) truncate(t int, obs []byte) {
	e.cuts = append(e.cuts, t)
	e.cutObs = append(e.cutObs, obs...)
	e.cutValues = append(e.cutValues, 0)
}

// EndRound ends the round in progress: the rows of environments that took no
// step in it become holes.
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
	clear(r.at(t, i)) // whatever stood there, the network sees something finite and the same
	d.Actions[k], d.Rewards[k], d.Ends[k], d.Updates[k], d.Weights[k] = 0, 0, 0, 0, 0
	for _, column := range d.Columns {
		column[k] = 0
	}
}

// Next begins the following rollout: the rows are given up, and what is pending
// goes on in round 0. It is called between two rounds.
func (r *Rollout) Next() error {
	if err := r.between("next"); err != nil {
		return err
	}
	for i := range r.envs {
		copy(r.data.Obs[i*r.size:(i+1)*r.size], r.at(r.round, i)) // a row's place in round 0 once base is 0
	}
	r.base, r.round = 0, 0
	for i := range r.envs {
		r.envs[i].forget(math.MaxInt, r.size)
	}
	return nil
}

// Drop gives up the oldest n rounds, 0 to as many as are over. It is called between two
// rounds.
func (r *Rollout) Drop(n int) error {
	if err := r.between("drop"); err != nil {
		return err
	}
	if n < 0 || n > r.round {
		return fmt.Errorf("rollout: %d rounds to drop, must be 0 to %d", n, r.round)
	}
	r.base, r.round = (r.base+n)%(r.cfg.Horizon+1), r.round-n
	for i := range r.envs {
		r.envs[i].forget(n, r.size)
	}
	return nil
}

// forget gives up what is of the oldest n rounds; size: bytes of an observation.
func (e *envState) forget(n, size int) {
	gone := 0
	for gone < len(e.cuts) && e.cuts[gone] < n {
		gone++
	}
	e.cuts = slices.Delete(e.cuts, 0, gone)
	e.cutObs = slices.Delete(e.cutObs, 0, gone*size)
	e.cutValues = slices.Delete(e.cutValues, 0, gone)
	for k := range e.cuts {
		e.cuts[k] -= n
	}
	if e.newest < n {
		e.newest = -1
	} else {
		e.newest -= n
	}
}

// over returns the rows of the rounds that are over, the oldest first: those from over[0][0] until
// over[0][1], and then those from over[1][0] until over[1][1].
func (r *Rollout) over() (spans [2][2]int) {
	first, rows := r.Newest(r.round)
	until := min(first+rows, len(r.data.Weights))
	return [2][2]int{{first, until}, {0, first + rows - until}}
}

// between refuses what makes no sense while a round is in progress.
func (r *Rollout) between(what string) error {
	for i := range r.envs {
		if r.envs[i].stepped {
			return fmt.Errorf("rollout: %s in mid-round, must follow EndRound", what)
		}
	}
	return nil
}
