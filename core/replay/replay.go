// Package replay is the replay memory D: what the samplers saw, stored so that
// the trainer can draw minibatches from it.
//
// # Partition
//
// D is partitioned by environment. A partition is two rings (ring.go): one of
// frames and one of transitions, both numbered by counters that only grow. A
// stack of S frames is stored one frame a step; S consecutive frames
// are an observation again, one copy where they do not wrap. A transition
// names the newest frame of its observation, and its next observation is the
// stack that ends one frame later. Where action masks are used it also has that of
// its next observation. Vector observations are the case S = 1.
//
//	frames       h h h 0 1 2 3 t | h h h 0 1 2 ...
//	transitions        0 1 2 3             0 1
//
// h: the older frames of the first observation of a segment, stored so that
// any padding comes back byte for byte. t: the tail, the true last observation
// of a truncated segment; a terminated one has none, for nothing beyond it
// counts. Neither can be drawn. The newest observation of an unfinished
// segment is pending: it can be read as a next observation, and becomes
// drawable when Add completes its transition.
//
// # Visible and staged
//
// What Begin, Add and Cut write is staged. Flush makes it visible and then
// evicts what exceeds the capacity, oldest first, by count and for each
// environment alone. Draw, Gather, Len and Hash see the visible part only, and
// nothing but Flush, Clear and a load changes it. So what can be drawn is a function of
// what was added and flushed, never of ring sizes or of threads.
//
// A frame is overwritten only when no visible or staged transition needs it:
// eviction happens at Flush, and a ring has slots for the capacity, for one
// window of staged steps and for some frames more. Segments can be so short
// that those are not enough; Free says so before it happens, and Grow makes a
// ring larger without changing anything that can be seen.
//
// # Who may call what
//
// Begin and Add return what an environment or a host did wrong as an error; Add
// without Free slots, Draw of nothing and Gather beyond the end are mistakes of this library
// and panic (package fault has the rule).
//
// Begin, Add, Insert, CheckNext, Cut and Free of one environment belong to one
// goroutine at a time; different environments are independent. Draw, Gather, Len
// and Hash may run beside them and beside each other. Flush, Grow, StoreWhole,
// Clear, what Part returns, Bytes and Close want everybody else quiet.
//
// Memory lives outside the Go heap where the system allows it: a million
// Atari frames are 7 GB, and the collector would let the heap double.
package replay

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/limits"
)

// StackMode says how far to trust Obs.FrameStack. It matters only where that
// is above 1.
type StackMode uint8

const (
	// StackTrusted: observations are stacks, without a check: environments of
	// our own.
	StackTrusted StackMode = iota
	// StackDeclared: the user says so; an observation that is not the one
	// before, shifted by one frame, is an error.
	StackDeclared
	// StackDetect: assumed until an observation contradicts; then Add returns
	// ErrNotAStack.
	StackDetect
)

// ErrNotAStack is what Add returns (wrapped, with the environment and its step)
// under StackDetect when the older frames of an observation are not the newest
// frames of the one before. Nothing has changed: call StoreWhole while the
// trainer is quiet, and Add again.
var ErrNotAStack = errors.New("the older frames of the observation are not the newest ones of the observation before")

var errNotShifted = errors.New("the next observation is not the observation shifted by a frame")

// Config describes a Memory.
type Config struct {
	// Obs describes an observation. With Obs.FrameStack = S > 1 the first axis
	// of its shape is S frames, oldest first, and one is stored a step.
	Obs env.ObsSpec
	// Envs is W, the number of environments, 1 to 1,048,576.
	Envs int
	// Capacity (buffer_size) is how many transitions can be visible, over all
	// environments: Capacity/Envs each, and one more for each of the first
	// Capacity%Envs, so the sum is exact. Envs to 2^32.
	Capacity int
	// Window is how many agent steps, all environments together, are expected
	// between two flushes. It only sizes the rings. 1 to 2^32.
	Window int
	// Stack says whether Obs.FrameStack is checked.
	Stack StackMode
	// Actions is the number of actions where the masks of next observations are stored;
	// 0: none are.
	Actions int
	// MemoryLimit returns how many bytes more the process may use and a few
	// words on what sets that limit. nil: limits.Available.
	MemoryLimit func() (bytes int64, what string)
}

// Memory is the replay memory D. Close it: the collector does not.
type Memory struct {
	cfg      Config
	obsBytes int
	stack    int // frames an observation is stored as: Obs.FrameStack, or 1 for whole
	parts    []partition
	starts   []int  // starts[e]: index of environment e's oldest visible transition; last entry: Len
	moved    uint64 // counts what puts frames into other slots
	changes  uint64 // counts what changes which transitions are visible
	idle     atomic.Pointer[gather]
}

