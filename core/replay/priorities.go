package replay

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

// The format (version 1 of the part), little-endian:
//
//	savedPriorities
//	W times: the position of the oldest visible transition in the ring of leaves (uint64)
//	for each visible transition, in the order of picks: its priority, or 0 if it cannot be drawn (float64)
//	for each error that waits for the next Flushed, in ascending order of picks: waitingError
//
// Draws depend on the order of the leaves, therefore on the positions.
const prioritiesVersion = 1

type savedPriorities struct {
	Formula, Distributions, N, Tails uint32
	Alpha, Largest                   float64
	Visible                          uint64
}

type waitingError struct {
	Pick  uint64
	Error float32
}

// OtherPriorities is the error of priorities that another formula or other settings have made. It
// begins with the name of the setting.
type OtherPriorities struct{ text string }

func (e *OtherPriorities) Error() string { return e.text }

func otherPriorities(format string, args ...any) error {
	return &OtherPriorities{fmt.Sprintf(format, args...)}
}

var errDamagedPriorities = fmt.Errorf("%w: the priorities contradict the replay memory", checkpoint.ErrFormat)

// Part returns the part of a checkpoint with the priorities. It is optional: if a file does not
// have it, no transition was drawn. Read refuses other Priorities with OtherPriorities; Deferred
// may differ.
func (p *Prioritised) Part(name string) (checkpoint.Part, bool) {
	return checkpoint.Part{Name: name, Version: prioritiesVersion, Optional: true,
		Write: p.save,
		Read: func(r io.Reader, n int64) (adopt func(), err error) {
			s := &loadedPriorities{savedPriorities: p.header(0)}
			if r != nil {
				if err := p.read(r, n, s); err != nil {
					return nil, err
				}
			}
			return func() { p.adopt(s) }, nil
		},
	}, true
}

// loadedPriorities are those of a file. Without priorities no transition was drawn.
type loadedPriorities struct {
	savedPriorities
	positions  []uint64
	priorities []float64
	waiting    []waitingError
}

// header is the header of the part for a number of visible transitions.
func (p *Prioritised) header(visible int) savedPriorities {
	h := savedPriorities{Formula: uint32(p.cfg.Formula), N: uint32(p.cfg.N), Tails: uint32(p.cfg.Tails), Alpha: p.cfg.Alpha, Largest: 1, Visible: uint64(visible)}
	if p.cfg.Distributions {
		h.Distributions = 1
	}
	return h
}

func (p *Prioritised) save(w io.Writer) error {
	p.drawable.current()
	m := p.drawable.memory
	n := m.Len()
	head, positions := p.header(n), make([]uint64, len(m.parts))
	head.Largest = p.largest
	for e := range positions {
		positions[e] = uint64(p.drawable.position(e, m.parts[e].oldest))
	}
	for _, part := range []any{head, positions} {
		if err := binary.Write(w, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	var waiting []waitingError
	buf := make([]byte, 0, 1<<16)
	for i := range n {
		priority := 0.0
		if leaf := p.drawable.leafOf(i); p.drawable.has(leaf) {
			priority = p.masses.get(leaf)
			if p.waits(leaf) {
				waiting = append(waiting, waitingError{uint64(i), p.errors[leaf]})
			}
		}
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(priority))
		if len(buf) == cap(buf) || i == n-1 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return binary.Write(w, binary.LittleEndian, waiting)
}

// read reads what save wrote, n bytes, for the memory of the load in progress.
func (p *Prioritised) read(r io.Reader, n int64, s *loadedPriorities) error {
	if n < int64(binary.Size(s.savedPriorities)) {
		return errDamagedPriorities
	}
	if err := binary.Read(r, binary.LittleEndian, &s.savedPriorities); err != nil {
		return err
	}
	if err := p.checkHeader(&s.savedPriorities); err != nil {
		return err
	}
	parts, visible := p.drawable.memory.incoming(), int64(0)
	for e := range parts {
		visible += parts[e].visible - parts[e].oldest
	}
	each := int64(binary.Size(waitingError{}))
	n -= int64(binary.Size(s.savedPriorities)) + 8*int64(len(parts)) + 8*visible
	if n < 0 || n%each != 0 || n/each > visible || s.Visible != uint64(visible) || !(s.Largest >= 1 && s.Largest <= math.MaxFloat64) {
		return errDamagedPriorities
	}
	s.positions, s.priorities, s.waiting = make([]uint64, len(parts)), make([]float64, visible), make([]waitingError, n/each)
	for _, part := range []any{s.positions, s.priorities, s.waiting} {
		if err := binary.Read(r, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	largest, i, waiting := max(s.Largest, p.rule.fresh), 0, s.waiting
	for e := range parts {
		q := &parts[e]
		if s.positions[e] >= uint64(p.drawable.memory.cfg.capacity(e)) {
			return errDamagedPriorities
		}
		ripe := q.ripe(p.drawable.n)
		for k := q.oldest; k < q.visible; k++ {
			most := largest
			can := k < ripe && !q.dropped(k, p.drawable.n, p.drawable.tails)
			if !can {
				most = 0
			}
			if len(waiting) > 0 && waiting[0].Pick == uint64(i) {
				if !can || !(math.Abs(float64(waiting[0].Error)) <= math.MaxFloat32) {
					return errDamagedPriorities
				}
				waiting = waiting[1:]
			}
			if !(s.priorities[i] >= 0 && s.priorities[i] <= most) {
				return errDamagedPriorities
			}
			i++
		}
	}
	if len(waiting) > 0 { // not in ascending order
		return errDamagedPriorities
	}
	return nil
}

func (p *Prioritised) checkHeader(h *savedPriorities) error {
	want := p.header(0)
	switch {
	case h.Formula >= uint32(len(FormulaNames)) || h.Tails >= uint32(len(TailNames)) || h.Distributions > 1:
		return errDamagedPriorities
	case h.Formula != want.Formula:
		return otherPriorities("prioritized: priorities saved with %s, must be %s", Formula(h.Formula), p.cfg.Formula)
	case h.Distributions != want.Distributions:
		return otherPriorities("distribution: priorities saved from the errors of other heads, must be those of the present ones")
	case h.Alpha != want.Alpha:
		return otherPriorities("priority_alpha: priorities saved with %v, must be %v", h.Alpha, want.Alpha)
	case h.N != want.N:
		return otherPriorities("n_steps: priorities saved with %d, must be %d", h.N, want.N)
	case h.Tails != want.Tails && h.N > 1:
		return otherPriorities("n_step_tails: priorities saved with %s, must be %s", TailNames[h.Tails], TailNames[want.Tails])
	}
	return nil
}

func (p *Prioritised) adopt(s *loadedPriorities) {
	drawable := p.drawable
	drawable.flushed()
	drawable.forget()
	p.largest = s.Largest
	clear(drawable.shift)
	for e, at := range s.positions {
		q := &drawable.memory.parts[e]
		drawable.shift[e] = (int64(at) + q.capacity - q.oldest%q.capacity) % q.capacity
	}
	drawable.flushed()
	for i, priority := range s.priorities {
		if leaf := drawable.leafOf(i); drawable.has(leaf) {
			p.masses.set(leaf, priority)
		}
	}
	clear(p.waiting)
	for _, w := range s.waiting {
		p.take(drawable.leafOf(int(w.Pick)), w.Error)
	}
}
