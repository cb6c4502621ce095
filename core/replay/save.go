package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// The format (version 1 of the part), little-endian:
//
//	bytes of an observation, stack, W, capacity
//	W times: steps added, visible, live transitions, live frames, flags
//	W times: live transitions (frame numbers from 0) with their masks, live frames
//
// It does not depend on the sizes of rings or on positions in them. The checkpoint stores its
// checksum and its length, which must agree with the table.
const saveVersion = 1

const (
	flagPending = 1 << iota
	flagCut
)

type saveHeader struct {
	ObsBytes, Stack, Envs uint32
	Capacity              uint64
}

type savePartition struct {
	Added, Visible, Steps, Frames, Flags uint64
}

// errDamaged is the error of a file with a correct checksum that no Memory has written.
var errDamaged = fmt.Errorf("%w: the replay memory's numbers contradict each other", checkpoint.ErrFormat)

// Part returns the part of a checkpoint that holds everything, staged steps and pending
// observations included. It is optional: if a file does not have it, adopt empties the memory.
//
// The file must have the same observations, number of environments and capacity, and actions below
// `actions`; its window may differ. The old and the new content are both in memory until adopt or
// Discard.
func (m *Memory) Part(name string, actions int) checkpoint.Part {
	return checkpoint.Part{Name: name, Version: saveVersion, Optional: true,
		Write: m.save,
		Read: func(r io.Reader, n int64) (adopt func(), err error) {
			if r == nil {
				m.clearing = true
				return func() {
					m.clearing = false
					m.Clear()
				}, nil
			}
			parts, stack, err := m.read(r, n, int64(actions))
			if err != nil {
				return nil, err
			}
			m.loading = parts
			return func() {
				closePartitions(m.parts)
				m.parts, m.stack, m.loading = parts, stack, nil
				m.relocations++
				m.epoch++
				m.countVisible()
			}, nil
		},
		Discard: func() {
			closePartitions(m.loading)
			m.loading, m.clearing = nil, false
		},
	}
}

