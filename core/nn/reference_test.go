package nn

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// testdata/generate_reference.py documents the file and holds the same hash.

type torchCase struct {
	Arch      string
	Obs       []int
	DType     string
	Actions   int
	Hidden    []int
	Batch     int
	Loss      struct{ Kind, Reduction string }
	Optimizer struct {
		Name     string
		Eps      float64
		Centered bool
	}
	LR, Clip      float64
	Reward        float64
	Losses, Norms []float64
	Shapes        [][2]any
	Gradients     []map[string]torchTensor
	Parameters    map[string]torchTensor
	State         map[string]map[string]torchTensor
}

type torchTensor struct {
	Norm, Largest float64
	Stride        int
	Values        []float32
}

func mix(x uint32) uint32 {
	x = (x ^ x>>16) * 0x85ebca6b
	x = (x ^ x>>13) * 0xc2b2ae35
	return x ^ x>>16
}

func hashBits(key uint32, i int) uint32 { return mix(uint32(i) + mix(key)) }

func hashUniform(key uint32, i int, low, high float64) float32 {
	return float32(low + (high-low)*(float64(hashBits(key, i))/(1<<32)))
}

func (c *torchCase) spec() Spec {
	s := Spec{Arch: c.Arch, Obs: env.ObsSpec{Shape: c.Obs}, Actions: c.Actions, Hidden: c.Hidden}
	if c.DType == "float32" {
		s.Obs.DType = env.Float32
	}
	return s
}

func (c *torchCase) params(t *testing.T, key uint32) *Params {
	l, err := c.spec().Layout()
	if err != nil {
		t.Fatal(err)
	}
	p := NewParams(l)
	fanIn := 0
	for i, part := range l.Params {
		if len(part.Shape) > 1 {
			fanIn = part.Size / part.Shape[0]
		}
		bound := math.Pow(float64(fanIn), -0.5)
		for j := range p.view(part) {
			p.view(part)[j] = hashUniform(key+uint32(i), j, -bound, bound)
		}
	}
	return p
}

func (c *torchCase) batch(step int) *Batch {
	s, key := c.spec(), 10000+100*uint32(step)
	obs := func(k uint32) (b []byte) {
		for i := range c.Batch * s.Obs.Len() {
			if s.Obs.DType == env.Uint8 {
				b = append(b, byte(hashBits(k, i)>>24))
			} else {
				b = binary.NativeEndian.AppendUint32(b, math.Float32bits(hashUniform(k, i, -2, 2)))
			}
		}
		return b
	}
	b := &Batch{Obs: obs(key), NextObs: obs(key + 1)}
	for i := range c.Batch {
		b.Actions = append(b.Actions, int32(hashBits(key+2, i)%uint32(c.Actions)))
		b.Rewards = append(b.Rewards, hashUniform(key+3, i, -c.Reward, c.Reward))
		d := float32(0.99)
		if hashBits(key+4, i)%4 == 0 {
			d = 0
		}
		b.Discounts = append(b.Discounts, d)
	}
	return b
}

// tolerance is the largest difference allowed, over the largest magnitude in the
// tensor.
const tolerance = 1e-5

// worst is the largest such ratio seen.
type worst struct{ ratio float64 }

func (w *worst) compare(t *testing.T, what string, got []float32, want torchTensor) {
	t.Helper()
	var largest, sum, diff float64
	for i, v := range got {
		largest = max(largest, math.Abs(float64(v)))
		sum += float64(v) * float64(v)
		if i%want.Stride == 0 {
			diff = max(diff, math.Abs(float64(v)-float64(want.Values[i/want.Stride])))
		}
	}
	if n := (len(got) + want.Stride - 1) / want.Stride; n != len(want.Values) {
		t.Fatalf("%s: %d values, the file has %d", what, n, len(want.Values))
	}
	for _, r := range []float64{
		diff / want.Largest, math.Abs(largest-want.Largest) / want.Largest, math.Abs(math.Sqrt(sum)-want.Norm) / want.Norm,
	} {
		if !(r < tolerance) {
			t.Errorf("%s: off by %.2g of its largest magnitude", what, r)
		}
		w.ratio = max(w.ratio, r)
	}
}

