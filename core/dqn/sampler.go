package dqn

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// samplers is the acting side: W rows, each with its own coin, and the network
// that computes their Q-values. Row i is touched by one thread at a time.
type samplers struct {
	spec   env.Spec
	memory *replay.Memory
	rows   *vec.Rows
	size   int // bytes of an observation

	actions   []int32
	nextStep  bool          // autoreset: an ended episode's row holds its last observation
	resetting []bool        // then the row's coming step only resets
	coins     []*rng.Stream // "explore", i
	returns   []float64     // of the episode in progress
	lengths   []int64
	finished  [][]episode // in this round or chunk, per row
	ended     []episode   // takeFinished's
	broken    []bool      // the environment failed: it must be reset

	pool  *threads.Pool
	vec   *vec.Vec // nil where the host steps the environments
	score score
	actor *nn.Params    // whose Q-values choose: theta, theta-minus or a snapshot
	joint *nn.Network   // all rows in one minibatch (Synchronized Execution)
	team  *kernel.Team  // shares its work
	alone []*nn.Network // one row at a time, one for each thread of the pool

	// The loop in progress over rows. A closure written at the call would be
	// allocated at every round.
	chunk struct {
		t       int64 // t at the chunk's first step
		phase   int   // row of that step
		n       int64 // steps of the chunk, all rows together
		epsilon *schedule
		// Nanoseconds, added over the threads: computing Q-values, and the rest.
		acting, stepping atomic.Int64
	}
	missed                atomic.Int64 // steps of the round or chunk that a failure prevented
	stepChosen, stepAlone func(worker, i int) error
}

// episode is one that ended.
type episode struct {
	Return float64
	Length int64
	at     int64 // the step that ended it, counted from the start of the round or chunk
}

func newSamplers(cfg *Config, spec env.Spec, memory *replay.Memory, rows *vec.Rows, actions []int32) *samplers {
	w := cfg.NumEnvs
	s := &samplers{
		spec: spec, memory: memory, rows: rows, size: spec.Obs.Bytes(),
		actions: actions, resetting: make([]bool, w), coins: make([]*rng.Stream, w), returns: make([]float64, w),
		lengths: make([]int64, w), finished: make([][]episode, w), broken: make([]bool, w),
	}
	for i := range s.coins {
		s.coins[i] = rng.New(uint64(cfg.Seed), "explore", i)
	}
	s.stepChosen = func(_, i int) error { return s.step(i, s.actions[i], int64(i)) }
	s.stepAlone = s.runAlone
	return s
}

func (s *samplers) row(rows []byte, i int) []byte { return rows[i*s.size : (i+1)*s.size] }

// begin starts a segment in row i with the observation that stands there.
func (s *samplers) begin(i int) error {
	s.broken[i] = false
	return s.memory.Begin(i, s.row(s.rows.Obs, i))
}

// choose fills in the actions of all rows: random ones with probability
// epsilon, else the greedy ones, from one minibatch of Q-values or one forward
// pass each. Each row flips its own coin at every step, whatever epsilon is; a
// row that only resets takes no step and flips none.
func (s *samplers) choose(t int64, epsilon *schedule, jointly bool) (err error) {
	n := s.spec.Action.N
	var all []float32
	if jointly {
		if all, err = s.joint.Forward(s.actor, s.rows.Obs, len(s.actions)); err != nil {
			return err
		}
	}
	for i := range s.actions {
		if s.resetting[i] {
			s.actions[i] = 0
			continue
		}
		switch explore := s.explores(i, epsilon.epsilon(t)); {
		case explore:
			s.actions[i] = s.randomAction(i)
		case jointly:
			s.actions[i] = argmax(all[i*n : (i+1)*n])
		default:
			q, err := s.joint.Forward(s.actor, s.row(s.rows.Obs, i), 1)
			if err != nil {
				return err
			}
			s.actions[i] = argmax(q)
		}
		t++
	}
	return nil
}

// chooseRandomly does the same in the warm-up, which flips no coins.
func (s *samplers) chooseRandomly() {
	for i := range s.actions {
		s.actions[i] = 0
		if !s.resetting[i] {
			s.actions[i] = s.randomAction(i)
		}
	}
}

func (s *samplers) explores(i int, epsilon float64) bool { return s.coins[i].Float64() < epsilon }

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