// New returns an empty memory. It refuses a configuration that does not fit
// into the memory available, naming both numbers.
func New(cfg Config) (*Memory, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.MemoryLimit == nil {
		cfg.MemoryLimit = limits.Available
	}
	m := &Memory{cfg: cfg, obsBytes: cfg.Obs.Bytes(), stack: max(1, cfg.Obs.FrameStack), starts: make([]int, cfg.Envs+1)}
	parts, err := m.newPartitions(m.stack, make([]live, cfg.Envs))
	if err != nil {
		return nil, err
	}
	m.parts = parts
	return m, nil
}

func (cfg Config) check() error {
	const maxEnvs, maxSteps, maxObs = 1 << 20, 1 << 32, 1 << 28
	for _, d := range cfg.Obs.Shape {
		if d < 1 || d > maxObs {
			return fmt.Errorf("observation shape: %v, every axis must be 1 to %d", cfg.Obs.Shape, maxObs)
		}
	}
	switch s, size := cfg.Obs.FrameStack, cfg.Obs.Bytes(); {
	case size < 1 || size > maxObs:
		return fmt.Errorf("observation: %d bytes, must be 1 to %d", size, maxObs)
	case s < 0:
		return fmt.Errorf("frame_stack: %d, must not be negative", s)
	case s > 1 && (len(cfg.Obs.Shape) == 0 || cfg.Obs.Shape[0]%s != 0):
		return fmt.Errorf("frame_stack: %d, must divide the first axis of the observation shape %v", s, cfg.Obs.Shape)
	case cfg.Stack > StackDetect:
		return fmt.Errorf("stack mode: %d, must be 0 to %d", cfg.Stack, StackDetect)
	case cfg.Actions < 0 || cfg.Actions > maxObs:
		return fmt.Errorf("actions: %d, must be 0 to %d", cfg.Actions, maxObs)
	case cfg.Envs < 1 || cfg.Envs > maxEnvs:
		return fmt.Errorf("num_envs: %d, must be 1 to %d", cfg.Envs, maxEnvs)
	case cfg.Capacity < cfg.Envs || cfg.Capacity > maxSteps:
		return fmt.Errorf("buffer_size: %d, must be num_envs (%d) to %d", cfg.Capacity, cfg.Envs, maxSteps)
	case cfg.Window < 1 || cfg.Window > maxSteps:
		return fmt.Errorf("window: %d, must be 1 to %d", cfg.Window, maxSteps)
	}
	return nil
}

// Begin starts a segment (an episode, or what follows a Cut) of environment e
// with its first observation. A segment in progress is cut first.
func (m *Memory) Begin(e int, obs []byte) error {
	if len(obs) != m.obsBytes {
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", e, len(obs), m.obsBytes)
	}
	p := &m.parts[e]
	p.cutSegment(m.stack)
	if !p.frames.fits(p.keep, p.nextFrame+int64(m.stack)) {
		ringFull(e)
	}
	p.frames.write(p.nextFrame, obs)
	p.nextFrame += int64(m.stack)
	p.pending = true
	return nil
}

// Add completes the pending transition of environment e by what step s gave. With
// s.End = 0 next is the next observation and becomes pending. With env.Terminated,
// whatever else is set, next is not looked at. With env.Truncated alone next is the
// true last observation of the episode, and is kept as its tail. After an end
// nothing is pending until Begin. An error changes nothing.
func (m *Memory) Add(e int, s *experience.Step, next []byte) error {
	p := &m.parts[e]
	end := s.End & (env.Terminated | env.Truncated)
	keepsNext := end&env.Terminated == 0
	switch {
	case !p.pending:
		return notBegun(e)
	case !m.canAdd(p):
		ringFull(e)
	}
	if keepsNext {
		if err := m.CheckNext(e, next); err != nil {
			return err
		}
		if len(s.NextMask) != m.cfg.Actions {
			return fmt.Errorf("environment %d: action mask of %d, must be %d", e, len(s.NextMask), m.cfg.Actions)
		}
		p.frames.write(p.nextFrame, next[(m.stack-1)*p.frames.width:])
	}
	to := p.steps.at(p.nextStep)
	transition{frame: p.nextFrame - 1, end: end, action: s.Action, reward: s.Reward, updates: s.Updates}.encode(to)
	if keepsNext {
		packMask(to[transitionBytes:], s.NextMask)
	} else {
		clear(to[transitionBytes:])
	}
	if keepsNext {
		p.nextFrame++
	}
	p.nextStep++
	p.added++
	p.pending = end == 0
	return nil
}

