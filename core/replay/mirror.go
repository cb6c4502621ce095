package replay

import (
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// Mirror keeps a copy of a Memory's frames elsewhere up to date: in the memory of a GPU, that
// minibatches are gathered in. The copy has the rings of all environments side by side,
// slot for slot. What can be drawn is copied, and nothing that may still be written.
//
// Its methods want what Sample wants, and belong to one goroutine at a time. A Memory has one
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

// Sample fills in the rows of b with the transitions that Memory.Sample would draw from r: where
// their observations are in the copy, instead of these. b has discounts, which are gamma or 0.
func (r *Mirror) Sample(draws *rng.Stream, gamma float32, b *nn.StackedTransitions) {
	for row := range b.Obs {
		e, at := r.m.find(draws.Intn(r.m.Len()))
		t := decode(at)
		b.Obs[row], b.NextObs[row] = r.stack(e, t.frame), r.stack(e, t.frame+1)
		b.Actions[row], b.Rewards[row], b.Discounts[row] = t.action, t.reward, gamma
		terminated := t.end&env.Terminated != 0
		if terminated {
			b.NextObs[row].Frames = 0
			b.Discounts[row] = 0
		}
		actions := r.m.cfg.Actions
		mask := b.NextMasks[row*actions : (row+1)*actions]
		if terminated {
			for a := range mask {
				mask[a] = 1
			}
		} else {
			unpackMask(mask, at[transitionBytes:])
		}
	}
}

// stack is the observation that ends at a frame.
func (r *Mirror) stack(e int, newest int64) nn.Stack {
	f, s := &r.m.parts[e].frames, int64(r.m.stack)
	first := (newest - s + 1 - f.origin) % f.slots
	return nn.Stack{First: r.base[e] + int32(first), Base: r.base[e], Slots: int32(f.slots), Frames: int32(s)}
}
