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
		NextMasks: make([]byte, n*m.cfg.Actions),
	}
}

// Gather copies visible transitions to the rows of `to`: Obs and NextObs, never Stacks. A pick is 0
// to Len()-1, any other number panics. Transitions are numbered by environment, and within an
// environment by age, oldest first. Discounts become gamma, or 0 where the transition terminated.
// The threads of pool share the copying; nil: only the calling goroutine copies.
func (m *Memory) Gather(picks []int, gamma float32, to *experience.Transitions, pool *threads.Pool) {
	if pool == nil || len(picks)*m.obsBytes < worthSharing {
		for row, i := range picks {
			m.copyRow(i, gamma, to, row)
		}
		return
	}
	g := m.idle.Swap(nil)
	if g == nil { // the first call, or another Gather is in progress
		g = &gather{}
		g.row = func(_, row int) error {
			g.memory.copyRow(g.picks[row], g.gamma, g.to, row)
			return nil
		}
	}
	g.memory, g.picks, g.gamma, g.to = m, picks, gamma, to
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
	gamma  float32
	to     *experience.Transitions
	row    func(worker, row int) error
}

// worthSharing is the size of observations, in bytes, above which waking a thread costs less than
// copying.
const worthSharing = 1 << 18

// copyRow copies visible transition i to a row.
func (m *Memory) copyRow(i int, gamma float32, to *experience.Transitions, row int) {
	e, stored := m.find(i)
	p, s := &m.parts[e], int64(m.stack)
	t := decode(stored)
	obs := to.Obs[row*m.obsBytes : (row+1)*m.obsBytes]
	next := to.NextObs[row*m.obsBytes : (row+1)*m.obsBytes]
	p.frames.read(obs, t.frame-s+1, s)
	if t.terminated() {
		clear(next) // it has no stored frames; zeros make the bytes deterministic
	} else {
		p.frames.read(next, t.frame-s+2, s)
	}
	m.copyNumbers(&t, stored, gamma, to, row)
}

// copyNumbers copies everything of a transition except its observations to a row. stored is the
// record of t.
func (m *Memory) copyNumbers(t *transition, stored []byte, gamma float32, to *experience.Transitions, row int) {
	to.Actions[row], to.Rewards[row] = t.action, t.reward
	terminated := t.terminated()
	if to.Terminated != nil {
		to.Terminated[row] = terminated
	}
	if to.Discounts != nil {
		to.Discounts[row] = gamma
		if terminated {
			to.Discounts[row] = 0
		}
	}
	if to.Updates != nil {
		to.Updates[row] = t.updates
	}
	mask := to.NextMasks[row*m.cfg.Actions : (row+1)*m.cfg.Actions]
	if terminated {
		for a := range mask {
			mask[a] = 1
		}
	} else {
		unpackMask(mask, stored[transitionBytes:])
	}
}

// find returns the environment of visible transition i, and the record of the transition.
func (m *Memory) find(i int) (e int, stored []byte) {
	if uint(i) >= uint(m.Len()) {
		panic(fmt.Sprintf("replay: pick %d where %d transitions are visible", i, m.Len()))
	}
	// Search for the last e with starts[e] <= i. An empty partition has the start of the next one.
	above := len(m.parts)
	for above-e > 1 {
		if mid := (e + above) / 2; m.starts[mid] <= i {
			e = mid
		} else {
			above = mid
		}
	}
	p := &m.parts[e]
	return e, p.steps.at(p.oldest + int64(i-m.starts[e]))
}

func (t *transition) terminated() bool { return t.end&env.Terminated != 0 }
