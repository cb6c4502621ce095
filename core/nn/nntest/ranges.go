package nntest

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// partition cuts size parameters at random places into n ranges and returns their borders.
func partition(r *rng.Stream, size, n int) []int {
	borders := []int{0, size}
	for len(borders) <= n {
		at := 1 + r.Intn(size-1)
		if !slices.Contains(borders, at) {
			borders = append(borders, at)
		}
	}
	slices.Sort(borders)
	return borders
}

// randomFloats returns n numbers of -1 to 1.
func randomFloats(r *rng.Stream, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.Uniform(-1, 1))
	}
	return x
}

// sameState compares two optimisers and their parameters bit for bit.
func sameState(t *testing.T, what string, p, want *nn.Params, o, of nn.Optimizer) {
	t.Helper()
	if !slices.Equal(p.Host(), want.Host()) {
		t.Fatalf("%s: the parameters differ", what)
	}
	for i, s := range o.State() {
		if !slices.Equal(s.Data, of.State()[i].Data) {
			t.Fatalf("%s: %s differs", what, s.Name)
		}
	}
}

// testRangesOfAStep takes steps range by range, in any order. They are bit-identical to whole
// steps.
func (on *suite) testRangesOfAStep(t *testing.T) {
	if on.device(t, 1).Name() != "cpu" {
		t.Skip("this device refuses ranges")
	}
	on.eachPath(t, func(t *testing.T) {
		for _, cfg := range Optimizers() {
			for _, threads := range []int{1, 2} {
				r, d := rng.New(7, "test", 0), on.device(t, threads)
				const size = 211
				whole, ranges := Must(d.Optimizer(cfg, size))(t), Must(d.Optimizer(cfg, size))(t)
				want, p := Flat(size), Flat(size)
				for step := int64(1); step <= 9; step++ {
					grad := randomFloats(r, size)
					Check(t, whole.Apply(want, grad, 0.7, 1e-2))
					borders := partition(r, size, 1+r.Intn(9))
					order := make([]int, len(borders)-1)
					for i := range order {
						order[i] = i
					}
					for i := range order {
						k := i + r.Intn(len(order)-i)
						order[i], order[k] = order[k], order[i]
					}
					for _, i := range order {
						Check(t, ranges.ApplyRange(p, borders[i], grad[borders[i]:borders[i+1]], 0.7, 1e-2, step))
					}
					sameState(t, cfg.Name, p, want, ranges, whole)
				}
				if ranges.Step() != 0 || p.Updates != 0 || p.Writes != 0 {
					t.Errorf("%s: %d steps, %d updates and %d writes counted, must be none", cfg.Name, ranges.Step(), p.Updates, p.Writes)
				}
				grad := randomFloats(r, 20)
				if a := testing.AllocsPerRun(5, func() { ranges.ApplyRange(p, 3, grad, 1, 1e-2, 10) }); a != 0 {
					t.Errorf("%s: %v allocations", cfg.Name, a)
				}
			}
		}
	})
}

func (on *suite) testRangesRefused(t *testing.T) {
	o, p := on.optimizer(t, nn.OptimizerConfig{Name: "adam"}, 5), Flat(5)
	if d := on.device(t, 1); d.Name() != "cpu" {
		if err := o.ApplyRange(p, 0, make([]float32, 5), 1, 1e-2, 1); err == nil || !strings.Contains(err.Error(), "needs an optimizer of the device cpu") {
			t.Errorf("%s: error %v", d.Name(), err)
		}
		return
	}
	for _, c := range []struct {
		p           *nn.Params
		first, size int
		step        int64
		want        string
	}{
		{Flat(4), 0, 4, 1, "optimizer: 4 parameters, must be 5"},
		{p, -1, 2, 1, "optimizer: range of 2 from -1 on, must be 1 or more of the 5 parameters"},
		{p, 4, 2, 1, "optimizer: range of 2 from 4 on, must be 1 or more of the 5 parameters"},
		{p, math.MaxInt, 2, 1, "must be 1 or more of the 5 parameters"},
		{p, 0, 6, 1, "optimizer: range of 6 from 0 on, must be 1 or more of the 5 parameters"},
		{p, 2, 0, 1, "optimizer: range of 0 from 2 on, must be 1 or more of the 5 parameters"},
		{p, 0, 5, 0, "optimizer: step 0, must be at least 1"},
	} {
		if err := o.ApplyRange(c.p, c.first, make([]float32, c.size), 1, 1e-2, c.step); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// testRangesAtTheSameTime takes steps of ranges from several goroutines. The race detector sees a
// range that writes outside of itself.
func (on *suite) testRangesAtTheSameTime(t *testing.T) {
	if on.device(t, 1).Name() != "cpu" {
		t.Skip("this device refuses ranges")
	}
	for _, cfg := range Optimizers() {
		r := rng.New(8, "test", 0)
		const size, steps = 301, 20
		whole, ranges := on.optimizer(t, cfg, size), on.optimizer(t, cfg, size)
		want, p := Flat(size), Flat(size)
		var grads [steps][]float32
		for i := range grads {
			grads[i] = randomFloats(r, size)
			Check(t, whole.Apply(want, grads[i], 1, 1e-2))
		}
		borders := partition(r, size, 5)
		var wait sync.WaitGroup
		for i := range len(borders) - 1 {
			wait.Go(func() {
				for step, grad := range grads {
					if err := ranges.ApplyRange(p, borders[i], grad[borders[i]:borders[i+1]], 1, 1e-2, int64(step+1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		sameState(t, cfg.Name, p, want, ranges, whole)
	}
}
