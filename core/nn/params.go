package nn

import (
	"fmt"
	"slices"
)

// Params is a set of network parameters: one flat array with named views.
type Params struct {
	Layout *Layout
	Data   []float32 // Layout.Size floats
	// Version says which parameters these are; whoever writes Data sets it (a
	// trainer: the number of updates they have seen). It travels with CopyFrom.
	Version uint64
}

// NewParams returns parameters of zeros.
func NewParams(l *Layout) *Params {
	return &Params{Layout: l, Data: make([]float32, l.Size)}
}

// CopyFrom makes p equal to src, version included, without allocating. Both
// must have equal layouts.
func (p *Params) CopyFrom(src *Params) {
	if len(p.Data) != len(src.Data) {
		panic("nn: CopyFrom between different layouts")
	}
	copy(p.Data, src.Data)
	p.Version = src.Version
}

// View returns the piece called name, in place, or nil if there is none.
func (p *Params) View(name string) []float32 {
	for _, part := range p.Layout.Params {
		if part.Name == name {
			return p.view(part)
		}
	}
	return nil
}

func (p *Params) view(part Param) []float32 {
	return p.Data[part.Offset : part.Offset+part.Size : part.Offset+part.Size]
}

// Tensors returns the pieces as tensors named prefix + name, in layout order.
// Their data are views of p.
func (p *Params) Tensors(prefix string) []Tensor {
	ts := make([]Tensor, len(p.Layout.Params))
	for i, part := range p.Layout.Params {
		ts[i] = Tensor{Name: prefix + part.Name, Shape: part.Shape, Data: p.view(part)}
	}
	return ts
}

// SetTensors overwrites p from tensors named prefix + name; tensors without the
// prefix are passed over. A missing, unknown or repeated name and a wrong dtype
// or shape are errors, and leave p as it was.
func (p *Params) SetTensors(prefix string, ts []Tensor) error {
	found := map[string][]float32{}
	for _, t := range ts {
		if len(t.Name) < len(prefix) || t.Name[:len(prefix)] != prefix {
			continue
		}
		name := t.Name[len(prefix):]
		i := slices.IndexFunc(p.Layout.Params, func(part Param) bool { return part.Name == name })
		if i < 0 {
			return fmt.Errorf("tensor %q: the network has no such parameter", t.Name)
		}
		part := p.Layout.Params[i]
		if !slices.Equal(t.Shape, part.Shape) {
			return fmt.Errorf("tensor %q: shape %v, must be %v", t.Name, t.Shape, part.Shape)
		}
		data, ok := t.Data.([]float32)
		if !ok || len(data) != part.Size {
			return fmt.Errorf("tensor %q: %T, must be []float32 of %d", t.Name, t.Data, part.Size)
		}
		if found[name] != nil {
			return fmt.Errorf("tensor %q: given twice", t.Name)
		}
		found[name] = data
	}
	for _, part := range p.Layout.Params {
		if found[part.Name] == nil {
			return fmt.Errorf("tensor %q: missing", prefix+part.Name)
		}
	}
	for _, part := range p.Layout.Params {
		copy(p.view(part), found[part.Name])
	}
	return nil
}
