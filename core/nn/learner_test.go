package nn

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// naiveQ is the network written down from its definition in float64.
func naiveQ(s Spec, p *Params, obs []byte, rows int) []float64 {
	trunk, q, _ := s.layers()
	x := make([]float64, rows*s.Obs.Len())
	for i := range x {
		if s.Obs.DType == env.Uint8 {
			x[i] = float64(obs[i])
			if len(s.Obs.Shape) == 3 {
				x[i] /= 255
			}
		} else {
			x[i] = float64(math.Float32frombits(uint32(obs[4*i]) | uint32(obs[4*i+1])<<8 | uint32(obs[4*i+2])<<16 | uint32(obs[4*i+3])<<24))
		}
	}
	for _, l := range append(trunk, q) {
		w, b := p.View(l.name+".weight"), p.View(l.name+".bias")
		y := make([]float64, rows*l.out)
		for i := range rows {
			in, out := x[i*l.in:(i+1)*l.in], y[i*l.out:(i+1)*l.out]
			if c := l.conv; c != nil {
				k := c.Kernel
				for o := range out {
					ch, r, col := o/(c.OutH()*c.OutW()), o/c.OutW()%c.OutH(), o%c.OutW()
					sum := float64(b[ch])
					for ic := range c.InC {
						for kr := range k {
							for kc := range k {
								sum += float64(w[((ch*c.InC+ic)*k+kr)*k+kc]) * in[(ic*c.InH+r*c.Stride+kr)*c.InW+col*c.Stride+kc]
							}
						}
					}
					out[o] = sum
				}
			} else {
				for o := range out {
					out[o] = float64(b[o])
					for j := range in {
						out[o] += float64(w[o*l.in+j]) * in[j]
					}
				}
			}
			for o := range out {
				if l.relu {
					out[o] = max(out[o], 0)
				}
			}
		}
		x = y
	}
	return x
}

// naiveLoss is the loss written down from its definition in float64.
func naiveLoss(s Spec, loss Loss, theta, target *Params, b *Batch) float64 {
	n := len(b.Actions)
	q, next := naiveQ(s, theta, b.Obs, n), naiveQ(s, target, b.NextObs, n)
	var sum float64
	for i, a := range b.Actions {
		best := math.Inf(-1)
		for _, v := range next[i*s.Actions : (i+1)*s.Actions] {
			best = math.Max(best, v)
		}
		d := q[i*s.Actions+int(a)] - (float64(b.Rewards[i]) + float64(b.Discounts[i])*best)
		switch {
		case loss.Kind == "squared":
			sum += d * d
		case math.Abs(d) < 1:
			sum += d * d / 2
		default:
			sum += math.Abs(d) - 0.5
		}
	}
	if loss.Reduction == "mean" {
		sum /= float64(n)
	}
	return sum
}

// slope is a finite difference of naiveLoss for one parameter.
type slope struct {
	part  Param
	index int // in the flat array
	value float64
}

func slopes(s Spec, loss Loss, theta, target *Params, b *Batch, r *rng.Stream) (all []slope) {
	for _, part := range theta.Layout.Params {
		checks := min(part.Size, 12) // every element of the tiny networks
		if s.Arch == "nature_cnn" {
			checks = 3
		}
		for k := range checks {
			i := part.Offset + k
			if part.Size > checks {
				i = part.Offset + r.Intn(part.Size)
			}
			was := theta.Data[i]
			const h = 1e-5
			theta.Data[i] = was + h
			hi, up := theta.Data[i], naiveLoss(s, loss, theta, target, b)
			theta.Data[i] = was - h
			lo, down := theta.Data[i], naiveLoss(s, loss, theta, target, b)
			theta.Data[i] = was
			all = append(all, slope{part, i, (up - down) / (float64(hi) - float64(lo))})
		}
	}
	return all
}

