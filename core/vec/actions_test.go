package vec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// branching is an infoCounter whose mask forbids one action of every branch that has others. It
// returns an error for an action that is not allowed.
type branching struct {
	*infoCounter
	noneOf func(b *branching) int // the branch of which the mask allows nothing, or -1
}

func (b *branching) Mask(mask []byte) error {
	none := -1
	if b.noneOf != nil {
		none = b.noneOf(b)
	}
	for k, n := range b.spec.Action.Branches {
		for a := range n {
			mask[a] = 1
			if n > 1 && int(a) == b.step%int(n) || k == none {
				mask[a] = 0
			}
		}
		mask = mask[n:]
	}
	return nil
}

func (b *branching) StepAction(branches []int32, box []float32, obs []byte) (float32, env.End, error) {
	for k, n := range b.spec.Action.Branches {
		if n > 1 && int(branches[k]) == b.step%int(n) {
			return 0, 0, errors.New("not allowed")
		}
	}
	return b.infoCounter.StepAction(branches, box, obs)
}

func branchingVec(t *testing.T, n, threads int, action env.ActionSpec) (v *Vec, rows *Rows, es []*branching) {
	t.Helper()
	v, rows = newVec(t, func(int) (env.Env, error) {
		es = append(es, &branching{infoCounter: newInfoCounter(4, action)})
		es[len(es)-1].spec.Masks = true
		return es[len(es)-1], nil
	}, n, threads, SameStep)
	rows.AddInfos(v.Infos())
	rows.AddMasks(action.Logits())
	return v, rows, es
}

// Steps in lockstep take the actions of every kind, row by row, and the masks have a part for every
// branch.
func TestLockstepTakesActionsOfEveryKind(t *testing.T) {
	for _, action := range []env.ActionSpec{branches, box, hybrid} {
		v, rows := newVec(t, func(int) (env.Env, error) { return newInfoCounter(1000, action), nil }, 6, 2, NextStep)
		rows.AddInfos(v.Infos())
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		ints, floats := action.Ints(), action.Floats()
		stream := rng.New(3, "explore", 0)
		for range 30 {
			var a Actions
			for range 6 {
				one := drawAction(stream, action)
				a.Discrete, a.Box = append(a.Discrete, one.Discrete...), append(a.Box, one.Box...)
			}
			if err := v.Step(a, rows); err != nil {
				t.Fatal(err)
			}
			for i := range 6 {
				var want [4]float32
				for b, x := range a.Discrete[i*ints : (i+1)*ints] {
					want[b] = float32(x)
				}
				copy(want[ints:], a.Box[i*floats:(i+1)*floats])
				var got [4]float32
				for k := range got {
					got[k] = math.Float32frombits(binary.NativeEndian.Uint32(rows.Infos[1][16*i+4*k:]))
				}
				if got != want {
					t.Fatalf("%v, environment %d: got %v, want %v", action, i, got, want)
				}
			}
		}
		a := Actions{Discrete: make([]int32, 6*ints), Box: make([]float32, 6*floats)}
		if n := testing.AllocsPerRun(100, func() { _ = v.Step(a, rows) }); n != 0 {
			t.Errorf("%v: %v allocations a step", action, n)
		}
	}
}

