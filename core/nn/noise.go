package nn

import "math"

// Normals gives numbers with the standard normal distribution: an rng.Stream.
type Normals interface{ Normal() float64 }

// Noise is the factorised noise of a noisy network (Fortunato et al. 2018). A noisy layer with the
// parameters weight, bias, weight_sigma and bias_sigma computes with
//
//	weight + weight_sigma f(e_out) f(e_in)^T   and   bias + bias_sigma f(e_out)
//
// where f(x) = sgn(x) sqrt|x|, and e_in and e_out are a number for each input and output. A network
// computes with weight and bias alone, so Apply makes parameters to which the noise is added, and
// Gradient computes the gradient of the sigmas from that of the weights.
type Noise struct {
	layers []noisyLayer
}

type noisyLayer struct {
	weight, bias, weightSigma, biasSigma Param
	in, out                              []float32 // f(e_in), f(e_out)
}

// NewNoise returns noise of zeros. The network is one that Layout accepts.
func (s Spec) NewNoise() (*Noise, error) {
	layout, err := s.Layout()
	if err != nil {
		return nil, err
	}
	layers, _ := s.Layers()
	n, sigmas := &Noise{}, layout.Params[2*len(layers):]
	for i, l := range layers {
		if l.Sigma > 0 {
			n.layers = append(n.layers, noisyLayer{layout.Params[2*i], layout.Params[2*i+1], sigmas[0], sigmas[1], make([]float32, l.In), make([]float32, l.Out)})
			sigmas = sigmas[2:]
		}
	}
	return n, nil
}

// Draw draws the noise of every layer in layout order, that of the inputs first.
func (n *Noise) Draw(r Normals) {
	for i := range n.layers {
		for _, e := range [][]float32{n.layers[i].in, n.layers[i].out} {
			for k := range e {
				x := r.Normal()
				e[k] = float32(math.Copysign(math.Sqrt(math.Abs(x)), x))
			}
		}
	}
}

// Apply overwrites `to`, of from's layout, with from's parameters plus the noise. It copies
// Updates.
func (n *Noise) Apply(to, from *Params) {
	to.CopyFrom(from)
	for i := range n.layers {
		l := &n.layers[i]
		w, sigma := to.Piece(l.weight), to.Piece(l.weightSigma)
		for j, out := range l.out {
			addNoise(w[j*len(l.in):(j+1)*len(l.in)], sigma[j*len(l.in):(j+1)*len(l.in)], l.in, out)
		}
		b, biasSigma := to.Piece(l.bias), to.Piece(l.biasSigma)
		for j, out := range l.out {
			b[j] += float32(biasSigma[j] * out)
		}
	}
	to.Wrote()
}

// addNoise adds sigma times the noise to a row of weights.
func addNoise(w, sigma, in []float32, out float32) {
	sigma, in = sigma[:len(w)], in[:len(w)]
	for k := range w {
		w[k] += float32(sigma[k] * float32(in[k]*out))
	}
}

// Gradient fills in the gradient of the sigmas. grad has the gradient of the other parameters, at
// parameters that the latest Apply made.
func (n *Noise) Gradient(grad []float32) {
	piece := func(p Param) []float32 { return grad[p.Offset : p.Offset+p.Size] }
	for i := range n.layers {
		l := &n.layers[i]
		w, sigma := piece(l.weight), piece(l.weightSigma)
		for j, out := range l.out {
			timesNoise(sigma[j*len(l.in):(j+1)*len(l.in)], w[j*len(l.in):(j+1)*len(l.in)], l.in, out)
		}
		b, biasSigma := piece(l.bias), piece(l.biasSigma)
		for j, out := range l.out {
			biasSigma[j] = b[j] * out
		}
	}
}

// timesNoise sets to to a row of gradients times the noise.
func timesNoise(to, w, in []float32, out float32) {
	w, in = w[:len(to)], in[:len(to)]
	for k := range to {
		to[k] = w[k] * float32(in[k]*out)
	}
}