func TestGradientAgainstFiniteDifferences(t *testing.T) {
	cnn := smallCNN()
	cnn.Obs.Shape = []int{1, 36, 36}
	bytesMLP := Spec{Arch: "mlp", Obs: env.ObsSpec{Shape: []int{3}}, Actions: 2, Hidden: []int{4}}
	pictureMLP := Spec{Arch: "mlp", Obs: env.ObsSpec{Shape: []int{1, 2, 3}}, Actions: 2, Hidden: []int{1}}
	linear := Spec{Arch: "mlp", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{2, 2}}, Actions: 1, Hidden: []int{}}
	linearBytes := Spec{Arch: "mlp", Obs: env.ObsSpec{Shape: []int{2, 2}}, Actions: 2, Hidden: []int{}}
	for _, c := range []struct {
		name  string
		spec  Spec
		batch int
	}{
		{"mlp", smallMLP(), 9}, {"one row", smallMLP(), 1}, {"bytes", bytesMLP, 5}, {"picture", pictureMLP, 4},
		{"linear", linear, 3}, {"linear one row", linear, 1}, {"linear bytes", linearBytes, 6}, {"cnn", cnn, 2},
	} {
		for _, loss := range []Loss{{"huber", "mean"}, {"huber", "sum"}, {"squared", "mean"}, {"squared", "sum"}} {
			if c.name == "cnn" && loss != (Loss{"huber", "sum"}) {
				continue // the loss is the same op; the definition of a convolution is slow
			}
			r := rng.New(7, "test", 0)
			theta, target := mustInit(t, c.spec, 1), mustInit(t, c.spec, 2)
			b := randomBatch(c.spec, r, c.batch)
			wantLoss := naiveLoss(c.spec, loss, theta, target, b)
			wantSlopes := slopes(c.spec, loss, theta, target, b, r)
			onEveryISA(t, func(t *testing.T) {
				grad := make([]float32, len(theta.Data))
				for i := range grad {
					grad[i] = 99 // must be overwritten
				}
				got, err := mustLearner(t, c.spec, c.batch, loss).Gradient(theta, target, b, grad)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(float64(got)-wantLoss) > 1e-5*(1+wantLoss) {
					t.Errorf("%s, %v: loss %v, want %v", c.name, loss, got, wantLoss)
				}
				for _, w := range wantSlopes {
					// float32 sums on one side; a kink of ReLU or Huber within h on the other.
					if math.Abs(float64(grad[w.index])-w.value) > 1e-4*(1+math.Abs(w.value)) {
						t.Errorf("%s, %v: gradient of %s[%d] is %v, finite difference %v", c.name, loss, w.part.Name, w.index-w.part.Offset, grad[w.index], w.value)
					}
				}
			})
		}
	}
}

// Nothing of the caller's may be kept after a call.
func TestGradientReleasesMemory(t *testing.T) {
	s := smallMLP()
	l := mustLearner(t, s, 4, Loss{"huber", "mean"})
	theta := mustInit(t, s, 1)
	if _, err := l.Gradient(theta, theta, randomBatch(s, rng.New(1, "test", 0), 4), make([]float32, len(theta.Data))); err != nil {
		t.Fatal(err)
	}
	for i, v := range l.machine.values {
		n := l.machine.nodes[i]
		if d, ok := v.(interface{ Uint8s() []uint8 }); ok && n.Op() == nil && len(d.Uint8s()) != 0 {
			t.Errorf("leaf %v still has memory", n)
		}
	}
	for i, g := range l.grads {
		if len(g.Raw) != 0 {
			t.Errorf("gradient %d still has memory", i)
		}
	}
}

func TestGradientIsDeterministic(t *testing.T) {
	onEveryISA(t, func(t *testing.T) {
		s := smallCNN()
		theta, target := mustInit(t, s, 1), mustInit(t, s, 2)
		b := randomBatch(s, rng.New(3, "test", 0), 8)
		var first []float32
		for range 2 {
			l := mustLearner(t, s, 8, Loss{"huber", "sum"})
			for range 2 {
				grad := make([]float32, len(theta.Data))
				if _, err := l.Gradient(theta, target, b, grad); err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = grad
				}
				for i := range grad {
					if math.Float32bits(grad[i]) != math.Float32bits(first[i]) {
						t.Fatalf("element %d: %v, then %v", i, first[i], grad[i])
					}
				}
			}
		}
	})
}

func TestNaNReachesTheLoss(t *testing.T) {
	s := smallMLP()
	theta, target := mustInit(t, s, 1), mustInit(t, s, 2)
	b := randomBatch(s, rng.New(3, "test", 0), 4)
	b.Discounts[2] = 0.99
	for _, loss := range []Loss{{"huber", "mean"}, {"squared", "sum"}} {
		for name, spoil := range map[string]*float32{
			"theta": &theta.View("q_net.4.bias")[b.Actions[2]], "target": &target.View("q_net.4.bias")[1], "reward": &b.Rewards[2],
		} {
			was := *spoil
			*spoil = float32(math.NaN())
			got, err := mustLearner(t, s, 4, loss).Gradient(theta, target, b, make([]float32, len(theta.Data)))
			*spoil = was
			if err != nil || got == got {
				t.Errorf("NaN in %s: loss %v, error %v", name, got, err)
			}
		}
	}
}

