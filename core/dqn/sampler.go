package dqn

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

// samplers is the acting side: W rows, each with its own coin, and the network
// that computes their Q-values. Row i is touched by one thread at a time.
type samplers struct {
	spec   env.Spec
	memory *replay.Memory
	rows   *vec.Rows
	size   int // bytes of an observation

	actions  []int32
	coins    []*rng.Stream // "explore", i
	returns  []float64     // of the episode in progress
	lengths  []int64
	finished [][]episode // in this round or chunk, per row
	broken   []bool      // the environment failed: it must be reset

	pool  *vec.Pool
	vec   *vec.Vec      // nil where the host steps the environments
	actor *nn.Params    // whose Q-values choose: theta, theta-minus or a snapshot
	joint *nn.Network   // all rows in one minibatch (Synchronized Execution)
	alone []*nn.Network // one row at a time, one for each thread of the pool

	// The loop in progress over rows. A closure written at the call would be
	// allocated at every round.
	chunk struct {
		t       int64 // t at the chunk's first step
		phase   int   // row of that step
		n       int64 // steps of the chunk, all rows together
		random  bool
		epsilon *schedule
		made    atomic.Int64
		acting  atomic.Int64 // nanoseconds
	}
	stepChosen, stepAlone func(worker, i int) error
}

// episode is one that ended.
type episode struct {
	Return float64
	Length int64
}

func newSamplers(cfg *Config, spec env.Spec, memory *replay.Memory, rows *vec.Rows, actions []int32) *samplers {
	w := cfg.NumEnvs
	s := &samplers{
		spec: spec, memory: memory, rows: rows, size: spec.Obs.Bytes(),
		actions: actions, coins: make([]*rng.Stream, w), returns: make([]float64, w),
		lengths: make([]int64, w), finished: make([][]episode, w), broken: make([]bool, w),
	}
	for i := range s.coins {
		s.coins[i] = rng.New(uint64(cfg.Seed), "explore", i)
	}
	s.stepChosen = func(_, i int) error { return s.step(i, s.actions[i]) }
	s.stepAlone = s.runAlone
	return s
}

func (s *samplers) row(rows []byte, i int) []byte { return rows[i*s.size : (i+1)*s.size] }

// begin starts a segment in row i with the observation that stands there.
func (s *samplers) begin(i int) error {
	s.returns[i], s.lengths[i], s.broken[i] = 0, 0, false
	return s.memory.Begin(i, s.row(s.rows.Obs, i))
}

// choose is epsilon-greedy. Each row flips its own coin at every step, whatever
// epsilon is. q is called only where the greedy action is wanted.
func (s *samplers) choose(i int, epsilon float64, q []float32) int32 {
	if s.coins[i].Float64() < epsilon {
		return s.randomAction(i)
	}
	return argmax(q)
}

func (s *samplers) randomAction(i int) int32 { return int32(s.coins[i].Intn(s.spec.Action.N)) }

// argmax returns the first index of the largest value.
func argmax(q []float32) int32 {
	best := 0
	for a, v := range q {
		if v > q[best] {
			best = a
		}
	}
	return int32(best)
}

// step takes one action in environment i and keeps what came of it.
func (s *samplers) step(i int, action int32) error {
	if err := s.vec.StepOne(i, action, s.rows); err != nil {
		s.broken[i] = true
		return err
	}
	s.chunk.made.Add(1)
	next := s.row(s.rows.Obs, i)
	if s.rows.Ends[i] != 0 {
		next = s.row(s.rows.FinalObs, i)
	}
	if err := s.keep(i, action, next); err != nil {
		return err
	}
	if s.rows.Ends[i] != 0 {
		return s.begin(i)
	}
	return nil
}

// keep writes row i's step into the experience that has not entered D yet.
func (s *samplers) keep(i int, action int32, next []byte) error {
	reward, end := s.rows.Rewards[i], s.rows.Ends[i]
	if err := s.memory.Add(i, action, reward, s.actor.Version, end, next); err != nil {
		return err
	}
	s.returns[i] += float64(reward)
	s.lengths[i]++
	if end != 0 {
		s.finished[i] = append(s.finished[i], episode{s.returns[i], s.lengths[i]})
	}
	return nil
}

// round is one step of every environment with the actions chosen.
func (s *samplers) round() (made int64, err error) {
	s.chunk.made.Store(0)
	err = s.pool.Do(len(s.coins), s.stepChosen)
	return s.chunk.made.Load(), err
}

// runUnsynchronised takes the n steps from t on, the first of them in row
// phase: each row does its share without waiting for the others, computing its
// own Q-values. It returns the time spent on those, added over the threads.
func (s *samplers) runUnsynchronised(t int64, phase int, n int64, random bool, epsilon *schedule) (made int64, acting time.Duration, err error) {
	c := &s.chunk
	c.t, c.phase, c.n, c.random, c.epsilon = t, phase, n, random, epsilon
	c.made.Store(0)
	c.acting.Store(0)
	err = s.pool.Do(len(s.coins), s.stepAlone)
	return c.made.Load(), time.Duration(c.acting.Load()), err
}

func (s *samplers) runAlone(worker, i int) error {
	c, w := &s.chunk, int64(len(s.coins))
	first := int64(i - c.phase)
	if first < 0 {
		first += w
	}
	var acting time.Duration
	defer func() { c.acting.Add(int64(acting)) }()
	for k := first; k < c.n; k += w {
		var action int32
		switch {
		case c.random || s.coins[i].Float64() < c.epsilon.epsilon(c.t+k):
			action = s.randomAction(i)
		default:
			began := time.Now()
			q, err := s.alone[worker].Forward(s.actor, s.row(s.rows.Obs, i), 1)
			if err != nil {
				return err
			}
			action = argmax(q)
			acting += time.Since(began)
		}
		if err := s.step(i, action); err != nil {
			return err
		}
	}
	return nil
}

// repair resets environments that failed, so that the others' work goes on.
func (s *samplers) repair() error {
	if s.vec == nil {
		return nil
	}
	for i, broken := range s.broken {
		if broken {
			s.memory.Cut(i)
			mask := make([]bool, len(s.broken))
			mask[i] = true
			if err := s.vec.Reset(s.rows, mask); err != nil {
				return err
			}
			if err := s.begin(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// reset cuts every episode in progress and begins new ones.
func (s *samplers) reset() error {
	for i := range s.coins {
		s.memory.Cut(i)
	}
	if s.vec != nil {
		if err := s.vec.Reset(s.rows, nil); err != nil {
			for i := range s.broken {
				s.broken[i] = true
			}
			return err
		}
	}
	for i := range s.coins {
		if err := s.begin(i); err != nil {
			return err
		}
	}
	return nil
}

// takeFinished hands over the episodes that ended, by row.
func (s *samplers) takeFinished(f func(episode)) {
	for i := range s.finished {
		for _, e := range s.finished[i] {
			f(e)
		}
		s.finished[i] = s.finished[i][:0]
	}
}

func (s *samplers) close() error {
	var errs []error
	if s.vec != nil {
		errs = append(errs, s.vec.Close())
	}
	if s.pool != nil {
		s.pool.Close()
	}
	return errors.Join(errs...)
}
