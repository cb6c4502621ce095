package vec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// maskedCounter is a counter whose mask is a function of its observation. Mask after a termination
// and an action that is not allowed are errors.
type maskedCounter struct {
	*counter
	noneAllowed func(g *maskedCounter) bool // the mask allows no action
	over        bool
}

func maskAt(episode, step int) []byte {
	mask := []byte{1, 1, 1}
	mask[(episode+step)%3] = 0
	return mask
}

func (g *maskedCounter) Mask(mask []byte) error {
	if g.over {
		return errors.New("asked after a termination")
	}
	copy(mask, maskAt(g.episode, g.step))
	if g.noneAllowed != nil && g.noneAllowed(g) {
		clear(mask)
	}
	return nil
}

func (g *maskedCounter) Reset(obs []byte) error {
	g.over = false
	return g.counter.Reset(obs)
}

func (g *maskedCounter) Step(action int32, obs []byte) (float32, env.End, error) {
	if maskAt(g.episode, g.step)[action] == 0 {
		return 0, 0, errors.New("not allowed")
	}
	reward, end, err := g.counter.Step(action, obs)
	g.over = end&env.Terminated != 0
	return reward, end, err
}

func maskedVec(t *testing.T, n, threads int, mode Autoreset) (*Vec, *Rows, []*maskedCounter) {
	t.Helper()
	gs := make([]*maskedCounter, n)
	v, rows := newVec(t, func(i int) (env.Env, error) {
		gs[i] = &maskedCounter{counter: newCounter(2+i%3, []env.End{env.Truncated, env.Terminated, 3}[i%3])}
		gs[i].spec.Masks = true
		return gs[i], nil
	}, n, threads, mode)
	rows.AddMasks(3)
	return v, rows, gs
}

// maskOf returns the mask of the observation in row i.
func maskOf(obs []byte, i int) []byte {
	n := func(k int) int {
		return int(math.Float32frombits(binary.NativeEndian.Uint32(obs[8*i+4*k:])))
	}
	return maskAt(n(0), n(1))
}

// compareMasks compares the masks of a row with its observations.
func compareMasks(t *testing.T, mode Autoreset, rows *Rows, i int) {
	t.Helper()
	want := maskOf(rows.Obs, i)
	if mode != SameStep && rows.Ends[i]&env.Terminated != 0 {
		want = []byte{1, 1, 1}
	}
	if got := row(rows.Masks, i, 3); !bytes.Equal(got, want) {
		t.Fatalf("%v, row %d (%s, end %d): mask %v, want %v", mode, i, show(rows.Obs, i), rows.Ends[i], got, want)
	}
	if got := row(rows.FinalMasks, i, 3); mode == SameStep && rows.Ends[i] == env.Truncated && !bytes.Equal(got, maskOf(rows.FinalObs, i)) {
		t.Fatalf("%v, row %d: final mask %v of %s", mode, i, got, show(rows.FinalObs, i))
	}
}

// The mask of a row is that of its observation, in every mode, in lockstep and asynchronously.
func TestMasksBelongToObservations(t *testing.T) {
	r := rng.New(1, "test", 0)
	for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
		v, rows, _ := maskedVec(t, 5, 2, mode)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		actions := make([]int32, v.Len())
		for range 60 {
			over := make([]bool, v.Len())
			any := false
			for i := range v.Len() {
				compareMasks(t, mode, rows, i)
				actions[i] = env.RandomAction(3, row(rows.Masks, i, 3), r)
				over[i] = rows.Ends[i].Over()
				any = any || over[i]
			}
			if mode == Disabled && any {
				if err := v.Reset(rows, over); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := v.Step(Actions{Discrete: actions}, rows); err != nil {
				t.Fatal(err)
			}
		}

		w, _, _ := maskedVec(t, 5, 2, mode)
		a, err := w.Async(2, 3, -1)
		if err != nil {
			t.Fatal(err)
		}
		offer := func() {
			b := NewRows(w.Spec().Obs, 2)
			b.AddMasks(3)
			b.IDs = make([]int32, 2)
			if err := a.Offer(b); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			offer()
		}
		if err := a.SendReset([]int32{0, 1, 2, 3, 4}, nil); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			b, err := a.Recv(-1)
			if err != nil {
				t.Fatal(err)
			}
			offer()
			for k, id := range b.IDs {
				compareMasks(t, mode, b, k)
				if mode == Disabled && b.Ends[k].Over() {
					err = a.SendReset([]int32{id}, nil)
				} else {
					err = a.Send([]int32{id}, Actions{Discrete: []int32{env.RandomAction(3, row(b.Masks, k, 3), r)}})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		a.Drain()
	}
}

// A mask that allows no action is a failure of its environment. If it is the first mask of a new
// episode, the step that ended the previous episode counts.
func TestMasksThatAllowNothing(t *testing.T) {
	for _, where := range []int{0, 1} {
		v, rows, gs := maskedVec(t, 3, 2, SameStep)
		gs[1].length = 2
		gs[1].noneAllowed = func(g *maskedCounter) bool { return g.episode == 2-where && g.step == where }
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		var err error
		for k := 0; err == nil; k++ {
			actions := make([]int32, 3)
			for i := range actions {
				actions[i] = env.RandomAction(3, row(rows.Masks, i, 3), rng.New(uint64(k), "test", i))
			}
			err = v.Step(Actions{Discrete: actions}, rows)
		}
		var f *Failure
		if !errors.As(err, &f) || len(f.Rows) != 1 || f.Rows[0].Err.Index != 1 || f.Rows[0].Stepped != (where == 0) || !strings.Contains(err.Error(), "allows none of 3 actions") {
			t.Errorf("step %d: %v", where, err)
		}
	}
}

// Random first steps obey the masks.
func TestRandomFirstStepsObeyMasks(t *testing.T) {
	v, rows, gs := maskedVec(t, 20, 2, NextStep)
	if err := v.Decorrelate(50); err != nil {
		t.Fatal(err)
	}
	seeds := make([]uint64, 20)
	for i := range seeds {
		gs[i].length = 1000
		seeds[i] = uint64(i)
	}
	if err := v.Seed(seeds, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	for i := range seeds {
		compareMasks(t, NextStep, rows, i)
	}
}

func TestMasksAreRefused(t *testing.T) {
	v, rows, _ := counters(t, NextStep, 1, 3)
	rows.AddMasks(3)
	if err := v.Reset(rows, nil); err == nil || err.Error() != "rows.Masks: set, must be nil: Counter-v0 has no action masks" {
		t.Errorf("%v", err)
	}
	g, rows, _ := maskedVec(t, 2, 1, NextStep)
	rows.Masks = rows.Masks[1:]
	if err := g.Reset(rows, nil); err == nil || err.Error() != "rows.Masks: 5 bytes, must be 6 (2 rows of 3)" {
		t.Errorf("%v", err)
	}
	rows.Masks, rows.FinalMasks = nil, nil // masks are optional
	if err := g.Reset(rows, nil); err != nil {
		t.Error(err)
	}
	if _, err := New(func(int) (env.Env, error) {
		c := newCounter(3, env.Truncated)
		c.spec.Masks = true
		return c, nil
	}, 1, newPool(t, 1), NextStep); err == nil || !strings.Contains(err.Error(), "the environment has no Mask") {
		t.Errorf("%v", err)
	}
}