func (m *Memory) save(w io.Writer) error {
	head := saveHeader{ObsBytes: uint32(m.obsBytes), Stack: uint32(m.stack), Envs: uint32(m.cfg.Envs), Capacity: uint64(m.cfg.Capacity)}
	table := make([]savePartition, len(m.parts))
	for e := range m.parts {
		p := &m.parts[e]
		table[e] = savePartition{Added: p.added, Visible: uint64(p.visible - p.oldest),
			Steps: uint64(p.nextStep - p.oldest), Frames: uint64(p.nextFrame - p.oldestFrame)}
		if p.pending {
			table[e].Flags |= flagPending
		}
		if p.cut {
			table[e].Flags |= flagCut
		}
	}
	for _, part := range []any{head, table} {
		if err := binary.Write(w, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	for e := range m.parts {
		p := &m.parts[e]
		buf := make([]byte, 0, 1024*p.steps.width)
		for i := p.oldest; i < p.nextStep; i++ {
			t := decode(p.steps.at(i))
			t.frame -= p.oldestFrame
			buf = append(buf, p.steps.at(i)...)
			t.encode(buf[len(buf)-p.steps.width:])
			if len(buf) == cap(buf) || i == p.nextStep-1 {
				if _, err := w.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}
		if err := p.frames.each(p.oldestFrame, p.nextFrame, func(b []byte) error {
			_, err := w.Write(b)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// incoming returns the partitions that the memory has after the load in progress.
func (m *Memory) incoming() []partition {
	switch {
	case m.clearing:
		return make([]partition, len(m.parts))
	case m.loading != nil:
		return m.loading
	}
	return m.parts
}

// read returns the partitions that save wrote, n bytes.
func (m *Memory) read(r io.Reader, n, actions int64) (parts []partition, stack int, err error) {
	var head saveHeader
	if n < int64(binary.Size(head)) {
		return nil, 0, errDamaged
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
		return nil, 0, err
	}
	if err := m.checkHeader(&head); err != nil {
		return nil, 0, err
	}
	stack = int(head.Stack)
	var row savePartition
	n -= int64(binary.Size(head)) + int64(head.Envs)*int64(binary.Size(row))
	if n < 0 {
		return nil, 0, errDamaged
	}
	table := make([]savePartition, head.Envs)
	if err := binary.Read(r, binary.LittleEndian, table); err != nil {
		return nil, 0, err
	}
	width := m.obsBytes / stack
	held := make([]live, len(table))
	for e, t := range table {
		// A count beyond the bytes of the file must not allocate a ring.
		if t.Steps > uint64(n/m.cfg.stepBytes()) || t.Frames > uint64(n/int64(width)) {
			return nil, 0, errDamaged
		}
		held[e] = live{frames: int64(t.Frames), steps: int64(t.Steps)}
		n -= held[e].steps*m.cfg.stepBytes() + held[e].frames*int64(width)
		if n < 0 || t.Visible > uint64(m.cfg.capacity(e)) || t.Visible > t.Steps || t.Added < t.Steps || t.Flags > flagPending|flagCut {
			return nil, 0, errDamaged
		}
	}
	if n != 0 {
		return nil, 0, errDamaged
	}
	if parts, err = m.newPartitions(stack, held); err != nil {
		if memory := (*fault.Memory)(nil); errors.As(err, &memory) {
			err = &fault.Memory{Text: memory.Text + "; during a load the old and the new replay memory are both in memory"}
		}
		return nil, 0, err
	}
	for e := range parts {
		if err := parts[e].load(r, table[e], &m.cfg, int64(stack), actions); err != nil {
			closePartitions(parts)
			return nil, 0, fmt.Errorf("environment %d: %w", e, err)
		}
	}
	return parts, stack, nil
}

func (m *Memory) checkHeader(h *saveHeader) error {
	stack := max(1, m.cfg.Obs.FrameStack)
	switch {
	case int64(h.ObsBytes) != int64(m.obsBytes):
		return fmt.Errorf("replay saved with observations of %d bytes, must be %d", h.ObsBytes, m.obsBytes)
	case int64(h.Envs) != int64(m.cfg.Envs):
		return fmt.Errorf("num_envs: replay saved with %d, must be %d", h.Envs, m.cfg.Envs)
	case h.Capacity != uint64(m.cfg.Capacity):
		return fmt.Errorf("buffer_size: replay saved with %d, must be %d", h.Capacity, m.cfg.Capacity)
	case h.Stack == 1 && m.cfg.Stack == StackDetect, int64(h.Stack) == int64(stack):
		return nil
	}
	return fmt.Errorf("frame_stack: replay saved with %d, must be %d", h.Stack, stack)
}

// load fills an empty partition.
func (p *partition) load(in io.Reader, t savePartition, cfg *Config, stack, actions int64) error {
	p.added, p.visible, p.nextStep, p.nextFrame = t.Added, int64(t.Visible), int64(t.Steps), int64(t.Frames)
	p.flushed, p.lowest = p.nextFrame, p.nextFrame
	p.pending, p.cut = t.Flags&flagPending != 0, t.Flags&flagCut != 0
	fill := func(b []byte) error {
		_, err := io.ReadFull(in, b)
		return err
	}
	if err := p.steps.each(0, p.nextStep, fill); err != nil {
		return err
	}
	if !p.consistent(stack, actions, cfg) {
		return errDamaged
	}
	return p.frames.each(0, p.nextFrame, func(b []byte) error {
		if err := fill(b); err != nil {
			return err
		}
		if cfg.Obs.CheckFinite(b) != nil {
			return errDamaged
		}
		return nil
	})
}

// consistent reports whether Begin, Add, Cut and Flush can have made the transitions, from number 0
// on, the flags and the number of frames. Then every frame that a transition refers to is stored.
func (p *partition) consistent(stack, actions int64, cfg *Config) bool {
	mask, packed := make([]byte, cfg.Actions), make([]byte, maskBytes(cfg.Actions))
	// exact reports whether packMask can have written a mask.
	exact := func(stored []byte) bool {
		unpackMask(mask, stored)
		packMask(packed, mask)
		return bytes.Equal(packed, stored)
	}
	last := int64(-1) // the last frame in use so far
	open := false     // the segment of the previous transition continues
	for i := range p.nextStep {
		t := decode(p.steps.at(i))
		want := last
		if !open {
			want += stack // a segment begins with a whole observation
		}
		if t.frame != want || t.action < 0 || int64(t.action) >= actions || !finite(t.reward) {
			return false
		}
		last = t.frame
		stored := p.steps.at(i)[transitionBytes:]
		if cfg.OwnMasks && (!exact(stored[len(packed):]) || cfg.Actions > 0 && env.CheckMask(mask) != nil) || !exact(stored[:len(packed)]) {
			return false
		}
		if t.end&env.Terminated == 0 {
			last++ // its next observation
			if cfg.Actions > 0 && env.CheckMask(mask) != nil {
				return false
			}
		}
		open = t.end == 0
		if p.cut && i == p.visible-1 {
			if !open {
				return false
			}
			open = false // the next Flush truncates it
		}
	}
	if open && !p.pending || p.cut && p.visible == 0 {
		return false
	}
	if p.pending && !open {
		last += stack
	}
	return p.nextFrame == last+1
}

func finite(f float32) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// Clear empties the memory, staged steps and pending observations included.
func (m *Memory) Clear() {
	for e := range m.parts {
		p := &m.parts[e]
		p.frames.origin, p.steps.origin = 0, 0
		*p = partition{frames: p.frames, steps: p.steps, capacity: p.capacity}
	}
	m.relocations++
	m.epoch++
	m.countVisible()
}

// Hash returns a SHA-256 of the visible transitions of each environment, oldest first. It covers
// the whole observation, action, reward and end, and the masks if they are stored. It covers the
// next observation if that is not the observation of the following transition. It does not depend
// on ring sizes, on Updates or on staged steps.
func (m *Memory) Hash() [32]byte {
	h := sha256.New()
	var word [16]byte
	binary.LittleEndian.PutUint64(word[:], uint64(m.obsBytes))
	binary.LittleEndian.PutUint64(word[8:], uint64(len(m.parts)))
	h.Write(word[:])
	s := int64(m.stack)
	observation := func(p *partition, newest int64) {
		a, b := p.frames.span(newest-s+1, s)
		h.Write(a)
		h.Write(b)
	}
	for e := range m.parts {
		p := &m.parts[e]
		binary.LittleEndian.PutUint64(word[:], uint64(p.visible-p.oldest))
		h.Write(word[:8])
		for i := p.oldest; i < p.visible; i++ {
			b := p.steps.at(i)
			t := decode(b)
			observation(p, t.frame)
			copy(word[:8], b[16:]) // action, reward
			word[8] = byte(t.end)
			h.Write(word[:9])
			h.Write(b[transitionBytes:])
			if p.ownsNext(i, p.visible) {
				observation(p, t.frame+1)
			}
		}
	}
	return [32]byte(h.Sum(nil))
}