// Random actions obey the masks of all branches, in the steps of a caller and in random first
// steps.
func TestRandomActionsObeyTheMaskOfEveryBranch(t *testing.T) {
	for _, action := range []env.ActionSpec{{Branches: []int32{3, 1, 5}}, hybrid} {
		v, rows, es := branchingVec(t, 8, 2, action)
		if err := v.Decorrelate(30); err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			e.length = 1000
		}
		if err := errors.Join(v.Seed(seeds(8, 3), nil), v.Reset(rows, nil)); err != nil {
			t.Fatal(err)
		}
		started := 0
		for _, e := range es {
			started = max(started, e.step)
			e.length = 4
		}
		if started == 0 {
			t.Error("no random first step")
		}
		stream := rng.New(1, "explore", 0)
		a := Actions{Discrete: make([]int32, 8*action.Ints()), Box: make([]float32, 8*action.Floats())}
		for range 40 {
			for i := range 8 {
				one := a.of(i, v.width)
				action.Random(row(rows.Masks, i, v.maskBytes), stream, one.Discrete, one.Box)
			}
			if err := v.Step(a, rows); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A mask that allows nothing in one branch is the failure of its environment.
func TestMasksThatAllowNothingInOneBranch(t *testing.T) {
	v, rows, es := branchingVec(t, 3, 2, hybrid)
	es[1].noneOf = func(b *branching) int { return b.step - 1 } // after step 1 branch 0
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	a := Actions{Discrete: []int32{1, 1, 1, 1, 1, 1}, Box: make([]float32, 6)}
	err := v.Step(a, rows)
	var f *Failure
	if !errors.As(err, &f) || len(f.Rows) != 1 || f.Rows[0].Err.Index != 1 || !strings.HasSuffix(err.Error(), "action mask: branch 0 allows none of 4 actions, must allow one") {
		t.Errorf("%v", err)
	}
	if es[0].step != 1 || es[2].step != 1 {
		t.Error("the others did not step")
	}
}

func TestActionsOfAllEnvironmentsMustBeEqual(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		want string
		spec env.ActionSpec
	}{
		{"actions: branches of [4 3] and a box of 2, must be those of environment 0: branches of [4 2] and a box of 2", env.ActionSpec{Branches: []int32{4, 3}, Low: hybrid.Low, High: hybrid.High}},
		{"actions: branches of [4 2], must be those of environment 0: branches of [4 2] and a box of 2", env.ActionSpec{Branches: []int32{4, 2}}},
		{"actions: a box of 2, must be those of environment 0: branches of [4 2] and a box of 2", box},
		{"actions: 3 discrete, must be those of environment 0: branches of [4 2] and a box of 2", discrete},
		{"action bounds: differ from those of environment 0, must be the same", env.ActionSpec{Branches: []int32{4, 2}, Low: []float32{-1, 0}, High: []float32{1, 6}}},
		{"action bounds: differ from those of environment 0, must be the same", env.ActionSpec{Branches: []int32{4, 2}, Low: []float32{-inf, 0}, High: []float32{1, 5}}},
	} {
		_, err := New(func(i int) (env.Env, error) {
			if i == 2 {
				return newInfoCounter(3, c.spec), nil
			}
			return newInfoCounter(3, hybrid), nil
		}, 4, newPool(t, 1), NextStep)
		if err == nil || err.Error() != "environment 2: "+c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	_, err := New(func(int) (env.Env, error) {
		c := newCounter(3, env.Terminated)
		c.spec.Action = branches
		return c, nil
	}, 1, newPool(t, 1), NextStep)
	if err == nil || err.Error() != "environment 0: actions: branches of [3 5], must be discrete where the environment has no StepAction" {
		t.Error(err)
	}
}

// Actions out of range, and lists of another length, are refused before any environment moves.
func TestActionsOutOfRange(t *testing.T) {
	es := []*infoCounter{}
	v, rows := newVec(t, func(int) (env.Env, error) {
		es = append(es, newInfoCounter(9, hybrid))
		return es[len(es)-1], nil
	}, 2, 1, NextStep)
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	a, err := v.Async(1, 1, -1)
	if err != nil {
		t.Fatal(err)
	}
	offer(t, v, a, 2)
	nan := float32(math.NaN())
	for want, actions := range map[string]Actions{
		"environment 1: action branch 1: 2, must be 0 to 1":              {[]int32{3, 1, 0, 2}, []float32{0, 0, 0, 0}},
		"environment 0: action branch 0: -1, must be 0 to 3":             {[]int32{-1, 1, 9, 9}, []float32{0, 0, 0, 0}},
		"environment 1: action[1]: NaN, must be 0 to 5":                  {[]int32{3, 1, 0, 1}, []float32{0, 0, 0, nan}},
		"actions: 3 integers, must be 4, 2 for each environment":         {[]int32{3, 1, 0}, []float32{0, 0, 0, 0}},
		"actions: 2 numbers of a box, must be 4, 2 for each environment": {[]int32{3, 1, 0, 1}, []float32{0, 0}},
	} {
		for _, err := range []error{a.Send([]int32{0, 1}, actions), v.Step(actions, rows)} {
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %q", err, want)
			}
			var row *env.RowError
			if errors.As(err, &row) != strings.HasPrefix(want, "environment") || row != nil && !strings.HasPrefix(want, fmt.Sprintf("environment %d:", row.Index)) {
				t.Errorf("%q: %+v, must have the environment's number", want, row)
			}
		}
	}
	if err := v.StepOne(1, Action{Discrete: []int32{3, 1}, Box: []float32{0, 5.5}}, rows); err == nil || err.Error() != "environment 1: action[1]: 5.5, must be 0 to 5" {
		t.Error(err)
	}
	if es[0].step != 0 || es[1].step != 0 {
		t.Error("an environment moved")
	}
}

// together is an infoCounter that steps with others in one call.
type together struct{ *infoCounter }

func (together) Batched() bool { return true }

func (together) StepBatch(steps []env.BatchStep, obs []byte) error {
	for k := range steps {
		s := &steps[k]
		s.Reward, s.End, s.Err = s.Env.(together).StepAction(s.Branches, s.Box, obs[8*s.Row:8*s.Row+8])
	}
	return nil
}

func TestBatchesHaveActionsOfEveryKind(t *testing.T) {
	for _, action := range []env.ActionSpec{branches, box, hybrid} {
		var es []*infoCounter
		v, rows := newVec(t, func(int) (env.Env, error) {
			es = append(es, newInfoCounter(9, action))
			return together{es[len(es)-1]}, nil
		}, 3, 1, NextStep)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		a := Actions{Discrete: slices.Repeat([]int32{1, 0}, 3)[:3*action.Ints()], Box: slices.Repeat([]float32{0.5, 2}, 3)[:3*action.Floats()]}
		if err := v.Step(a, rows); err != nil {
			t.Fatal(err)
		}
		for i, e := range es {
			if one := a.of(i, v.width); e.step != 1 || len(one.Box) > 0 && e.given[action.Ints()+1] != 2 || len(one.Discrete) > 0 && e.given[0] != 1 {
				t.Errorf("%v, environment %d: step %d by %v", action, i, e.step, e.given)
			}
		}
	}
}
