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

// transition is one step of an environment.
type transition struct {
	action int32
	reward float32
	end    env.End
	next   [2]float32 // the observation after the step
}

// flaky is an environment whose steps and resets fail at random, by an error or a panic. It records
// the steps that it took.
type flaky struct {
	*counter
	random *rand.Rand
	steps  []transition
	failed string // "step" or "reset" if the last call failed, else ""
}

func (f *flaky) fails(what string, p float64, obs []byte) error {
	f.failed = ""
	if f.random.Float64() >= p {
		return nil
	}
	f.failed = what
	switch f.random.IntN(3) {
	case 0:
		panic("kaboom")
	case 1: // the row of a failed environment is undefined
		for k := range obs {
			obs[k] = 0xAA
		}
	}
	return errors.New(what + " failed")
}

func (f *flaky) Reset(obs []byte) error {
	if err := f.fails("reset", 0.2, obs); err != nil {
		return err
	}
	f.length = 1 + f.random.IntN(4)
	return f.counter.Reset(obs)
}

func (f *flaky) Step(action int32, obs []byte) (float32, env.End, error) {
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

func newFlakyVec(t *testing.T, mode Autoreset, n, threads int, seed uint64) (*Vec, *Rows, []*flaky) {
	t.Helper()
	fs := make([]*flaky, n)
	v, rows := newVec(t, func(i int) (env.Env, error) {
		fs[i] = &flaky{counter: newCounter(1, env.Terminated+env.End(i%2)), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		return fs[i], nil
	}, n, threads, mode)
	return v, rows, fs
}

// check compares a Failure with the environments' own records: its rows, their order and Stepped.
// called says which environments the call has called.
func (f *Failure) check(t *testing.T, fs []*flaky, called func(i int) bool, stepped func(i int) bool) {
	t.Helper()
	var want, got []string
	for i, e := range fs {
		if called(i) && e.failed != "" {
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
			t.Errorf("%v is not the error of the first row, %v", f, first)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("failed rows %v, want %v", got, want)
	}
}

// Steps and resets fail at random. The steps in the rows equal the steps that the environments
// record: none is lost and none is counted twice.
func TestFailuresLoseNoStep(t *testing.T) {
	for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
		for _, threads := range []int{1, 3} {
			for _, one := range []bool{false, true} {
				const n = 5
				v, rows, fs := newFlakyVec(t, mode, n, threads, uint64(threads))
				actions, mask := make([]int32, n), make([]bool, n)
				lists := make([][]transition, n)
				counted := 0 // number of steps with a failed autoreset
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
							if err := v.StepOne(i, Action{Discrete: actions[i : i+1]}, rows); err != nil {
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
						if !stepped[i] || rows.Starts[i] && rows.Ends[i] == 0 { // failed, or an autoreset of NextStep
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
						t.Errorf("%v, %d threads, one %v, environment %d: %d steps in the rows, it took %d", mode, threads, one, i, len(lists[i]), len(f.steps))
					}
					if len(f.steps) < 200 {
						t.Errorf("environment %d took %d steps: the test shows little", i, len(f.steps))
					}
				}
				if (mode == SameStep) != (counted > 20) {
					t.Errorf("%v: %d steps with a failed autoreset", mode, counted)
				}
			}
		}
	}
}

// The same for an Async: a *Failure of one row comes before the rows of the others. If its step
// counts, the row of the step comes with a later Recv.
func TestAsyncFailuresLoseNoStep(t *testing.T) {
	const n = 4
	for _, threads := range []int{1, 3} {
		v, rows, fs := newFlakyVec(t, SameStep, n, threads, 9)
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
				if f.Rows[0].Stepped { // the row of the step comes next
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
				t.Errorf("%d threads, environment %d: %d steps in the rows, it took %d", threads, i, len(lists[i]), len(f.steps))
			}
		}
		if counted < 20 {
			t.Errorf("%d steps with a failed autoreset: the test shows little", counted)
		}
	}
}
