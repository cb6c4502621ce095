package replay

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/paceline-rl/paceline/core/portable"
	"github.com/paceline-rl/paceline/core/rng"
)

// Prioritised draws transitions by priorities that follow their latest errors, as a Formula says.
// One set of priorities covers all environments. Their masses are summed in float64; CuLE's
// priorities, which only order transitions, are float32. (BTR draws a minibatch from the float32
// tree of one environment, with weights within that tree.)
//
// A transition that becomes drawable in Flushed has the priority of those that were never drawn, as
// of then. Update changes priorities at once, and later draws of the same window see them; with
// Priorities.Deferred they change at the next Flushed, so that draws do not depend on updates. If
// all priorities are 0, all transitions are equally probable.
type Prioritised struct {
	cfg      Priorities
	rule     rule
	drawable *drawable
	masses   masses
	largest  float64 // the largest priority so far, at least 1

	latest []drawn  // by the latest Draw
	scale  float64  // N over the sum of all masses as of then; 0: all masses were 0
	marked []uint64 // a bit for each leaf: drawn in this minibatch; nil: these need not differ

	waiting []uint64  // a bit for each leaf: its error waits for the next Flushed; nil: not Deferred
	errors  []float32 // of each leaf with a bit
}

// drawn is a row of a Draw.
type drawn struct {
	leaf int
	mass float64
}

// masses are numbers of leaves, in proportion to which leaves are drawn: a sumTree or ranks.
type masses interface {
	get(leaf int) (priority float64)
	set(leaf int, priority float64)
	remove(leaf int)
	total() float64
	// find returns the leaf in which x lies, 0 <= x <= total, and its mass, above 0.
	find(x float64) (leaf int, mass float64)
	// mass returns the mass of a leaf.
	mass(leaf int) float64
}

// NewPrioritised returns a Prioritised for the transitions of m.
func NewPrioritised(m *Memory, c Priorities) (*Prioritised, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := m.affords(PrioritiesBytes(m.cfg, c), "of memory for priorities"); err != nil {
		return nil, err
	}
	p := &Prioritised{cfg: c, rule: rules[c.Formula], largest: 1}
	leaves := m.cfg.leaves()
	if p.rule.ranked && leaves > math.MaxUint32 {
		return nil, fmt.Errorf("buffer_size: %d, must be below %d where prioritized is %s", m.cfg.Capacity, math.MaxUint32-m.cfg.Envs, c.Formula)
	}
	if p.rule.ranked {
		p.masses = newRanks(leaves, c.Alpha)
	} else {
		p.masses = newSumTree(leaves)
	}
	if p.rule.distinct {
		p.marked = make([]uint64, (leaves+63)/64)
	}
	if c.Deferred {
		p.waiting, p.errors = make([]uint64, (leaves+63)/64), make([]float32, leaves)
	}
	var err error
	p.drawable, err = newDrawable(m, c.N, c.Tails, func(leaf int, can bool) {
		if can {
			p.masses.set(leaf, p.fresh())
		} else {
			p.masses.remove(leaf)
		}
	})
	return p, err
}

// PrioritiesBytes returns the memory of a Prioritised.
func PrioritiesBytes(m Config, c Priorities) int64 {
	leaves := int64(m.leaves())
	n := leaves/8 + 32*int64(m.Envs)
	if rules[c.Formula].distinct {
		n += leaves / 8
	}
	if c.Deferred {
		n += leaves/8 + 4*leaves
	}
	if rules[c.Formula].ranked {
		return n + ranksBytes(leaves)
	}
	return n + sumTreeBytes(leaves)
}

// fresh is the priority of transitions that were never drawn.
func (p *Prioritised) fresh() float64 {
	if p.rule.fresh > 0 {
		return p.rule.fresh
	}
	return p.largest
}

func (p *Prioritised) Flushed() {
	for k, word := range p.waiting { // leaves are those of the memory as it was
		for ; word != 0; word &= word - 1 {
			leaf := 64*k + bits.TrailingZeros64(word)
			p.set(leaf, p.errors[leaf])
		}
	}
	clear(p.waiting)
	p.drawable.flushed()
}

