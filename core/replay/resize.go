package replay

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
)

// Sizes of the rings. Environment e's transitions: its capacity and its share
// of a window. Its frames: as many, and 1/64 more for heads and tails, which
// is enough for segments of some hundred steps (64 of an unstacked
// observation); the rest is for tiny rings. Shorter segments make Grow
// necessary.

func (cfg *Config) capacity(e int) int64 {
	n := cfg.Capacity / cfg.Envs
	if e < cfg.Capacity%cfg.Envs {
		n++
	}
	return int64(n)
}

// stepBytes is what a transition and the mask behind it take.
func (cfg *Config) stepBytes() int64 { return int64(transitionBytes + maskBytes(cfg.Actions)) }

// slots returns the sizes of environment e's rings, into which held and one step more fit.
func (cfg *Config) slots(e, stack int, held live) (steps, frames int64) {
	steps = max(cfg.capacity(e)+int64((cfg.Window+cfg.Envs-1)/cfg.Envs), held.steps+1)
	return steps, max(frameSlots(steps, stack), held.frames+spare(stack))
}

// BytesOf returns the memory that New maps for cfg, every slot counted.
func BytesOf(cfg Config) (int64, error) {
	if err := cfg.check(); err != nil {
		return 0, err
	}
	stack := max(1, cfg.Obs.FrameStack)
	var total int64
	for e := range cfg.Envs {
		steps, frames := cfg.slots(e, stack, live{})
		total += steps*cfg.stepBytes() + frames*int64(cfg.Obs.Bytes()/stack)
	}
	return total, nil
}

func frameSlots(steps int64, stack int) int64 { return steps + steps/64 + spare(stack) }

// spare is the capacity for a few whole segments of one step.
func spare(stack int) int64 { return 8 * int64(stack+1) }

// live is how much of a partition must fit into new rings.
type live struct{ frames, steps int64 }

// affords refuses need bytes where the process may not take so many; purpose says for what.
func (m *Memory) affords(need int64, purpose string) error {
	free, what := m.cfg.MemoryLimit()
	if need <= free {
		return nil
	}
	return &fault.Memory{Text: fmt.Sprintf("buffer_size: %d needs %s %s, %s are available (%s)", m.cfg.Capacity, limits.Size(need), purpose, limits.Size(free), what)}
}

// newPartitions maps empty partitions for observations stored as stack frames,
// with capacity for held[e] and one step more, and refuses what memory cannot take.
func (m *Memory) newPartitions(stack int, held []live) ([]partition, error) {
	parts := make([]partition, m.cfg.Envs)
	width := m.obsBytes / stack
	var total int64
	for e := range parts {
		p := &parts[e]
		p.capacity = m.cfg.capacity(e)
		p.steps.slots, p.frames.slots = m.cfg.slots(e, stack, held[e])
		total += p.steps.slots*m.cfg.stepBytes() + p.frames.slots*int64(width)
	}
	if err := m.affords(total, "of memory"); err != nil {
		return nil, err
	}
	for e := range parts {
		var err error
		p := &parts[e]
		if p.steps, err = newRing(int(m.cfg.stepBytes()), p.steps.slots); err == nil {
			p.frames, err = newRing(width, p.frames.slots)
		}
		if err != nil {
			closePartitions(parts[:e+1])
			return nil, fmt.Errorf("buffer_size: %d: %w", m.cfg.Capacity, err)
		}
	}
	return parts, nil
}

// Free returns how many steps environment e can take for sure, whatever they
// bring: each a transition, its tail, and the first observation of the segment
// after it. It may be asked by the goroutine that adds to e.
func (m *Memory) Free(e int) int64 {
	p := &m.parts[e]
	frames := (p.frames.slots - (p.nextFrame - p.keep)) / int64(m.stack+1)
	steps := p.steps.slots - (p.nextStep - p.oldest)
	return min(frames, steps)
}

// Grow enlarges the rings of every environment with fewer than n steps Free, 1 or 2, one after the
// other, to what their segments so far let expect. What can be seen stays the
// same. After an error, too: rings that were enlarged before it just are
// larger.
func (m *Memory) Grow(n int64) error {
	type slots struct{ frames, steps int64 }
	want := make([]slots, len(m.parts))
	var more int64 // bytes not yet taken from the system
	for e := range m.parts {
		p := &m.parts[e]
		want[e] = slots{p.frames.slots, p.steps.slots}
		if !p.steps.fits(p.oldest, p.nextStep+n) {
			want[e].steps += want[e].steps/8 + 16
		}
		if !p.frames.fits(p.keep, p.nextFrame+n*int64(m.stack+1)) {
			want[e].frames = p.expectedFrames(want[e].steps, m.stack)
		}
		more += (want[e].frames-(p.nextFrame-p.keep))*int64(p.frames.width) +
			(want[e].steps-(p.nextStep-p.oldest))*m.cfg.stepBytes()
	}
	if err := m.affords(more, "more memory for episodes this short"); err != nil {
		return err
	}
	for e := range m.parts {
		p := &m.parts[e]
		if want[e].steps > p.steps.slots {
			if err := p.steps.grow(p.oldest, p.nextStep, want[e].steps); err != nil {
				return err
			}
		}
		if want[e].frames > p.frames.slots {
			if err := p.frames.grow(p.keep, p.nextFrame, want[e].frames); err != nil {
				return err
			}
			m.moved++
		}
	}
	return nil
}

// expectedFrames returns how many frame slots a full ring of steps transitions
// will take if the rest is like what is there now.
func (p *partition) expectedFrames(steps int64, stack int) int64 {
	perStep := float64(p.nextFrame-p.keep) / float64(max(1, p.nextStep-p.oldest))
	expected := frameSlots(int64(perStep*float64(steps)), stack)
	return max(expected, p.frames.slots+p.frames.slots/16+spare(stack))
}

// StoreWhole goes over from one frame a step to whole observations, for
// environments whose observations turn out not to be stacks, and returns how
// many bytes more that takes. What can be seen stays the same. On error
// everything is as it was.
func (m *Memory) StoreWhole() (more int64, err error) {
	if m.stack == 1 {
		return 0, nil
	}
	before := m.Bytes()
	rings := make([]ring, len(m.parts))
	var need int64 // bytes not yet taken from the system; the old rings go one by one
	for e := range m.parts {
		p := &m.parts[e]
		// Every transition brings at most its observation and a next one.
		slots := max(frameSlots(p.steps.slots, 1), p.wholeObservations()+spare(1))
		rings[e] = ring{width: m.obsBytes, slots: slots}
		need += rings[e].bytes() - (p.nextFrame-p.keep)*int64(p.frames.width)
	}
	if err := m.affords(need, "more memory to store observations whole"); err != nil {
		return 0, err
	}
	for e := range rings {
		if rings[e], err = newRing(m.obsBytes, rings[e].slots); err != nil {
			for i := range rings[:e] {
				rings[i].close()
			}
			return 0, fmt.Errorf("buffer_size: %d: %w", m.cfg.Capacity, err)
		}
	}
	for e := range m.parts {
		m.parts[e].rewrite(rings[e], int64(m.stack))
	}
	m.stack = 1
	m.moved++
	return m.Bytes() - before, nil
}
