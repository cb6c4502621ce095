package replay

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/threads"
)

// Minibatch returns memory for n transitions of Gather.
func (m *Memory) Minibatch(n int) *experience.Transitions {
	return &experience.Transitions{
		Obs: make([]byte, n*m.obsBytes), NextObs: make([]byte, n*m.obsBytes),
		Actions: make([]int32, n), Rewards: make([]float32, n), Discounts: make([]float32, n),
		Terminated: make([]bool, n), Updates: make([]uint64, n),
		NextMasks: make([]byte, n*m.cfg.Actions), Masks: make([]byte, n*m.ownActions()),
	}
}

// ownActions is the width of the stored masks of observations; 0: there are none.
func (m *Memory) ownActions() int {
	if m.cfg.OwnMasks {
		return m.cfg.Actions
	}
	return 0
}

// Gather copies n-step transitions to the rows of `to`: Obs and NextObs, never Stacks. A pick is
// the number of a visible transition, 0 to Len()-1, any other number panics. Transitions are
// numbered by environment, and within an environment by age, oldest first.
//
// The n steps begin with the picked transition. They are fewer, m, if the segment ends: Rewards
// become the discounted sum of the m rewards, and Discounts gamma^m, or 0 if the last step
// terminated. NextObs, NextMasks and Terminated are those of the last step, Actions, Masks and
// Updates those of the first. The steps never go beyond the newest visible transition; no Sampler
// draws a transition whose n steps would (see drawable).
//
// The threads of pool share the copying; nil: only the calling goroutine copies.
func (m *Memory) Gather(picks []int, n int, gamma float64, to *experience.Transitions, pool *threads.Pool) {
	if pool == nil || len(picks)*m.obsBytes < worthSharing {
		for row, i := range picks {
			m.copyRow(i, n, gamma, to, row)
		}
		return
	}
	g := m.idle.Swap(nil)
	if g == nil { // the first call, or another Gather is in progress
		g = &gather{}
		g.row = func(_, row int) error {
			g.memory.copyRow(g.picks[row], g.n, g.gamma, g.to, row)
			return nil
		}
	}
	g.memory, g.picks, g.n, g.gamma, g.to = m, picks, n, gamma, to
	if err := pool.Do(len(picks), g.row); err != nil {
		panic(fmt.Sprintf("replay: Gather: %v", err)) // a panic of copyRow, which returns no errors
	}
	g.picks, g.to = nil, nil
	m.idle.Store(g)
}

// gather holds the arguments of one Gather for the threads of a pool, so that Gather does not
// allocate.
type gather struct {
	memory *Memory
	picks  []int
	n      int
	gamma  float64
	to     *experience.Transitions
	row    func(worker, row int) error
}

// worthSharing is the size of observations, in bytes, above which waking a thread costs less than
// copying.
const worthSharing = 1 << 18

// copyRow copies the n steps from visible transition i on to a row.
func (m *Memory) copyRow(i, n int, gamma float64, to *experience.Transitions, row int) {
	p, k := m.find(i)
	t, s := p.nStep(k, n, gamma), int64(m.stack)
	obs := to.Obs[row*m.obsBytes : (row+1)*m.obsBytes]
	next := to.NextObs[row*m.obsBytes : (row+1)*m.obsBytes]
	p.frames.read(obs, t.first.frame-s+1, s)
	if t.last.terminated() {
		clear(next) // it has no stored frames; zeros make the bytes deterministic
	} else {
		p.frames.read(next, t.last.frame-s+2, s)
	}
	m.copyNumbers(&t, to, row)
}

// nStep is the transition over some steps of a segment.
type nStep struct {
	first, last transition
	stored      []byte // the record of last
	begins      []byte // the record of first
	reward      float32
	discount    float32
}

// nStep returns the transition over n steps from transition i on, or over fewer where the segment
// or the visible transitions end.
func (p *partition) nStep(i int64, n int, gamma float64) nStep {
	t := nStep{stored: p.steps.at(i)}
	t.begins, t.first = t.stored, decode(t.stored)
	t.last = t.first
	if n == 1 {
		t.reward, t.discount = t.first.reward, float32(gamma)
	} else {
		sum, factor := float64(t.first.reward), gamma
		for until := min(i+int64(n), p.visible); t.last.end == 0 && i+1 < until; {
			i++
			t.stored = p.steps.at(i)
			t.last = decode(t.stored)
			sum += float64(factor * float64(t.last.reward))
			factor *= gamma
		}
		t.reward, t.discount = float32(sum), float32(factor)
	}
	if t.last.terminated() {
		t.discount = 0
	}
	return t
}

// copyNumbers copies everything of an nStep except its observations to a row.
func (m *Memory) copyNumbers(t *nStep, to *experience.Transitions, row int) {
	to.Actions[row], to.Rewards[row] = t.first.action, t.reward
	terminated := t.last.terminated()
	if to.Terminated != nil {
		to.Terminated[row] = terminated
	}
	if to.Discounts != nil {
		to.Discounts[row] = t.discount
	}
	if to.Updates != nil {
		to.Updates[row] = t.first.updates
	}
	if own := m.ownActions(); len(to.Masks) > 0 && own > 0 {
		unpackMask(to.Masks[row*own:(row+1)*own], t.begins[transitionBytes+maskBytes(own):])
	}
	mask := to.NextMasks[row*m.cfg.Actions : (row+1)*m.cfg.Actions]
	if terminated {
		for a := range mask {
			mask[a] = 1
		}
	} else {
		unpackMask(mask, t.stored[transitionBytes:])
	}
}

// find returns the partition of visible transition i, and its number there.
func (m *Memory) find(i int) (p *partition, k int64) {
	e := m.environment(i)
	p = &m.parts[e]
	return p, p.oldest + int64(i-m.firstPick[e])
}

// environment returns the environment of visible transition i.
func (m *Memory) environment(i int) int {
	if uint(i) >= uint(m.Len()) {
		panic(fmt.Sprintf("replay: pick %d where %d transitions are visible", i, m.Len()))
	}
	return lastBelow(m.firstPick, i)
}

// lastBelow returns the last e below len(firsts)-1 with firsts[e] <= i, where firsts ascends from 0
// to a number above i. An empty partition has the first of the next one.
func lastBelow(firsts []int, i int) (e int) {
	above := len(firsts) - 1
	for above-e > 1 {
		if mid := (e + above) / 2; firsts[mid] <= i {
			e = mid
		} else {
			above = mid
		}
	}
	return e
}

func (t *transition) terminated() bool { return t.end&env.Terminated != 0 }
