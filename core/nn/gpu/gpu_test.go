//go:build gpu && cgo && linux

package gpu

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

func init() { cudatest.Start() }

// needGPU skips the test if there is no device.
func needGPU(t *testing.T) *device {
	t.Helper()
	cudatest.Need(t)
	return mustOpen(t).(*device)
}

func mustOpen(t *testing.T) nn.Device {
	t.Helper()
	d := nntest.Must(Open(0))(t)
	t.Cleanup(d.Close)
	return d
}

func subject() nntest.Subject {
	return nntest.Subject{
		Open: func(int) (nn.Device, error) { return Open(0) },
		Spoil: func(t *testing.T, of nn.Stepper) {
			s := of.(*stepper)
			nntest.Check(t, s.lanes.main.Upload(s.learner.grad, graph.BytesOf([]float32{float32(math.NaN())})))
		},
	}
}

func TestDevice(t *testing.T) {
	cudatest.Need(t)
	nntest.Run(t, subject())
}

func TestAgainstTorch(t *testing.T) {
	cudatest.Need(t)
	nntest.AgainstTorch(t, subject(), "../testdata/reference.json")
}

// stacked has the frames of a window's minibatches, and the same minibatches as whole observations.
type stacked struct {
	frames []byte
	width  int
	slots  int
	whole  []experience.Transitions
}

