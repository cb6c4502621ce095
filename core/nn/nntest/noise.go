package nntest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// hashes are numbers of the hash of generate_reference.py in the place of normal ones.
type hashes struct {
	key uint32
	i   int
}

func (h *hashes) Normal() float64 {
	h.i++
	return float64(hashUniform(h.key, h.i-1, -2, 2))
}

// Perturbed returns parameters with noise that is drawn from r.
func Perturbed(t *testing.T, s nn.Spec, p *nn.Params, r nn.Normals) (*nn.Params, *nn.Noise) {
	t.Helper()
	noise := Must(s.NewNoise())(t)
	noise.Draw(r)
	to := nn.NewParams(p.Layout)
	noise.Apply(to, p)
	return to, noise
}

// noisies returns noisy networks.
func noisies() []nn.Spec {
	all := []nn.Spec{SmallMLP(), WithNorm(SmallMLP(), "layer_all"), Duels()[5], Implicits()[0], Duels()[6], SmallNature(), Implicits()[1]}
	for i := range all {
		all[i].Trunks = slices.Clone(all[i].Trunks)
		all[i].Trunks[0].Noisy = 0.5
	}
	return all
}

// layersOf returns the layers of a network that is allowed.
func layersOf(s nn.Spec) []nn.Layer {
	layers, err := s.Layers()
	if err != nil {
		panic(err)
	}
	return layers
}

// naivePerturbed is Perturbed by the definition, in float64. Trap: the noise of a weight is a
// product of f(x) = sgn(x) sqrt|x| of an input's number and of an output's, not a number of its
// own.
func naivePerturbed(s nn.Spec, p *nn.Params, r nn.Normals) *nn.Params {
	to, layers := p.Clone(), layersOf(s)
	f := func(x float64) float64 { return math.Copysign(math.Sqrt(math.Abs(x)), x) }
	for _, l := range layers {
		if l.Conv != nil || l.Norm != nil {
			continue
		}
		numbers := make([]float64, l.In+l.Out)
		for k := range numbers {
			numbers[k] = f(r.Normal())
		}
		in, out := numbers[:l.In], numbers[l.In:]
		w, b := Named(to, l.Name+".weight"), Named(to, l.Name+".bias")
		ws, bs := Named(to, l.Name+".weight_sigma"), Named(to, l.Name+".bias_sigma")
		for j := range out {
			for k := range in {
				w[j*l.In+k] = float32(float64(w[j*l.In+k]) + float64(ws[j*l.In+k])*out[j]*in[k])
			}
			b[j] = float32(float64(b[j]) + float64(bs[j])*out[j])
		}
	}
	return to
}

// testNoise compares parameters with noise, and the gradient of the sigmas, with their definitions.
// A network without noise does not see the sigmas.
func (on *suite) testNoise(t *testing.T) {
	const rows = 3
	if on.device(t, 1).Name() != "cpu" {
		_, err := on.device(t, 1).Network(noisies()[0], 1)
		if err == nil || !strings.HasPrefix(err.Error(), "trunks[0].noisy: 0.5, must be 0 on ") {
			t.Errorf("error %v", err)
		}
		return
	}
	for _, s := range noisies() {
		p, plain := Init(t, s, 1), s
		plain.Trunks = slices.Clone(s.Trunks)
		plain.Trunks[0].Noisy = 0
		if q := Init(t, plain, 1); !slices.Equal(q.Host(), p.Host()[:len(q.Host())]) {
			t.Errorf("%s: other initial weights than without noise", Name(s))
		}
		for _, l := range layersOf(s) {
			if l.Conv == nil && l.Norm == nil {
				for _, name := range []string{".weight_sigma", ".bias_sigma"} {
					for _, sigma := range Named(p, l.Name+name) {
						if want := float32(0.5 / math.Sqrt(float64(l.In))); sigma != want {
							t.Fatalf("%s: %s%s is %v, want %v", Name(s), l.Name, name, sigma, want)
						}
					}
				}
			}
		}
		got, noise := Perturbed(t, s, p, rng.New(3, "test", 0))
		want := naivePerturbed(s, p, rng.New(3, "test", 0))
		for i, v := range got.Host() {
			if w := want.Host()[i]; math.Abs(float64(v-w)) > 1e-6*(1+math.Abs(float64(w))) {
				t.Fatalf("%s: parameter %d is %v, want %v", Name(s), i, v, w)
			}
		}
		again, _ := Perturbed(t, s, p, rng.New(3, "test", 0))
		if other, _ := Perturbed(t, s, p, rng.New(3, "test", 1)); !slices.Equal(again.Host(), got.Host()) || slices.Equal(other.Host(), got.Host()) {
			t.Errorf("%s: the noise is not a function of its stream", Name(s))
		}
		// The derivative by a sigma is that by its weight times the noise.
		loss := LossOf(s)
		b, grad := RandomBatch(s, loss, rng.New(1, "test", 0), rows), make([]float32, len(p.Host()))
		l := on.learner(t, s, rows, loss)
		Check(t, l.Gradient(got, b, grad, &nn.Report{}))
		first := slices.IndexFunc(p.Layout.Params, func(q nn.Param) bool { return strings.HasSuffix(q.Name, "_sigma") })
		for _, g := range grad[p.Layout.Params[first].Offset:] {
			if g != 0 {
				t.Fatalf("%s: a learner has a gradient of sigmas, %v", Name(s), g)
			}
		}
		noise.Gradient(grad)
		one := p.Clone()
		for i := range one.Host() { // weights 0 and sigmas 1: Apply gives the noise itself
			one.Host()[i] = 0
			if i >= p.Layout.Params[first].Offset {
				one.Host()[i] = 1
			}
		}
		one.Wrote()
		factors := nn.NewParams(p.Layout)
		noise.Apply(factors, one)
		zero := 0
		for _, q := range p.Layout.Params[first:] {
			of := strings.TrimSuffix(q.Name, "_sigma")
			gw, f := grad[p.Layout.Params[slices.IndexFunc(p.Layout.Params, func(x nn.Param) bool { return x.Name == of })].Offset:], Named(factors, of)
			for j := range f {
				if g := grad[q.Offset+j]; math.Abs(float64(g-gw[j]*f[j])) > 1e-6*(1e-3+math.Abs(float64(g))) {
					t.Fatalf("%s: gradient of %s is %v, want %v", Name(s), q.Name, g, gw[j]*f[j])
				} else if g == 0 {
					zero++
				}
			}
		}
		if zero > len(grad)/2 {
			t.Errorf("%s: %d gradients of %d are 0", Name(s), zero, len(grad))
		}
	}
}

