package replay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/rng"
)

// operations are those of play. A corpus stores their bytes: changed bounds would change its
// meaning.
var operations = []struct {
	below int // the share of each operation of 256: bytes from the bound before it to this one
	name  string
	do    func(p *player, e int, op, arg byte)
}{
	{200, "step", (*player).step},
	{205, "cut", (*player).cut},
	{235, "flush", (*player).flush},
	{240, "grow", (*player).grow},
	{245, "save and load", (*player).saveAndLoad},
	{249, "insert", (*player).insert},
	{256, "draw", (*player).draw},
}

// Bytes of the operation "step".
const (
	restart  = 3   // bytes below begin a segment, also inside another one
	endsFrom = 170 // bytes from here on end the step as env.End(byte % 8) says,
	endsTo   = 196 // and end here
	oddFrom  = 196 // bytes from here on have an odd next observation, which is not a stack
)

// player is a memory and the reference, on which operations run.
type player struct {
	*testing.T
	cfg Config
	odd bool // some observations are no stacks

	m      *Memory
	ref    *reference
	mirror *Mirror
	there  *copied // what the mirror has copied
	drawn  []*drawable

	r     *rand.Rand
	draws uint64 // operations "draw" so far: the seed of the latest
	width int    // bytes of a frame
	stack int
}

// play runs operations on a memory and on the reference. Each pair of bytes in ops is one
// operation.
func play(t *testing.T, cfg Config, ops []byte, odd bool) {
	m, err := New(cfg)
	check(t, err)
	stack := max(1, cfg.Obs.FrameStack)
	p := &player{
		T: t, cfg: cfg, odd: odd, m: m, ref: newReference(cfg.Envs, cfg.Capacity), mirror: m.NewMirror(), there: &copied{}, drawn: drawablesOf(t, m),
		r: rand.New(rand.NewPCG(1, uint64(len(ops)))), width: m.obsBytes / stack, stack: stack,
	}
	defer func() { p.m.Close() }()
	for ; len(ops) >= 2; ops = ops[2:] {
		op, arg := ops[0], ops[1]
		for _, o := range operations {
			if int(op) < o.below {
				o.do(p, int(arg)%cfg.Envs, op, arg)
				break
			}
		}
	}
	p.flush(0, 0, 0)
}

func (p *player) random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(p.r.Uint32())
	}
	return b
}

// unchanged fails if f, an operation, changes what is visible.
func (p *player) unchanged(name string, f func()) {
	before := p.m.Hash()
	if f(); p.m.Hash() != before {
		p.Fatalf("%s changed what is visible", name)
	}
}

// step adds a step, or the first observation of a segment.
func (p *player) step(e int, op, _ byte) {
	m, ref, r := p.m, p.ref, p.r
	// Only steps need room in advance; a Begin after an end always has it.
	if ref.pending[e] != nil && m.Room(e) == 0 {
		p.unchanged("Grow", func() { check(p, m.Grow(1)) })
		if m.Room(e) == 0 {
			p.Fatal("nothing free after Grow")
		}
	}
	if ref.pending[e] == nil || op < restart {
		obs := p.random(m.obsBytes)
		if r.IntN(2) == 0 {
			clear(obs[:(p.stack-1)*p.width]) // padding
		}
		check(p, m.Begin(e, obs))
		ref.begin(e, obs)
		return
	}
	next := append(bytes.Clone(ref.pending[e][p.width:]), p.random(p.width)...)
	if p.odd && op >= oddFrom {
		// one byte; the newest frame may have any value
		next[r.IntN(len(next))] ^= 1 + byte(r.IntN(255))
	}
	end := env.End(0)
	if op >= endsFrom && op < endsTo {
		end = env.End(op % 8)
	}
	action, reward, version := int32(r.Uint32()>>1), r.Float32(), r.Uint64()
	mask := make([]byte, p.cfg.Actions)
	for a := range mask {
		mask[a] = byte(r.IntN(2))
	}
	if p.cfg.Actions > 0 {
		mask[r.IntN(p.cfg.Actions)] = 1
		action %= int32(p.cfg.Actions)
	}
	given := next
	if end.Over() && end&(env.Terminated|env.Lost) != 0 && r.IntN(2) == 0 {
		given = nil
	}
	p.unchanged("Add", func() {
		err := addMasked(m, e, action, reward, version, end, given, mask)
		if errors.Is(err, ErrNotAStack) && p.odd {
			p.storeWhole(e)
			err = addMasked(m, e, action, reward, version, end, given, mask)
		}
		check(p, err)
	})
	ref.add(e, action, reward, version, end, next, mask)
}