// Insert adds a whole transition to environment e, from outside of its episodes: as a segment of its
// own, which is truncated where s does not terminate. A segment in progress is cut before it and
// goes on after it: its observations and targets stay what they are. Where observations are stored
// one frame a step, next must be obs shifted by a frame (ErrNotAStack under StackDetect). It takes
// up to two of the steps that Free counts. An error changes nothing.
func (m *Memory) Insert(e int, s *experience.Step, obs, next []byte) error {
	p, whole := &m.parts[e], *s
	if len(obs) != m.obsBytes {
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", e, len(obs), m.obsBytes)
	}
	if whole.End &= env.Terminated; whole.End == 0 {
		whole.End = env.Truncated
		older := m.obsBytes / m.stack * (m.stack - 1)
		switch {
		case len(next) != m.obsBytes:
			return fmt.Errorf("environment %d: observation of %d bytes, must be %d", e, len(next), m.obsBytes)
		case len(s.NextMask) != m.cfg.Actions:
			return fmt.Errorf("environment %d: action mask of %d, must be %d", e, len(s.NextMask), m.cfg.Actions)
		}
		if !bytes.Equal(obs[len(obs)-older:], next[:older]) {
			if m.cfg.Stack == StackDetect {
				return ErrNotAStack
			}
			return fmt.Errorf("frame_stack: %d, but %w", m.stack, errNotShifted)
		}
	}
	var pending []byte
	if p.pending {
		pending = make([]byte, m.obsBytes)
		p.frames.read(pending, p.nextFrame-int64(m.stack), int64(m.stack))
	}
	if err := m.Begin(e, obs); err != nil {
		return err
	}
	err := m.Add(e, &whole, next)
	if pending != nil {
		err = errors.Join(err, m.Begin(e, pending))
	}
	return err
}

// CheckNext returns the error that Add would for next as what follows the
// pending observation of environment e: a wrong size, or not a stack. For
// callers that must not take one environment's step and then refuse another's.
func (m *Memory) CheckNext(e int, next []byte) error {
	p := &m.parts[e]
	switch {
	case !p.pending:
		return notBegun(e)
	case len(next) != m.obsBytes:
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", e, len(next), m.obsBytes)
	}
	older := m.stack - 1
	if m.cfg.Stack != StackTrusted && !p.frames.equal(p.nextFrame-int64(older), next[:older*p.frames.width]) {
		return m.notAStack(e, p.added+1)
	}
	return nil
}

func notBegun(e int) error {
	return fmt.Errorf("environment %d: a step without a first observation", e)
}

// ringFull panics: whoever adds asks Free first.
func ringFull(e int) {
	panic(fmt.Sprintf("replay: the ring of environment %d is full, Grow comes first", e))
}

func (m *Memory) canAdd(p *partition) bool {
	return p.frames.fits(p.keep, p.nextFrame+1) && p.steps.fits(p.oldest, p.nextStep+1)
}

func (m *Memory) notAStack(e int, step uint64) error {
	if m.cfg.Stack == StackDetect {
		return fmt.Errorf("environment %d, step %d: %w", e, step, ErrNotAStack)
	}
	return fmt.Errorf("frame_stack: %d, but in environment %d at step %d %v", m.stack, e, step, ErrNotAStack)
}

// Cut ends environment e's segment in progress from outside (a new
// environment, a load, a new learn): its last complete transition is a
// truncation whose tail is the pending observation. Like everything else that
// becomes visible at the next Flush. Nothing pending: nothing happens.
func (m *Memory) Cut(e int) { m.parts[e].cutSegment(m.stack) }

// Open is experience.Sink's.
func (m *Memory) Open(e int) bool { return m.parts[e].pending }

// Flush makes everything added since the last one visible, and then evicts the
// oldest transitions beyond each environment's capacity.
func (m *Memory) Flush() {
	for e := range m.parts {
		m.parts[e].flush(m.stack)
	}
	m.countVisible()
}

// Changes is another number than before where the same draws may give other transitions, or a
// Mirror may name them otherwise.
func (m *Memory) Changes() uint64 { return m.changes + m.moved }

func (m *Memory) countVisible() {
	m.changes++
	for e := range m.parts {
		m.starts[e+1] = m.starts[e] + int(m.parts[e].visible-m.parts[e].oldest)
	}
}

// Len returns the number of visible transitions.
func (m *Memory) Len() int { return m.starts[len(m.starts)-1] }

// Pending is the number of transitions that the next Flush makes visible. No Add may be in progress.
func (m *Memory) Pending() (n int) {
	for e := range m.parts {
		n += int(m.parts[e].nextStep - m.parts[e].visible)
	}
	return n
}

// Bytes returns the memory the rings take once filled, every slot counted.
func (m *Memory) Bytes() int64 {
	var n int64
	for e := range m.parts {
		n += m.parts[e].frames.bytes() + m.parts[e].steps.bytes()
	}
	return n
}

// Close gives the memory back. Using m afterwards panics; closing it again
// does nothing.
func (m *Memory) Close() {
	closePartitions(m.parts)
	m.parts = nil
}
