package vec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// reference steps single environments in a plain loop, written from Gymnasium's definition of the
// modes, and returns the bytes of all rows.
func reference(t *testing.T, id string, n, steps int, mode Autoreset) []byte {
	t.Helper()
	records := make([][]byte, steps+1)
	for i := range n {
		e, err := env.Make(id, nil)
		if err != nil {
			t.Fatal(err)
		}
		e.Seed(SeedFor(11, i))
		obs := make([]byte, e.Spec().Obs.Bytes())
		actions := rng.New(11, "explore", i)
		if err := e.Reset(obs); err != nil {
			t.Fatal(err)
		}
		records[0] = append(records[0], obs...)
		over := false
		for k := 1; k <= steps; k++ {
			action := int32(actions.Intn(e.Spec().Action.N))
			var reward float32
			var end env.End
			var err error
			var final []byte
			switch {
			case mode == NextStep && over:
				err = e.Reset(obs)
			case mode == Disabled && over:
				err = e.Reset(obs)
				if err == nil {
					reward, end, err = e.Step(action, obs)
				}
			default:
				reward, end, err = e.Step(action, obs)
				if mode == SameStep && end != 0 {
					final = slices.Clone(obs)
					err = errors.Join(err, e.Reset(obs))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			over = end != 0
			records[k] = record(records[k], obs, final, reward, end)
		}
	}
	return bytes.Join(records, nil)
}

func record(to, obs, final []byte, reward float32, end env.End) []byte {
	to = append(append(to, obs...), final...)
	return append(binary.LittleEndian.AppendUint32(to, math.Float32bits(reward)), byte(end))
}

// The rows of n environments equal the rows of n single ones, for any number of threads, by Step
// and by StepOne, and if the environments are saved and restored during the run.
func TestEqualsSingles(t *testing.T) {
	for id, steps := range map[string]int{"CartPole-v1": 120, "Catch-v0": 40} {
		for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
			const n = 7
			want := reference(t, id, n, steps, mode)
			for _, threads := range []int{1, 2, 3, 16} {
				for _, way := range []string{"Step", "StepOne", "Restore"} {
					if got := play(t, id, n, steps, threads, mode, way); !bytes.Equal(got, want) {
						t.Errorf("%s, %v, %d threads, by %s: the rows differ", id, mode, threads, way)
					}
				}
			}
		}
	}
}

func play(t *testing.T, id string, n, steps, threads int, mode Autoreset, way string) (all []byte) {
	t.Helper()
	v, rows := newVec(t, func(int) (env.Env, error) { return env.Make(id, nil) }, n, threads, mode)
	seeds := make([]uint64, n)
	streams := make([]*rng.Stream, n)
	for i := range n {
		seeds[i], streams[i] = SeedFor(11, i), rng.New(11, "explore", i)
	}
	if err := errors.Join(v.Seed(seeds, nil), v.Reset(rows, nil)); err != nil {
		t.Fatal(err)
	}
	all = append(all, rows.Obs...)
	actions, mask := make([]int32, n), make([]bool, n)
	for k := range steps {
		for i, s := range streams {
			actions[i] = int32(s.Intn(v.Spec().Action.N))
			mask[i] = mode == Disabled && rows.Ends[i] != 0
		}
		if slices.Contains(mask, true) {
			if err := v.Reset(rows, mask); err != nil {
				t.Fatal(err)
			}
		}
		if way == "Restore" && k%10 == 3 { // into a new Vec
			states := make([][]byte, n)
			for i := range n {
				var err error
				if states[i], err = v.Save(i); err != nil {
					t.Fatal(err)
				}
			}
			v, _ = newVec(t, func(int) (env.Env, error) { return env.Make(id, nil) }, n, threads, mode)
			for i, s := range states {
				if err := v.Restore(i, s); err != nil {
					t.Fatal(err)
				}
			}
		}
		var err error
		if way == "StepOne" {
			err = v.pool.Do(n, func(_, i int) error { return v.StepOne(i, Action{Discrete: actions[i : i+1]}, rows) })
		} else {
			err = v.Step(Actions{Discrete: actions}, rows)
		}
		if err != nil {
			t.Fatal(err)
		}
		size := v.Spec().Obs.Bytes()
		for i := range n {
			var final []byte
			if mode == SameStep && rows.Ends[i] != 0 {
				final = row(rows.FinalObs, i, size)
			}
			all = record(all, row(rows.Obs, i, size), final, rows.Rewards[i], rows.Ends[i])
		}
	}
	return all
}

// Many environments, many threads and random masks. Meant for -race.
func TestVecHammer(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	r := rand.New(rand.NewPCG(5, 6))
	for _, threads := range []int{2, 7, 40} {
		const n = 50
		v, rows := newVec(t, func(int) (env.Env, error) { return env.Make("MountainCar-v0", nil) }, n, threads, NextStep)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		actions, mask := make([]int32, n), make([]bool, n)
		for range rounds {
			for i := range n {
				actions[i], mask[i] = int32(r.IntN(3)), r.IntN(20) == 0
			}
			mask[r.IntN(n)] = true
			if err := errors.Join(v.Step(Actions{Discrete: actions}, rows), v.Reset(rows, mask)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, id := range []string{"CartPole-v1", "Bricks-v0"} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/n=8/threads=%d", id, threads), func(b *testing.B) {
				v, rows := newVec(b, func(int) (env.Env, error) { return env.Make(id, nil) }, 8, threads, NextStep)
				if err := v.Reset(rows, nil); err != nil {
					b.Fatal(err)
				}
				actions := make([]int32, 8)
				b.ReportAllocs()
				for b.Loop() {
					_ = v.Step(Actions{Discrete: actions}, rows)
				}
				b.ReportMetric(8*float64(b.N)/b.Elapsed().Seconds(), "env-steps/s")
			})
		}
	}
}