func (p *player) storeWhole(e int) {
	before := p.m.Bytes()
	more, err := p.m.StoreWhole()
	check(p, err)
	if more != p.m.Bytes()-before {
		p.Fatalf("StoreWhole reports %d bytes more, there are %d", more, p.m.Bytes()-before)
	}
	compare(p.T, p.m, p.ref)
	if p.m.Room(e) == 0 {
		p.Fatal("nothing free after StoreWhole")
	}
}

func (p *player) cut(e int, _, _ byte) {
	p.unchanged("Cut", func() { p.m.Cut(e) })
	p.ref.cut(e)
}

func (p *player) flush(int, byte, byte) {
	p.m.Flush()
	p.ref.flush()
	compare(p.T, p.m, p.ref)
	compareDrawables(p.T, p.drawn, p.ref)
}

// grow enlarges rings that have room.
func (p *player) grow(e int, _, arg byte) {
	part := &p.m.parts[e]
	check(p, part.frames.grow(part.oldestFrame, part.nextFrame, part.frames.slots+int64(arg%32)))
	check(p, part.steps.grow(part.oldest, part.nextStep, part.steps.slots+int64(arg%8)))
	p.m.relocations++
	compare(p.T, p.m, p.ref)
}

// saveAndLoad goes on with another memory that has loaded this one.
func (p *player) saveAndLoad(_ int, _, arg byte) {
	data := saved(p.T, p.m)
	other := p.cfg
	other.Window = 1 + int(arg)
	m, err := New(other)
	check(p, err)
	check(p, load(m, data))
	p.m.Close()
	p.m = m
	p.mirror, p.drawn = m.NewMirror(), drawablesOf(p.T, m)
	compareDrawables(p.T, p.drawn, p.ref)
	for e := range p.cfg.Envs {
		if m.Room(e) == 0 {
			p.Fatal("nothing free after Load")
		}
	}
	compare(p.T, m, p.ref)
}

// insert adds a transition from outside.
func (p *player) insert(e int, _, arg byte) {
	m := p.m
	if m.Room(e) < 2 {
		check(p, m.Grow(2))
		if m.Room(e) < 2 {
			p.Fatal("Grow(2) leaves less than two steps free")
		}
	}
	obs := p.random(m.obsBytes)
	next := append(bytes.Clone(obs[p.width:]), p.random(p.width)...)
	end := env.Truncated
	if arg%2 == 0 {
		end = env.Terminated
	}
	mask := bytes.Repeat([]byte{1}, p.cfg.Actions)
	s := experience.Step{Action: make([]int32, 1), Reward: p.r.Float32(), End: end & env.Terminated, NextMask: mask, Updates: p.r.Uint64()}
	p.unchanged("Insert", func() {
		if err := m.Insert(e, &s, obs, next[1:]); err == nil && end == env.Truncated {
			p.Fatal("a short observation was inserted")
		}
		if end == env.Truncated { // an observation after a termination is not checked
			check(p, m.Insert(e, &s, obs, next))
		}
	})
	p.ref.insert(e, s.Action[0], s.Reward, s.Updates, end, obs, next, mask)
}

// draw draws a minibatch, if there are transitions.
func (p *player) draw(int, byte, byte) {
	if p.m.Len() == 0 {
		return
	}
	p.draws++
	stream := func() *rng.Stream { return rng.New(p.draws, "replay", 0) }
	b := p.m.Minibatch(5)
	draw(p.m, stream(), b, nil)
	same, flat := stream(), p.ref.flat()
	for row := range 5 {
		compareRow(p.T, p.m, b, row, flat[same.Intn(len(flat))])
	}
	compareMirror(p.T, p.mirror, p.there, b, stream())
}
