package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// naiveOutputs are the heads' outputs, written down from their definition in
// float64.
func naiveOutputs(s Spec, p *Params, obs []byte, rows int) (outputs [][]float64) {
	layers, _ := s.layers()
	x := make([]float64, rows*s.Obs.Len())
	for i := range x {
		if s.Obs.DType == env.Uint8 {
			x[i] = float64(obs[i])
			if len(s.Obs.Shape) == 3 && !s.RawImages {
				x[i] /= 255
			}
		} else {
			x[i] = float64(math.Float32frombits(uint32(obs[4*i]) | uint32(obs[4*i+1])<<8 | uint32(obs[4*i+2])<<16 | uint32(obs[4*i+3])<<24))
		}
	}
	features := make([][]float64, len(s.Trunks))
	for i, t := range s.Trunks {
		features[i] = x
		for range map[string]int{"nature_cnn": 4, "small_cnn": 3, "mlp": len(t.hidden())}[t.Arch] {
			n := 1
			if t.Norm != "" {
				n = 2
			}
			for range n {
				features[i] = layers[0].naive(p, features[i], rows)
				layers = layers[1:]
			}
		}
	}
	for i, l := range layers {
		outputs = append(outputs, l.naive(p, features[s.Heads[i].Trunk], rows))
	}
	return outputs
}

func (l *layer) naive(p *Params, x []float64, rows int) []float64 {
	w, b := p.named(l.name+".weight"), p.named(l.name+".bias")
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
		} else if l.norm != nil {
			l.naiveNorm(out, in, w, b)
		} else {
			for o := range out {
				out[o] = float64(b[o])
				for j := range in {
					out[o] += float64(w[o*l.in+j]) * in[j]
				}
			}
		}
		for o := range out {
			switch l.act {
			case relu:
				out[o] = max(out[o], 0)
			case tanh:
				out[o] = math.Tanh(out[o])
			}
		}
	}
	return y
}

// naiveLoss is the loss written down from its definition in float64.
func naiveLoss(s Spec, loss Loss, p *Params, b *Batch) (sum float64) {
	n := len(b.Actions)
	outputs := naiveOutputs(s, p, b.Obs, n)
	switch loss := loss.(type) {
	case TD:
		width, total := s.Heads[0].Out, 0.0
		for i, a := range b.Actions {
			d, w := outputs[0][i*width+int(a)]-float64(b.Columns[0][i]), 1.0
			if loss.Weighted {
				w = float64(b.Columns[1][i])
			}
			total += w
			switch {
			case loss.Kind == "squared":
				sum += w * d * d
			case math.Abs(d) < 1:
				sum += w * d * d / 2
			default:
				sum += w * (math.Abs(d) - 0.5)
			}
		}
		if loss.Reduction == "mean" {
			sum /= total
		}
		if loss.Scale != 0 {
			sum *= loss.Scale
		}
	case PPO:
		return naivePPO(s, loss, outputs, b)
	case ActorCritic:
		pi, v := s.Head("pi"), s.Head("v")
		width, total := s.Heads[pi].Out, 0.0
		for i, a := range b.Actions {
			logits, w := outputs[pi][i*width:(i+1)*width], float64(b.Columns[2][i])
			norm, entropy := 0.0, 0.0
			for _, x := range logits {
				norm += math.Exp(x)
			}
			for _, x := range logits {
				entropy -= math.Exp(x) / norm * (x - math.Log(norm))
			}
			d := outputs[v][i] - float64(b.Columns[1][i])
			sum += w * (-float64(b.Columns[0][i])*(logits[a]-math.Log(norm)) - loss.EntropyCoef*entropy + loss.ValueCoef*d*d)
			total += w
		}
		sum /= total
	}
	return sum
}

// slope is a finite difference of naiveLoss for one parameter.
type slope struct {
	part  Param
	index int // in the flat array
	value float64
}