func (w *worst) number(t *testing.T, what string, got, want float64) {
	t.Helper()
	r := math.Abs(got-want) / math.Abs(want)
	if !(r < tolerance) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	w.ratio = max(w.ratio, r)
}

// TestAgainstTorch holds loss, every gradient and ten optimiser steps against
// PyTorch: testdata/reference.json, or the file that PACELINE_TORCH_REFERENCE
// names (a fresh output of the generator).
func TestAgainstTorch(t *testing.T) {
	path := "testdata/reference.json"
	if p := os.Getenv("PACELINE_TORCH_REFERENCE"); p != "" {
		path = p
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Torch string
		Cases []torchCase
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 6 {
		t.Fatalf("%d cases in %s", len(file.Cases), path)
	}
	onEveryISA(t, func(t *testing.T) {
		for _, c := range file.Cases {
			name := c.Arch + " " + c.Loss.Kind + " " + c.Loss.Reduction + " " + c.Optimizer.Name
			if c.Optimizer.Centered {
				name += " centered"
			}
			t.Run(name, func(t *testing.T) { c.check(t) })
		}
	})
}

func (c *torchCase) check(t *testing.T) {
	theta, target := c.params(t, 1000), c.params(t, 2000)
	if len(c.Shapes) != len(theta.Layout.Params) {
		t.Fatalf("%d parameters, PyTorch has %d", len(theta.Layout.Params), len(c.Shapes))
	}
	for i, part := range theta.Layout.Params {
		var shape []int
		for _, d := range c.Shapes[i][1].([]any) {
			shape = append(shape, int(d.(float64)))
		}
		if part.Name != c.Shapes[i][0] || !slices.Equal(part.Shape, shape) {
			t.Fatalf("parameter %d: %s %v, PyTorch has %v", i, part.Name, part.Shape, c.Shapes[i])
		}
	}
	learner := mustLearner(t, c.spec(), c.Batch, Loss{c.Loss.Kind, c.Loss.Reduction})
	grad := NewParams(theta.Layout)
	opt, err := NewOptimizer(OptimizerConfig{Name: c.Optimizer.Name, Eps: c.Optimizer.Eps, Centered: c.Optimizer.Centered}, len(grad.Data), nil)
	if err != nil {
		t.Fatal(err)
	}
	var w worst
	for step, want := range c.Losses {
		loss, err := learner.Gradient(theta, target, c.batch(step), grad.Data)
		if err != nil {
			t.Fatal(err)
		}
		w.number(t, "loss", float64(loss), want)
		if step == 0 || step == len(c.Losses)-1 {
			for _, part := range grad.Layout.Params {
				w.compare(t, part.Name+" gradient", grad.view(part), c.Gradients[min(step, 1)][part.Name])
			}
		}
		if c.Clip > 0 {
			w.number(t, "gradient norm", opt.ClipGradNorm(grad.Data, c.Clip), c.Norms[step])
		}
		opt.Apply(theta.Data, grad.Data, c.LR)
	}
	for _, part := range theta.Layout.Params {
		w.compare(t, part.Name, theta.view(part), c.Parameters[part.Name])
	}
	if len(c.State) != len(opt.State()) {
		t.Fatalf("%d state arrays, PyTorch has %d", len(opt.State()), len(c.State))
	}
	for _, s := range opt.State() {
		for _, part := range theta.Layout.Params {
			w.compare(t, s.Name+" of "+part.Name, s.Data[part.Offset:part.Offset+part.Size], c.State[s.Name][part.Name])
		}
	}
	t.Logf("worst ratio %.2g", w.ratio)
}
