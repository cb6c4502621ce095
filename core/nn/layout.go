package nn

import (
	"fmt"
	"slices"
)

// Param is one named piece of a flat parameter array.
type Param struct {
	Name  string // as in Stable-Baselines3; see names.go
	Shape []int  // [out, in, height, width], [out, in] or [out]; of a normalisation [channels, height, width], too
	// Offset and Size count floats.
	Offset, Size int
}

// Layout divides a flat parameter array into named pieces, in the order of Params and without gaps.
// It never changes.
type Layout struct {
	Params []Param
	Size   int // floats in all
}

// Equal reports whether both layouts have the same pieces with the same names and shapes.
func (l *Layout) Equal(o *Layout) bool {
	return l == o || l.Size == o.Size && slices.EqualFunc(l.Params, o.Params, func(a, b Param) bool {
		return a.Name == b.Name && a.Offset == b.Offset && slices.Equal(a.Shape, b.Shape)
	})
}

// tensors returns the pieces without data.
func (l *Layout) tensors() []Tensor {
	ts := make([]Tensor, len(l.Params))
	for i, part := range l.Params {
		ts[i] = Tensor{Name: part.Name, Shape: part.Shape}
	}
	return ts
}

// CheckParams checks a parameter set of one call. The error begins with name.
func (l *Layout) CheckParams(name string, p *Params) error {
	if p == nil || p.Layout == nil || !l.Equal(p.Layout) || len(p.host) != l.Size {
		n := 0
		if p != nil {
			n = len(p.host)
		}
		return fmt.Errorf("%s: of another network: %d floats, must be this one's %d", name, n, l.Size)
	}
	return nil
}

// Layout returns the named pieces of the network's parameters: the weight and the bias of each
// layer, trunk by trunk from the observation on, then the heads, then the sigmas of noisy layers,
// then log_std. The error is one sentence that names the field which makes the network impossible.
func (s Spec) Layout() (*Layout, error) {
	layers, err := s.Layers()
	if err != nil {
		return nil, err
	}
	l := &Layout{Params: make([]Param, 0, 2*len(layers))}
	add := func(name string, shape ...int) {
		size := elements(shape)
		l.Params = append(l.Params, Param{Name: name, Shape: shape, Offset: l.Size, Size: size})
		l.Size += size
	}
	for _, y := range layers {
		add(y.Name+".weight", y.WeightShape()...)
		add(y.Name+".bias", y.BiasShape()...)
		if err := s.checkSize(l.Size); err != nil {
			return nil, err
		}
	}
	for _, y := range layers {
		if y.Sigma > 0 {
			add(y.Name+".weight_sigma", y.WeightShape()...)
			add(y.Name+".bias_sigma", y.BiasShape()...)
			if err := s.checkSize(l.Size); err != nil {
				return nil, err
			}
		}
	}
	if _, gaussians := s.Policy(); gaussians > 0 {
		add(logStdName, gaussians)
	}
	return l, nil
}

// checkSize refuses more than maxParams parameters.
func (s *Spec) checkSize(floats int) error {
	if floats <= maxParams {
		return nil
	}
	for i, t := range s.Trunks {
		if t.Arch == "mlp" {
			return fmt.Errorf("%shidden: %v: more than %d parameters", s.prefix(i), t.Hidden, maxParams)
		}
	}
	return fmt.Errorf("obs.shape: %v: more than %d parameters", s.Obs.Shape, maxParams)
}
