package vec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// transition is one step as an environment took it.
type transition struct {
	action int32
	reward float32
	end    env.End
	next   [2]float32 // the observation it led to
}

// fickle is an environment whose steps and resets fail at random, in every way, and which
// keeps a list of the steps it took and of what went wrong.
type fickle struct {
	*counter
	chance *rand.Rand
	steps  []transition
	starts int    // episodes started
	failed string // what the last call did wrong: "step", "reset" or ""
}

func (f *fickle) fails(what string, p float64, obs []byte) error {
	f.failed = ""
	if f.chance.Float64() >= p {
		return nil
	}
	f.failed = what
	switch f.chance.IntN(3) {
	case 0:
		panic("kaboom")
	case 1: // what it has written by then is nobody's
		for k := range obs {
			obs[k] = 0xAA
		}
	}
	return errors.New(what + " failed")
}

func (f *fickle) Reset(obs []byte) error {
	if err := f.fails("reset", 0.2, obs); err != nil {
		return err
	}
	f.starts++
	f.length = 1 + f.chance.IntN(4)
	return f.counter.Reset(obs)
}

func (f *fickle) Step(action int32, obs []byte) (float32, env.End, error) {
	if err := f.fails("step", 0.05, obs); err != nil {
		return 0, 0, err
	}
	reward, end, err := f.counter.Step(action, obs)
	f.steps = append(f.steps, transition{action, reward, end, [2]float32{float32(f.episode), float32(f.step)}})
	return reward, end, err
}

func shown(obs []byte, i int) (v [2]float32) {
	for k := range v {
		v[k] = math.Float32frombits(binary.NativeEndian.Uint32(obs[8*i+4*k:]))
	}
	return v
}

func fickles(t *testing.T, mode Autoreset, n, threads int, seed uint64) (*Vec, *Rows, []*fickle) {
	t.Helper()
	fs := make([]*fickle, n)
	v, rows := newVec(t, func(i int) (env.Env, error) {
		fs[i] = &fickle{counter: newCounter(1, env.Terminated+env.End(i%2)), chance: rand.New(rand.NewPCG(seed, uint64(i)))}
		return fs[i], nil
	}, n, threads, mode)
	return v, rows, fs
}

// check compares a Failure with what the environments know: who failed, in order, and
// whether the step before it counts. moved are those that were called.
func (f *Failure) check(t *testing.T, fs []*fickle, moved func(i int) bool, stepped func(i int) bool) {
	t.Helper()
	var want, got []string
	for i, e := range fs {
		if moved(i) && e.failed != "" {
			want = append(want, fmt.Sprint(i, stepped(i)))
		}
	}
	if f != nil {
		for _, r := range f.Rows {
			got = append(got, fmt.Sprint(r.Err.Index, r.Stepped))
			var p *fault.Panic
			if text := fs[r.Err.Index].failed + " failed"; !errors.As(r.Err, &p) && r.Err.Err.Error() != text {
				t.Errorf("environment %d: %v, want %s", r.Err.Index, r.Err, text)
			}
		}
		var first *env.Error
		if !errors.As(f, &first) || first != f.Rows[0].Err || f.Error() != first.Error() {
			t.Errorf("%v is not its first row's error %v", f, first)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("failed rows %v, want %v", got, want)
	}
}

// Steps and resets fail at random. What the rows and the Failure say adds up to the lists
// that the environments keep: no step is lost, none is counted twice.
func TestFailuresAgainstLists(t *testing.T) {
	for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
		for _, threads := range []int{1, 3} {
			for _, one := range []bool{false, true} {
				const n = 5
				v, rows, fs := fickles(t, mode, n, threads, uint64(threads))
				actions, mask := make([]int32, n), make([]bool, n)
				lists := make([][]transition, n)
				counted := 0 // steps whose reset failed
				fresh := slices.Repeat([]bool{true}, n)
				over := make([]bool, n)
				for round := range 600 {
					for i := range n {
						mask[i] = fresh[i] || mode == Disabled && over[i]
						actions[i] = int32((round + i) % 3)
					}
					if slices.Contains(mask, true) {
						err := v.Reset(rows, mask)
						f, _ := err.(*Failure)
						f.check(t, fs, func(i int) bool { return mask[i] }, func(int) bool { return false })
						for i := range n {
							if mask[i] {
								fresh[i], over[i] = fs[i].failed != "", false
							}
						}
						if err != nil {
							continue
						}
					}
					was := make([]int, n)
					for i, f := range fs {
						was[i] = len(f.steps)
					}
					var failed *Failure
					if one {
						for i := range n {
							if err := v.StepOne(i, Action{Discrete: actions[i]}, rows); err != nil {
								f := err.(*Failure)
								if len(f.Rows) != 1 || f.Rows[0].Err.Index != i {
									t.Fatalf("StepOne(%d): %v", i, f.Rows)
								}
								if failed == nil {
									failed = &Failure{}
								}
								failed.Rows = append(failed.Rows, f.Rows...)
							}
						}
					} else {
						failed, _ = v.Step(Actions{Discrete: actions}, rows).(*Failure)
					}
					failed.check(t, fs, func(int) bool { return true }, func(i int) bool {
						return mode == SameStep && len(fs[i].steps) > was[i]
					})
					stepped := slices.Repeat([]bool{true}, n)
					if failed != nil {
						for _, r := range failed.Rows {
							i := r.Err.Index
							stepped[i], fresh[i] = r.Stepped, true
							if r.Stepped {
								counted++
								if rows.Starts[i] {
									t.Errorf("environment %d: its reset failed, and Starts is true", i)
								}
							}
						}
					}
					for i := range n {
						if !stepped[i] || rows.Starts[i] && rows.Ends[i] == 0 { // failed, or only reset
							over[i] = false
							continue
						}
						next := rows.Obs
						over[i] = rows.Ends[i] != 0
						if over[i] && mode == SameStep {
							next = rows.FinalObs
						}
						lists[i] = append(lists[i], transition{actions[i], rows.Rewards[i], rows.Ends[i], shown(next, i)})
					}
				}
				for i, f := range fs {
					if !slices.Equal(lists[i], f.steps) {
						t.Errorf("%v, %d threads, one %v, environment %d: %d steps seen, it took %d", mode, threads, one, i, len(lists[i]), len(f.steps))
					}
					if len(f.steps) < 200 {
						t.Errorf("environment %d took %d steps: the test shows little", i, len(f.steps))
					}
				}
				if (mode == SameStep) != (counted > 20) {
					t.Errorf("%v: %d steps whose reset failed", mode, counted)
				}
			}
		}
	}
}

