package vec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// joined steps several environments in one call, each as it would step alone.
type joined struct {
	env.Env
	calls *int
	fails func() error // the whole call; nil: never
}

func (j joined) Batched() bool { return true }

func (j joined) StepBatch(steps []env.BatchStep, obs []byte) error {
	*j.calls++
	if j.fails != nil {
		if err := j.fails(); err != nil {
			return err
		}
	}
	for k := range steps {
		s := &steps[k]
		s.Reward, s.End, s.Err = s.Env.(joined).Env.Step(s.Branches[0], obs[8*s.Row:8*s.Row+8])
	}
	return nil
}

// joinedCounters makes a Vec of counters that step in one call.
func joinedCounters(t *testing.T, mode Autoreset, lengths ...int) (v *Vec, rows *Rows, cs []*counter, calls *int) {
	t.Helper()
	calls = new(int)
	v, rows = newVec(t, func(i int) (env.Env, error) {
		cs = append(cs, newCounter(lengths[i], env.Truncated))
		return joined{cs[i], calls, nil}, nil
	}, len(lengths), 2, mode)
	return v, rows, cs, calls
}

// Environments that step in one call show what they show when they step one by one, in every mode,
// also when some fail. A round is one call.
func TestBatchEqualsSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
		lengths := []int{2, 3, 1, 5, 4}
		plain, want, ps, _ := func() (*Vec, *Rows, []*counter, *int) {
			v, r, cs := counters(t, mode, 2, lengths...)
			return v, r, cs, nil
		}()
		v, got, js, calls := joinedCounters(t, mode, lengths...)
		failing := -1
		for _, cs := range [][]*counter{ps, js} {
			for i, c := range cs {
				c.onStep = func(*counter) error {
					if i == failing {
						return errors.New("boom")
					}
					return nil
				}
			}
		}
		for _, err := range []error{plain.Reset(want, nil), v.Reset(got, nil)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		actions := Actions{Discrete: make([]int32, len(lengths))}
		for step := range 200 {
			if failing = -1; random.IntN(10) == 0 {
				failing = random.IntN(len(lengths))
			}
			before := *calls
			errs := []error{plain.Step(actions, want), v.Step(actions, got)}
			if fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) || !reflect.DeepEqual(got, want) {
				t.Fatalf("mode %d, step %d: %v and %v, want %v and %v", mode, step, got, errs[1], want, errs[0])
			}
			if *calls > before+1 {
				t.Fatalf("%d calls in a step", *calls-before)
			}
			mask, again := make([]bool, len(lengths)), false
			for i := range mask {
				mask[i] = v.phases[i] == fresh || mode == Disabled && v.phases[i] == ended
				again = again || mask[i]
			}
			if !again {
				continue
			}
			for _, err := range []error{plain.Reset(want, mask), v.Reset(got, mask)} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if *calls < 150 {
			t.Errorf("mode %d: %d calls", mode, *calls)
		}
	}
}

// If the call fails or panics, every environment that it was to step has failed. Others, which only
// reset, have not.
func TestBatchFails(t *testing.T) {
	for _, how := range []string{"boom", "panic: kaboom"} {
		calls, failing := 0, false
		v, rows := newVec(t, func(i int) (env.Env, error) {
			return joined{newCounter(1+2*i, env.Terminated), &calls, func() error {
				switch {
				case failing && how != "boom":
					panic("kaboom")
				case failing:
					return errors.New(how)
				}
				return nil
			}}, nil
		}, 3, 2, NextStep)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		actions := Actions{Discrete: make([]int32, 3)}
		if err := v.Step(actions, rows); err != nil {
			t.Fatal(err)
		}
		failing = true
		err := v.Step(actions, rows)
		var failure *Failure
		if !errors.As(err, &failure) || len(failure.Rows) != 2 || failure.Rows[0].Err.Index != 1 || !strings.HasSuffix(err.Error(), how) {
			t.Fatalf("%v, want the failure of environments 1 and 2: %s", err, how)
		}
		if !rows.Starts[0] {
			t.Error("environment 0 was not reset")
		}
		failing = false
		if err := v.Reset(rows, []bool{false, true, true}); err != nil {
			t.Fatal(err)
		}
		if err := v.Step(actions, rows); err != nil {
			t.Error(err)
		}
	}
}

func TestBatchRefuses(t *testing.T) {
	calls := 0
	waits := newCounter(3, env.Terminated)
	waits.spec.Waits = true
	if _, err := New(func(int) (env.Env, error) { return joined{waits, &calls, nil}, nil }, 1, newPool(t, 1), SameStep); err == nil || !strings.Contains(err.Error(), "waits: true, must be false where environments step together in one call") {
		t.Error(err)
	}
	some := func(i int) (env.Env, error) {
		if i == 1 {
			return newCounter(3, env.Terminated), nil
		}
		return joined{newCounter(3, env.Terminated), &calls, nil}, nil
	}
	if _, err := New(some, 2, newPool(t, 1), SameStep); err == nil || !strings.Contains(err.Error(), "batched: false, must be that of environment 0: true") {
		t.Error(err)
	}
}

// A step in one call allocates nothing.
func TestBatchAllocatesNothing(t *testing.T) {
	v, rows, _, _ := joinedCounters(t, SameStep, 2, 3, 4)
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	actions := Actions{Discrete: make([]int32, 3)}
	if n := testing.AllocsPerRun(100, func() { _ = v.Step(actions, rows) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
