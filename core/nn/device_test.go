package nn

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
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

// A stepper's updates are gradients, clipping and steps by hand, to the bit, and it
// reports their means.
func TestStepper(t *testing.T) {
	for _, maxNorm := range []float64{0, 0.05} {
		s := twoMLPs()
		loss, d := lossOf(s), mustCPU(t, 2)
		const rows, n = 6, 5
		l, err := d.Learner(s, rows, loss)
		if err != nil {
			t.Fatal(err)
		}
		config := OptimizerConfig{Name: "rmsprop", EpsInside: true}
		make1 := func() (*Params, Optimizer) {
			p := mustInit(t, s, 1)
			o, err := d.Optimizer(config, len(p.Host))
			if err != nil {
				t.Fatal(err)
			}
			return p, o
		}
		var batches []Batch
		for i := range n {
			batches = append(batches, randomBatch(s, loss, rng.New(1, "test", i), rows))
		}
		p, o := make1()
		grad := make([]float32, len(p.Host))
		var one, want Report
		want.Parts = make([]float64, 3)
		clipped := 0
		for k, b := range batches {
			if err := l.Gradient(p, b, grad, &one); err != nil {
				t.Fatal(err)
			}
			factor := float32(1)
			if maxNorm > 0 {
				var norm float64
				norm, factor = o.ClipGradNorm(grad, maxNorm)
				want.Norm += norm / n
				if norm > maxNorm {
					clipped++
				}
			}
			if err := o.Apply(p, grad, factor, 1e-2/float64(k+1)); err != nil {
				t.Fatal(err)
			}
			want.Loss += one.Loss / n
			for i, v := range one.Parts {
				want.Parts[i] += v / n
			}
		}
		if maxNorm > 0 && clipped == 0 {
			t.Error("nothing was clipped: the test shows little")
		}
		p2, o2 := make1()
		stepper, err := d.Stepper(l, o2, maxNorm)
		if err != nil {
			t.Fatal(err)
		}
		next := func(k int, b *Batch) (float64, error) {
			*b = batches[k]
			return 1e-2 / float64(k+1), nil
		}
		r := &Report{Loss: 7, Parts: []float64{7, 7, 7, 7}}
		if err := stepper.Update(p2, n, next, r); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.Host, p2.Host) || o2.Step() != n || p2.Updates != n {
			t.Errorf("max norm %v: not the parameters of %d steps by hand, %d steps", maxNorm, n, o2.Step())
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }
		if !near(r.Loss, want.Loss) || !near(r.Norm, want.Norm) || !slices.EqualFunc(r.Parts, want.Parts, near) {
			t.Errorf("max norm %v: reported %+v, want %+v", maxNorm, *r, want)
		}
		if allocs := testing.AllocsPerRun(5, func() { err = stepper.Update(p2, n, next, r) }); allocs != 0 || err != nil {
			t.Errorf("%v allocations, error %v", allocs, err)
		}
	}
}

// spoiltLearner is one whose gradients are NaN from some time on.
type spoiltLearner struct {
	Learner
	gradient bool
}

func (l *spoiltLearner) Gradient(p *Params, b Batch, grad []float32, r *Report) error {
	err := l.Learner.Gradient(p, b, grad, r)
	if l.gradient {
		grad[0] = float32(math.NaN())
	}
	return err
}

// What cannot be a step is not one; those before it stay.
func TestStepperErrors(t *testing.T) {
	s := twoMLPs()
	loss, d := lossOf(s), mustCPU(t, 1)
	p := mustInit(t, s, 1)
	l, err := d.Learner(s, 4, loss)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"loss", "gradient norm"} {
		o := mustOptimizer(t, OptimizerConfig{Name: "adam"}, len(p.Host))
		spoilt := &spoiltLearner{Learner: l}
		stepper, err := d.Stepper(spoilt, o, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		p := p.Clone()
		var after []float32 // the first update
		err = stepper.Update(p, 3, func(k int, b *Batch) (float64, error) {
			*b = randomBatch(s, loss, rng.New(1, "test", k), 4)
			if k == 1 {
				after = slices.Clone(p.Host)
				if spoilt.gradient = what != "loss"; !spoilt.gradient {
					b.Columns[1][0] = float32(math.NaN())
				}
			}
			return 1e-3, nil
		}, &Report{})
		if !errors.Is(err, fault.ErrNotFinite) || !strings.HasPrefix(err.Error(), what+": NaN") {
			t.Errorf("%s: error %v", what, err)
		}
		if o.Step() != 1 || !slices.Equal(p.Host, after) {
			t.Errorf("%s: %d steps applied, want 1", what, o.Step())
		}
	}
	o := mustOptimizer(t, OptimizerConfig{Name: "adam"}, len(p.Host))
	stepper, err := d.Stepper(l, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	if err := stepper.Update(p, 2, func(int, *Batch) (float64, error) { return 0, stopped }, &Report{}); err != stopped || o.Step() != 0 {
		t.Errorf("error %v after %d steps", err, o.Step())
	}
	if _, err := d.Stepper(l, o, -1); err == nil || err.Error() != "max_grad_norm: -1, must be at least 0" {
		t.Errorf("error %v", err)
	}
	if _, err := d.Stepper(l, mustOptimizer(t, OptimizerConfig{Name: "adam"}, 3), 1); err == nil || !strings.HasPrefix(err.Error(), "optimizer: made for 3 parameters") {
		t.Errorf("error %v", err)
	}
}