// testNoisyQStepper compares the updates of a noisy network with those of a Stepper at parameters
// with the same noise, and the targets with the target network's own noise. Trap: theta,
// theta-minus and the choices of a double target do not share noise.
func (on *suite) testNoisyQStepper(t *testing.T) {
	const rows = 5
	if on.device(t, 1).Name() != "cpu" {
		return
	}
	for _, s := range noisies()[:5] {
		for _, double := range []bool{false, true} {
			seed := uint64(9)
			c := nn.StepperConfig{Net: s, Rows: rows, Loss: LossOf(s), Optimizer: nn.OptimizerConfig{Name: "adam"}, Seed: &seed, MaxGradNorm: 10}
			d := on.device(t, 2)
			q := Must(d.QStepper(c, TargetOf(s, double)))(t)
			p, target := Init(t, s, 1), Init(t, s, 2)
			l, o := on.learner(t, s, rows, c.Loss), on.optimizer(t, c.Optimizer, p.Layout.Size)
			by, before := p.Clone(), target.Clone()
			for k := range 3 {
				if k == 2 {
					seed = 10 // the caller may change it
				}
				r := rng.New(3, "test", k)
				b := RandomBatch(s, c.Loss, r, rows)
				x := randomTransitions(s, &b, r)
				learned, noise := Perturbed(t, s, by, rng.New(seed, "noise online", k))
				chooses, _ := Perturbed(t, s, by, rng.New(seed, "noise choice", k))
				next, _ := Perturbed(t, s, target, rng.New(seed, "noise target", k))
				x.Key = r.Uint64()
				b.Columns[0] = naiveTarget(s, chooses, next, x, double)
				if l, ok := c.Loss.(nn.ImplicitHuber); ok {
					b.Columns[1] = drawnTaus(nn.OnlineTaus, x.Key, rows, l.Taus)
				}
				grad, have, want := make([]float32, p.Layout.Size), nn.Report{}, nn.Report{}
				Check(t, l.Gradient(learned, b, grad, &want))
				noise.Gradient(grad)
				norm, factor := d.ClipGradNorm(grad, 10)
				want.Norm = norm
				Check(t, o.Apply(by, grad, factor, 1e-2))
				Check(t, q.Update(p, target, x, 1e-2, &have))
				sameReport(t, fmt.Sprintf("%s, double %v", Name(s), double), have, want)
				by.CopyFrom(p)
			}
			if !slices.Equal(target.Host(), before.Host()) || p.Updates != 3 {
				t.Errorf("%s: the target has changed, or %d updates were counted", Name(s), p.Updates)
			}
			b := RandomBatch(s, c.Loss, rng.New(4, "test", 0), rows)
			x, report := randomTransitions(s, &b, rng.New(4, "test", 1)), nn.Report{}
			if a := testing.AllocsPerRun(5, func() { Check(t, q.Update(p, target, x, 1e-3, &report)) }); a > 12 {
				t.Errorf("%s: %v allocations", Name(s), a) // of streams
			}
		}
	}
}
