//go:build gpu && cgo && linux

package nn

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/rng"
)

func init() {
	cudatest.Start()
	onOthers = func(t *testing.T, f func(t *testing.T)) {
		t.Run("cuda", func(t *testing.T) {
			cudatest.Need(t)
			tested = "cuda"
			defer func() { tested = "cpu" }()
			f(t)
		})
	}
}

// needGPU skips a test where there is no device to run it on.
func needGPU(t *testing.T) *gpu {
	t.Helper()
	cudatest.Need(t)
	return mustDevice(t, "cuda", 1).(*gpu)
}

// stacked is a window's worth of minibatches of frames, and the same minibatches whole.
type stacked struct {
	frames []byte
	width  int
	slots  int
	whole  []experience.Transitions
}

// randomStacks fills in n minibatches of st, drawn from a ring of frames, some of which end.
func randomStacks(s Spec, st StackStepper, r *rng.Stream, rows, n, stack, actions int) stacked {
	x := stacked{width: s.Obs.Bytes() / stack, slots: 11}
	x.frames = make([]byte, x.slots*x.width)
	if s.Obs.DType == env.Float32 {
		x.frames = x.frames[:0]
		for range x.slots {
			x.frames = append(x.frames, randomObs(s, r, 1)...)
		}
	} else {
		for i := range x.frames {
			x.frames[i] = byte(r.Intn(256))
		}
	}
	pick := func(first int, frames int32) (experience.Stack, []byte) {
		var obs []byte
		for k := range stack {
			frame := make([]byte, x.width)
			if frames > 0 {
				copy(frame, x.frames[(first+k)%x.slots*x.width:])
			}
			obs = append(obs, frame...)
		}
		return experience.Stack{First: int32(first), Slots: int32(x.slots), Frames: frames}, obs
	}
	for k := range n {
		m := &st.Minibatches()[k]
		w := experience.Transitions{Actions: m.Actions, Rewards: m.Rewards, Discounts: m.Discounts}
		for i := range rows {
			first, live := r.Intn(x.slots), int32(stack*r.Intn(2))
			var obs, next []byte
			m.Stacks[i], obs = pick(first, int32(stack))
			m.NextStacks[i], next = pick((first+1)%x.slots, live)
			w.Obs, w.NextObs = append(w.Obs, obs...), append(w.NextObs, next...)
			m.Actions[i], m.Rewards[i], m.Discounts[i] = int32(r.Intn(actions)), float32(r.Uniform(-1, 1)), 0
			if live > 0 {
				m.Discounts[i] = .9
			}
			for a := range actions {
				m.NextMasks[i*actions+a] = byte(r.Intn(2))
			}
			m.NextMasks[i*actions+r.Intn(actions)] = 1
		}
		x.whole = append(x.whole, w)
	}
	return x
}

// A window of updates has the bits of as many calls of Update.
func TestWindow(t *testing.T) {
	d := needGPU(t)
	for _, c := range []struct {
		spec   Spec
		stack  int
		double bool
		masked bool
	}{{smallMLP(), 1, false, false}, {smallMLP(), 1, true, true}, {smallMLP(), 1, false, true}, {smallNature(), 2, false, false}} {
		const rows, n = 3, 5
		s := c.spec
		cfg := StepperConfig{Net: s, Rows: rows, Loss: TD{Kind: "huber", Reduction: "mean"}, Optimizer: OptimizerConfig{Name: "adam"}, MaxGradNorm: .1}
		one, many := must(d.QStepper(cfg, c.double))(t), must(d.QStepper(cfg, c.double))(t).(StackStepper)
		p, q, target := mustInit(t, s, 1), mustInit(t, s, 1), mustInit(t, s, 2)
		r := rng.New(4, "test", 0)
		for range 2 { // windows
			x := randomStacks(s, many, r, rows, n, c.stack, s.Heads[0].Out)
			check(t, many.Resize(x.slots, x.width))
			check(t, many.Put(0, x.frames[:4*x.width]))
			check(t, many.Put(4, x.frames[4*x.width:]))
			var want []Report
			var rates []float64
			for k := range n {
				w := x.whole[k]
				if c.masked {
					w.NextMasks = many.Minibatches()[k].NextMasks
				}
				var of Report
				rates = append(rates, 1e-2/float64(k+1))
				check(t, one.Update(p, target, &w, rates[k], &of))
				want = append(want, of)
			}
			check(t, many.Upload(0, n-1))
			check(t, many.Start(q, target, 0, rates[:2], c.masked))
			check(t, many.Upload(n-1, 1)) // beside the updates
			have := slices.Clone(must(many.Finish())(t))
			check(t, many.Start(q, target, 2, rates[2:], c.masked))
			have = append(have, must(many.Finish())(t)...)
			for k := range want {
				if have[k].Loss != want[k].Loss || have[k].Norm != want[k].Norm {
					t.Errorf("update %d: %+v, must be %+v", k, have[k], want[k])
				}
			}
			if !slices.Equal(p.Host(), q.Host()) || q.Updates != p.Updates || many.Optimizer().Step() != one.Optimizer().Step() {
				t.Errorf("%+v: not the parameters of single updates", c)
			}
			target.CopyFrom(q)
		}
	}
}

