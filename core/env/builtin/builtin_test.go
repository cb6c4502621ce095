package builtin

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

const (
	prefix   = "atari/"
	numAtari = 104
)

// Atari games need their cartridges; these stand for all of them where they are at hand.
var someAtari = []string{"atari/breakout", "atari/pong", "atari/seaquest"}

func TestIDs(t *testing.T) {
	want := []string{"Acrobot-v1", "Bricks-v0", "CartPole-v1", "Catch-v0", "MountainCar-v0"}
	var small, atari []string
	for _, id := range env.IDs() {
		if strings.HasPrefix(id, prefix) {
			atari = append(atari, id)
		} else {
			small = append(small, id)
		}
	}
	if !slices.Equal(small, want) {
		t.Errorf("%v, want %v", small, want)
	}
	if len(atari) != numAtari {
		t.Errorf("%d Atari games, want %d", len(atari), numAtari)
	}
	for _, id := range someAtari {
		if !slices.Contains(atari, id) {
			t.Errorf("%s is missing", id)
		}
	}
}

// What core/env promises, for every built-in environment.

// each runs f for the environments that need no files, and for some Atari games where a
// folder of cartridges is known.
func each(t *testing.T, f func(t *testing.T, id string)) {
	for _, id := range env.IDs() {
		if !strings.HasPrefix(id, prefix) {
			t.Run(id, func(t *testing.T) { f(t, id) })
		}
	}
	t.Run("atari", func(t *testing.T) {
		if os.Getenv("PACELINE_ROMS_DIR") == "" && os.Getenv("ALE_ROMS_DIR") == "" {
			t.Skipf("left out: %s, as neither PACELINE_ROMS_DIR nor ALE_ROMS_DIR names a folder of cartridges", strings.Join(someAtari, ", "))
		}
		if _, err := env.Make(someAtari[0], nil); err != nil && strings.Contains(err.Error(), "without a C compiler") {
			t.Skipf("left out: %s; %v", strings.Join(someAtari, ", "), err)
		}
		for _, id := range someAtari {
			t.Run(strings.TrimPrefix(id, prefix), func(t *testing.T) { f(t, id) })
		}
	})
}

func make2(t *testing.T, id string) (a, b env.Saver) {
	t.Helper()
	for _, e := range []*env.Saver{&a, &b} {
		made, err := env.Make(id, nil)
		if err != nil {
			t.Fatal(err)
		}
		*e = made.(env.Saver)
	}
	return a, b
}

// player drives an environment by its own actions and keeps what it shows.
type player struct {
	env.Saver
	actions *rand.Rand
	obs     []byte
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
		p.reward, p.end, err = p.Step(int32(p.actions.IntN(p.Spec().Action.N)), p.obs)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newPlayer(e env.Saver) *player {
	return &player{Saver: e, actions: rand.New(rand.NewPCG(1, 2)), obs: make([]byte, e.Spec().Obs.Bytes())}
}

func TestSpecs(t *testing.T) {
	each(t, func(t *testing.T, id string) {
		e, _ := make2(t, id)
		s := e.Spec()
		if err := s.Check(); err != nil || s.ID != id {
			t.Errorf("%s: %q, %v", id, s.ID, err)
		}
		if _, _, err := e.Step(0, make([]byte, s.Obs.Bytes())); err == nil {
			t.Errorf("%s: a step before the first reset was accepted", id)
		}
		p := newPlayer(e)
		ends := 0
		for range 3000 {
			if p.advance(t); p.end != 0 {
				ends++
			}
			if s.Obs.DType != env.Float32 {
				continue
			}
			for k, n := range s.Obs.Low {
				x := math.Float32frombits(binary.NativeEndian.Uint32(p.obs[4*k:]))
				if !(x >= n && x <= s.Obs.High[k]) {
					t.Fatalf("%s: component %d is %v, outside [%v, %v]", id, k, x, n, s.Obs.High[k])
				}
			}
		}
		if ends == 0 {
			t.Errorf("%s: no episode ended in 3000 steps", id)
		}
	})
}

// One seed, one future; another seed, another; seeding again starts over.
func TestSeeds(t *testing.T) {
	each(t, func(t *testing.T, id string) {
		e, f := make2(t, id)
		run := func(e env.Saver, seed uint64) (record []byte) {
			e.Seed(seed)
			p := newPlayer(e)
			for range 600 {
				p.advance(t)
				record = append(binary.LittleEndian.AppendUint32(append(record, byte(p.end)), math.Float32bits(p.reward)), p.obs...)
			}
			return record
		}
		first := run(e, 7)
		if !bytes.Equal(first, run(f, 7)) {
			t.Errorf("%s: one seed, two futures", id)
		}
		if bytes.Equal(first, run(f, 8)) {
			t.Errorf("%s: two seeds, one future", id)
		}
		if !bytes.Equal(first, run(e, 7)) {
			t.Errorf("%s: seeding again did not start over", id)
		}
	})
}

// From any saved state, a fresh environment goes on with the same bits.
func TestSaveRestore(t *testing.T) {
	each(t, func(t *testing.T, id string) {
		a, _ := make2(t, id)
		p := newPlayer(a)
		a.Seed(3)
		for k := range 400 {
			state, err := a.Save() // also before the first reset
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
				// The old one goes on by itself on a copy of the stream of actions.
				q, r := *p, *p
				q.Saver, q.obs = fresh, slices.Clone(p.obs)
				q.actions, r.actions = rand.New(rand.NewPCG(uint64(k), 0)), rand.New(rand.NewPCG(uint64(k), 0))
				for range 30 {
					q.advance(t)
					r.advance(t)
					if q.reward != r.reward || q.end != r.end || !bytes.Equal(q.obs, r.obs) {
						t.Fatalf("%s: the restored one goes another way", id)
					}
				}
				*p = r
			}
			p.advance(t)
		}
	})
}

func TestStepsAllocateNothing(t *testing.T) {
	each(t, func(t *testing.T, id string) {
		e, _ := make2(t, id)
		p := newPlayer(e)
		if got := testing.AllocsPerRun(1000, func() { p.advance(t) }); got != 0 {
			t.Errorf("%s: %v allocations a step, want 0", id, got)
		}
	})
}
