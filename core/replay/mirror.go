package replay

import (
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/threads"
)

// Mirror keeps a copy of a Memory's frames elsewhere up to date: in the memory of a GPU, that
// minibatches are gathered in. The copy has the rings of all environments side by side,
// slot for slot. What can be drawn is copied, and nothing that may still be written.
//
// Its methods want what Gather wants, and belong to one goroutine at a time. A Memory has one
// Mirror.
type Mirror struct {
	m     *Memory
	moved uint64
	begun bool
	next  []int64 // the first frame of each environment that is not copied
	base  []int32 // the first slot of each
}

// Copy is where a Mirror's frames go.
type Copy interface {
	// Resize makes it so many slots of width bytes; what was there may be gone.
	Resize(slots, width int) error
	// Put copies frames to the slots from slot on. Frames in registered memory may be read until the
	// updates that come after are over.
	Put(slot int, frames []byte) error
	// Register prepares memory for a Put that need not wait, until release is called. After an error
	// Put takes the memory as it is.
	Register(memory []byte) (release func(), err error)
}

// NewMirror returns a Mirror of nothing yet.
func (m *Memory) NewMirror() *Mirror {
	return &Mirror{m: m, next: make([]int64, m.cfg.Envs), base: make([]int32, m.cfg.Envs)}
}

// MirrorBytes is the memory that a copy takes as the rings are now.
func (m *Memory) MirrorBytes() (n int64) {
	for e := range m.parts {
		n += m.parts[e].frames.bytes()
	}
	return n
}

// Follow copies what came at the flushes since the latest call. After an error the next call
// copies everything.
func (r *Mirror) Follow(to Copy) (err error) {
	defer func() { r.begun = err == nil }()
	if !r.begun || r.moved != r.m.moved {
		if err := r.begin(to); err != nil {
			return err
		}
	}
	for e := range r.m.parts {
		p := &r.m.parts[e]
		first := max(min(r.next[e], p.again), p.keep)
		for first < p.flushed {
			slot := (first - p.frames.origin) % p.frames.slots
			n := min(p.flushed-first, p.frames.register(slot, to.Register))
			frames, _ := p.frames.span(first, n)
			if err := to.Put(int(r.base[e])+int(slot), frames); err != nil {
				return err
			}
			first += n
		}
		r.next[e], p.again = p.flushed, p.flushed
	}
	return nil
}

// begin lays the rings out, of which nothing is copied then.
func (r *Mirror) begin(to Copy) error {
	slots := 0
	for e := range r.m.parts {
		r.base[e], r.next[e] = int32(slots), r.m.parts[e].keep
		slots += int(r.m.parts[e].frames.slots)
	}
	r.moved = r.m.moved
	return to.Resize(slots, r.m.parts[0].frames.width)
}

// Gather is Memory.Gather for a reader that has the copy: it fills Stacks and NextStacks, which
// name slots of the copy, and leaves Obs and NextObs alone. It needs no pool.
func (r *Mirror) Gather(picks []int, gamma float32, to *experience.Transitions, _ *threads.Pool) {
	for row, i := range picks {
		e, stored := r.m.find(i)
		t := decode(stored)
		to.Stacks[row], to.NextStacks[row] = r.stack(e, t.frame), r.stack(e, t.frame+1)
		if t.terminated() {
			to.NextStacks[row].Frames = 0
		}
		r.m.copyNumbers(&t, stored, gamma, to, row)
	}
}

// stack names the frames of the observation that ends at a frame.
func (r *Mirror) stack(e int, newest int64) experience.Stack {
	f, s := &r.m.parts[e].frames, int64(r.m.stack)
	first := (newest - s + 1 - f.origin) % f.slots
	return experience.Stack{First: r.base[e] + int32(first), Base: r.base[e], Slots: int32(f.slots), Frames: int32(s)}
}
