package nn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
)

// Activation is the function that a layer applies to its output.
type Activation int

const (
	Linear Activation = iota
	ReLU
	Tanh
)

// Layer is one convolution, dense layer or normalisation with its activation. It has two
// parameters, a weight (in a normalisation the scale) and a bias. The activation of a convolution
// is ReLU. A layer with a normalisation after it has no activation; the normalisation has it.
type Layer struct {
	Name       string // prefix of the names of both parameters
	In, Out    int    // floats a row
	Conv       *Conv  // nil: another kind
	Norm       *Norm  // nil: another kind. A layer without Conv and Norm is dense
	Activation Activation
	Gain       float64 // of initial weights
	From       int     // index of the layer whose output it reads; -1: it reads the observation
	Head       bool
	// Rescaled: the gradient that flows into the input is multiplied by the root of 1/2.
	Rescaled bool
	// Taus: the number of taus of an observation, each of which has a row; 0: one row.
	Taus int
	// Cosines: the input is cos(pi i tau), i from 1 to In, of each tau. From is -1.
	Cosines bool
	// By is the layer whose output, for each tau, multiplies the output of From; 0: none does.
	By int
	// Sigma is the initial value of the sigmas of a noisy layer, a dense one with four parameters; 0:
	// the layer is not noisy. See Noise.
	Sigma float64
}

// Rows returns the rows of the layer for some observations.
func (l *Layer) Rows(observations int) int { return observations * max(1, l.Taus) }

// Conv is the shape of a convolution. Rows and columns that do not fill a kernel are dropped.
type Conv struct {
	InC, InH, InW, OutC, Kernel, Stride int
	// Same puts zeros around the image, so that no row or column is dropped: TensorFlow's padding
	// "SAME". If their number along an axis is odd, the far side has one more than the near side.
	Same bool
}

// OutH returns the height of the output.
func (c *Conv) OutH() int { return c.outputs(c.InH) }

// OutW returns the width of the output.
func (c *Conv) OutW() int { return c.outputs(c.InW) }

// outputs returns the outputs along an axis of n inputs.
func (c *Conv) outputs(n int) int {
	if c.Same {
		return (n + c.Stride - 1) / c.Stride
	}
	return (n-c.Kernel)/c.Stride + 1
}

// Padded returns the height and the width of the image with its zeros, and the numbers of rows and
// columns of zeros before the image.
func (c *Conv) Padded() (height, width, top, left int) {
	if !c.Same {
		return c.InH, c.InW, 0, 0
	}
	height, width = (c.OutH()-1)*c.Stride+c.Kernel, (c.OutW()-1)*c.Stride+c.Kernel
	return height, width, (height - c.InH) / 2, (width - c.InW) / 2
}

// Norm is the shape of a layer normalisation.
type Norm struct {
	Channels, Positions int   // of the layer that it normalises; a dense layer has one position
	All                 bool  // over channels and positions; false: over the channels at each position
	Shape               []int // of its parameters
	Eps                 float32
}

// Values of Trunk.Norm.
const (
	normChannels = "layer_channels"
	normAll      = "layer_all"
)

// WeightShape returns the shape of the first parameter.
func (l *Layer) WeightShape() []int {
	switch {
	case l.Conv != nil:
		return []int{l.Conv.OutC, l.Conv.InC, l.Conv.Kernel, l.Conv.Kernel}
	case l.Norm != nil:
		return l.Norm.Shape
	}
	return []int{l.Out, l.In}
}

// BiasShape returns the shape of the second parameter.
func (l *Layer) BiasShape() []int {
	if l.Norm != nil {
		return l.Norm.Shape
	}
	return []int{l.Units()}
}

// Units returns the number of channels of a convolution, of outputs of a dense layer, and of the
// units that a normalisation normalises.
func (l *Layer) Units() int {
	switch {
	case l.Conv != nil:
		return l.Conv.OutC
	case l.Norm != nil:
		return l.Norm.Channels
	}
	return l.Out
}

// FanIn returns the inputs of one output.
func (l *Layer) FanIn() int {
	if c := l.Conv; c != nil {
		return c.InC * c.Kernel * c.Kernel
	}
	return l.In
}

// FanOut returns the outputs of one input. The edges of an image are not considered.
func (l *Layer) FanOut() int {
	if c := l.Conv; c != nil {
		return c.OutC * c.Kernel * c.Kernel
	}
	return l.Out
}

