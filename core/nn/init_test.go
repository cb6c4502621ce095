package nn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

func TestUniformInitIsUniform(t *testing.T) {
	s := nntest.SmallNature()
	p, same, other := nntest.Init(t, s, 1), nntest.Init(t, s, 1), nntest.Init(t, s, 2)
	if !slices.Equal(p.Host(), same.Host()) || slices.Equal(p.Host(), other.Host()) {
		t.Error("parameters must depend on the stream and on nothing else")
	}
	fanIn := 0
	for _, part := range p.Layout.Params {
		if len(part.Shape) > 1 {
			fanIn = part.Size / part.Shape[0]
		}
		bound := 1 / math.Sqrt(float64(fanIn))
		var largest, sum, squares float64
		for _, v := range p.Piece(part) {
			largest = max(largest, math.Abs(float64(v)))
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		n := float64(part.Size)
		if largest > bound*1.000001 {
			t.Errorf("%s: %v beyond ±%v", part.Name, largest, bound)
		}
		// Four standard deviations of the mean and the mean square of a uniform distribution.
		if math.Abs(sum/n) > 4*bound/math.Sqrt(3*n) || math.Abs(squares/n/(bound*bound)-1.0/3) > 4*math.Sqrt(4.0/45/n) {
			t.Errorf("%s: mean %v, mean square %v: not uniform in ±%v", part.Name, sum/n, squares/n, bound)
		}
	}
}

// Norms start with scale 1 and bias 0 and draw no number: the other parameters equal those of the
// network without norms.
func TestNormsStartAsIdentity(t *testing.T) {
	for _, init := range []string{"uniform", "orthogonal", "he_normal", "xavier_uniform", "variance_scaling"} {
		for _, plain := range []nn.Spec{nntest.OneCNN(), nntest.TwoMLPs()} {
			plain.Init = init
			want := nntest.Init(t, plain, 1)
			for _, s := range nntest.Norms(plain) {
				p, k := nntest.Init(t, s, 1), 0
				layers, _ := s.Layers()
				for i, l := range layers {
					weight, bias := p.Piece(p.Layout.Params[2*i]), p.Piece(p.Layout.Params[2*i+1])
					if l.Norm != nil {
						if slices.ContainsFunc(weight, func(v float32) bool { return v != 1 }) || slices.ContainsFunc(bias, func(v float32) bool { return v != 0 }) {
							t.Errorf("%s: %s does not start as scale 1 and bias 0", nntest.Name(s), l.Name)
						}
						continue
					}
					if !slices.Equal(weight, want.Piece(want.Layout.Params[k])) || !slices.Equal(bias, want.Piece(want.Layout.Params[k+1])) {
						t.Errorf("%s: %s differs from the network without norms", nntest.Name(s), l.Name)
					}
					k += 2
				}
				if k != len(want.Layout.Params) {
					t.Errorf("%s: %d parameters of layers, want %d", nntest.Name(s), k, len(want.Layout.Params))
				}
			}
		}
	}
}

// Dopamine's weights are uniform in a range by the inputs, and the outputs, of a layer.
func TestUniformInitsOfFlax(t *testing.T) {
	for init, bounds := range map[string][]float64{
		"xavier_uniform":   {math.Sqrt(6. / (128 + 2048)), math.Sqrt(6. / (512 + 1024)), math.Sqrt(6. / (576 + 576))},
		"variance_scaling": {math.Sqrt(math.Sqrt(3) / 128), math.Sqrt(math.Sqrt(3) / 512), math.Sqrt(math.Sqrt(3) / 576)},
	} {
		s := nntest.Padded()
		s.Init = init
		p := nntest.Init(t, s, 1)
		for k, bound := range bounds {
			largest := 0.0
			for _, w := range p.Piece(p.Layout.Params[2*k]) {
				largest = max(largest, math.Abs(float64(w)))
			}
			if largest > bound || largest < 0.99*bound {
				t.Errorf("%s: weights of layer %d up to %v, must be up to %v", init, k, largest, bound)
			}
			if slices.ContainsFunc(p.Piece(p.Layout.Params[2*k+1]), func(b float32) bool { return b != 0 }) {
				t.Errorf("%s: biases of layer %d, must be 0", init, k)
			}
		}
	}
}

// log_std starts as LogStdInit and draws nothing.
func TestInitOfLogStd(t *testing.T) {
	for _, init := range []string{"uniform", "orthogonal", "he_normal", "xavier_uniform", "variance_scaling"} {
		s := nntest.WithPolicy(nntest.TwoMLPs(), []int32{2, 3}, 2)
		s.Init = init
		plain := nntest.Init(t, s, 1)
		s.LogStdInit = -0.5
		p := nntest.Init(t, s, 1)
		n := len(p.Host()) - 2
		if got := nntest.Named(p, "log_std"); !slices.Equal(got, []float32{-0.5, -0.5}) || !slices.Equal(plain.Host()[n:], []float32{0, 0}) {
			t.Errorf("%s: log_std %v and %v, must be -0.5 and 0", init, got, plain.Host()[n:])
		}
		if !slices.Equal(p.Host()[:n], plain.Host()[:n]) {
			t.Errorf("%s: log_std changes other parameters", init)
		}
	}
}

// Weights are orthogonal matrices times the layer's gain, biases are 0.
func TestOrthogonalInitIsOrthogonal(t *testing.T) {
	for _, c := range []struct {
		spec  nn.Spec
		gains map[string]float64 // gains other than the root of 2
	}{
		{nntest.TwoMLPs(), map[string]float64{"action_net.weight": 0.01, "value_net.weight": 1}},
		{nntest.OneCNN(), map[string]float64{"action_net.weight": 0.01, "value_net.weight": 1}},
		{nntest.SmallMLP(), nil}, // a head without a gain
	} {
		s := c.spec
		s.Init = "orthogonal"
		p, same, other := nntest.Init(t, s, 1), nntest.Init(t, s, 1), nntest.Init(t, s, 2)
		if !slices.Equal(p.Host(), same.Host()) || slices.Equal(p.Host(), other.Host()) {
			t.Error("parameters must depend on the stream and on nothing else")
		}
		for _, part := range p.Layout.Params {
			w := p.Piece(part)
			if len(part.Shape) == 1 {
				if slices.ContainsFunc(w, func(v float32) bool { return v != 0 }) {
					t.Errorf("%s: %v, must be 0", part.Name, w)
				}
				continue
			}
			gain, ok := c.gains[part.Name]
			if !ok {
				gain = math.Sqrt2
			}
			rows, cols := part.Shape[0], part.Size/part.Shape[0]
			vector := func(v, k int) float64 { return float64(w[v*cols+k]) }
			n, length := rows, cols
			if rows > cols {
				n, length = cols, rows
				vector = func(v, k int) float64 { return float64(w[k*cols+v]) }
			}
			for a := range n {
				for b := range a + 1 {
					dot, want := 0.0, 0.0
					for k := range length {
						dot += vector(a, k) * vector(b, k)
					}
					if a == b {
						want = gain * gain
					}
					if math.Abs(dot-want) > 1e-6*gain*gain {
						t.Fatalf("%s: vectors %d and %d have the product %v, want %v", part.Name, a, b, dot, want)
					}
				}
			}
		}
	}
}

// Orthogonal matrices follow Haar's measure. For 3x3 matrices, elements have mean 0 and mean square
// 1/3, half of the determinants are 1, and the trace has mean 0 and variance 1. Wrong signs of Q
// change the trace.
func TestOrthogonalMatricesFollowHaarsMeasure(t *testing.T) {
	const n = 4000
	r := rng.New(1, "test", 0)
	var mean, squares [9]float64
	positive, trace, traceSquares := 0.0, 0.0, 0.0
	w := make([]float32, 9)
	for range n {
		nn.Orthogonal(w, 3, 3, 1, r)
		x := func(i int) float64 { return float64(w[i]) }
		for i := range w {
			mean[i] += x(i) / n
			squares[i] += x(i) * x(i) / n
		}
		if det := x(0)*(x(4)*x(8)-x(5)*x(7)) - x(1)*(x(3)*x(8)-x(5)*x(6)) + x(2)*(x(3)*x(7)-x(4)*x(6)); det > 0 {
			positive += 1.0 / n
		}
		tr := x(0) + x(4) + x(8)
		trace += tr / n
		traceSquares += tr * tr / n
	}
	for i := range mean { // four standard deviations
		if math.Abs(mean[i]) > 4*math.Sqrt(1.0/3/n) || math.Abs(squares[i]-1.0/3) > 4*math.Sqrt(4.0/45/n) {
			t.Errorf("element %d: mean %v, mean square %v", i, mean[i], squares[i])
		}
	}
	if math.Abs(positive-0.5) > 2/math.Sqrt(n) || math.Abs(trace) > 4/math.Sqrt(n) || math.Abs(traceSquares-1) > 4*math.Sqrt(2.0/n) {
		t.Errorf("%v of the determinants are positive, trace of mean %v and mean square %v", positive, trace, traceSquares)
	}
}

func TestGaussianHasTheMoments(t *testing.T) {
	for _, x := range []float64{1e-300, 1e-9, 0.1, 0.5, math.Nextafter(math.Sqrt2/2, 0), math.Sqrt2 / 2, 0.9, 1 - 1e-9, 1, 1.5, 1e10} {
		if got, want := nn.Logarithm(x), math.Log(x); math.Abs(got-want) > 3e-16*math.Abs(want) {
			t.Errorf("log(%v) = %v, want %v", x, got, want)
		}
	}
	const n = 100_000
	r := rng.New(2, "test", 0)
	var moments [5]float64
	inside := 0.0
	for range n {
		x := nn.Gaussian(r)
		for k := range moments {
			moments[k] += math.Pow(x, float64(k)) / n
		}
		if math.Abs(x) < 1 {
			inside += 1.0 / n
		}
	}
	// Moments 0, 1, 0, 3 with variances 1, 2, 15, 96 over n; four standard deviations.
	for k, c := range [][2]float64{1: {0, 1}, 2: {1, 2}, 3: {0, 15}, 4: {3, 96}} {
		if k > 0 && math.Abs(moments[k]-c[0]) > 4*math.Sqrt(c[1]/n) {
			t.Errorf("moment %d is %v, want %v", k, moments[k], c[0])
		}
	}
	if math.Abs(inside-0.682689) > 4*math.Sqrt(0.22/n) {
		t.Errorf("%v are within one standard deviation", inside)
	}
}

func BenchmarkOrthogonalNature(b *testing.B) {
	s := nntest.Atari()
	s.Init = "orthogonal"
	for b.Loop() {
		nntest.Init(b, s, 1)
	}
}

// Weights have the deviation gain / sqrt(inputs), and no weight exceeds 2.3 deviations. A head has
// its own gain.
func TestHeNormalInitHasTheDeviation(t *testing.T) {
	s := nntest.SmallNature()
	s.Init, s.Heads[0].Gain = "he_normal", 1
	p := nntest.Init(t, s, 1)
	for k := 0; k < len(p.Layout.Params); k += 2 {
		weight, bias := p.Layout.Params[k], p.Layout.Params[k+1]
		fanIn := float64(weight.Size / weight.Shape[0])
		want := math.Sqrt(2 / fanIn)
		if k == len(p.Layout.Params)-2 {
			want = math.Sqrt(1 / fanIn)
		}
		var largest, squares float64
		for _, v := range p.Piece(weight) {
			largest, squares = max(largest, math.Abs(float64(v))), squares+float64(v)*float64(v)
		}
		n := float64(weight.Size)
		if got := math.Sqrt(squares / n); math.Abs(got/want-1) > 4/math.Sqrt(2*n) || largest > 2.28*want || largest < 1.5*want {
			t.Errorf("%s: deviation %v and %v at most, want a deviation of %v", weight.Name, got, largest, want)
		}
		if slices.ContainsFunc(p.Piece(bias), func(v float32) bool { return v != 0 }) {
			t.Errorf("%s is not 0", bias.Name)
		}
	}
}