func TestGradientErrors(t *testing.T) {
	s := smallMLP()
	l := mustLearner(t, s, 2, Loss{"huber", "mean"})
	p := mustInit(t, s, 1)
	other := s
	other.Hidden = []int{6, 7}
	otherParams := mustInit(t, other, 1)
	grad := make([]float32, len(p.Data))
	good := func() *Batch { return randomBatch(s, rng.New(1, "test", 0), 2) }
	for _, c := range []struct {
		want   string
		change func(b *Batch) (theta, target *Params, grad []float32)
	}{
		{"batch.obs: 39 bytes, must be 40 for 2 rows of float32 [5]", func(b *Batch) (*Params, *Params, []float32) { b.Obs = b.Obs[1:]; return p, p, grad }},
		{"batch.next_obs: 0 bytes", func(b *Batch) (*Params, *Params, []float32) { b.NextObs = nil; return p, p, grad }},
		{"must be a multiple of 4", func(b *Batch) (*Params, *Params, []float32) {
			b.Obs = append(make([]byte, 1, 64), b.Obs...)[1:]
			return p, p, grad
		}},
		{"batch: 1 actions, 2 rewards, 2 discounts, must be 2 each", func(b *Batch) (*Params, *Params, []float32) { b.Actions = b.Actions[:1]; return p, p, grad }},
		{"batch.actions[1]: 3, must be 0 to 2", func(b *Batch) (*Params, *Params, []float32) { b.Actions[1] = 3; return p, p, grad }},
		{"batch.actions[0]: -1, must be 0 to 2", func(b *Batch) (*Params, *Params, []float32) { b.Actions[0] = -1; return p, p, grad }},
		{"theta: ", func(b *Batch) (*Params, *Params, []float32) { return otherParams, p, grad }},
		{"target: ", func(b *Batch) (*Params, *Params, []float32) { return p, otherParams, grad }},
		{"grad: 1 floats, must be", func(b *Batch) (*Params, *Params, []float32) { return p, p, grad[:1] }},
	} {
		b := good()
		theta, target, g := c.change(b)
		if _, err := l.Gradient(theta, target, b, g); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if _, err := l.Gradient(p, p, good(), grad); err != nil {
		t.Errorf("after the errors: %v", err)
	}
	for want, build := range map[string]func() error{
		"batch_size: 0, must be 1 to 65536":                 func() error { _, err := NewLearner(s, 0, Loss{"huber", "mean"}, nil); return err },
		`loss.kind: "hubert", must be "huber" or "squared"`: func() error { _, err := NewLearner(s, 1, Loss{"hubert", "mean"}, nil); return err },
		`loss.reduction: "", must be "mean" or "sum"`:       func() error { _, err := NewLearner(s, 1, Loss{"huber", ""}, nil); return err },
	} {
		if err := build(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestGradientDoesNotAllocate(t *testing.T) {
	for _, s := range []Spec{smallMLP(), smallCNN()} {
		l := mustLearner(t, s, 4, Loss{"huber", "mean"})
		// Parameter sets and batches change from call to call.
		p := []*Params{mustInit(t, s, 1), mustInit(t, s, 2)}
		b := []*Batch{randomBatch(s, rng.New(1, "test", 0), 4), randomBatch(s, rng.New(2, "test", 0), 4)}
		grad := make([]float32, len(p[0].Data))
		i := 0
		if n := testing.AllocsPerRun(10, func() {
			if _, err := l.Gradient(p[i%2], p[(i+1)%2], b[i%2], grad); err != nil {
				t.Fatal(err)
			}
			i++
		}); n != 0 {
			t.Errorf("%s: %v allocations", s.Arch, n)
		}
	}
}

// BenchmarkUpdateNature is one whole update: target pass, forward, backward,
// gradient norm and the optimiser step, batch 32. It allocates nothing.
func BenchmarkUpdateNature(b *testing.B) {
	for name, precision := range precisions {
		for _, n := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", name, n), func(b *testing.B) {
				s := atari()
				s.Precision = precision
				update := newUpdate(b, s, 32, n)
				update()
				b.ReportAllocs()
				for b.Loop() {
					update()
				}
			})
		}
	}
}