func (p *Prioritised) Len() int { return p.drawable.len }

func (p *Prioritised) Has(pick int) bool { return p.drawable.has(p.drawable.leafOf(pick)) }

func (p *Prioritised) Draw(draws *rng.Stream, picks []int) {
	p.drawable.check()
	total := p.masses.total()
	p.scale = 0
	if total > 0 {
		p.scale = float64(p.drawable.len) / total
	}
	p.latest = p.latest[:0]
	for i := range picks {
		d := p.one(draws, i, len(picks), total)
		if p.marked != nil {
			d = p.distinct(d, draws, total)
		}
		p.latest = append(p.latest, d)
		picks[i] = p.drawable.pick(d.leaf)
	}
	if p.marked != nil {
		for _, d := range p.latest {
			p.marked[d.leaf/64] = 0
		}
	}
}

// one makes draw i of n.
func (p *Prioritised) one(draws *rng.Stream, i, n int, total float64) drawn {
	if total == 0 || p.rule.mix > 0 && draws.Float64() < p.rule.mix {
		leaf, _ := p.drawable.uniform(draws)
		return drawn{leaf, p.masses.mass(leaf)}
	}
	u := draws.Float64()
	if p.rule.stratified {
		u = (float64(i) + u) / float64(n)
	}
	leaf, mass := p.masses.find(u * total)
	return drawn{leaf, mass}
}

// tries is how often a transition that the minibatch has already is drawn again. After that it is
// taken, because there may be fewer transitions than rows.
const tries = 100

// distinct returns d, or another draw if the minibatch has its transition already.
func (p *Prioritised) distinct(d drawn, draws *rng.Stream, total float64) drawn {
	for range tries {
		if p.marked[d.leaf/64]>>(d.leaf%64)&1 == 0 {
			break
		}
		d = p.one(draws, 0, 1, total)
	}
	p.marked[d.leaf/64] |= 1 << (d.leaf % 64)
	return d
}

func (p *Prioritised) Weights(beta float64, weights []float32) {
	if len(weights) != len(p.latest) {
		panic(fmt.Sprintf("replay: Weights of %d rows after Draw of %d", len(weights), len(p.latest)))
	}
	least := p.base(0)
	for i := range p.latest {
		least = min(least, p.base(i))
	}
	for i := range weights {
		weights[i] = float32(portable.Pow(least/p.base(i), beta))
	}
}

// base returns what the weight of row i is a power of, times a number that is the same for all
// rows: N P, or the priority.
func (p *Prioritised) base(i int) float64 {
	mass := p.latest[i].mass
	switch {
	case p.rule.offset > 0:
		return mass + p.rule.offset
	case p.scale == 0:
		return 1
	}
	return float64(float64((1-p.rule.mix)*p.scale)*mass) + p.rule.mix
}

func (p *Prioritised) Update(picks []int, errors []float32) {
	p.drawable.check()
	if len(errors) != len(picks) {
		panic(fmt.Sprintf("replay: Update of %d transitions with %d errors", len(picks), len(errors)))
	}
	for i, pick := range picks {
		leaf := p.drawable.leafOf(pick)
		if !p.drawable.has(leaf) {
			panic(fmt.Sprintf("replay: Update of transition %d, which cannot be drawn", pick))
		}
		p.take(leaf, errors[i])
	}
}

// take changes the priority of a leaf that can be drawn, or with Deferred keeps the error for the
// next Flushed.
func (p *Prioritised) take(leaf int, err float32) {
	if !p.cfg.Deferred {
		p.set(leaf, err)
		return
	}
	checkError(err)
	p.waiting[leaf/64] |= 1 << (leaf % 64)
	p.errors[leaf] = err
}

// waits reports whether an error of a leaf waits for the next Flushed.
func (p *Prioritised) waits(leaf int) bool {
	return p.cfg.Deferred && p.waiting[leaf/64]>>(leaf%64)&1 == 1
}

// set gives a leaf that can be drawn the priority of an error.
func (p *Prioritised) set(leaf int, err float32) {
	priority := p.cfg.priority(err)
	p.largest = max(p.largest, priority)
	p.masses.set(leaf, priority)
}
