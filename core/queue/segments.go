package queue

import (
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// Config describes Segments.
type Config struct {
	Obs    env.ObsSpec
	Action env.ActionSpec
	Envs   int // environments, 1 to 65,536
	Steps  int // most steps of a segment, t_max: 1 to 2^20; the setting n_steps
	Bound  int // most segments inside the queue, 1 to 2^20
	// Masks says that steps have action masks.
	Masks bool
	// Columns are the names of experience.Step.Columns, in the same order.
	Columns []string
}

const (
	maxEnvs  = 1 << 16
	maxSteps = 1 << 20
	maxRows  = 1 << 24
)

func (c *Config) check() error {
	if err := c.Action.Check(); err != nil {
		return err
	}
	switch size := c.Obs.Bytes(); {
	case size < 1 || size > 1<<28:
		return fmt.Errorf("observation: %d bytes, must be 1 to %d", size, 1<<28)
	case c.Envs < 1 || c.Envs > maxEnvs:
		return fmt.Errorf("num_envs: %d, must be 1 to %d", c.Envs, maxEnvs)
	case c.Steps < 1 || c.Steps > maxSteps:
		return fmt.Errorf("n_steps: %d, must be 1 to %d", c.Steps, maxSteps)
	case c.Bound < 1 || c.Bound > maxSteps:
		return fmt.Errorf("training_queue: %d, must be 1 to %d", c.Bound, maxSteps)
	case c.Steps > maxRows/c.segments():
		return fmt.Errorf("n_steps: %d, must be at most %d with training_queue %d and num_envs %d", c.Steps, maxRows/c.segments(), c.Bound, c.Envs)
	}
	return nil
}

// segments returns how many segments New allocates: those of a full queue, one for each environment
// outside, and one in progress for each environment.
func (c *Config) segments() int { return c.Bound + 2*c.Envs }

// rowBytes is the memory of a step without its observation.
func (c *Config) rowBytes() int64 {
	const reward, updates = 4, 8
	return int64(c.Action.Bytes() + c.maskBytes() + reward + updates + 4*len(c.Columns))
}

func (c *Config) maskBytes() int {
	if c.Masks {
		return c.Action.Logits()
	}
	return 0
}

// Bytes returns the memory that New allocates for a valid Config.
func (c Config) Bytes() int64 {
	size := int64(c.Obs.Bytes())
	return int64(c.segments())*(int64(c.Steps)*(size+c.rowBytes())+size) + int64(c.Envs)*size
}

// segment is the memory of one segment.
type segment struct {
	env  int
	n    int     // steps
	end  env.End // of the last step; 0: the episode goes on
	over bool    // no step follows in this segment

	obs        []byte // [Steps+1] observations; row n is the one after the last step, zeros if its value is 0
	actions    []int32
	continuous []float32
	masks      []byte
	rewards    []float32
	updates    []uint64
	columns    []float32 // [Steps][Columns]
}

// bootstraps reports whether the returns continue after the last step.
func (s *segment) bootstraps() bool { return continues(s.end) }

// continues reports whether the value after a step with such an end counts.
func continues(end env.End) bool { return end&(env.Terminated|env.Lost) == 0 }

// Segments are the segments of a number of environments, in progress and queued. It is an
// experience.Sink.
type Segments struct {
	cfg          Config
	size         int // bytes of an observation
	ints, floats int // of an action
	envs         []envState
	free         []*segment
	queue        []*segment // those that wait, the oldest first
	taken        int64      // segments that have left the queue
}

// envState is what an environment is in the middle of.
type envState struct {
	open   bool   // first is the observation of the next step, or the segment's last observation is
	first  []byte // the first observation of a segment without a step
	now    *segment
	joined int64    // number of its latest segment in the queue, from 1 on
	_      [64]byte // keeps environments of different goroutines off the same cache line
}

var _ experience.Sink = (*Segments)(nil)

// New returns Segments without any step.
func New(c Config) (*Segments, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.Columns = slices.Clone(c.Columns)
	s := &Segments{cfg: c, size: c.Obs.Bytes(), ints: c.Action.Ints(), floats: c.Action.Floats(), envs: make([]envState, c.Envs)}
	n := c.segments()
	memory := make([]segment, n)
	obs := make([]byte, n*(c.Steps+1)*s.size)
	for k := range memory {
		g, at := &memory[k], (c.Steps+1)*s.size
		g.obs, obs = obs[:at:at], obs[at:]
		g.actions, g.continuous = make([]int32, c.Steps*s.ints), make([]float32, c.Steps*s.floats)
		g.masks, g.rewards = make([]byte, c.Steps*c.maskBytes()), make([]float32, c.Steps)
		g.updates, g.columns = make([]uint64, c.Steps), make([]float32, c.Steps*len(c.Columns))
		s.free = append(s.free, g)
	}
	for i := range s.envs {
		s.envs[i].first = make([]byte, s.size)
		s.envs[i].now = s.fresh(i)
	}
	return s, nil
}

// fresh takes an empty segment from the free ones.
func (s *Segments) fresh(i int) *segment {
	n := len(s.free) - 1
	g := s.free[n]
	s.free = s.free[:n]
	g.env, g.n, g.end, g.over = i, 0, 0, false
	return g
}

// row returns row k of observations.
func (s *Segments) row(obs []byte, k int) []byte { return obs[k*s.size : (k+1)*s.size] }

// Begin implements experience.Sink. It first cuts a segment in progress.
func (s *Segments) Begin(i int, obs []byte) error {
	if len(obs) != s.size {
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", i, len(obs), s.size)
	}
	s.Cut(i)
	e := &s.envs[i]
	copy(e.first, obs)
	e.open = true
	return nil
}

// Add implements experience.Sink. No step can be added to a segment that has ended, before Join.
func (s *Segments) Add(i int, step *experience.Step, next []byte) error {
	e, c := &s.envs[i], &s.cfg
	g := e.now
	switch {
	case !e.open:
		return fmt.Errorf("environment %d: a step without a first observation", i)
	case g.over:
		return fmt.Errorf("environment %d: a step after the end of its segment, which must join the queue first", i)
	case len(step.Action) != s.ints || len(step.Continuous) != s.floats:
		return fmt.Errorf("environment %d: action of %d integers and %d numbers of a box, must be %d and %d", i, len(step.Action), len(step.Continuous), s.ints, s.floats)
	case len(step.Mask) != c.maskBytes():
		return fmt.Errorf("environment %d: action mask of %d, must be %d", i, len(step.Mask), c.maskBytes())
	case len(step.Columns) != len(c.Columns):
		return fmt.Errorf("environment %d: %d columns, must be %d: %q", i, len(step.Columns), len(c.Columns), c.Columns)
	case (continues(step.End) || !step.End.Over()) && len(next) != s.size:
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", i, len(next), s.size)
	}
	k := g.n
	if k == 0 {
		copy(g.obs, e.first)
	}
	copy(g.actions[k*s.ints:], step.Action)
	copy(g.continuous[k*s.floats:], step.Continuous)
	copy(g.masks[k*len(step.Mask):], step.Mask)
	copy(g.columns[k*len(step.Columns):], step.Columns)
	g.rewards[k], g.updates[k], g.end = step.Reward, step.Updates, step.End
	g.n++
	g.over = step.End != 0 || g.n == c.Steps
	e.open = !step.End.Over()
	if g.over && e.open {
		copy(e.first, next)
	}
	if after := s.row(g.obs, g.n); continues(step.End) {
		copy(after, next)
	} else {
		clear(after)
	}
	return nil
}

// Open implements experience.Sink.
func (s *Segments) Open(i int) bool { return s.envs[i].open }

// Cut implements experience.Sink: the segment in progress, if it has a step, ends as a truncation.
func (s *Segments) Cut(i int) {
	e := &s.envs[i]
	if g := e.now; e.open && !g.over && g.n > 0 {
		g.over, g.end = true, env.Truncated
	}
	e.open = false
}

// Ended reports whether environment i has a segment that has ended and has not joined the queue.
func (s *Segments) Ended(i int) bool { return s.envs[i].now.over }

// Empty reports whether environment i has no segment with steps in progress.
func (s *Segments) Empty(i int) bool { return s.envs[i].now.n == 0 }

// Join appends the ended segment of environment i to the queue. The environment's earlier segments
// are inside the queue or have left it.
func (s *Segments) Join(i int) error {
	e := &s.envs[i]
	switch {
	case !e.now.over:
		return fmt.Errorf("environment %d: its segment has not ended", i)
	case !s.Inside(i):
		return fmt.Errorf("environment %d: its earlier segment is outside the queue", i)
	}
	s.queue = append(s.queue, e.now)
	e.joined = s.taken + int64(len(s.queue))
	e.now = s.fresh(i)
	return nil
}

// Inside reports whether no segment of environment i waits to get into the queue.
func (s *Segments) Inside(i int) bool { return s.envs[i].joined-s.taken <= int64(s.cfg.Bound) }

// Len returns the number of segments inside the queue, and Rows their steps.
func (s *Segments) Len() int { return min(len(s.queue), s.cfg.Bound) }

// Rows returns the number of steps inside the queue.
func (s *Segments) Rows() int {
	n := 0
	for _, g := range s.queue[:s.Len()] {
		n += g.n
	}
	return n
}

// Enough reports whether the queue has at least `least` steps inside.
func (s *Segments) Enough(least int) bool {
	n := 0
	for _, g := range s.queue[:s.Len()] {
		if n += g.n; n >= least {
			return true
		}
	}
	return false
}

// Discard discards all steps: of segments in the queue, of those that have ended and of those in
// progress. Episodes continue, and their next segments begin with the next step.
func (s *Segments) Discard() {
	s.taken += int64(len(s.queue))
	s.free = append(s.free, s.queue...)
	s.queue = s.queue[:0]
	for i := range s.envs {
		e := &s.envs[i]
		g := e.now
		if g.n > 0 && !g.over {
			copy(e.first, s.row(g.obs, g.n))
		}
		g.n, g.end, g.over = 0, 0, false
	}
}