// Layers checks the spec and returns its layers in the order of the layout: trunk by trunk from the
// observation on, then the heads.
func (s *Spec) Layers() (list []Layer, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	inputs := 1
	for _, d := range s.Obs.Shape {
		if d < 1 || d > maxParams/inputs {
			return nil, fmt.Errorf("obs.shape: %v, axes must be at least 1 and the product at most %d", s.Obs.Shape, maxParams)
		}
		inputs *= d
	}
	if len(s.Obs.Shape) == 0 {
		return nil, fmt.Errorf("obs.shape: [], must have at least one axis")
	}
	last := make([]int, len(s.Trunks))     // index of each trunk's last layer; -1: it has none
	tops := make([][]Layer, len(s.Trunks)) // the layer that belongs to a head: each stream of a dueling one has a copy
	// add appends a layer of a trunk that reads the output of a layer, and returns its index.
	add := func(trunk, from int, l Layer) int {
		norm := s.Trunks[trunk].Norm != ""
		var after Layer
		if norm {
			l, after = s.Trunks[trunk].normalised(l)
		}
		l.From = from
		list = append(list, l)
		if norm {
			after.From = len(list) - 1
			list = append(list, after)
		}
		return len(list) - 1
	}
	for i := range s.Trunks {
		trunk, err := s.trunk(i, inputs)
		if err != nil {
			return nil, err
		}
		last[i] = -1
		list = slices.Grow(list, 2*len(trunk)+2*len(s.Heads))
		if n := len(trunk); n > 0 && s.splits(i) {
			trunk, tops[i] = trunk[:n-1], trunk[n-1:]
		}
		for _, l := range trunk {
			last[i] = add(i, last[i], l)
		}
	}
	head := func(name string, h *Head, from, out int) {
		l := Layer{Name: name, In: inputs, Out: out, Gain: h.Gain, From: from, Head: true, Taus: h.Taus}
		if from >= 0 {
			l.In = list[from].Out
		}
		list = append(list, l)
	}
	for i := range s.Heads {
		h := &s.Heads[i]
		below, by, points := last[h.Trunk], 0, h.Points()
		if h.Taus > 0 {
			if below < 0 {
				return nil, fmt.Errorf("heads[%d].cosines: %d, must be 0 on a trunk of fewer than two layers", i, h.Cosines)
			}
			by, points = len(list), 1 // of each tau
			list = append(list, Layer{Name: s.embeddingName(i), In: h.Cosines, Out: list[below].Out, Activation: ReLU, From: -1, Taus: h.Taus, Cosines: true})
		}
		if !h.Dueling {
			if h.Taus > 0 {
				l := tops[h.Trunk][0]
				l.Name, l.Taus, l.By = s.topName(i, l.Name), h.Taus, by
				below = add(h.Trunk, below, l)
			}
			head(s.headName(i), h, below, points*h.Out)
			continue
		}
		for stream, out := range []int{points, points * h.Out} {
			from, first := below, len(list)
			for _, l := range tops[h.Trunk] {
				l.Name, l.Taus, l.By = s.streamName(i, stream, 0), h.Taus, by
				from = add(h.Trunk, from, l)
			}
			head(s.streamName(i, stream, len(tops[h.Trunk])), h, from, out)
			list[first].Rescaled = h.Rescaled && list[first].From >= 0
		}
	}
	for i := range list {
		list[i].Gain = cmp.Or(list[i].Gain, math.Sqrt2)
		if l := &list[i]; s.noisy() && l.Conv == nil && l.Norm == nil {
			l.Sigma = s.Trunks[0].Noisy / math.Sqrt(float64(l.In))
		}
	}
	return list, nil
}