// The same for an Async: a *Failure of one row comes before the others' rows, and the step
// that it says to count is in a row that comes then.
func TestAsyncFailuresAgainstLists(t *testing.T) {
	const n = 4
	for _, threads := range []int{1, 3} {
		v, rows, fs := fickles(t, SameStep, n, threads, 9)
		for v.Reset(rows, nil) != nil {
		}
		a, err := v.Async(1, threads, -1)
		if err != nil {
			t.Fatal(err)
		}
		lists := make([][]transition, n)
		counted := 0
		sendOne := func(i int32, reset bool) {
			offer(t, v, a, 1)
			if reset {
				err = a.SendReset([]int32{i}, nil)
			} else {
				err = a.Send([]int32{i}, Actions{Discrete: []int32{i % 3}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var take func(i int32)
		take = func(i int32) {
			r, err := a.Recv(-1)
			var f *Failure
			switch {
			case errors.As(err, &f):
				if len(f.Rows) != 1 || f.Rows[0].Err.Index != int(i) || fs[i].failed == "" {
					t.Fatalf("environment %d: %v", i, err)
				}
				if f.Rows[0].Stepped { // its row comes all the same
					counted++
					if r, err = a.Recv(-1); err != nil || r.Starts[0] || r.Ends[0] == 0 {
						t.Fatalf("the row of a step that counts: %v, %v", r, err)
					}
					lists[i] = append(lists[i], transition{i % 3, r.Rewards[0], r.Ends[0], shown(r.FinalObs, 0)})
				}
				sendOne(i, true)
				take(i)
			case err != nil || r.IDs[0] != i:
				t.Fatalf("%v, %v", r, err)
			case !r.Starts[0] || r.Ends[0] != 0:
				next := r.Obs
				if r.Ends[0] != 0 {
					next = r.FinalObs
				}
				lists[i] = append(lists[i], transition{i % 3, r.Rewards[0], r.Ends[0], shown(next, 0)})
			}
		}
		for range 500 {
			for i := range int32(n) {
				sendOne(i, false)
				take(i)
			}
		}
		for i, f := range fs {
			if !slices.Equal(lists[i], f.steps) {
				t.Errorf("%d threads, environment %d: %d steps seen, it took %d", threads, i, len(lists[i]), len(f.steps))
			}
		}
		if counted < 20 {
			t.Errorf("%d steps whose reset failed: the test shows little", counted)
		}
	}
}
