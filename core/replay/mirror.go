package replay

import (
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/threads"
)

// Mirror copies a Memory's frames to GPU memory, where minibatches are gathered. The copy has the
// rings of all environments one after the other, slot for slot. It has all frames of visible
// transitions, and no frame that may still be written.
//
// The methods of a Mirror may run when Gather may. One goroutine at a time calls them. A Memory has
// at most one Mirror.
type Mirror struct {
	m           *Memory
	valid       bool    // the layout of the copy is that of the rings
	relocations uint64  // Memory.relocations at the latest layout
	next        []int64 // by environment: the first frame that is not copied
	base        []int32 // by environment: its first slot in the copy
}

// Copy is the destination of a Mirror's frames.
type Copy interface {
	// Resize allocates a number of slots of width bytes. It may discard the frames.
	Resize(slots, width int) error
	// Put copies frames to the slots from `slot` on. It may read frames in registered memory until the
	// end of the updates that follow.
	Put(slot int, frames []byte) error
	// Register page-locks memory until release is called, so that Put does not wait. After an error
	// Put copies from the memory as it is.
	Register(memory []byte) (release func(), err error)
}

// NewMirror returns a Mirror that has copied nothing.
func (m *Memory) NewMirror() *Mirror {
	return &Mirror{m: m, next: make([]int64, m.cfg.Envs), base: make([]int32, m.cfg.Envs)}
}

// MirrorBytes returns the size of a copy of the current rings.
func (m *Memory) MirrorBytes() (n int64) {
	for e := range m.parts {
		n += m.parts[e].frames.bytes()
	}
	return n
}

// Follow copies the frames of the flushes since the last call. After an error the next call copies
// all frames.
func (r *Mirror) Follow(to Copy) (err error) {
	defer func() { r.valid = err == nil }()
	if !r.valid || r.relocations != r.m.relocations {
		if err := r.layOut(to); err != nil {
			return err
		}
	}
	for e := range r.m.parts {
		p := &r.m.parts[e]
		first := max(min(r.next[e], p.rewritten), p.oldestFrame)
		for first < p.flushed {
			slot := (first - p.frames.origin) % p.frames.slots
			n := min(p.flushed-first, p.frames.register(slot, to.Register))
			frames, _ := p.frames.span(first, n)
			if err := to.Put(int(r.base[e])+int(slot), frames); err != nil {
				return err
			}
			first += n
		}
		r.next[e], p.rewritten = p.flushed, p.flushed
	}
	return nil
}

// layOut gives each ring its slots in an empty copy.
func (r *Mirror) layOut(to Copy) error {
	slots := 0
	for e := range r.m.parts {
		r.base[e], r.next[e] = int32(slots), r.m.parts[e].oldestFrame
		slots += int(r.m.parts[e].frames.slots)
	}
	r.relocations = r.m.relocations
	return to.Resize(slots, r.m.parts[0].frames.width)
}

// Gather is Memory.Gather for a reader of the copy. It fills Stacks and NextStacks, which refer to
// slots of the copy, and leaves Obs and NextObs unchanged. It ignores the pool.
func (r *Mirror) Gather(picks []int, n int, gamma float64, to *experience.Transitions, _ *threads.Pool) {
	for row, i := range picks {
		e := r.m.environment(i)
		p := &r.m.parts[e]
		t := p.nStep(p.oldest+int64(i-r.m.firstPick[e]), n, gamma)
		to.Stacks[row], to.NextStacks[row] = r.stack(e, t.first.frame), r.stack(e, t.last.frame+1)
		if t.last.terminated() {
			to.NextStacks[row].Frames = 0
		}
		r.m.copyNumbers(&t, to, row)
	}
}

// stack refers to the frames of the observation whose newest frame is given.
func (r *Mirror) stack(e int, newest int64) experience.Stack {
	f, s := &r.m.parts[e].frames, int64(r.m.stack)
	first := (newest - s + 1 - f.origin) % f.slots
	return experience.Stack{First: r.base[e] + int32(first), Base: r.base[e], Slots: int32(f.slots), Frames: int32(s)}
}
