package replay

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
)

func (cfg *Config) capacity(e int) int64 {
	n := cfg.Capacity / cfg.Envs
	if e < cfg.Capacity%cfg.Envs {
		n++
	}
	return int64(n)
}

// stepBytes is the size of a transition with its masks.
func (cfg *Config) stepBytes() int64 {
	masks := 1
	if cfg.OwnMasks {
		masks = 2
	}
	return int64(transitionBytes + masks*maskBytes(cfg.Actions))
}

// slots returns the sizes of environment e's rings: at least held and one more step.
func (cfg *Config) slots(e, stack int, held live) (steps, frames int64) {
	steps = max(cfg.capacity(e)+int64((cfg.Window+cfg.Envs-1)/cfg.Envs), held.steps+1)
	return steps, max(frameSlots(steps, stack), held.frames+spare(stack))
}

// BytesOf returns the size of the rings that New maps for cfg.
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

// frameSlots returns the frame slots for a number of transitions. 1/64 more slots than transitions,
// for heads and tails, are enough for segments of some hundred steps (64 steps without stacks);
// with shorter segments Grow is needed. The spare slots are for tiny rings.
func frameSlots(steps int64, stack int) int64 { return steps + steps/64 + spare(stack) }

// spare is the number of frames of eight segments of one step.
func spare(stack int) int64 { return 8 * int64(stack+1) }

// live are the records of a partition that must fit into new rings.
type live struct{ frames, steps int64 }

// affords returns an error if the process may not use need more bytes. purpose is for the error.
func (m *Memory) affords(need int64, purpose string) error {
	free, what := m.cfg.MemoryLimit()
	if need <= free {
		return nil
	}
	return &fault.Memory{Text: fmt.Sprintf("buffer_size: %d needs %s %s, %s are available (%s)", m.cfg.Capacity, limits.Size(need), purpose, limits.Size(free), what)}
}

// newPartitions maps empty partitions for observations of `stack` frames, with capacity for held[e]
// and one more step. It returns an error if the available memory is too small.
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

// Room returns how many more steps of environment e fit for certain. Each may need a transition, a
// tail and the first observation of the next segment. The goroutine that adds to e may call it.
func (m *Memory) Room(e int) int64 {
	p := &m.parts[e]
	frames := (p.frames.slots - (p.nextFrame - p.oldestFrame)) / int64(m.stack+1)
	steps := p.steps.slots - (p.nextStep - p.oldest)
	return min(frames, steps)
}

// Grow enlarges the rings of every environment with Room for fewer than n steps, 1 or 2. The new
// sizes follow from the segments so far. The visible transitions stay the same, also after an
// error, before which some rings may have been enlarged.
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
		if !p.frames.fits(p.oldestFrame, p.nextFrame+n*int64(m.stack+1)) {
			want[e].frames = p.expectedFrames(want[e].steps, m.stack)
		}
		more += (want[e].frames-(p.nextFrame-p.oldestFrame))*int64(p.frames.width) +
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
			if err := p.frames.grow(p.oldestFrame, p.nextFrame, want[e].frames); err != nil {
				return err
			}
			m.relocations++
		}
	}
	return nil
}

// expectedFrames returns the frame slots for a full ring of `steps` transitions, with as many
// frames for each transition as now.
func (p *partition) expectedFrames(steps int64, stack int) int64 {
	perStep := float64(p.nextFrame-p.oldestFrame) / float64(max(1, p.nextStep-p.oldest))
	expected := frameSlots(int64(perStep*float64(steps)), stack)
	return max(expected, p.frames.slots+p.frames.slots/16+spare(stack))
}

// StoreWhole changes the rings from one frame for each step to whole observations, because the
// observations are not stacks. It returns how many more bytes the rings take. The visible
// transitions stay the same. An error changes nothing.
func (m *Memory) StoreWhole() (more int64, err error) {
	if m.stack == 1 {
		return 0, nil
	}
	before := m.Bytes()
	rings := make([]ring, len(m.parts))
	var need int64 // more bytes than now; the old rings are freed one by one
	for e := range m.parts {
		p := &m.parts[e]
		// Every transition has at most two observations.
		slots := max(frameSlots(p.steps.slots, 1), p.wholeObservations()+spare(1))
		rings[e] = ring{width: m.obsBytes, slots: slots}
		need += rings[e].bytes() - (p.nextFrame-p.oldestFrame)*int64(p.frames.width)
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
	m.relocations++
	return m.Bytes() - before, nil
}
