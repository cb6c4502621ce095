package nntest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
)

// testdata/generate_reference.py documents the file and holds the same hash.

type torchCase struct {
	Arch       string
	Obs        []int
	DType      string
	Actions    int
	Branches   []int32 // nil: one of Actions
	Box        int     // Gaussians
	Masks      bool
	Atoms      int
	Min, Max   float64
	Quantiles  int
	Cosines    int // with Taus, Targets and Choosing
	Taus       int
	Targets    int
	Choosing   int
	Dueling    string
	Munchausen []float64 // alpha, tau, least; nil: the target is another
	Noisy      bool
	LogProb    *[2]float64 `json:"log_prob"` // range of the recorded log-probabilities; nil: -2 to 0
	Hidden     []int
	HiddenV    []int `json:"hidden_v"`
	Activation string
	Norm       string
	NormEps    float64 `json:"norm_eps"`
	Batch      int
	Loss       struct {
		Kind, Reduction string
		EntropyCoef     float64 `json:"entropy_coef"`
		ValueCoef       float64 `json:"value_coef"`
		ClipRange       float64 `json:"clip_range"`
		ValueRange      float64 `json:"value_range"`
		ValueClip       string  `json:"value_clip"`
		Scale           float64
		Importance      string
		Kappa           float64
	}
	Optimizer struct {
		Name         string
		Eps, Decay   float64
		Centered     bool
		EpsInside    bool    `json:"eps_inside"`
		FirstAverage float64 `json:"first_average"`
	}
	LR, Clip      float64
	Reward        float64
	Losses, Norms []float64
	Parts         [][]float64
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

func (c *torchCase) spec() nn.Spec {
	trunk := nn.Trunk{Arch: c.Arch, Hidden: c.Hidden, Activation: c.Activation, Norm: c.Norm, NormEps: c.NormEps}
	of := func(hidden []int) nn.Trunk { t := trunk; t.Hidden = hidden; return t }
	s := QSpec(env.ObsSpec{Shape: c.Obs}, c.Actions, trunk)
	switch {
	case c.hasPolicy() && c.HiddenV != nil:
		s = ActorCritic(s.Obs, c.Actions, trunk, of(c.HiddenV))
	case c.hasPolicy():
		s = ActorCritic(s.Obs, c.Actions, trunk)
	}
	if c.Branches != nil {
		s = WithPolicy(s, c.Branches, c.Box)
	}
	if c.DType == "float32" {
		s.Obs.DType = env.Float32
	}
	if h := &s.Heads[0]; h.Name == "q" {
		h.Atoms, h.Min, h.Max, h.Quantiles = c.Atoms, c.Min, c.Max, c.Quantiles
		h.Cosines, h.Taus = c.Cosines, c.Taus
		h.Dueling, h.Rescaled = c.Dueling != "", c.Dueling == "rescaled"
	}
	if c.Noisy {
		s.Trunks[0].Noisy = 0.5
	}
	return s
}

func (c *torchCase) hasPolicy() bool { return c.Loss.Kind == "actor_critic" || c.Loss.Kind == "ppo" }

func (c *torchCase) loss() nn.Loss {
	switch c.Loss.Kind {
	case "actor_critic":
		return nn.ActorCritic{EntropyCoef: c.Loss.EntropyCoef, ValueCoef: c.Loss.ValueCoef}
	case "ppo":
		return nn.PPO{EntropyCoef: c.Loss.EntropyCoef, ValueCoef: c.Loss.ValueCoef, Largest: c.Loss.ValueClip == "largest"}
	case "categorical":
		return nn.CrossEntropy{Reduction: c.Loss.Reduction, Importance: c.Loss.Importance}
	case "quantile":
		return nn.QuantileHuber{Kappa: c.Loss.Kappa, Reduction: c.Loss.Reduction, Importance: c.Loss.Importance}
	case "implicit":
		return nn.ImplicitHuber{Taus: c.Taus, Targets: c.Targets, Kappa: c.Loss.Kappa, Reduction: c.Loss.Reduction, Importance: c.Loss.Importance}
	case "pqn":
		return nn.TD{Kind: "squared", Reduction: "mean", Weighted: true, Scale: c.Loss.Scale}
	}
	return nn.TD{Kind: c.Loss.Kind, Reduction: c.Loss.Reduction}
}

func (c *torchCase) params(t *testing.T, key uint32) *nn.Params {
	spec := c.spec()
	l, err := spec.Layout()
	if err != nil {
		t.Fatal(err)
	}
	p := nn.NewParams(l)
	layers, _ := spec.Layers()
	for i, part := range l.Params {
		low, high := -0.5, 0.5 // log_std, and the biases of a norm
		switch {
		case part.Name == "log_std":
		case strings.HasSuffix(part.Name, "_sigma"):
			low, high = 0, 0.2
		case layers[i/2].Norm == nil:
			high = math.Pow(float64(layers[i/2].FanIn()), -0.5)
			low = -high
		case i%2 == 0: // the scales of a norm
			low, high = 0.5, 1.5
		}
		for j := range p.Piece(part) {
			p.Piece(part)[j] = hashUniform(key+uint32(i), j, low, high)
		}
	}
	return p
}

// batch returns the batch of a step. For a Q-network, net computes the targets at the parameters
// target.
func (c *torchCase) batch(t *testing.T, step int, net nn.Network, target *nn.Params) nn.Batch {
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
	b := nn.Batch{Obs: obs(key)}
	branches, width := c.Branches, 0
	if branches == nil {
		branches = []int32{int32(c.Actions)}
	}
	for i := range c.Batch {
		for k, choices := range branches {
			b.Actions = append(b.Actions, int32(hashBits(key+2, i*len(branches)+k)%uint32(choices)))
		}
	}
	for i := range c.Batch * c.Box {
		b.Continuous = append(b.Continuous, hashUniform(key+8, i, -1.5, 1.5))
	}
	for i := range c.Batch {
		for k, choices := range branches {
			for a := range choices {
				allows := a == b.Actions[i*len(branches)+k] || hashBits(key+9, width)%4 != 0
				if width++; c.Masks {
					b.Masks = append(b.Masks, map[bool]byte{true: 1}[allows])
				}
			}
		}
	}
	if c.hasPolicy() || c.Loss.Kind == "pqn" {
		names := c.loss().Columns(&s)
		b.Columns = make([][]float32, len(names))
		logProb := [2]float64{-2, 0}
		if c.LogProb != nil {
			logProb = *c.LogProb
		}
		for i := range c.Batch {
			of := map[string]float32{
				"advantage": hashUniform(key+3, i, -2, 2), "return": hashUniform(key+4, i, -c.Reward, c.Reward), "weight": 1,
				"log_prob": hashUniform(key+6, i, logProb[0], logProb[1]), "clip_range": float32(c.Loss.ClipRange),
				"old_value": hashUniform(key+7, i, -1, 1), "clip_range_vf": float32(c.Loss.ValueRange),
				"target": hashUniform(key+3, i, -c.Reward, c.Reward),
			}
			if hashBits(key+5, i)%4 == 0 {
				of["weight"] = 0
			}
			if c.Loss.ValueClip == "" {
				of["clip_range_vf"] = float32(math.Inf(1))
			}
			for k, column := range names {
				b.Columns[k] = append(b.Columns[k], of[column.Name])
			}
		}
		return b
	}
	var rewards, discounts []float32
	for i := range c.Batch {
		rewards = append(rewards, hashUniform(key+3, i, -c.Reward, c.Reward))
		d := float32(0.99)
		if hashBits(key+4, i)%4 == 0 {
			d = 0
		}
		discounts = append(discounts, d)
	}
	if c.Atoms+c.Quantiles+c.Cosines > 0 || c.Munchausen != nil {
		x := &experience.Transitions{Obs: b.Obs, Actions: b.Actions, NextObs: obs(key + 1), Rewards: rewards, Discounts: discounts}
		numbers := func(k uint32, n int, low, high float64) (column []float32) {
			for i := range n {
				column = append(column, hashUniform(key+k, i, low, high))
			}
			return column
		}
		if m := c.Munchausen; m != nil {
			taus := policyTaus{numbers(7, c.Batch*c.Targets, 0, 1), numbers(8, c.Batch*c.Choosing, 0, 1), numbers(9, c.Batch*c.Choosing, 0, 1)}
			b.Columns = [][]float32{naiveMunchausen(s, target, nn.Munchausen{Alpha: m[0], Tau: m[1], Least: m[2]}, x, taus)}
			if c.Cosines > 0 {
				b.Columns = append(b.Columns, numbers(6, c.Batch*c.Taus, 0, 1))
			}
		} else if c.Cosines > 0 {
			taus := numbers(6, c.Batch*c.Taus, 0, 1)
			b.Columns = [][]float32{naiveImplicitTarget(s, target, target, x, numbers(7, c.Batch*c.Targets, 0, 1), numbers(8, c.Batch*c.Choosing, 0, 1)), taus}
		} else {
			b.Columns = [][]float32{naiveTarget(s, nil, target, x, false)}
		}
		if c.Loss.Importance != "" {
			b.Columns = append(b.Columns, numbers(5, c.Batch, 0.1, 2))
		}
		return b
	}
	q, err := net.Forward(target, obs(key+1), c.Batch)
	if err != nil {
		t.Fatal(err)
	}
	b.Columns = [][]float32{make([]float32, c.Batch)}
	for i, r := range rewards {
		b.Columns[0][i] = r + float32(discounts[i]*slices.Max(q.Row(0, i)))
	}
	return b
}

// tolerance is the largest allowed difference, divided by the largest magnitude in the tensor.
const tolerance = 1e-5

// worst is the largest such ratio.
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

// number compares a number of a step with the step's in all, relative to the largest of all steps:
// means of positive and negative terms may be near 0.
func (w *worst) number(t *testing.T, what string, got float64, all []float64, step int) {
	t.Helper()
	want, largest := all[step], 0.0
	for _, x := range all {
		largest = max(largest, math.Abs(x))
	}
	r := math.Abs(got-want) / largest
	if !(r < tolerance) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	w.ratio = max(w.ratio, r)
}

// AgainstTorch compares loss, every gradient and ten optimiser steps with PyTorch's. path is
// core/nn/testdata/reference.json; PACELINE_TORCH_REFERENCE may name a new output of the generator
// instead.
func AgainstTorch(t *testing.T, s Subject, path string) {
	on := &suite{s}
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
	if len(file.Cases) < 50 {
		t.Fatalf("%d cases in %s", len(file.Cases), path)
	}
	on.eachPath(t, func(t *testing.T) {
		for _, c := range file.Cases {
			name := c.Arch + " " + c.Norm + " " + c.Loss.Kind + " " + c.Loss.Reduction + c.Loss.ValueClip + " " + c.Optimizer.Name
			if c.Optimizer.Centered {
				name += " centered"
			}
			if c.Optimizer.EpsInside {
				name += fmt.Sprint(" eps inside, from ", c.Optimizer.FirstAverage)
			}
			if c.Branches != nil {
				name += fmt.Sprint(" ", c.Branches, c.Box)
			}
			if c.Masks {
				name += " masks"
			}
			if c.Noisy {
				name += " noisy"
			}
			if c.Munchausen != nil {
				name += " munchausen"
			}
			if c.Dueling != "" {
				name += " dueling " + c.Dueling
			}
			if c.Atoms+c.Quantiles+c.Cosines > 0 || c.Dueling != "" || onlyOnCPU(c.Arch) || c.Noisy {
				if on.device(t, 1).Name() != "cpu" {
					continue
				}
			}
			t.Run(name, func(t *testing.T) { c.run(t, on) })
		}
	})
}

func (c *torchCase) run(t *testing.T, on *suite) {
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
	learner := on.learner(t, c.spec(), c.Batch, c.loss())
	net := on.network(t, c.spec(), c.Batch)
	grad, device := nn.NewParams(theta.Layout), on.device(t, 1)
	opt := on.optimizer(t, nn.OptimizerConfig{Name: c.Optimizer.Name, Eps: c.Optimizer.Eps, Decay: c.Optimizer.Decay, Centered: c.Optimizer.Centered,
		EpsInside: c.Optimizer.EpsInside, FirstAverage: c.Optimizer.FirstAverage}, len(grad.Host()))
	var r nn.Report
	var w worst
	parts := make([][]float64, len(c.loss().Parts()))
	for _, step := range c.Parts {
		for i := range parts {
			parts[i] = append(parts[i], step[i])
		}
	}
	for step := range c.Losses {
		at, by, noise := theta, target, (*nn.Noise)(nil)
		if c.Noisy {
			key := 10000 + 100*uint32(step)
			by, _ = Perturbed(t, c.spec(), target, &hashes{key: key + 21})
			at, noise = Perturbed(t, c.spec(), theta, &hashes{key: key + 20})
		}
		if err := learner.Gradient(at, c.batch(t, step, net, by), grad.Host(), &r); err != nil {
			t.Fatal(err)
		}
		if noise != nil {
			noise.Gradient(grad.Host())
		}
		w.number(t, "loss", r.Loss, c.Losses, step)
		for i, name := range c.loss().Parts() {
			w.number(t, name, r.Parts[i], parts[i], step)
		}
		if step == 0 || step == len(c.Losses)-1 {
			for _, part := range grad.Layout.Params {
				w.compare(t, part.Name+" gradient", grad.Piece(part), c.Gradients[min(step, 1)][part.Name])
			}
		}
		factor := float32(1)
		if c.Clip > 0 {
			var norm float64
			norm, factor = device.ClipGradNorm(grad.Host(), c.Clip)
			w.number(t, "gradient norm", norm, c.Norms, step)
		}
		if err := opt.Apply(theta, grad.Host(), factor, c.LR); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range theta.Layout.Params {
		w.compare(t, part.Name, theta.Piece(part), c.Parameters[part.Name])
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
