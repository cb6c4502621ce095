// Package replay is the replay memory D: it stores the steps of the samplers, and the trainer draws
// minibatches from it.
//
// # Partition
//
// D is partitioned by environment. A partition has two rings (ring.go), one of frames and one of
// transitions. Both number their records with counters that only grow. Of a stack of S frames, one
// frame is stored for each step: S consecutive frames are an observation. A transition stores the
// number of the newest frame of its observation; its next observation ends one frame later. With
// action masks it also stores the mask of its next observation. For vector observations S is 1.
//
//	frames       h h h 0 1 2 3 t | h h h 0 1 2 ...
//	transitions        0 1 2 3             0 1
//
// h (head) are the older frames of the first observation of a segment. They are stored, so that any
// padding is read back byte for byte. t (tail) is the true last observation of a truncated segment;
// a terminated segment has no tail. Heads and tails cannot be drawn. The newest observation of an
// unfinished segment is pending: it is the next observation of the newest transition, and can be
// drawn after Add has completed its own transition.
//
// # Visible and staged
//
// Begin, Add and Cut stage steps. Flush makes staged steps visible and evicts the oldest
// transitions beyond the capacity of each environment. Draw, Gather, Len and Hash use only visible
// transitions, which only Flush, Clear and a load change. So the drawn transitions are a function
// of what was added and flushed, and not of ring sizes or threads.
//
// # Drawing and gathering
//
// A Sampler draws the numbers of transitions (uniform.go, prioritised.go), and Memory.Gather or
// Mirror.Gather copies what they name (gather.go). Both know transitions over n steps; drawable.go
// says which of them are complete and can be drawn. No transition of n steps goes from one segment,
// or one environment, to another.
//
// A frame is overwritten only if no visible or staged transition needs it. A ring has slots for the
// capacity, for the staged steps of a window and for some spare frames. With very short segments
// they are not enough. Room reports this in advance, and Grow enlarges the ring; the visible
// transitions stay the same.
//
// # Concurrency and errors
//
// Begin and Add return errors about observations and masks of the environment or the host. Add
// without Room, Draw from an empty memory and Gather of a number beyond the end panic, because they
// are bugs of this library (see package fault).
//
// One goroutine at a time may call Begin, Add, Insert, CheckNext, Cut and Room of one environment;
// environments are independent. Draw, Gather, Len and Hash may run concurrently with these methods
// and with each other; Draw, Weights and Update of a Prioritised only one after the other. During
// Flush, Flushed, Grow, StoreWhole, Clear, Bytes, Close and the functions of Part no other call may
// run.
//
// The rings are outside the Go heap if the system allows it: a million Atari frames are 7 GB, and
// the garbage collector would let the heap double.
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

// StackMode says whether Add checks that observations are stacks of Obs.FrameStack frames. It has
// no effect if FrameStack is at most 1.
type StackMode uint8

const (
	// StackTrusted makes no check. It is for built-in environments.
	StackTrusted StackMode = iota
	// StackDeclared makes an observation that does not continue the stack an error.
	StackDeclared
	// StackDetect makes Add return ErrNotAStack for such an observation.
	StackDetect
)

// ErrNotAStack is returned by Add under StackDetect if the older frames of an observation are not
// the newest frames of the observation before. It is wrapped with the environment and its step.
// Nothing has changed: the caller calls StoreWhole while the trainer does not use the memory, then
// Add again.
var ErrNotAStack = errors.New("the older frames of the observation are not the newest ones of the observation before")

var errNotShifted = errors.New("the next observation is not the observation shifted by a frame")

// Config describes a Memory.
type Config struct {
	// Obs describes an observation. With Obs.FrameStack = S > 1 the first axis of its shape is S
	// frames, oldest first, and one frame is stored for each step.
	Obs env.ObsSpec
	// Envs is W, the number of environments, 1 to 1,048,576.
	Envs int
	// Capacity (buffer_size) is the largest number of visible transitions of all environments, Envs to
	// 2^32. Each environment has Capacity/Envs, and each of the first Capacity%Envs has one more.
	Capacity int
	// Window is the expected number of agent steps of all environments between two flushes, 1 to 2^32.
	// Only the sizes of the rings depend on it.
	Window int
	// Stack says whether Obs.FrameStack is checked.
	Stack StackMode
	// Actions is the number of actions of the masks that are stored for next observations; 0: no
	// masks.
	Actions int
	// OwnMasks says that the masks of the observations, under which the actions were chosen, are
	// stored, too.
	OwnMasks bool
	// MemoryLimit returns how many more bytes the process may use, and the name of that limit. nil:
	// limits.Available.
	MemoryLimit func() (bytes int64, what string)
}