func slopes(s Spec, loss Loss, p *Params, b *Batch, r *rng.Stream) (all []slope) {
	for _, part := range p.Layout.Params {
		checks := min(part.Size, 12) // every element of the tiny networks
		if s.Trunks[0].Arch != "mlp" {
			checks = min(part.Size, 3)
		}
		for k := range checks {
			i := part.Offset + k
			if part.Size > checks {
				i = part.Offset + r.Intn(part.Size)
			}
			was := p.Host()[i]
			const h = 1e-5
			p.Host()[i] = was + h
			hi, up := p.Host()[i], naiveLoss(s, loss, p, b)
			p.Host()[i] = was - h
			lo, down := p.Host()[i], naiveLoss(s, loss, p, b)
			p.Host()[i] = was
			all = append(all, slope{part, i, (up - down) / (float64(hi) - float64(lo))})
		}
	}
	return all
}

func TestGradientAgainstFiniteDifferences(t *testing.T) {
	cnn := smallNature()
	cnn.Obs.Shape = []int{1, 36, 36}
	raw := func(s Spec) Spec { s.RawImages = true; return s }
	vector, bytes := func(shape ...int) env.ObsSpec { return env.ObsSpec{DType: env.Float32, Shape: shape} }, func(shape ...int) env.ObsSpec { return env.ObsSpec{Shape: shape} }
	mlp := func(activation string, hidden ...int) Trunk {
		return Trunk{Arch: "mlp", Hidden: append([]int{}, hidden...), Activation: activation}
	}
	tds := []Loss{TD{Kind: "huber", Reduction: "mean"}, TD{Kind: "huber", Reduction: "sum"}, TD{Kind: "squared", Reduction: "mean"}, TD{Kind: "squared", Reduction: "sum"},
		TD{Kind: "squared", Reduction: "mean", Weighted: true, Scale: 0.5}, TD{Kind: "huber", Reduction: "sum", Weighted: true}}
	acs := []Loss{ActorCritic{0, 0.5}, ActorCritic{0.1, 0.25}, PPO{0.1, 0.25, false}, PPO{0.1, 0.25, true}}
	for _, c := range []struct {
		name   string
		spec   Spec
		batch  int
		losses []Loss
	}{
		{"mlp", smallMLP(), 9, tds}, {"one row", smallMLP(), 1, tds},
		{"bytes", qSpec(bytes(3), 2, mlp("", 4)), 5, tds}, {"image", qSpec(bytes(1, 2, 3), 2, mlp("relu", 1)), 4, tds},
		{"linear", qSpec(vector(2, 2), 1, mlp("")), 3, tds}, {"linear one row", qSpec(vector(2, 2), 1, mlp("")), 1, tds},
		{"linear bytes", qSpec(bytes(2, 2), 2, mlp("")), 6, tds}, {"cnn", cnn, 2, tds[1:2]},
		{"two trunks", twoMLPs(), 9, acs}, {"two trunks, one row", twoMLPs(), 1, acs},
		{"one trunk", actorCritic(vector(5), 3, mlp("tanh", 6, 5)), 7, acs}, {"one trunk of bytes", actorCritic(bytes(5), 2, mlp("relu", 4)), 7, acs},
		{"two linear heads", actorCritic(vector(4), 3, mlp("")), 6, acs}, {"two trunks of images, one linear", actorCritic(bytes(1, 3, 3), 3, mlp("tanh", 4), mlp("")), 6, acs},
		{"raw image", raw(qSpec(bytes(1, 2, 3), 2, mlp("relu", 1))), 4, tds[1:2]}, {"raw cnn", raw(qSpec(bytes(1, 20, 20), 2, Trunk{Arch: "small_cnn"})), 2, tds[1:2]},
		{"norm", withNorm(smallMLP(), "layer_channels"), 5, tds[:1]}, {"norm, one row", withNorm(smallMLP(), "layer_all"), 1, tds[2:3]}, {"norm of two trunks", withNorm(twoMLPs(), "layer_all"), 4, acs[1:]},
		{"norm of bytes", withNorm(qSpec(bytes(3), 2, mlp("", 6)), "layer_channels"), 3, tds[:1]}, {"norm of nothing", withNorm(qSpec(vector(2, 2), 1, mlp("")), "layer_all"), 3, tds[:1]},
		{"norm of a cnn's channels", withNorm(cnn, "layer_channels"), 2, tds[1:2]}, {"norm of a cnn", withNorm(cnn, "layer_all"), 2, tds[1:2]},
		{"norm of one cnn", withNorm(oneCNN(), "layer_all"), 3, acs[1:]}, {"norm of one cnn's channels", withNorm(oneCNN(), "layer_channels"), 3, acs[1:]},
		{"one cnn", oneCNN(), 3, acs[1:]}, {"cnn and mlp", actorCritic(bytes(1, 20, 20), 2, Trunk{Arch: "small_cnn"}, mlp("tanh", 3)), 2, acs[1:]},
	} {
		for _, loss := range c.losses {
			r := rng.New(7, "test", 0)
			p := mustInit(t, c.spec, 1)
			p.stirNorms(r)
			b := randomBatch(c.spec, loss, r, c.batch)
			if _, ok := loss.(PPO); ok {
				acted(c.spec, p, &b, r)
			}
			wantLoss := naiveLoss(c.spec, loss, p, &b)
			wantSlopes := slopes(c.spec, loss, p, &b, r)
			onEveryDevice(t, func(t *testing.T) {
				grad := make([]float32, len(p.Host()))
				for i := range grad {
					grad[i] = 99 // must be overwritten
				}
				var got Report
				if err := mustLearner(t, c.spec, c.batch, loss).Gradient(p, b, grad, &got); err != nil {
					t.Fatal(err)
				}
				if math.Abs(got.Loss-wantLoss) > 1e-5*(1+math.Abs(wantLoss)) {
					t.Errorf("%s, %v: loss %v, want %v", c.name, loss, got.Loss, wantLoss)
				}
				if l, ok := loss.(ActorCritic); ok {
					if sum := got.Parts[0] + l.ValueCoef*got.Parts[1] - l.EntropyCoef*got.Parts[2]; len(got.Parts) != 3 || math.Abs(sum-got.Loss) > 1e-6*(1+math.Abs(sum)) {
						t.Errorf("%s, %v: parts %v, loss %v", c.name, loss, got.Parts, got.Loss)
					}
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
	for _, s := range []Spec{smallMLP(), twoMLPs(), withNorm(oneCNN(), "layer_all")} {
		l, p := mustLearner(t, s, 4, lossOf(s)).(*learner), mustInit(t, s, 1)
		if err := l.Gradient(p, randomBatch(s, lossOf(s), rng.New(1, "test", 0), 4), make([]float32, len(p.Host())), &Report{}); err != nil {
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
}

func TestGradientIsDeterministic(t *testing.T) {
	onEveryDevice(t, func(t *testing.T) {
		for _, s := range append(norms(oneCNN(), twoMLPs()), smallNature(), twoMLPs(), oneCNN()) {
			p, b := mustInit(t, s, 1), randomBatch(s, lossOf(s), rng.New(3, "test", 0), 8)
			var first []float32
			for range 2 {
				l := mustLearner(t, s, 8, lossOf(s))
				for range 2 {
					grad := make([]float32, len(p.Host()))
					if err := l.Gradient(p, b, grad, &Report{}); err != nil {
						t.Fatal(err)
					}
					if first == nil {
						first = grad
					}
					for i := range grad {
						if math.Float32bits(grad[i]) != math.Float32bits(first[i]) {
							t.Fatalf("%s: element %d: %v, then %v", s.name(), i, first[i], grad[i])
						}
					}
				}
			}
		}
	})
}

func TestNaNReachesTheLoss(t *testing.T) { onBoth(t, testNaNReachesTheLoss) }

func testNaNReachesTheLoss(t *testing.T) {
	s := smallMLP()
	p := mustInit(t, s, 1)
	for _, loss := range []Loss{TD{Kind: "huber", Reduction: "mean"}, TD{Kind: "squared", Reduction: "sum"}} {
		b := randomBatch(s, loss, rng.New(3, "test", 0), 4)
		for name, spoil := range map[string]*float32{"parameters": &p.named("q_net.4.bias")[b.Actions[2]], "target": &b.Columns[0][2]} {
			was := *spoil
			*spoil = float32(math.NaN())
			var got Report
			err := mustLearner(t, s, 4, loss).Gradient(p, b, make([]float32, len(p.Host())), &got)
			*spoil = was
			if err != nil || got.Loss == got.Loss {
				t.Errorf("NaN in %s: loss %v, error %v", name, got.Loss, err)
			}
		}
	}
}

// A row of weight 0 changes nothing, whatever its columns hold.
func TestHolesHaveNoPart(t *testing.T) { onBoth(t, testHolesHaveNoPart) }

func testHolesHaveNoPart(t *testing.T) {
	s := twoMLPs()
	loss := lossOf(s)
	p, b := mustInit(t, s, 1), randomBatch(s, loss, rng.New(5, "test", 0), 12)
	run := func() (grad []float32, r Report) {
		grad = make([]float32, len(p.Host()))
		if err := mustLearner(t, s, 12, loss).Gradient(p, b, grad, &r); err != nil {
			t.Fatal(err)
		}
		return grad, r
	}
	want, wantReport := run()
	holes := 0
	for i, w := range b.Columns[2] {
		if w == 0 {
			holes++
			b.Columns[0][i], b.Columns[1][i], b.Actions[i] = float32(math.NaN()), float32(math.Inf(1)), 0
		}
	}
	got, report := run()
	if holes == 0 || !slices.Equal(got, want) || report.Loss != wantReport.Loss {
		t.Errorf("%d holes: loss %v, was %v", holes, report.Loss, wantReport.Loss)
	}
}

// TDTargetsAt has the value of the action that is named, against a plain loop.
func TestTDTargetsAt(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 50 {
		n, width := 1+r.IntN(9), 1+r.IntN(20)
		next, targets := make([]float32, n*width), make([]float32, n)
		rewards, discounts, actions := make([]float32, n), make([]float32, n), make([]int32, n)
		for k := range next {
			next[k] = float32(r.NormFloat64())
		}
		for i := range n {
			rewards[i], discounts[i], actions[i] = float32(r.NormFloat64()), r.Float32(), int32(r.IntN(width))
		}
		if err := TDTargetsAt(targets, next, actions, rewards, discounts); err != nil {
			t.Fatal(err)
		}
		for i, got := range targets {
			product := float32(discounts[i] * next[i*width+int(actions[i])])
			if want := rewards[i] + product; got != want {
				t.Fatalf("row %d: %v, want %v", i, got, want)
			}
		}
		actions[0] = int32(width)
		if err := TDTargetsAt(targets, next, actions, rewards, discounts); err == nil || !strings.Contains(err.Error(), "must be 0 to") {
			t.Errorf("%v", err)
		}
		if err := TDTargetsAt(targets, next, actions[1:], rewards, discounts); err == nil || !strings.Contains(err.Error(), "must be a row each") {
			t.Errorf("%v", err)
		}
	}
}

// TDTargets has a row's largest value, and its first NaN.
func TestTDTargets(t *testing.T) {
	nan := float32(math.NaN())
	targets := make([]float32, 3)
	if err := TDTargets(targets, []float32{1, 5, -2, -3, nan, 7}, []float32{0.5, 1, 2}, []float32{0.5, 0.9, 1}); err != nil {
		t.Fatal(err)
	}
	if by := float32(0.9); targets[0] != 3 || targets[1] != 1+float32(by*-2) || targets[2] == targets[2] {
		t.Errorf("targets %v", targets)
	}
	for _, c := range [][4]int{{2, 6, 3, 3}, {3, 7, 3, 3}, {3, 0, 3, 3}, {3, 6, 3, 2}, {0, 0, 0, 0}} {
		x := func(n int) []float32 { return make([]float32, n) }
		if err := TDTargets(x(c[0]), x(c[1]), x(c[2]), x(c[3])); err == nil || !strings.Contains(err.Error(), "must be a row each") {
			t.Errorf("%v: error %v", c, err)
		}
	}
}

func TestGradientErrors(t *testing.T) { onBoth(t, testGradientErrors) }

func testGradientErrors(t *testing.T) {
	s := smallMLP()
	loss := TD{Kind: "huber", Reduction: "mean"}
	l, p := mustLearner(t, s, 2, loss), mustInit(t, s, 1)
	other := s
	other.Trunks = []Trunk{{Arch: "mlp", Hidden: []int{6, 7}}}
	otherParams := mustInit(t, other, 1)
	grad := make([]float32, len(p.Host()))
	good := func() Batch { return randomBatch(s, loss, rng.New(1, "test", 0), 2) }
	for _, c := range []struct {
		want   string
		change func(b *Batch) (*Params, []float32)
	}{
		{"batch.obs: 39 bytes, must be 40 for 2 rows of float32 [5]", func(b *Batch) (*Params, []float32) { b.Obs = b.Obs[1:]; return p, grad }},
		{"must be a multiple of 4", func(b *Batch) (*Params, []float32) {
			b.Obs = append(make([]byte, 1, 64), b.Obs...)[1:]
			return p, grad
		}},
		{"batch.actions: 1, must be 2", func(b *Batch) (*Params, []float32) { b.Actions = b.Actions[:1]; return p, grad }},
		{"batch.actions[1]: 3, must be 0 to 2", func(b *Batch) (*Params, []float32) { b.Actions[1] = 3; return p, grad }},
		{"batch.actions[0]: -1, must be 0 to 2", func(b *Batch) (*Params, []float32) { b.Actions[0] = -1; return p, grad }},
		{"batch.columns: 0, must be 1: [target]", func(b *Batch) (*Params, []float32) { b.Columns = nil; return p, grad }},
		{"batch.columns[0] (target): 1 numbers, must be 2", func(b *Batch) (*Params, []float32) { b.Columns[0] = b.Columns[0][:1]; return p, grad }},
		{"parameters: of another network", func(b *Batch) (*Params, []float32) { return otherParams, grad }},
		{"parameters: of another network", func(b *Batch) (*Params, []float32) { return nil, grad }},
		{"grad: 1 floats, must be", func(b *Batch) (*Params, []float32) { return p, grad[:1] }},
	} {
		b := good()
		p, g := c.change(&b)
		if err := l.Gradient(p, b, g, &Report{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if err := l.Gradient(p, good(), grad, &Report{}); err != nil {
		t.Errorf("after the errors: %v", err)
	}
	wide := twoMLPs()
	wide.Heads[1].Out = 2
	for _, c := range []struct {
		want string
		spec Spec
		rows int
		loss Loss
	}{
		{"rows: 0, must be 1 to 65536", s, 0, loss},
		{`loss.kind: "hubert", must be "huber" or "squared"`, s, 1, TD{Kind: "hubert", Reduction: "mean"}},
		{`loss.reduction: "", must be "mean" or "sum"`, s, 1, TD{Kind: "huber", Reduction: ""}},
		{"loss.scale: -1, must be 0 to 1e6", s, 1, TD{Kind: "huber", Reduction: "sum", Scale: -1}},
		{`heads: none is called "q", which the loss needs`, twoMLPs(), 1, loss},
		{`heads: none is called "pi", which the loss needs`, s, 1, ActorCritic{}},
		{`heads: "v" has 2 outputs, must be 1`, wide, 1, ActorCritic{}},
		{"loss.entropy_coef: -1, must be 0 to 1e6", twoMLPs(), 1, ActorCritic{EntropyCoef: -1}},
		{"loss.value_coef: NaN, must be 0 to 1e6", twoMLPs(), 1, ActorCritic{ValueCoef: math.NaN()}},
	} {
		if _, err := mustDevice(t, tested, 1).Learner(c.spec, c.rows, c.loss); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestGradientDoesNotAllocate(t *testing.T) {
	for _, s := range append(norms(smallMLP(), smallNature(), twoMLPs(), oneCNN()), smallMLP(), smallNature(), twoMLPs(), oneCNN()) {
		loss := lossOf(s)
		l := mustLearner(t, s, 4, loss)
		// Parameter sets and batches change from call to call.
		p := []*Params{mustInit(t, s, 1), mustInit(t, s, 2)}
		b := []Batch{randomBatch(s, loss, rng.New(1, "test", 0), 4), randomBatch(s, loss, rng.New(2, "test", 0), 4)}
		grad := make([]float32, len(p[0].Host()))
		var r Report
		i := 0
		if n := testing.AllocsPerRun(10, func() {
			if err := l.Gradient(p[i%2], b[i%2], grad, &r); err != nil {
				t.Fatal(err)
			}
			i++
		}); n != 0 {
			t.Errorf("%s: %v allocations", s.name(), n)
		}
	}
}

// BenchmarkUpdateNature is one whole update: target pass, forward, backward,
// gradient norm and the optimiser step, batch 32. It allocates nothing.
func BenchmarkUpdateNature(b *testing.B) {
	for _, precision := range precisions {
		for _, n := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", precision, n), func(b *testing.B) {
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
