package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/rng"
)

const (
	// MaxRows bounds the rows of a Network and the batch of a Learner.
	MaxRows = 65536
	// MaxActions bounds the outputs of a Q-head.
	MaxActions = 65536

	// maxParams bounds a network at 1 GiB of parameters: a larger one is a
	// mistake in the shape of an observation.
	maxParams = 1 << 28
	// minPicture is the smallest picture whose Nature CNN has an output.
	minPicture = 36
)

// Spec names a network: what it reads, what it is made of and how many actions
// it values.
type Spec struct {
	// Arch is "nature_cnn" or "mlp".
	//
	// nature_cnn is the network of Mnih et al. 2015 without padding, as in
	// Stable-Baselines3's CnnPolicy: convolutions of 32 8x8 stride 4, 64 4x4
	// stride 2, 64 3x3 stride 1, a dense layer of 512, and the Q-head; ReLU
	// between. It reads uint8 pictures [C, H, W] of at least 36x36, divided by
	// 255.
	//
	// mlp is dense layers of the widths in Hidden with ReLU between, and the
	// Q-head. It reads any observation, flattened: float32 as it is, uint8
	// converted, and divided by 255 where it is a picture (three axes).
	Arch string
	Obs  env.ObsSpec
	// Actions is the number of outputs, 1 to MaxActions.
	Actions int
	// Hidden are the widths of the hidden layers of mlp. nil stands for
	// [64, 64], as in Stable-Baselines3; an empty list for a linear network.
	// nature_cnn takes none.
	Hidden []int
	// Precision is what the products of all layers multiply, forward and
	// backward. Parameters, gradients and Q-values are float32 either way.
	Precision kernel.Precision
}

// Param is one named piece of a flat parameter array.
type Param struct {
	Name  string // as in the q_net of Stable-Baselines3
	Shape []int  // [out, in, height, width], [out, in] or [out]
	// Offset and Size count floats.
	Offset, Size int
}

// Layout says how a flat parameter array is cut into named pieces: in the order
// of Params, without gaps. It is not modified after it is made.
type Layout struct {
	Params []Param
	Size   int // floats in all
}

// Equal reports whether both cut an array into the same pieces of the same
// names and shapes.
func (l *Layout) Equal(o *Layout) bool {
	return l == o || l.Size == o.Size && slices.EqualFunc(l.Params, o.Params, func(a, b Param) bool {
		return a.Name == b.Name && a.Offset == b.Offset && slices.Equal(a.Shape, b.Shape)
	})
}

// layer is one convolution or dense layer with its bias and, where relu says
// so, the rectifier behind it.
type layer struct {
	name    string       // prefix of its two parameters
	conv    *kernel.Conv // nil: a dense layer
	in, out int          // floats a row
	relu    bool
}

func (l *layer) weightShape() []int {
	if c := l.conv; c != nil {
		return []int{c.OutC, c.InC, c.Kernel, c.Kernel}
	}
	return []int{l.out, l.in}
}

func (l *layer) biasLen() int {
	if l.conv != nil {
		return l.conv.OutC
	}
	return l.out
}

func (l *layer) fanIn() int {
	if c := l.conv; c != nil {
		return c.InC * c.Kernel * c.Kernel
	}
	return l.in
}

// layers checks the spec and returns its trunk and its Q-head.
func (s Spec) layers() (trunk []layer, q layer, err error) {
	if s.Actions < 1 || s.Actions > MaxActions {
		return nil, q, fmt.Errorf("actions: %d, must be 1 to %d", s.Actions, MaxActions)
	}
	inputs := 1
	for _, d := range s.Obs.Shape {
		if d < 1 || d > maxParams/inputs {
			return nil, q, fmt.Errorf("obs.shape: %v, axes must be at least 1 and the product at most %d", s.Obs.Shape, maxParams)
		}
		inputs *= d
	}
	if len(s.Obs.Shape) == 0 {
		return nil, q, fmt.Errorf("obs.shape: [], must have at least one axis")
	}
	switch s.Arch {
	case "nature_cnn":
		trunk, err = s.natureCNN()
		q = layer{name: "q_net.0"}
	case "mlp":
		trunk, err = s.mlp(inputs)
		q = layer{name: fmt.Sprintf("q_net.%d", 2*len(trunk))}
	default:
		err = fmt.Errorf("arch: %q, must be \"nature_cnn\" or \"mlp\"", s.Arch)
	}
	if err != nil {
		return nil, q, err
	}
	for _, l := range trunk {
		if l.conv != nil {
			l.conv.Precision = s.Precision
		}
	}
	q.in, q.out = inputs, s.Actions
	if len(trunk) > 0 {
		q.in = trunk[len(trunk)-1].out
	}
	return trunk, q, nil
}