// Memory is the replay memory D. The caller must Close it: the garbage collector does not free the
// rings.
type Memory struct {
	cfg         Config
	obsBytes    int
	stack       int // frames of a stored observation: Obs.FrameStack, or 1 after StoreWhole
	parts       []partition
	firstPick   []int       // firstPick[e]: number of environment e's oldest visible transition; last entry: Len
	relocations uint64      // counts the changes of the slots of frames
	changes     uint64      // counts the changes of the visible transitions
	epoch       uint64      // counts the changes after which transitions have other numbers in partitions
	loading     []partition // what Part has read and not adopted
	clearing    bool        // Part has read a file without experience, and not adopted
	idle        atomic.Pointer[gather]
}

// New returns an empty memory. It returns an error if the available memory is too small.
func New(cfg Config) (*Memory, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.MemoryLimit == nil {
		cfg.MemoryLimit = limits.Available
	}
	m := &Memory{cfg: cfg, obsBytes: cfg.Obs.Bytes(), stack: max(1, cfg.Obs.FrameStack), firstPick: make([]int, cfg.Envs+1)}
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
	if err := cfg.Obs.CheckStack(); err != nil {
		return err
	}
	switch size := cfg.Obs.Bytes(); {
	case size < 1 || size > maxObs:
		return fmt.Errorf("observation: %d bytes, must be 1 to %d", size, maxObs)
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

// Begin begins a segment of environment e (an episode, or the rest of one after a Cut) with its
// first observation. It first cuts a segment in progress.
func (m *Memory) Begin(e int, obs []byte) error {
	if len(obs) != m.obsBytes {
		return fmt.Errorf("environment %d: observation of %d bytes, must be %d", e, len(obs), m.obsBytes)
	}
	p := &m.parts[e]
	p.cutSegment(m.stack)
	if !p.frames.fits(p.oldestFrame, p.nextFrame+int64(m.stack)) {
		ringFull(e)
	}
	p.frames.write(p.nextFrame, obs)
	p.nextFrame += int64(m.stack)
	p.pending = true
	return nil
}

// Add completes the pending transition of environment e with step s. If s.End is 0, next is the
// next observation and becomes pending. With env.Terminated, next is ignored. With env.Truncated
// alone, next is the true last observation of the episode and becomes the tail. After an end Begin
// must follow. With env.Lost alone the transition terminates, and next begins a segment. An error
// changes nothing.
func (m *Memory) Add(e int, s *experience.Step, next []byte) error {
	p := &m.parts[e]
	end := s.End & (env.Terminated | env.Truncated)
	if s.End&env.Lost != 0 {
		end |= env.Terminated
	}
	keepsNext, goesOn := end&env.Terminated == 0, s.End == env.Lost
	switch {
	case !p.pending:
		return notBegun(e)
	case !m.canAdd(p, goesOn):
		ringFull(e)
	}
	if keepsNext || goesOn {
		if err := m.CheckNext(e, next); err != nil {
			return err
		}
	}
	if keepsNext {
		if len(s.NextMask) != m.cfg.Actions {
			return fmt.Errorf("environment %d: action mask of %d, must be %d", e, len(s.NextMask), m.cfg.Actions)
		}
	}
	if m.cfg.OwnMasks && len(s.Mask) != m.cfg.Actions {
		return fmt.Errorf("environment %d: action mask of %d for the observation, must be %d", e, len(s.Mask), m.cfg.Actions)
	}
	if keepsNext {
		p.frames.write(p.nextFrame, next[(m.stack-1)*p.frames.width:])
	}
	to := p.steps.at(p.nextStep)
	transition{frame: p.nextFrame - 1, end: end, action: s.Action[0], reward: s.Reward, updates: s.Updates}.encode(to)
	own := transitionBytes + maskBytes(m.cfg.Actions)
	if keepsNext {
		packMask(to[transitionBytes:own], s.NextMask)
	} else {
		clear(to[transitionBytes:own])
	}
	if m.cfg.OwnMasks {
		packMask(to[own:], s.Mask)
	}
	switch {
	case keepsNext:
		p.nextFrame++
	case goesOn:
		p.frames.write(p.nextFrame, next)
		p.nextFrame += int64(m.stack)
	}
	p.nextStep++
	p.added++
	p.pending = end == 0 || goesOn
	return nil
}

// Insert adds a transition that does not belong to an episode of environment e. It is a segment of
// one step, which is truncated if s does not terminate. A segment in progress is cut before it and
// continues after it, from the same observation. Targets of one step stay the same. Over n steps
// the added transition and the last n-1 before the cut are tails. If stacks are stored one frame
// for each step, next must be obs shifted by a frame (ErrNotAStack under StackDetect). Insert takes
// up to two of the steps of Room. An error changes nothing.
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

// CheckNext returns the error that Add would return for the next observation of environment e: a
// wrong size, or not a stack. A caller that records all rows or none checks them first.
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

// CheckSteps checks the observations before, between and after some steps of environment e, before
// any of the steps is added. Under StackDeclared it returns the error that Add would return for an
// observation that does not continue the stack. The first one begins a segment if begins is set,
// and is not read otherwise.
func (m *Memory) CheckSteps(e int, begins bool, obs []byte) error {
	if m.cfg.Stack != StackDeclared {
		return nil
	}
	p, size := &m.parts[e], m.obsBytes
	older := (m.stack - 1) * p.frames.width
	for i := 1; (i+1)*size <= len(obs); i++ {
		next := obs[i*size : (i+1)*size]
		if i == 1 && !begins {
			if err := m.CheckNext(e, next); err != nil {
				return err
			}
			continue
		}
		if !bytes.Equal(obs[i*size-older:i*size], next[:older]) {
			return m.notAStack(e, p.added+uint64(i))
		}
	}
	return nil
}

func notBegun(e int) error {
	return fmt.Errorf("environment %d: a step without a first observation", e)
}

// ringFull panics: the caller must check Room before it adds.
func ringFull(e int) {
	panic(fmt.Sprintf("replay: the ring of environment %d is full, must be enlarged by Grow", e))
}

func (m *Memory) canAdd(p *partition, begins bool) bool {
	frames := int64(1)
	if begins {
		frames = int64(m.stack)
	}
	return p.frames.fits(p.oldestFrame, p.nextFrame+frames) && p.steps.fits(p.oldest, p.nextStep+1)
}

func (m *Memory) notAStack(e int, step uint64) error {
	if m.cfg.Stack == StackDetect {
		return fmt.Errorf("environment %d, step %d: %w", e, step, ErrNotAStack)
	}
	return fmt.Errorf("frame_stack: %d, but in environment %d at step %d %v", m.stack, e, step, ErrNotAStack)
}

// Cut ends the segment in progress of environment e, for a reset, a load or a new run. Its last
// complete transition becomes a truncation whose tail is the pending observation, visible after the
// next Flush. Without a pending observation Cut does nothing.
func (m *Memory) Cut(e int) { m.parts[e].cutSegment(m.stack) }

// Open implements experience.Sink.
func (m *Memory) Open(e int) bool { return m.parts[e].pending }

// Flush makes all staged transitions visible, and then evicts the oldest transitions beyond the
// capacity of each environment.
func (m *Memory) Flush() {
	for e := range m.parts {
		m.parts[e].flush(m.stack)
	}
	m.countVisible()
}

// Changes returns a number that changes whenever the same draws may give other transitions, or a
// Mirror other slots.
func (m *Memory) Changes() uint64 { return m.changes + m.relocations }

func (m *Memory) countVisible() {
	m.changes++
	for e := range m.parts {
		m.firstPick[e+1] = m.firstPick[e] + int(m.parts[e].visible-m.parts[e].oldest)
	}
}

// Len returns the number of visible transitions.
func (m *Memory) Len() int { return m.firstPick[len(m.firstPick)-1] }

// Pending returns the number of transitions that the next Flush makes visible. No Add may be in
// progress.
func (m *Memory) Pending() (n int) {
	for e := range m.parts {
		n += int(m.parts[e].nextStep - m.parts[e].visible)
	}
	return n
}

// Bytes returns the size of the rings, all slots included.
func (m *Memory) Bytes() int64 {
	var n int64
	for e := range m.parts {
		n += m.parts[e].frames.bytes() + m.parts[e].steps.bytes()
	}
	return n
}

// Close frees the rings. A later use of m panics; a second Close does nothing.
func (m *Memory) Close() {
	closePartitions(m.parts)
	m.parts = nil
}