// step takes one action in environment i and keeps what came of it. at places
// it among the steps of the round or chunk.
func (s *samplers) step(i int, action int32, at int64) error {
	err := s.vec.StepOne(i, action, s.rows)
	if err == nil {
		err = s.keep(i, action, at)
	}
	if err != nil {
		s.broken[i] = true
		s.missed.Add(1)
	}
	return err
}

// keep writes row i's step into the experience that has not entered D yet, and
// begins the next segment where one ended.
func (s *samplers) keep(i int, action int32, at int64) error {
	reward, end := s.rows.Rewards[i], s.rows.Ends[i]
	next := s.rows.Obs
	if end != 0 && !s.nextStep {
		next = s.rows.FinalObs
	}
	if err := s.memory.Add(i, action, reward, s.actor.Version, end, s.row(next, i)); err != nil {
		return err
	}
	score, over := s.score.of(s.rows, i)
	s.returns[i] += score
	s.lengths[i]++
	if end == 0 {
		return nil
	}
	if over {
		s.finished[i] = append(s.finished[i], episode{s.returns[i], s.lengths[i], at})
		s.returns[i], s.lengths[i] = 0, 0
	}
	if s.nextStep {
		s.resetting[i] = true
		return nil
	}
	return s.begin(i)
}

// round is one step of every environment with the actions chosen.
func (s *samplers) round() (made int64, err error) {
	s.missed.Store(0)
	err = s.pool.Do(len(s.coins), s.stepChosen)
	return int64(len(s.coins)) - s.missed.Load(), err
}

// runUnsynchronised takes the n steps from t on, the first of them in row
// phase: each row does its share without waiting for the others, computing its
// own Q-values.
func (s *samplers) runUnsynchronised(t int64, phase int, n int64, epsilon *schedule) (made int64, err error) {
	c := &s.chunk
	c.t, c.phase, c.n, c.epsilon = t, phase, n, epsilon
	c.acting.Store(0)
	c.stepping.Store(0)
	s.missed.Store(0)
	err = s.pool.Do(len(s.coins), s.stepAlone)
	return n - s.missed.Load(), err
}

func (s *samplers) runAlone(worker, i int) error {
	c, w := &s.chunk, int64(len(s.coins))
	first := int64(i - c.phase)
	if first < 0 {
		first += w
	}
	began, acting := time.Now(), time.Duration(0)
	k := first
	defer func() {
		c.acting.Add(int64(acting))
		c.stepping.Add(int64(time.Since(began) - acting))
		if k < c.n { // a failure: the steps after it are missing, too
			s.missed.Add((c.n - 1 - k) / w)
		}
	}()
	for ; k < c.n; k += w {
		var action int32
		if s.explores(i, c.epsilon.epsilon(c.t+k)) {
			action = s.randomAction(i)
		} else {
			asked := time.Now()
			q, err := s.alone[worker].Forward(s.actor, s.row(s.rows.Obs, i), 1)
			if err != nil {
				return err
			}
			action = argmax(q)
			acting += time.Since(asked)
		}
		if err := s.step(i, action, k); err != nil {
			return err
		}
	}
	return nil
}

// repair cuts the episodes of environments that failed and begins new ones, so
// that the others' work goes on.
func (s *samplers) repair() error {
	for i, broken := range s.broken {
		if broken {
			s.cut(i)
		}
	}
	if err := s.vec.Reset(s.rows, s.broken); err != nil {
		return err
	}
	for i, broken := range s.broken {
		if broken {
			if err := s.begin(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut ends row i's segment and forgets the episode in progress.
func (s *samplers) cut(i int) {
	s.memory.Cut(i)
	s.returns[i], s.lengths[i] = 0, 0
}

// reset cuts every episode in progress and begins new ones.
func (s *samplers) reset() error {
	for i := range s.coins {
		s.cut(i)
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

// takeFinished hands over the episodes that ended, in the order of the steps
// that ended them: that depends neither on threads nor on how long chunks are.
func (s *samplers) takeFinished(f func(episode)) {
	s.ended = s.ended[:0]
	for i := range s.finished {
		s.ended = append(s.ended, s.finished[i]...)
		s.finished[i] = s.finished[i][:0]
	}
	slices.SortStableFunc(s.ended, func(a, b episode) int { return cmp.Compare(a.at, b.at) })
	for _, e := range s.ended {
		f(e)
	}
}

func (s *samplers) close() error {
	var errs []error
	if s.vec != nil {
		errs = append(errs, s.vec.Close())
	}
	s.pool.Close()
	s.team.Close()
	return errors.Join(errs...)
}