func (s Spec) natureCNN() ([]layer, error) {
	if len(s.Hidden) > 0 {
		return nil, fmt.Errorf("hidden: %v, must be empty for nature_cnn", s.Hidden)
	}
	if s.Obs.DType != env.Uint8 {
		return nil, fmt.Errorf("obs.dtype: %v, must be uint8 for nature_cnn", s.Obs.DType)
	}
	if sh := s.Obs.Shape; len(sh) != 3 || sh[1] < minPicture || sh[2] < minPicture {
		return nil, fmt.Errorf("obs.shape: %v, must be [channels, height, width] of at least %dx%d for nature_cnn", sh, minPicture, minPicture)
	}
	var trunk []layer
	c, h, w := s.Obs.Shape[0], s.Obs.Shape[1], s.Obs.Shape[2]
	for i, k := range []kernel.Conv{
		{OutC: 32, Kernel: 8, Stride: 4, PlanarIn: true},
		{OutC: 64, Kernel: 4, Stride: 2},
		{OutC: 64, Kernel: 3, Stride: 1, PlanarOut: true}, // the dense layer's weights are in that order
	} {
		k.InC, k.InH, k.InW = c, h, w
		c, h, w = k.OutC, k.OutH(), k.OutW()
		trunk = append(trunk, layer{
			name: fmt.Sprintf("features_extractor.cnn.%d", 2*i),
			conv: &k, in: k.InLen(), out: k.OutLen(), relu: true,
		})
	}
	return append(trunk, layer{name: "features_extractor.linear.0", in: c * h * w, out: 512, relu: true}), nil
}

func (s Spec) mlp(inputs int) ([]layer, error) {
	hidden := s.Hidden
	if hidden == nil {
		hidden = []int{64, 64}
	}
	var trunk []layer
	for i, width := range hidden {
		if width < 1 || width > maxParams/inputs {
			return nil, fmt.Errorf("hidden[%d]: %d, must be 1 to %d behind a layer of %d", i, width, maxParams/inputs, inputs)
		}
		trunk = append(trunk, layer{name: fmt.Sprintf("q_net.%d", 2*i), in: inputs, out: width, relu: true})
		inputs = width
	}
	return trunk, nil
}

// obsScale is what an uint8 component is multiplied by.
func (s Spec) obsScale() float32 {
	if len(s.Obs.Shape) == 3 {
		return pixelScale
	}
	return 1
}

// Layout returns the named pieces of the network's parameters: each layer's
// weight and bias, from the observation to the head. The error is one sentence
// that names the field which makes the network impossible.
func (s Spec) Layout() (*Layout, error) {
	trunk, q, err := s.layers()
	if err != nil {
		return nil, err
	}
	l := &Layout{}
	add := func(name string, shape ...int) {
		size := 1
		for _, d := range shape {
			size *= d
		}
		l.Params = append(l.Params, Param{Name: name, Shape: shape, Offset: l.Size, Size: size})
		l.Size += size
	}
	for _, y := range append(trunk, q) {
		add(y.name+".weight", y.weightShape()...)
		add(y.name+".bias", y.biasLen())
		if l.Size > maxParams {
			if s.Arch == "mlp" {
				return nil, fmt.Errorf("hidden: %v: more than %d parameters", s.Hidden, maxParams)
			}
			return nil, fmt.Errorf("obs.shape: %v: more than %d parameters", s.Obs.Shape, maxParams)
		}
	}
	return l, nil
}

// Init returns fresh parameters: weights and biases of a layer with n inputs to
// each output are uniform in ±1/sqrt(n), the default of PyTorch and of
// DeepMind's DQN. Numbers are drawn in layout order, so one stream gives the
// same parameters everywhere.
func (s Spec) Init(r *rng.Stream) (*Params, error) {
	l, err := s.Layout()
	if err != nil {
		return nil, err
	}
	trunk, q, err := s.layers()
	if err != nil {
		return nil, err
	}
	p := NewParams(l)
	for i, y := range append(trunk, q) {
		bound := 1 / math.Sqrt(float64(y.fanIn()))
		for _, part := range l.Params[2*i : 2*i+2] {
			for j := range part.Size {
				p.Data[part.Offset+j] = float32(r.Uniform(-bound, bound))
			}
		}
	}
	return p, nil
}

// ForwardFlop returns the floating-point operations of a forward pass: as the
// textbook counts them, and those of the products that the kernels do (fewer in
// convolutions). s is a network that Layout accepts.
func (s Spec) ForwardFlop(rows int) (textbook, done float64) {
	return s.flop(rows, 1, 1)
}

// UpdateFlop returns those of an update: two forward passes, and two products
// backward for every layer but the first, whose input needs no gradient.
func (s Spec) UpdateFlop(rows int) (textbook, done float64) {
	return s.flop(rows, 3, 4)
}

func (s Spec) flop(rows, passesFirst, passes int) (textbook, done float64) {
	trunk, q, _ := s.layers()
	for i, l := range append(trunk, q) {
		t := 2 * float64(l.in*l.out)
		d := t
		if l.conv != nil {
			t, d = l.conv.Flop()
		}
		n := passes
		if i == 0 {
			n = passesFirst
		}
		textbook += float64(rows*n) * t
		done += float64(rows*n) * d
	}
	return textbook, done
}
