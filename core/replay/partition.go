package replay

import (
	"encoding/binary"
	"math"

	"github.com/paceline-rl/paceline/core/env"
)

// partition is one environment's share of the memory.
//
// Frames oldestFrame..nextFrame-1 and transitions oldest..nextStep-1 are live. Transitions below
// visible can be drawn. The pending observation, if there is one, ends at frame nextFrame-1.
type partition struct {
	frames ring
	steps  ring // transitions of transitionBytes, each with the mask of its next state, and its own with OwnMasks

	// The trainer reads these fields. They are written only while no other goroutine uses the memory.
	capacity    int64 // the most transitions that are visible
	oldest      int64
	visible     int64
	oldestFrame int64
	flushed     int64 // the number of the first frame after the latest flush
	rewritten   int64 // frames from this one on may have changed since a Mirror copied them

	// Padding: the trainer reads the fields above while the environment's goroutine writes the fields
	// below, so they are on different cache lines.
	_ [64]byte

	nextFrame int64
	lowest    int64 // the lowest nextFrame since the latest flush
	nextStep  int64
	added     uint64 // steps ever added, for messages
	pending   bool
	cut       bool // the next flush makes transition visible-1 a truncation
	_         [64]byte
}

// transition is an entry of partition.steps.
type transition struct {
	frame   int64 // number of the newest frame of its observation
	end     env.End
	action  int32
	reward  float32
	updates uint64
}

const transitionBytes = 24

// maskBytes is the size of a packed mask, one bit for each action.
func maskBytes(actions int) int { return (actions + 7) / 8 }

func packMask(to, mask []byte) {
	clear(to)
	for a, allowed := range mask {
		if allowed != 0 {
			to[a/8] |= 1 << (a % 8)
		}
	}
}

func unpackMask(mask, from []byte) {
	for a := range mask {
		mask[a] = from[a/8] >> (a % 8) & 1
	}
}

// encode writes t into b; the end shares a word with the frame number.
func (t transition) encode(b []byte) {
	binary.LittleEndian.PutUint64(b, uint64(t.frame)<<2|uint64(t.end))
	binary.LittleEndian.PutUint64(b[8:], t.updates)
	binary.LittleEndian.PutUint32(b[16:], uint32(t.action))
	binary.LittleEndian.PutUint32(b[20:], math.Float32bits(t.reward))
}

func decode(b []byte) transition {
	word := binary.LittleEndian.Uint64(b)
	return transition{
		frame: int64(word >> 2), end: env.End(word & 3),
		updates: binary.LittleEndian.Uint64(b[8:]),
		action:  int32(binary.LittleEndian.Uint32(b[16:])),
		reward:  math.Float32frombits(binary.LittleEndian.Uint32(b[20:])),
	}
}

// leadsTo reports whether the next observation of t ends at a frame. After a termination the
// following frame belongs to another segment.
func (t transition) leadsTo(frame int64) bool {
	return t.end&env.Terminated == 0 && t.frame+1 == frame
}

func (p *partition) cutSegment(stack int) {
	if !p.pending {
		return
	}
	switch {
	case !p.pendingIsNext(): // no step was taken from the pending observation
		p.nextFrame -= int64(stack)
		p.lowest = min(p.lowest, p.nextFrame)
	case p.nextStep > p.visible:
		p.truncate(p.nextStep - 1)
	default:
		p.cut = true // the trainer may be reading visible transitions
	}
	p.pending = false
}

func (p *partition) truncate(i int64) {
	t := decode(p.steps.at(i))
	t.end |= env.Truncated
	t.encode(p.steps.at(i))
}

// pendingIsNext reports whether the newest transition leads to the pending observation. If not, the
// pending observation begins a segment.
func (p *partition) pendingIsNext() bool {
	return p.pending && p.nextStep > p.oldest && decode(p.steps.at(p.nextStep-1)).leadsTo(p.nextFrame-1)
}

// ownsNext reports whether the next observation of transition i is not the observation of another
// transition below until: it is a tail or the pending observation.
func (p *partition) ownsNext(i, until int64) bool {
	t := decode(p.steps.at(i))
	return t.end&env.Terminated == 0 && (i+1 >= until || decode(p.steps.at(i+1)).frame != t.frame+1)
}

func (p *partition) flush(stack int) {
	if p.cut {
		p.cut = false
		p.truncate(p.visible - 1)
	}
	p.visible = p.nextStep
	p.oldest = max(p.oldest, p.visible-p.capacity)
	p.flushed, p.rewritten, p.lowest = p.nextFrame, min(p.rewritten, p.lowest), p.nextFrame
	switch {
	case p.oldest < p.visible:
		p.oldestFrame = decode(p.steps.at(p.oldest)).frame - int64(stack-1)
	case p.pending:
		p.oldestFrame = p.nextFrame - int64(stack)
	default:
		p.oldestFrame = p.nextFrame
	}
}

// wholeObservations counts the observations of live transitions, and the pending one.
func (p *partition) wholeObservations() int64 {
	n := p.nextStep - p.oldest
	for i := p.oldest; i < p.nextStep; i++ {
		if p.ownsNext(i, p.nextStep) {
			n++
		}
	}
	if p.pending && !p.pendingIsNext() {
		n++
	}
	return n
}

// rewrite replaces the ring of frames by `whole`, a ring of whole observations, and copies the live
// observations into it.
func (p *partition) rewrite(whole ring, stack int64) {
	n := int64(0)
	add := func(newest int64) {
		p.frames.read(whole.at(n), newest-stack+1, stack)
		n++
	}
	begins := p.pending && !p.pendingIsNext()
	for i := p.oldest; i < p.nextStep; i++ {
		t := decode(p.steps.at(i))
		next, owned := t.frame+1, p.ownsNext(i, p.nextStep)
		add(t.frame)
		t.frame = n - 1
		t.encode(p.steps.at(i))
		if owned {
			add(next)
		}
	}
	if begins {
		add(p.nextFrame - 1)
	}
	p.frames.close()
	p.frames, p.oldestFrame, p.nextFrame, p.flushed, p.lowest = whole, 0, n, n, n
}

func closePartitions(parts []partition) {
	for e := range parts {
		parts[e].frames.close()
		parts[e].steps.close()
	}
}
