package replay

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/rng"
)

// Tails says which tails can be drawn: transitions whose segment ends before n steps.
type Tails uint8

const (
	// KeepTails draws all tails. The discount of a tail of m steps is gamma^m, or 0 if it terminates.
	KeepTails Tails = iota
	// DropTruncated draws the tails of terminated segments only, as Dopamine.
	DropTruncated
	// DropTails draws no tails, as CleanRL.
	DropTails
)

// TailNames are the names of Tails, as settings have them.
var TailNames = []string{KeepTails: "keep", DropTruncated: "drop_truncated", DropTails: "drop"}

// drawable keeps which visible transitions can be drawn as the first of n steps. A transition is
// ripe if its n steps are visible or its segment has ended. A Sampler draws ripe transitions that
// are not dropped tails. The transitions of a partition ripen in their order, so its ripe
// transitions come first.
//
// Each transition that may be visible has a leaf, a number below Memory.leaves(). Leaves are
// ordered by position in the ring and then by environment, so neighbours come from different
// environments.
type drawable struct {
	memory *Memory
	n      int64
	tails  Tails
	// changed is called when a transition can be drawn, or no longer.
	changed func(leaf int, can bool)

	counted []counted
	shift   []int64  // by environment: its transition 0 has this position in the ring
	before  []int    // before[e]: ripe transitions of environments below e; last entry: of all
	can     []uint64 // a bit for each leaf: the transition can be drawn
	len     int      // bits that are set

	visible uint64 // Memory.changes as of the latest flushed
	epoch   uint64 // Memory.epoch as of then
}

// counted are the ripe transitions of a partition, oldest to ripe-1, as of the latest flushed.
type counted struct{ oldest, ripe int64 }

func newDrawable(m *Memory, n int, tails Tails, changed func(leaf int, can bool)) (*drawable, error) {
	least := m.cfg.Capacity / m.cfg.Envs
	if n < 1 || n > least {
		return nil, fmt.Errorf("n_steps: %d, must be 1 to %d, the transitions of an environment", n, least)
	}
	s := &drawable{memory: m, n: int64(n), tails: tails, changed: changed, counted: make([]counted, m.cfg.Envs),
		shift: make([]int64, m.cfg.Envs), before: make([]int, m.cfg.Envs+1), can: make([]uint64, (m.cfg.leaves()+63)/64), visible: m.changes - 1, epoch: m.epoch}
	s.flushed()
	return s, nil
}

// leaves is the number of leaves of drawable.
func (cfg *Config) leaves() int { return int(cfg.capacity(0)) * cfg.Envs }

// flushed takes in what has become visible, and what has been evicted.
func (s *drawable) flushed() {
	m := s.memory
	if s.visible == m.changes {
		return
	}
	if s.epoch != m.epoch {
		s.forget()
		clear(s.shift)
		s.epoch = m.epoch
	}
	for e := range m.parts {
		p, c := &m.parts[e], &s.counted[e]
		for k := c.oldest; k < min(c.ripe, p.oldest); k++ {
			s.set(s.leaf(e, k), false)
		}
		ripe := p.ripe(s.n)
		for k := max(c.ripe, p.oldest); k < ripe; k++ {
			s.set(s.leaf(e, k), !p.dropped(k, s.n, s.tails))
		}
		*c = counted{p.oldest, ripe}
		s.before[e+1] = s.before[e] + int(ripe-p.oldest)
	}
	s.visible = m.changes
}

// forget makes no transition drawable, and the next flushed count all again.
func (s *drawable) forget() {
	for leaf := range s.memory.cfg.leaves() {
		s.set(leaf, false)
	}
	clear(s.counted)
	s.visible--
}

// current panics if flushed has not followed the latest change of the visible transitions.
func (s *drawable) current() {
	if s.visible != s.memory.changes {
		panic("replay: a Sampler before Flushed")
	}
}

// check is current, and panics if no transition can be drawn.
func (s *drawable) check() {
	if s.current(); s.len == 0 {
		panic("replay: Draw where no transition can be drawn")
	}
}

func (s *drawable) set(leaf int, can bool) {
	word, bit := &s.can[leaf/64], uint64(1)<<(leaf%64)
	if (*word&bit != 0) == can {
		return
	}
	*word ^= bit
	if can {
		s.len++
	} else {
		s.len--
	}
	if s.changed != nil {
		s.changed(leaf, can)
	}
}

func (s *drawable) has(leaf int) bool { return s.can[leaf/64]>>(leaf%64)&1 != 0 }

// position is the position of transition k of environment e in the ring of its leaves.
func (s *drawable) position(e int, k int64) int64 {
	return (k + s.shift[e]) % s.memory.parts[e].capacity
}

// leaf is the leaf of transition k of environment e.
func (s *drawable) leaf(e int, k int64) int {
	return int(s.position(e, k))*len(s.memory.parts) + e
}

// leafOf is the leaf of a pick.
func (s *drawable) leafOf(pick int) int {
	e := s.memory.environment(pick)
	return s.leaf(e, s.memory.parts[e].oldest+int64(pick-s.memory.firstPick[e]))
}

// pick is the pick of a leaf whose transition is visible.
func (s *drawable) pick(leaf int) int {
	m := s.memory
	e, at := leaf%len(m.parts), int64(leaf/len(m.parts))
	p := &m.parts[e]
	age := at - s.position(e, p.oldest)
	if age < 0 {
		age += p.capacity
	}
	return m.firstPick[e] + int(age)
}

// uniform draws a transition with equal probabilities, by one number and one more for each dropped
// tail that it meets.
func (s *drawable) uniform(draws *rng.Stream) (leaf, pick int) {
	m := s.memory
	for {
		i := draws.Intn(s.before[len(m.parts)])
		e := lastBelow(s.before, i)
		age := i - s.before[e]
		if leaf = s.leaf(e, m.parts[e].oldest+int64(age)); s.has(leaf) {
			return leaf, m.firstPick[e] + age
		}
	}
}

// ripe returns the first visible transition that is not ripe; p.visible if all are.
func (p *partition) ripe(n int64) int64 {
	first := max(p.oldest, p.visible-n+1)
	for k := p.visible - 1; k >= first; k-- {
		if decode(p.steps.at(k)).end != 0 {
			return k + 1
		}
	}
	return first
}

// dropped reports whether ripe transition k is a tail that is not drawn.
func (p *partition) dropped(k, n int64, tails Tails) bool {
	if tails == KeepTails {
		return false
	}
	for i := k; i < k+n-1; i++ {
		if t := decode(p.steps.at(i)); t.end != 0 {
			return tails == DropTails || !t.terminated()
		}
	}
	return false
}