// The update whose loss is not finite, and those behind it, change nothing.
func TestWindowNotFinite(t *testing.T) {
	d, s := needGPU(t), smallMLP()
	const rows, n = 3, 4
	many := must(d.QStepper(StepperConfig{Net: s, Rows: rows, Loss: TD{Kind: "huber", Reduction: "mean"}, Optimizer: OptimizerConfig{Name: "adam"}}, false))(t).(StackStepper)
	p, target := mustInit(t, s, 1), mustInit(t, s, 2)
	x := randomStacks(s, many, rng.New(4, "test", 0), rows, n, 1, 3)
	check(t, many.Resize(x.slots, x.width))
	check(t, many.Put(0, x.frames))
	many.Minibatches()[2].Rewards[1] = float32(math.NaN())
	check(t, many.Upload(0, n))
	check(t, many.Start(p, target, 1, []float64{1e-3, 1e-3, 1e-3}, false))
	reports, err := many.Finish()
	if e := (*NotFinite)(nil); !errors.As(err, &e) || e.What != "loss" || len(reports) != 2 || !math.IsNaN(reports[1].Loss) || math.IsNaN(reports[0].Loss) {
		t.Errorf("reports %v, error %v", reports, err)
	}
	if p.Updates != 1 || many.Optimizer().Step() != 1 || slices.ContainsFunc(p.Host(), func(v float32) bool { return v != v }) {
		t.Errorf("%d updates, %d steps", p.Updates, many.Optimizer().Step())
	}
}

// An update is one launch of a graph, and so are acting and a window's updates; what is copied beside
// a window is its list of minibatches, and what it reports.
func TestOneLaunch(t *testing.T) {
	d, s := needGPU(t), smallNature()
	const rows, n = 2, 4
	q := must(d.QStepper(StepperConfig{Net: s, Rows: rows, Loss: TD{Kind: "huber", Reduction: "mean"}, Optimizer: OptimizerConfig{Name: "adam"}, MaxGradNorm: 1}, true))(t).(StackStepper)
	net := must(d.Network(s, rows))(t)
	p, target, r := mustInit(t, s, 1), mustInit(t, s, 2), rng.New(4, "test", 0)
	x := randomStacks(s, q, r, rows, n, 2, 3)
	check(t, q.Resize(x.slots, x.width))
	check(t, q.Put(0, x.frames))
	update := func() { check(t, q.Update(p, target, &x.whole[0], 1e-3, &Report{})) }
	window := func() {
		check(t, q.Upload(0, n))
		check(t, q.Start(p, target, 0, []float64{1e-3, 1e-3, 1e-3, 1e-3}, false))
		must(q.Finish())(t)
	}
	act := func() { must(net.Forward(p, x.whole[0].Obs, rows))(t) }
	update()
	window()
	act()
	for _, c := range []struct {
		name             string
		do               func()
		launches, copies int
	}{{"an update", update, 1, 0}, {"a window", window, n, 5 + 2}, {"acting", act, 1, 0}} {
		got := cudatest.Calls(t, c.do)
		if got["cuGraphLaunch"] != c.launches || got["cuLaunchKernel"] != 0 || got["cuMemcpyHtoDAsync_v2"]+got["cuMemcpyDtoHAsync_v2"]+got["cuMemcpyDtoDAsync_v2"] != c.copies || got["cuStreamSynchronize"]+got["cuEventSynchronize"] != 1 {
			t.Errorf("%s: %v, must be %d launches of graphs, %d copies and one wait", c.name, got, c.launches, c.copies)
		}
	}
}

// tf32 and bf16 round the factors of products, and nothing else.
func TestPrecisionsOnGPU(t *testing.T) {
	needGPU(t)
	for _, s := range []Spec{smallNature(), withNorm(oneCNN(), "layer_all"), twoMLPs()} {
		p, b := mustInit(t, s, 1), randomBatch(s, lossOf(s), rng.New(3, "test", 0), 4)
		gradient := func(precision Precision) []float32 {
			s.Precision = precision
			l := must(mustDevice(t, "cuda", 1).Learner(s, 4, lossOf(s)))(t)
			grad := make([]float32, len(p.Host()))
			check(t, l.Gradient(p, b, grad, &Report{}))
			return grad
		}
		want, largest := gradient(FP32), float32(0)
		for _, v := range want {
			largest = max(largest, v, -v)
		}
		for precision, within := range map[Precision]float32{TF32: 1e-2, BF16: 5e-2} {
			apart := float32(0)
			for i, v := range gradient(precision) {
				apart = max(apart, v-want[i], want[i]-v)
			}
			if !(apart > 1e-5*largest && apart < within*largest) {
				t.Errorf("%s, %s: %g of the largest element %g apart from fp32", s.name(), precision, apart, largest)
			}
		}
	}
}