// randomStacks fills n minibatches of st from a ring of frames. Some next observations are
// terminal.
func randomStacks(s nn.Spec, st nn.StackStepper, r *rng.Stream, rows, n, stack, actions int) stacked {
	x := stacked{width: s.Obs.Bytes() / stack, slots: 11}
	x.frames = make([]byte, x.slots*x.width)
	if s.Obs.DType == env.Float32 {
		x.frames = x.frames[:0]
		for range x.slots {
			x.frames = append(x.frames, nntest.RandomObs(s, r, 1)...)
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

// A window of updates gives the same bits as single calls of Update.
func TestWindow(t *testing.T) {
	d := needGPU(t)
	for _, c := range []struct {
		spec   nn.Spec
		stack  int
		double bool
		masked bool
	}{{nntest.SmallMLP(), 1, false, false}, {nntest.SmallMLP(), 1, true, true}, {nntest.SmallMLP(), 1, false, true}, {nntest.SmallNature(), 2, false, false}} {
		const rows, n = 3, 5
		s := c.spec
		cfg := nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: .1}
		one, many := nntest.Must(d.QStepper(cfg, nn.MaxQ{Double: c.double}))(t), nntest.Must(d.QStepper(cfg, nn.MaxQ{Double: c.double}))(t).(nn.StackStepper)
		p, q, target := nntest.Init(t, s, 1), nntest.Init(t, s, 1), nntest.Init(t, s, 2)
		r := rng.New(4, "test", 0)
		for range 2 { // windows
			x := randomStacks(s, many, r, rows, n, c.stack, s.Heads[0].Out)
			nntest.Check(t, many.Resize(x.slots, x.width))
			nntest.Check(t, many.Put(0, x.frames[:4*x.width]))
			nntest.Check(t, many.Put(4, x.frames[4*x.width:]))
			var want []nn.Report
			var rates []float64
			for k := range n {
				w := x.whole[k]
				if c.masked {
					w.NextMasks = many.Minibatches()[k].NextMasks
				}
				var of nn.Report
				rates = append(rates, 1e-2/float64(k+1))
				nntest.Check(t, one.Update(p, target, &w, rates[k], &of))
				want = append(want, of)
			}
			nntest.Check(t, many.Upload(0, n-1))
			nntest.Check(t, many.Start(q, target, 0, rates[:2], c.masked))
			nntest.Check(t, many.Upload(n-1, 1)) // concurrent with the updates
			have := slices.Clone(nntest.Must(many.Finish())(t))
			nntest.Check(t, many.Start(q, target, 2, rates[2:], c.masked))
			have = append(have, nntest.Must(many.Finish())(t)...)
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

// Updates with importance weights, in spans of one and of two, are bit-identical to single calls
// of Update, the errors of rows included.
func TestWeightsOfAWindow(t *testing.T) {
	const rows, n = 3, 3
	d, s := needGPU(t), nntest.SmallMLP()
	cfg := nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean", Importance: nn.ImportanceGradient}, Optimizer: nn.OptimizerConfig{Name: "adam"}}
	one, many := nntest.Must(d.QStepper(cfg, nn.MaxQ{}))(t), nntest.Must(d.QStepper(cfg, nn.MaxQ{}))(t).(nn.StackStepper)
	p, q, target := nntest.Init(t, s, 1), nntest.Init(t, s, 1), nntest.Init(t, s, 2)
	r := rng.New(4, "test", 0)
	x := randomStacks(s, many, r, rows, n, 1, s.Heads[0].Out)
	nntest.Check(t, many.Resize(x.slots, x.width))
	nntest.Check(t, many.Put(0, x.frames))
	for k := range n {
		for i := range rows {
			many.Minibatches()[k].Weights[i] = float32(r.Uniform(0.1, 1))
		}
	}
	nntest.Check(t, many.Upload(0, n))
	for k := 0; k < n; {
		rates := []float64{1e-2, 2e-2}[:min(k+1, 2)]
		nntest.Check(t, many.Start(q, target, k, rates, false))
		have := nntest.Must(many.Finish())(t)
		if len(have) != len(rates) {
			t.Fatalf("%d reports of %d updates", len(have), len(rates))
		}
		for i, rate := range rates {
			x.whole[k].Weights = many.Minibatches()[k].Weights
			want := nn.Report{Rows: make([]float32, rows)}
			nntest.Check(t, one.Update(p, target, &x.whole[k], rate, &want))
			if have[i].Loss != want.Loss || !slices.Equal(have[i].Rows, want.Rows) {
				t.Errorf("update %d: %+v, must be %+v", k, have[i], want)
			}
			k++
		}
	}
	if !slices.Equal(p.Host(), q.Host()) {
		t.Error("not the parameters of single updates")
	}
}

// An update whose loss is not finite, and the updates after it, change nothing.
func TestAWindowStopsAtALossThatIsNotFinite(t *testing.T) {
	d, s := needGPU(t), nntest.SmallMLP()
	const rows, n = 3, 4
	many := nntest.Must(d.QStepper(nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}}, nn.MaxQ{}))(t).(nn.StackStepper)
	p, target := nntest.Init(t, s, 1), nntest.Init(t, s, 2)
	x := randomStacks(s, many, rng.New(4, "test", 0), rows, n, 1, 3)
	nntest.Check(t, many.Resize(x.slots, x.width))
	nntest.Check(t, many.Put(0, x.frames))
	many.Minibatches()[2].Rewards[1] = float32(math.NaN())
	nntest.Check(t, many.Upload(0, n))
	nntest.Check(t, many.Start(p, target, 1, []float64{1e-3, 1e-3, 1e-3}, false))
	reports, err := many.Finish()
	if e := (*nn.NotFinite)(nil); !errors.As(err, &e) || e.What != "loss" || len(reports) != 2 || !math.IsNaN(reports[1].Loss) || math.IsNaN(reports[0].Loss) {
		t.Errorf("reports %v, error %v", reports, err)
	}
	if p.Updates != 1 || many.Optimizer().Step() != 1 || slices.ContainsFunc(p.Host(), func(v float32) bool { return v != v }) {
		t.Errorf("%d updates, %d steps", p.Updates, many.Optimizer().Step())
	}
}

// An update is one graph launch, and so are acting and each update of a window. A window also
// copies its minibatches to the GPU and its reports back.
func TestUpdatesAndActingAreOneLaunch(t *testing.T) {
	d, s := needGPU(t), nntest.SmallNature()
	const rows, n = 2, 4
	q := nntest.Must(d.QStepper(nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 1}, nn.MaxQ{Double: true}))(t).(nn.StackStepper)
	net := nntest.Must(d.Network(s, rows))(t)
	p, target, r := nntest.Init(t, s, 1), nntest.Init(t, s, 2), rng.New(4, "test", 0)
	x := randomStacks(s, q, r, rows, n, 2, 3)
	nntest.Check(t, q.Resize(x.slots, x.width))
	nntest.Check(t, q.Put(0, x.frames))
	update := func() { nntest.Check(t, q.Update(p, target, &x.whole[0], 1e-3, &nn.Report{})) }
	window := func() {
		nntest.Check(t, q.Upload(0, n))
		nntest.Check(t, q.Start(p, target, 0, []float64{1e-3, 1e-3, 1e-3, 1e-3}, false))
		nntest.Must(q.Finish())(t)
	}
	act := func() { nntest.Must(net.Forward(p, x.whole[0].Obs, rows))(t) }
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

// tf32 and bf16 only round the factors of products.
func TestTF32AndBF16AreCloseToFP32(t *testing.T) {
	needGPU(t)
	for _, s := range append(nntest.Policies(), nntest.SmallNature(), nntest.WithNorm(nntest.OneCNN(), "layer_all"), nntest.TwoMLPs()) {
		p, b := nntest.Init(t, s, 1), nntest.RandomBatch(s, nntest.LossOf(s), rng.New(3, "test", 0), 4)
		gradient := func(precision nn.Precision) []float32 {
			s.Precision = precision
			l := nntest.Must(mustOpen(t).Learner(s, 4, nntest.LossOf(s)))(t)
			grad := make([]float32, len(p.Host()))
			nntest.Check(t, l.Gradient(p, b, grad, &nn.Report{}))
			return grad
		}
		want, largest := gradient(nn.FP32), float32(0)
		for _, v := range want {
			largest = max(largest, v, -v)
		}
		for precision, within := range map[nn.Precision]float32{nn.TF32: 1e-2, nn.BF16: 5e-2} {
			apart := float32(0)
			for i, v := range gradient(precision) {
				apart = max(apart, v-want[i], want[i]-v)
			}
			if !(apart > 1e-5*largest && apart < within*largest) {
				t.Errorf("%s, %s: differs from fp32 by %g, the largest element is %g", nntest.Name(s), precision, apart, largest)
			}
		}
	}
}
