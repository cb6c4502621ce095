// Package envtest is the suite that every environment must pass. It tests the promises of
// core/env. Tests of an environment call Run; core/env/builtin calls Run for all environments of
// the library. Corridor is an example of an environment, Walled of one with action masks.
package envtest

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// Run runs the whole suite on the environment registered under id, which must be an
// env.Saver.
func Run(t *testing.T, id string) {
	for name, test := range map[string]func(*testing.T, string){
		"spec": spec, "seeds": seeds, "save and restore": saveRestore, "steps allocate nothing": stepsAllocateNothing,
	} {
		t.Run(name, func(t *testing.T) { test(t, id) })
	}
}

func make2(t *testing.T, id string) (a, b env.Saver) {
	t.Helper()
	for _, e := range []*env.Saver{&a, &b} {
		made, err := env.Make(id, nil)
		if err != nil {
			t.Fatal(err)
		}
		saver, ok := made.(env.Saver)
		if !ok {
			t.Fatalf("%s: %T, must be an env.Saver", id, made)
		}
		*e = saver
	}
	return a, b
}

// player steps an environment with random actions and keeps the latest results.
type player struct {
	env.Saver
	actions *rand.Rand
	obs     []byte
	mask    []byte // nil: the environment has no masks
	action  env.ActionSpec
	ints    []int32
	box     []float32
	reward  float32
	end     env.End
	ready   bool
}

func (p *player) advance(t *testing.T) {
	t.Helper()
	var err error
	if !p.ready || p.end != 0 {
		p.ready, p.reward, p.end = true, 0, 0
		err = p.Reset(p.obs)
	} else {
		p.draw()
		p.reward, p.end, err = p.action.Step(p.Saver, p.ints, p.box, p.obs)
	}
	if err == nil && p.mask != nil && p.end&env.Terminated == 0 {
		err = env.ReadMask(p.Saver, &p.action, p.mask)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// draw draws an action: allowed values of all branches, and a box of which some entries are at a
// bound.
func (p *player) draw() {
	first := 0
	for b := range p.ints {
		n := p.action.Branch(b)
		p.ints[b] = int32(p.actions.IntN(n))
		for p.mask != nil && p.mask[first+int(p.ints[b])] == 0 {
			p.ints[b] = int32(p.actions.IntN(n))
		}
		first += n
	}
	for k := range p.box {
		p.box[k] = (3*p.actions.Float32() - 1) * p.action.High[k]
	}
	p.action.Clip(p.box, p.box)
}

func newPlayer(e env.Saver) *player {
	s := e.Spec()
	p := &player{Saver: e, actions: rand.New(rand.NewPCG(1, 2)), obs: make([]byte, s.Obs.Bytes()), action: s.Action}
	p.ints, p.box = make([]int32, s.Action.Ints()), make([]float32, s.Action.Floats())
	if s.Masks {
		p.mask = make([]byte, s.Action.Logits())
	}
	return p
}

func spec(t *testing.T, id string) {
	e, _ := make2(t, id)
	s := e.Spec()
	if err := s.Check(); err != nil || s.ID != id {
		t.Errorf("%s: %q, %v", id, s.ID, err)
	}
	p := newPlayer(e)
	if _, _, err := s.Action.Step(e, p.ints, p.box, p.obs); err == nil {
		t.Errorf("%s: a step before the first reset was accepted", id)
	}
	ends := 0
	for range 3000 {
		if p.advance(t); p.end != 0 {
			ends++
		}
		if s.Obs.DType != env.Float32 {
			continue
		}
		for k := range s.Obs.Len() {
			low, high := s.Obs.Low[k%len(s.Obs.Low)], s.Obs.High[k%len(s.Obs.High)] // one entry each, or one for all
			if x := math.Float32frombits(binary.NativeEndian.Uint32(p.obs[4*k:])); !(x >= low && x <= high) {
				t.Fatalf("%s: component %d is %v, outside [%v, %v]", id, k, x, low, high)
			}
		}
	}
	if ends == 0 {
		t.Errorf("%s: no episode ended in 3000 steps", id)
	}
}

// Equal seeds give equal futures, and different seeds different futures. Seeding again starts over.
func seeds(t *testing.T, id string) {
	e, f := make2(t, id)
	run := func(e env.Saver, seed uint64) (record []byte) {
		e.Seed(seed)
		p := newPlayer(e)
		for range 600 {
			p.advance(t)
			record = append(record, p.mask...)
			record = append(binary.LittleEndian.AppendUint32(append(record, byte(p.end)), math.Float32bits(p.reward)), p.obs...)
		}
		return record
	}
	first := run(e, 7)
	if !bytes.Equal(first, run(f, 7)) {
		t.Errorf("%s: equal seeds, different futures", id)
	}
	if bytes.Equal(first, run(f, 8)) {
		t.Errorf("%s: different seeds, equal futures", id)
	}
	if !bytes.Equal(first, run(e, 7)) {
		t.Errorf("%s: seeding again did not start over", id)
	}
}

// A new environment goes on from any saved state with the same bits.
func saveRestore(t *testing.T, id string) {
	a, _ := make2(t, id)
	p := newPlayer(a)
	a.Seed(3)
	for k := range 400 {
		state, err := a.Save() // the first time before any reset
		if err != nil {
			t.Fatal(err)
		}
		if k%5 == 0 {
			fresh, _ := make2(t, id)
			if err := fresh.Restore(state); err != nil {
				t.Fatal(err)
			}
			again, err := fresh.Save()
			if err != nil || !bytes.Equal(again, state) {
				t.Fatalf("%s: saved again, the state differs", id)
			}
			// The original and the restored environment step with equal actions.
			q, r := *p, *p
			q.Saver, q.obs, q.mask = fresh, slices.Clone(p.obs), slices.Clone(p.mask)
			q.actions, r.actions = rand.New(rand.NewPCG(uint64(k), 0)), rand.New(rand.NewPCG(uint64(k), 0))
			for range 30 {
				q.advance(t)
				r.advance(t)
				if q.reward != r.reward || q.end != r.end || !bytes.Equal(q.obs, r.obs) || !bytes.Equal(q.mask, r.mask) {
					t.Fatalf("%s: the restored environment goes on differently", id)
				}
			}
			*p = r
		}
		p.advance(t)
	}
}

func stepsAllocateNothing(t *testing.T, id string) {
	e, _ := make2(t, id)
	p := newPlayer(e)
	if got := testing.AllocsPerRun(1000, func() { p.advance(t) }); got != 0 {
		t.Errorf("%s: %v allocations a step, want 0", id, got)
	}
}