// trunk returns the layers of a trunk, without normalisations.
func (s *Spec) trunk(i, inputs int) ([]Layer, error) {
	switch t := &s.Trunks[i]; t.Arch {
	case "nature_cnn":
		return s.cnn(i, 36, 512, []Conv{{OutC: 32, Kernel: 8, Stride: 4}, {OutC: 64, Kernel: 4, Stride: 2}, {OutC: 64, Kernel: 3, Stride: 1}})
	case "small_cnn":
		return s.cnn(i, 20, 256, []Conv{{OutC: 16, Kernel: 8, Stride: 4}, {OutC: 32, Kernel: 4, Stride: 2}})
	case "cule_cnn":
		return s.cnn(i, 36, 512, []Conv{{OutC: 32, Kernel: 8, Stride: 4}, {OutC: 64, Kernel: 4, Stride: 2}, {OutC: 32, Kernel: 3, Stride: 1}})
	case "ga3c_1_cnn", "ga3c_2_cnn", "ga3c_3_cnn", "ga3c_4_cnn":
		stride := int(t.Arch[len("ga3c_")] - '0')
		return s.cnn(i, 9*stride+8, 256, []Conv{{OutC: 32, Kernel: 8, Stride: stride}, {OutC: 32, Kernel: 4, Stride: 2}, {OutC: 64, Kernel: 4, Stride: 2}})
	case "minatar_cnn":
		return s.cnn(i, 5, 128, []Conv{{OutC: 16, Kernel: 3, Stride: 1}})
	case "dopamine_cnn":
		return s.cnn(i, 8, 512, []Conv{{OutC: 32, Kernel: 8, Stride: 4, Same: true}, {OutC: 64, Kernel: 4, Stride: 2, Same: true}, {OutC: 64, Kernel: 3, Stride: 1, Same: true}})
	case "der_cnn":
		return s.cnn(i, 25, 256, []Conv{{OutC: 32, Kernel: 5, Stride: 5}, {OutC: 64, Kernel: 5, Stride: 5}})
	case "mlp":
		return s.mlp(i, inputs)
	default:
		return nil, fmt.Errorf("%sarch: %q, must be \"nature_cnn\", \"small_cnn\", \"cule_cnn\", \"ga3c_1_cnn\" to \"ga3c_4_cnn\", \"minatar_cnn\", \"dopamine_cnn\", \"der_cnn\" or \"mlp\"", s.prefix(i), t.Arch)
	}
}

// normalised splits a layer of the trunk into the layer without its activation and the
// normalisation after it, with that activation.
func (t *Trunk) normalised(l Layer) (plain, norm Layer) {
	eps := 1e-6
	if t.Norm == normAll {
		eps = 1e-5
	}
	n := &Norm{Channels: l.Out, Positions: 1, All: t.Norm == normAll, Shape: []int{l.Units()}, Eps: float32(cmp.Or(t.NormEps, eps))}
	if c := l.Conv; c != nil {
		n.Channels, n.Positions = c.OutC, c.OutH()*c.OutW()
		if n.All {
			n.Shape = []int{c.OutC, c.OutH(), c.OutW()}
		}
	}
	norm = Layer{Name: normName(l.Name), Norm: n, In: l.Out, Out: l.Out, Activation: l.Activation}
	l.Activation = Linear
	return l, norm
}

// cnn returns the layers of a trunk of convolutions and one dense layer. least is the smallest
// height and width of an image.
func (s *Spec) cnn(i, least, dense int, convs []Conv) ([]Layer, error) {
	arch := s.Trunks[i].Arch
	if hidden := s.Trunks[i].Hidden; len(hidden) > 0 {
		return nil, fmt.Errorf("%shidden: %v, must be empty for %s", s.prefix(i), hidden, arch)
	}
	if s.Obs.DType != env.Uint8 {
		return nil, fmt.Errorf("obs.dtype: %v, must be uint8 for %s", s.Obs.DType, arch)
	}
	if sh := s.Obs.Shape; len(sh) != 3 || sh[1] < least || sh[2] < least {
		hint := ""
		if len(sh) == 3 && min(sh[1], sh[2]) >= 5 {
			hint = "; the cnn \"minatar\" takes 5x5"
		}
		return nil, fmt.Errorf("obs.shape: %v, must be [channels, height, width] of at least %dx%d for %s%s", sh, least, least, arch, hint)
	}
	var trunk []Layer
	c, h, w := s.Obs.Shape[0], s.Obs.Shape[1], s.Obs.Shape[2]
	for k := range convs {
		conv := &convs[k]
		conv.InC, conv.InH, conv.InW = c, h, w
		in := c * h * w
		c, h, w = conv.OutC, conv.OutH(), conv.OutW()
		trunk = append(trunk, Layer{Name: s.convName(i, k), Conv: conv, In: in, Out: c * h * w, Activation: ReLU})
	}
	return append(trunk, Layer{Name: s.featuresName(i), In: c * h * w, Out: dense, Activation: ReLU}), nil
}

func (s *Spec) mlp(i, inputs int) ([]Layer, error) {
	act := ReLU
	if s.Trunks[i].Activation == "tanh" {
		act = Tanh
	}
	hidden := s.Trunks[i].hidden()
	trunk := make([]Layer, 0, len(hidden))
	for k, width := range hidden {
		if width < 1 || width > maxParams/inputs {
			return nil, fmt.Errorf("%shidden[%d]: %d, must be 1 to %d after a layer of %d", s.prefix(i), k, width, maxParams/inputs, inputs)
		}
		trunk = append(trunk, Layer{Name: s.hiddenName(i, k), In: inputs, Out: width, Activation: act})
		inputs = width
	}
	return trunk, nil
}
