package vec

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// catchVec makes a Vec of Catch-v0 with up to maxSteps random steps after the first reset of a
// seed. Episodes of Catch-v0 have at least 9 steps.
func catchVec(t *testing.T, n, maxSteps int, mode Autoreset) (*Vec, *Rows) {
	t.Helper()
	v, rows := newVec(t, func(int) (env.Env, error) { return env.Make("Catch-v0", nil) }, n, 1, mode)
	if err := v.Decorrelate(maxSteps); err != nil {
		t.Fatal(err)
	}
	return v, rows
}

func seeds(n int, of uint64) (list []uint64) {
	for i := range n {
		list = append(list, SeedFor(of, i))
	}
	return list
}

// The first reset after a seed equals a plain loop that takes random steps by the stream
// ("start", 0) of the seed and resets after an end. Later resets take no random steps.
func TestDecorrelate(t *testing.T) {
	const n, most = 40, 60
	v, rows := catchVec(t, n, most, NextStep)
	numbers := map[int]bool{}
	for k := range uint64(3) {
		if err := errors.Join(v.Seed(seeds(n, k), nil), v.Reset(rows, nil)); err != nil {
			t.Fatal(err)
		}
		first := slices.Clone(rows.Obs)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		ended := false
		for i, seed := range seeds(n, k) {
			e, err := env.Make("Catch-v0", nil)
			if err != nil {
				t.Fatal(err)
			}
			obs := make([]byte, v.bytes)
			e.Seed(seed)
			err = e.Reset(obs)
			stream := rng.New(seed, "start", 0)
			steps := stream.Intn(most + 1)
			numbers[steps] = true
			for range steps {
				_, end, stepErr := e.Step(int32(stream.Intn(e.Spec().Action.N)), obs)
				if err = errors.Join(err, stepErr); end != 0 {
					ended = true
					err = errors.Join(err, e.Reset(obs))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(row(first, i, v.bytes), obs) {
				t.Errorf("seed %d, environment %d: does not start after %d random steps", k, i, steps)
			}
			if err := e.Reset(obs); err != nil || !bytes.Equal(row(rows.Obs, i, v.bytes), obs) {
				t.Errorf("seed %d, environment %d: the second reset took random steps", k, i)
			}
			if !rows.Starts[i] || rows.Rewards[i] != 0 || rows.Ends[i] != 0 {
				t.Errorf("seed %d, environment %d: start %v, reward %v, end %d", k, i, rows.Starts[i], rows.Rewards[i], rows.Ends[i])
			}
		}
		if !ended {
			t.Error("no episode ended during the random steps")
		}
	}
	if len(numbers) < 40 {
		t.Errorf("%d different numbers of steps of %d", len(numbers), most+1)
	}
}

// The number of random steps takes every value from 0 to most. Boxes are within their bounds.
func TestDecorrelateSteps(t *testing.T) {
	const most = 4
	for _, action := range []env.ActionSpec{discrete, branches, box, hybrid} {
		steps := make(map[int]int)
		var s *infoCounter
		v, rows := newVec(t, func(int) (env.Env, error) {
			s = newInfoCounter(1000, action)
			return s, nil
		}, 1, 1, Disabled)
		if err := v.Decorrelate(most); err != nil {
			t.Fatal(err)
		}
		lowest, highest := [4]float32{9, 9, 9, 9}, [4]float32{-9, -9, -9, -9}
		for k := range uint64(300) {
			if err := errors.Join(v.Seed([]uint64{k}, nil), v.Reset(rows, nil)); err != nil {
				t.Fatal(err)
			}
			steps[s.step]++
			if s.step == 0 {
				continue
			}
			for k, x := range s.given {
				lowest[k], highest[k] = min(lowest[k], x), max(highest[k], x)
			}
		}
		for k := range most + 1 {
			if steps[k] < 30 {
				t.Errorf("%d of 300 starts had %d steps", steps[k], k)
			}
		}
		if len(steps) != most+1 {
			t.Errorf("numbers of steps: %v", steps)
		}
		ints := action.Ints()
		for b := range ints {
			if most := float32(action.Branch(b) - 1); lowest[b] != 0 || highest[b] != most {
				t.Errorf("%v: integer %d is from %v to %v, must be from 0 to %v", action, b, lowest[b], highest[b], most)
			}
		}
		if x, y := lowest[ints:], highest[ints:]; len(action.Low) > 0 && (x[0] < -1 || x[0] > -0.9 || y[0] > 1 || y[0] < 0.9 || x[1] < 0 || x[1] > 0.2 || y[1] > 5 || y[1] < 4.8) {
			t.Errorf("%v: boxes from %v to %v", action, x, y)
		}
		if err := v.Decorrelate(0); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(v.Seed([]uint64{1}, nil), v.Reset(rows, nil)); err != nil || s.step != 0 {
			t.Errorf("after Decorrelate(0): %d steps, %v", s.step, err)
		}
	}
	v, _ := catchVec(t, 1, 0, NextStep)
	if err := v.Decorrelate(-1); err == nil || err.Error() != "decorrelation_steps: -1, must be at least 0" {
		t.Error(err)
	}
}

// A failure during the random steps is a failure of the reset.
func TestDecorrelateFails(t *testing.T) {
	for _, where := range []string{"step", "reset"} {
		v, rows, cs := counters(t, NextStep, 1, 2, 2)
		if err := v.Decorrelate(50); err != nil {
			t.Fatal(err)
		}
		if err := v.Seed([]uint64{3, 3}, nil); err != nil { // gives about 10 steps
			t.Fatal(err)
		}
		resets := 0
		if where == "step" {
			cs[1].onStep = func(*counter) error { panic("kaboom") }
		} else {
			cs[1].onReset = func(*counter) error {
				if resets++; resets == 2 {
					panic("kaboom")
				}
				return nil
			}
		}
		if err := v.Reset(rows, nil); err == nil || err.Error() != "environment 1: panic: kaboom" {
			t.Errorf("%s: %v", where, err)
		}
		if err := v.Step(Actions{Discrete: []int32{0, 0}}, rows); err == nil || err.Error() != "environment 1: step before reset" {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// A state that was saved before the first reset takes the same random steps in any Vec: in its own,
// with other seeds, and after another first reset.
func TestDecorrelateSaved(t *testing.T) {
	const n, most = 12, 40
	v, rows := catchVec(t, n, most, NextStep)
	if err := v.Seed(seeds(n, 5), nil); err != nil {
		t.Fatal(err)
	}
	states := make([][]byte, n)
	save := func() {
		for i := range states {
			var err error
			if states[i], err = v.Save(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	save()
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(rows.Obs)
	unseeded, _ := catchVec(t, n, most, NextStep)
	seeded, _ := catchVec(t, n, most, NextStep)
	used, other := catchVec(t, n, most, NextStep)
	if err := errors.Join(seeded.Seed(seeds(n, 6), nil), used.Seed(seeds(n, 7), nil), used.Reset(other, nil)); err != nil {
		t.Fatal(err)
	}
	restored := func(what string, to *Vec, states [][]byte) []byte {
		t.Helper()
		got := NewRows(v.Spec().Obs, n)
		for i, s := range states {
			if err := to.Restore(i, s); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			again, err := to.Save(i)
			if err != nil || !bytes.Equal(again, s) {
				t.Fatalf("%s: saved again, the state differs, %v", what, err)
			}
		}
		if err := to.Reset(got, nil); err != nil {
			t.Fatal(err)
		}
		return got.Obs
	}
	for what, to := range map[string]*Vec{"itself": v, "unseeded": unseeded, "other seeds": seeded, "played": used} {
		if !bytes.Equal(restored(what, to, states), want) {
			t.Errorf("%s: the first observations differ", what)
		}
	}

	// A state that was saved after the first reset takes no random steps, even if the Vec has some
	// due.
	if err := errors.Join(v.Seed(seeds(n, 5), nil), v.Reset(rows, nil)); err != nil {
		t.Fatal(err)
	}
	save()
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	if err := seeded.Seed(seeds(n, 6), nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(restored("after the first reset", seeded, states), rows.Obs) {
		t.Error("random steps were taken twice")
	}

	for name, bad := range map[string][]byte{
		"no seed":  {saveVersion, byte(fresh) | stepsDueBit, 1, 2, 3},
		"bad bits": append([]byte{saveVersion, byte(running) | 0x40}, states[0][2:]...),
	} {
		if err := v.Restore(0, bad); err == nil || !strings.HasPrefix(err.Error(), "environment 0: state: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In SameStep no state is between two episodes, also if random steps are due.
func TestSameStepRefusesEndedState(t *testing.T) {
	v, rows := newVec(t, func(int) (env.Env, error) { return env.Make("CartPole-v1", nil) }, 1, 1, NextStep)
	if err := errors.Join(v.Decorrelate(3), v.Seed([]uint64{1}, nil), v.Reset(rows, nil)); err != nil {
		t.Fatal(err)
	}
	for rows.Ends[0] == 0 {
		if err := v.Step(Actions{Discrete: []int32{0}}, rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Seed([]uint64{2}, nil); err != nil {
		t.Fatal(err)
	}
	saved, err := v.Save(0)
	if err != nil {
		t.Fatal(err)
	}
	same, _ := newVec(t, func(int) (env.Env, error) { return env.Make("CartPole-v1", nil) }, 1, 1, SameStep)
	if err := same.Restore(0, saved); err == nil {
		t.Error("a state between two episodes was restored in SameStep")
	}
}

func TestMake(t *testing.T) {
	const n, most = 6, 50
	pool := newPool(t, 2)
	options, err := env.ParseOptions(fmt.Sprintf(`{"decorrelation_steps": %d}`, most))
	if err != nil {
		t.Fatal(err)
	}
	made, err := Make("Catch-v0", options, n, 9, pool, SameStep, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	if len(options) != 1 {
		t.Error("the caller's options were changed")
	}
	plain, rows := catchVec(t, n, most, SameStep)
	got := NewRows(plain.Spec().Obs, n)
	if err := errors.Join(plain.Seed(seeds(n, 9), nil), plain.Reset(rows, nil), made.Reset(got, nil)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Obs, rows.Obs) || made.Mode() != SameStep || made.Len() != n {
		t.Error("Make differs from New, Decorrelate and Seed by SeedFor")
	}

	// An error that concerns all environments names none of them.
	for text, want := range map[string]string{
		`{"decorrelation_steps": -1}`:     "decorrelation_steps: -1, must be a whole number of 0 to 2147483647",
		`{"decorrelation_steps": 1.5}`:    "decorrelation_steps: 1.5, must be a whole number of 0 to 2147483647",
		`{"decorrelation_steps": "many"}`: `decorrelation_steps: "many", must be a whole number of 0 to 2147483647`,
		`{"speed": 3}`:                    `option "speed": Catch-v0 has no options of its own`,
		`{}`:                              "",
	} {
		options, err := env.ParseOptions(text)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Make("Catch-v0", options, n, 9, pool, SameStep, nil)
		if err == nil {
			_ = v.Close()
		}
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
	if _, err := Make("Catsh-v0", nil, n, 9, pool, SameStep, nil); err == nil || strings.HasPrefix(err.Error(), "environment 0") || !strings.Contains(err.Error(), "Catch-v0") {
		t.Error(err)
	}
	if _, err := Make("Catch-v0", nil, 0, 9, pool, SameStep, nil); err == nil || err.Error() != "num_envs: 0, must be at least 1" {
		t.Error(err)
	}
}

// A Step on the caller's thread alone equals a Step on the pool.
func TestSerialStepEqualsPool(t *testing.T) {
	const n = 9
	var all [2][]byte
	for k := range all {
		random := rand.New(rand.NewPCG(8, 9))
		v, rows := newVec(t, func(int) (env.Env, error) { return env.Make("Catch-v0", nil) }, n, 4, NextStep)
		if err := errors.Join(v.Decorrelate(5), v.Seed(seeds(n, 1), nil), v.Reset(rows, nil)); err != nil {
			t.Fatal(err)
		}
		actions := make([]int32, n)
		for range 300 {
			for i := range actions {
				actions[i] = int32(random.IntN(3))
			}
			v.serial = k == 0
			if err := v.Step(Actions{Discrete: actions}, rows); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				all[k] = record(all[k], row(rows.Obs, i, v.bytes), nil, rows.Rewards[i], rows.Ends[i])
			}
		}
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Error("a serial Step writes other rows than a Step of the pool")
	}
	// The lowest index is reported both ways, and all others take their step.
	for _, serial := range []bool{false, true} {
		v, rows, cs := counters(t, NextStep, 3, 9, 9, 9, 9)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{3, 1, 2} {
			cs[i].onStep = func(*counter) error { panic(fmt.Sprint("number ", i)) }
		}
		v.serial = serial
		if err := v.Step(Actions{Discrete: make([]int32, 4)}, rows); err == nil || err.Error() != "environment 1: panic: number 1" {
			t.Errorf("serial %v: %v", serial, err)
		}
		if cs[0].step != 1 {
			t.Errorf("serial %v: environment 0 did not step", serial)
		}
	}
}
