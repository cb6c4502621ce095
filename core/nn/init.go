package nn

import (
	"math"

	"github.com/paceline-rl/paceline/core/rng"
)

var inits = []string{"uniform", "orthogonal", "he_normal", "xavier_uniform", "variance_scaling"}

// InitialParams returns initial parameters in host memory. Numbers are drawn in layout order, so
// one stream gives the same parameters on every machine. n is the number of inputs of an output.
// Scales of normalisations are 1, their biases 0; sigmas of noisy layers are Layer.Sigma. Init is
// one of:
//
//	uniform     Weights and biases are uniform in ±1/sqrt(n): the default of PyTorch and of
//	            DeepMind's DQN.
//	orthogonal  Weights are an orthogonal matrix [out, n] times the layer's gain, biases are 0:
//	            Stable-Baselines3's actor-critic networks. The gain is the root of 2 in trunks
//	            and Head.Gain in heads. The matrix is filled with Gaussian numbers in row-major
//	            order and orthogonalised in float64. Its distribution is that of PyTorch's
//	            orthogonal_.
//	he_normal   Weights are Gaussian, truncated at two deviations, with deviation gain/sqrt(n)
//	            after the truncation; biases are 0. This is flax's he_normal, and with gain 1
//	            flax's lecun_normal.
//	xavier_uniform    Weights are uniform in ±sqrt(6/(n+m)), where m is the number of outputs of an
//	            input; biases are 0: the DQN of Dopamine's JAX code.
//	variance_scaling  Weights are uniform in ±sqrt(sqrt(3)/n), biases are 0: the distributional
//	            agents of Dopamine, flax's variance_scaling(1/sqrt(3), "fan_in", "uniform").
func (s Spec) InitialParams(r *rng.Stream) (*Params, error) {
	l, err := s.Layout()
	if err != nil {
		return nil, err
	}
	p := NewParams(l)
	layers, _ := s.Layers() // Layout has accepted them
	for i, y := range layers {
		weight, bias := p.Piece(l.Params[2*i]), p.Piece(l.Params[2*i+1])
		if y.Norm != nil {
			for j := range weight {
				weight[j] = 1
			}
			clear(bias)
			continue
		}
		switch s.Init {
		case "orthogonal":
			orthogonal(weight, len(weight)/y.FanIn(), y.FanIn(), y.Gain, r)
			clear(bias)
			continue
		case "he_normal":
			truncatedGaussians(weight, y.Gain/math.Sqrt(float64(y.FanIn())), r)
			clear(bias)
			continue
		}
		drawn, bound := [][]float32{weight, bias}, 1/math.Sqrt(float64(y.FanIn()))
		switch s.Init {
		case "xavier_uniform":
			drawn, bound = drawn[:1], math.Sqrt(6/float64(y.FanIn()+y.FanOut()))
		case "variance_scaling":
			drawn, bound = drawn[:1], math.Sqrt(math.Sqrt(3)/float64(y.FanIn()))
		}
		for _, part := range drawn {
			for j := range part {
				part[j] = float32(r.Uniform(-bound, bound))
			}
		}
	}
	k := 2 * len(layers)
	for _, y := range layers {
		if y.Sigma > 0 {
			fill(p.Piece(l.Params[k]), y.Sigma)
			fill(p.Piece(l.Params[k+1]), y.Sigma)
			k += 2
		}
	}
	if k < len(l.Params) {
		fill(p.Piece(l.Params[k]), s.LogStdInit)
	}
	return p, nil
}

func fill(x []float32, with float64) {
	for j := range x {
		x[j] = float32(with)
	}
}

// orthogonal fills w [rows, cols] with an orthogonal matrix times gain, drawn uniformly (by Haar's
// measure).
//
// It uses the modified Gram-Schmidt method in float64. The R of this QR decomposition has a
// positive diagonal, so the distribution of Q is uniform. Products are rounded before they are
// added, which gives the same bits on every processor.
func orthogonal(w []float32, rows, cols int, gain float64, r *rng.Stream) {
	draws := make([]float64, rows*cols)
	for i := range draws {
		draws[i] = gaussian(r)
	}
	// The vectors are rows or columns, whichever are fewer.
	n, length := rows, cols
	at := func(v, k int) int { return v*cols + k }
	if rows > cols {
		n, length = cols, rows
		at = func(v, k int) int { return k*cols + v }
	}
	vectors := make([][]float64, n)
	for v := range vectors {
		vectors[v] = make([]float64, length)
		for k := range vectors[v] {
			vectors[v][k] = draws[at(v, k)]
		}
	}
	for v, x := range vectors {
		by := 1 / math.Sqrt(dot(x, x))
		for k := range x {
			x[k] *= by
		}
		for _, y := range vectors[v+1:] {
			subtract(y, x, dot(x, y))
		}
		for k := range x {
			w[at(v, k)] = float32(gain * x[k])
		}
	}
}

// truncatedGaussians fills w with Gaussian numbers truncated at two deviations. The numbers in w
// have the given deviation.
func truncatedGaussians(w []float32, deviation float64, r *rng.Stream) {
	const truncated = 0.87962566103423978 // the deviation of the standard normal distribution truncated at 2
	for i := range w {
		x := gaussian(r)
		for math.Abs(x) > 2 {
			x = gaussian(r)
		}
		w[i] = float32(x * (deviation / truncated))
	}
}

// dot returns the product of two vectors. Four sums let additions overlap.
func dot(x, y []float64) float64 {
	var s0, s1, s2, s3 float64
	for ; len(x) >= 4 && len(y) >= 4; x, y = x[4:], y[4:] {
		s0 += float64(x[0] * y[0])
		s1 += float64(x[1] * y[1])
		s2 += float64(x[2] * y[2])
		s3 += float64(x[3] * y[3])
	}
	for k := range x {
		s0 += float64(x[k] * y[k])
	}
	return (s0 + s1) + (s2 + s3)
}

// subtract computes y -= by * x.
func subtract(y, x []float64, by float64) {
	for ; len(x) >= 4 && len(y) >= 4; x, y = x[4:], y[4:] {
		y[0] -= float64(by * x[0])
		y[1] -= float64(by * x[1])
		y[2] -= float64(by * x[2])
		y[3] -= float64(by * x[3])
	}
	for k := range x {
		y[k] -= float64(by * x[k])
	}
}

// gaussian draws from the standard normal distribution by Marsaglia's polar method. It discards the
// method's second number.
func gaussian(r *rng.Stream) float64 {
	for {
		u, v := r.Uniform(-1, 1), r.Uniform(-1, 1)
		if s := float64(u*u) + float64(v*v); s > 0 && s < 1 {
			return u * math.Sqrt(-2*logarithm(s)/s)
		}
	}
}

// logarithm returns the natural logarithm of a number above 0, with the same bits on every
// processor. math.Log differs between processors.
func logarithm(x float64) float64 {
	m, exponent := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, exponent = 2*m, exponent-1
	}
	// log m = 2 artanh t, by its series; |t| is at most 0.172.
	t := (m - 1) / (m + 1)
	tt, sum := float64(t*t), 0.0
	for k := 21; k >= 1; k -= 2 {
		sum = float64(sum*tt) + 1/float64(k)
	}
	return float64(2*t*sum) + float64(float64(exponent)*math.Ln2)
}
