package nn

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rng"
)

func TestNewCPU(t *testing.T) {
	for _, n := range []int{0, -1, 100_000} {
		if _, err := NewCPU(n, nil); err == nil || !strings.HasPrefix(err.Error(), "threads: ") {
			t.Errorf("%d threads: %v", n, err)
		}
	}
	d := mustCPU(t, 2)
	d.Close()
	d.Close()
}

// Bytes is what the graphs hold: every tensor but the leaves and the gradients of
// parameters, which are the caller's memory, every packed weight, and the scratch.
func TestBytes(t *testing.T) {
	d := mustCPU(t, 2)
	bytesMLP := actorCritic(env.ObsSpec{Shape: []int{5, 3, 2}}, 3, Trunk{Arch: "mlp", Activation: "tanh"}, Trunk{Arch: "mlp", Hidden: []int{}})
	plain := []Spec{smallMLP(), smallNature(), twoMLPs(), oneCNN(), bytesMLP}
	for _, s := range append(norms(plain...), plain...) {
		const rows = 11
		got := func(n Needs) int64 {
			b, err := d.Bytes(s, n)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		net, err := d.Network(s, rows)
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.Learner(s, rows, lossOf(s))
		if err != nil {
			t.Fatal(err)
		}
		n, learn := net.(*network), l.(*learner)
		if want := held(n.graph, n.machine); got(Needs{NetworkRows: []int{rows}}) != want {
			t.Errorf("%s: a network has %d bytes, Bytes says %d", s.name(), want, got(Needs{NetworkRows: []int{rows}}))
		}
		if want := held(learn.graph, learn.machine); got(Needs{LearnerRows: []int{rows}}) != want {
			t.Errorf("%s: a learner has %d bytes, Bytes says %d", s.name(), want, got(Needs{LearnerRows: []int{rows}}))
		}
		layout, _ := s.Layout()
		if b := got(Needs{Sets: 3, Optimizer: OptimizerConfig{Name: "rmsprop", Centered: true}}); b != int64(4*5*layout.Size) {
			t.Errorf("%s: %d bytes for three sets and two averages of %d", s.name(), b, layout.Size)
		}
	}
	for _, n := range []Needs{{NetworkRows: []int{0}}, {LearnerRows: []int{MaxRows + 1}}, {Optimizer: OptimizerConfig{Name: "sgd"}}} {
		if _, err := d.Bytes(smallMLP(), n); err == nil {
			t.Errorf("%+v: no error", n)
		}
	}
}

// held adds up the arrays of a graph and its machine.
func held(g *graph, m *machine) int64 {
	total := len(g.scratch)
	for _, s := range m.steps {
		switch o := s.op.(type) {
		case *layerOp:
			total += len(o.y.Float32s()) + len(o.packed.data)
		case *weightGradOp:
			total += len(o.dw.Raw)/4 + len(o.db.Raw)/4 + len(o.dz) + len(o.packed)
		case *normOp:
			total += len(o.y.Float32s()) + len(o.statistics)
		case *normGradOp:
			total += len(o.dscale.Raw)/4 + len(o.dbias.Raw)/4 + len(o.dz)
		case *outputOf:
			total += len(o.value.Raw) / 4
		case *convertOp:
			total += len(o.y.Float32s())
		case *lossGradient:
			total += len(o.value.Float32s())
		case *sumOp:
			total += len(o.sum.Float32s())
		}
	}
	return 4 * int64(total)
}

// A stepper's updates are gradients, clipping and steps by hand, to the bit, in one call or
// in two, and allocate nothing.
func TestStepper(t *testing.T) { onBoth(t, testStepper) }

func testStepper(t *testing.T) {
	for _, maxNorm := range []float64{0, 0.05} {
		s := twoMLPs()
		loss, d := lossOf(s), mustDevice(t, tested, 2)
		const rows, n = 6, 5
		c := StepperConfig{Net: s, Rows: rows, Loss: loss, Optimizer: OptimizerConfig{Name: "rmsprop", EpsInside: true}, MaxGradNorm: maxNorm}
		l, o := must(d.Learner(s, rows, loss))(t), mustOptimizer(t, c.Optimizer, mustInit(t, s, 1).Layout.Size)
		stepper := must(d.Stepper(c))(t)
		p, q := mustInit(t, s, 1), mustInit(t, s, 1)
		grad, clipped := make([]float32, len(p.Host())), 0
		var want, r Report
		for k := range n {
			b, lr := randomBatch(s, loss, rng.New(1, "test", k), rows), 1e-2/float64(k+1)
			check(t, l.Gradient(p, b, grad, &want))
			limit := maxNorm
			if limit == 0 {
				limit = math.Inf(1)
			}
			norm, factor := o.ClipGradNorm(grad, limit)
			if want.Norm = norm; factor < 1 {
				clipped++
			}
			check(t, o.Apply(p, grad, factor, lr))
			if k%2 == 0 {
				check(t, stepper.Update(q, b, lr, &r))
			} else {
				check(t, stepper.Learn(q, b, &r))
				check(t, stepper.Step(q, lr, &r))
			}
			// A GPU adds the squares of the gradient up in another order than ClipGradNorm.
			sameNorm := math.Abs(r.Norm-want.Norm) <= 1e-12*want.Norm
			want.Norm = r.Norm
			if !slices.Equal(p.Host(), q.Host()) || stepper.Optimizer().Step() != int64(k+1) || q.Updates != uint64(k+1) || !sameNorm || !reflect.DeepEqual(r, want) {
				t.Fatalf("max norm %v, update %d: not the parameters or the report by hand: %+v, want %+v", maxNorm, k, r, want)
			}
		}
		if (clipped > 0) != (maxNorm > 0) {
			t.Errorf("max norm %v: %d gradients were clipped: the test shows little", maxNorm, clipped)
		}
		b := randomBatch(s, loss, rng.New(2, "test", 0), rows)
		if allocs := testing.AllocsPerRun(5, func() { check(t, stepper.Update(q, b, 1e-3, &r)) }); allocs != 0 {
			t.Errorf("%v allocations", allocs)
		}
	}
}

// The targets of a QStepper's updates are those of the textbook, with and without double
// Q-learning and masks; the rest is a stepper's.
func TestQStepper(t *testing.T) { onBoth(t, testQStepper) }

func testQStepper(t *testing.T) {
	s, d := smallMLP(), mustDevice(t, tested, 2)
	const rows = 7
	width := s.Heads[0].Out
	for _, double := range []bool{false, true} {
		for _, masked := range []bool{false, true} {
			c := StepperConfig{Net: s, Rows: rows, Loss: TD{Kind: "huber", Reduction: "mean"}, Optimizer: OptimizerConfig{Name: "adam"}, MaxGradNorm: 1}
			stepper, plain := must(d.QStepper(c, double))(t), must(d.Stepper(c))(t)
			p, q, target := mustInit(t, s, 1), mustInit(t, s, 1), mustInit(t, s, 2)
			for k := range 4 {
				r := rng.New(3, "test", k)
				b := randomBatch(s, c.Loss, r, rows)
				x := &experience.Transitions{Obs: b.Obs, NextObs: randomObs(s, r, rows), Actions: b.Actions, Rewards: make([]float32, rows), Discounts: make([]float32, rows)}
				if masked {
					x.NextMasks = make([]byte, rows*width)
				}
				values, choosing := naiveOutputs(s, target, x.NextObs, rows)[0], naiveOutputs(s, q, x.NextObs, rows)[0]
				if !double {
					choosing = values
				}
				for i := range rows {
					x.Rewards[i], x.Discounts[i] = float32(r.Uniform(-1, 1)), float32(0.9*float64(r.Intn(2)))
					best := -1
					for a := range width {
						at := i*width + a
						if masked {
							x.NextMasks[at] = byte(r.Intn(2))
							if a == width-1 && best < 0 {
								x.NextMasks[at] = 1
							}
						}
						if (!masked || x.NextMasks[at] != 0) && (best < 0 || choosing[at] > choosing[i*width+best]) {
							best = a
						}
					}
					b.Columns[0][i] = float32(float64(x.Rewards[i]) + float64(x.Discounts[i])*values[i*width+best])
				}
				var have, want Report
				check(t, plain.Learn(p, b, &want))
				check(t, stepper.Update(q, target, x, 1e-2, &have))
				if !(math.Abs(have.Loss-want.Loss) <= 1e-5*math.Abs(want.Loss)) {
					t.Errorf("double %v, masks %v: loss %v, want %v", double, masked, have.Loss, want.Loss)
				}
				p.CopyFrom(q)
			}
			if n := stepper.Optimizer().Step(); n != 4 || q.Updates != 4 {
				t.Errorf("%d steps and %d updates of 4", n, q.Updates)
			}
		}
	}
	for want, c := range map[string]StepperConfig{
		"must be a TD that is not weighted": {Net: s, Rows: 4, Loss: TD{Kind: "huber", Reduction: "mean", Weighted: true}, Optimizer: OptimizerConfig{Name: "adam"}},
		"max_grad_norm: -1, must be at":     {Net: s, Rows: 4, Loss: TD{Kind: "huber", Reduction: "mean"}, Optimizer: OptimizerConfig{Name: "adam"}, MaxGradNorm: -1},
	} {
		if _, err := d.QStepper(c, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// spoil makes a number of the gradient that a stepper keeps NaN.
func spoil(t *testing.T, st Stepper) {
	switch s := st.(type) {
	case *stepper:
		s.grad[0] = float32(math.NaN())
	case *gpuStepper:
		check(t, s.lanes.main.Upload(s.gpuLearner.grad, bytesOf([]float32{float32(math.NaN())})))
	}
}

// What cannot be a step is not one, clipped or not.
func TestNotFinite(t *testing.T) { onBoth(t, testNotFinite) }

func testNotFinite(t *testing.T) {
	s := twoMLPs()
	loss, d := lossOf(s), mustDevice(t, tested, 1)
	for _, clip := range []float64{0, 0.5} {
		for _, what := range []string{"loss", "gradient norm"} {
			st := must(d.Stepper(StepperConfig{Net: s, Rows: 4, Loss: loss, Optimizer: OptimizerConfig{Name: "adam"}, MaxGradNorm: clip}))(t)
			p := mustInit(t, s, 1)
			b := randomBatch(s, loss, rng.New(1, "test", 0), 4)
			check(t, st.Update(p, b, 1e-3, &Report{}))
			before := p.Clone()
			var r Report
			var err error
			if what == "loss" {
				b.Columns[1][0] = float32(math.NaN())
				err = st.Update(p, b, 1e-3, &r)
			} else {
				check(t, st.Learn(p, b, &r))
				spoil(t, st)
				err = st.Step(p, 1e-3, &r)
			}
			if e := (*NotFinite)(nil); !errors.As(err, &e) || !errors.Is(err, fault.ErrNotFinite) || e.What != what || !math.IsNaN(e.Value) || err.Error() != what+": NaN, must be finite" {
				t.Errorf("%s: error %v", what, err)
			}
			if n := st.Optimizer().Step(); n != 1 || !slices.Equal(p.Host(), before.Host()) || p.Updates != 1 {
				t.Errorf("%s: %d steps applied, want 1", what, n)
			}
		}
	}
}
