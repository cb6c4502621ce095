package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/paceline-rl/paceline/core/env"
)

// The saved form, little-endian:
//
//	magic, format, bytes of an observation, stack, W, capacity
//	W times: steps added, visible, live transitions, live frames, flags
//	checksum (CRC-32C) of everything so far
//	W times: live transitions (frame numbers from 0), live frames
//	checksum of everything but the first checksum's four bytes
//
// Nothing of it depends on ring sizes or on where in a ring things lie. The
// first checksum is there so that no memory is asked for on the word of a
// damaged header.
const (
	saveMagic  = "PLREPLAY"
	saveFormat = 1
)

const (
	flagPending = 1 << iota
	flagCut
)

type saveHeader struct {
	Magic           [8]byte
	Format          uint32
	ObsBytes, Stack uint32
	Envs            uint32
	Capacity        uint64
}

type savePartition struct {
	Added, Visible, Steps, Frames, Flags uint64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes the whole content, staged steps and pending observations
// included, for Load to go on from bit for bit.
func (m *Memory) Save(w io.Writer) error {
	sum := crc32.New(castagnoli)
	out := io.MultiWriter(w, sum)
	head := saveHeader{Format: saveFormat, ObsBytes: uint32(m.obsBytes), Stack: uint32(m.stack),
		Envs: uint32(m.cfg.Envs), Capacity: uint64(m.cfg.Capacity)}
	copy(head.Magic[:], saveMagic)
	table := make([]savePartition, len(m.parts))
	for e := range m.parts {
		p := &m.parts[e]
		table[e] = savePartition{Added: p.added, Visible: uint64(p.visible - p.oldest),
			Steps: uint64(p.nextStep - p.oldest), Frames: uint64(p.nextFrame - p.keep)}
		if p.pending {
			table[e].Flags |= flagPending
		}
		if p.cut {
			table[e].Flags |= flagCut
		}
	}
	for _, part := range []any{head, table} {
		if err := binary.Write(out, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	if err := binary.Write(w, binary.LittleEndian, sum.Sum32()); err != nil {
		return err
	}
	for e := range m.parts {
		p := &m.parts[e]
		buf := make([]byte, 0, 1024*transitionBytes)
		for i := p.oldest; i < p.nextStep; i++ {
			t := decode(p.steps.at(i))
			t.frame -= p.keep
			buf = buf[:len(buf)+transitionBytes]
			t.encode(buf[len(buf)-transitionBytes:])
			if len(buf) == cap(buf) || i == p.nextStep-1 {
				if _, err := out.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}
		if err := p.frames.each(p.keep, p.nextFrame, func(b []byte) error {
			_, err := out.Write(b)
			return err
		}); err != nil {
			return err
		}
	}
	return binary.Write(w, binary.LittleEndian, sum.Sum32())
}

// Load replaces the content by one that Save wrote for the same observations,
// number of environments and capacity; the window may differ. It reads no byte
// too many. On error the memory is as it was; so, until it is done, old and new
// content are held at once.
func (m *Memory) Load(r io.Reader) error {
	sum := crc32.New(castagnoli)
	in := io.TeeReader(r, sum)
	var head saveHeader
	if err := read(in, &head); err != nil {
		return err
	}
	if err := m.checkHeader(&head); err != nil {
		return err
	}
	table := make([]savePartition, head.Envs)
	if err := read(in, table); err != nil {
		return err
	}
	if err := checkSum(r, sum.Sum32()); err != nil {
		return err
	}
	stack := int64(head.Stack)
	held := make([]live, len(table))
	for e, t := range table {
		most := (t.Steps + 1) * uint64(stack+1)
		if t.Visible > uint64(m.capacity(e)) || t.Visible > t.Steps || t.Steps > 1<<40 || t.Frames > most {
			return errDamaged
		}
		held[e] = live{frames: int64(t.Frames), steps: int64(t.Steps)}
	}
	parts, err := m.newPartitions(int(stack), held)
	if err != nil {
		return err
	}
	for e := range parts {
		if err := parts[e].load(in, table[e], stack); err != nil {
			closePartitions(parts)
			return fmt.Errorf("environment %d: %w", e, err)
		}
	}
	if err := checkSum(r, sum.Sum32()); err != nil {
		closePartitions(parts)
		return err
	}
	m.replace(parts, int(stack))
	return nil
}

func (m *Memory) replace(parts []partition, stack int) {
	closePartitions(m.parts)
	m.parts, m.stack = parts, stack
	m.countVisible()
}

// Clear empties the memory, staged steps and pending observations included. On
// error it is as it was.
func (m *Memory) Clear() error {
	parts, err := m.newPartitions(m.stack, nil)
	if err != nil {
		return err
	}
	m.replace(parts, m.stack)
	return nil
}

var errDamaged = errors.New("replay: the saved data are damaged")

func read(r io.Reader, to any) error {
	err := binary.Read(r, binary.LittleEndian, to)
	return readError(err)
}

func readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("replay: the saved data end early")
	}
	return err
}

func checkSum(r io.Reader, want uint32) error {
	var got uint32
	if err := read(r, &got); err != nil {
		return err
	}
	if got != want {
		return errDamaged
	}
	return nil
}

func (m *Memory) checkHeader(h *saveHeader) error {
	stack := max(1, m.cfg.Obs.FrameStack)
	switch {
	case string(h.Magic[:]) != saveMagic:
		return errors.New("replay: these are not saved replay data")
	case h.Format != saveFormat:
		return fmt.Errorf("replay: saved in format %d, this version reads %d", h.Format, saveFormat)
	case int64(h.ObsBytes) != int64(m.obsBytes):
		return fmt.Errorf("replay: saved with observations of %d bytes, must be %d", h.ObsBytes, m.obsBytes)
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
func (p *partition) load(in io.Reader, t savePartition, stack int64) error {
	p.added, p.visible, p.nextStep, p.nextFrame = t.Added, int64(t.Visible), int64(t.Steps), int64(t.Frames)
	p.pending, p.cut = t.Flags&flagPending != 0, t.Flags&flagCut != 0
	if p.pending && p.nextFrame < stack || p.cut && p.visible == 0 {
		return errDamaged
	}
	fill := func(b []byte) error {
		_, err := io.ReadFull(in, b)
		return readError(err)
	}
	if err := p.steps.each(0, p.nextStep, fill); err != nil {
		return err
	}
	before := stack - 2
	for i := range p.nextStep {
		t := decode(p.steps.at(i))
		last := t.frame // the last frame it needs
		if t.end&env.Terminated == 0 {
			last++
		}
		if t.frame <= before || last >= p.nextFrame {
			return errDamaged
		}
		before = t.frame
	}
	return p.frames.each(0, p.nextFrame, fill)
}

// Hash returns a SHA-256 of the visible transitions: for each environment, in
// order of age, the whole observation, action, reward, end, and the next
// observation where it is not that of the following transition. How they are
// stored does not enter, nor do versions or what is staged.
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
			if p.ownsNext(i, p.visible) {
				observation(p, t.frame+1)
			}
		}
	}
	return [32]byte(h.Sum(nil))
}
