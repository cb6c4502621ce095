package nn

import (
	"fmt"
	"sync/atomic"
)

// Params is a set of network parameters: one flat array with named views. It is
// made by NewParams, and not copied as a value.
//
// The array is in host memory. A GPU that computes with the set has a copy in its own
// memory, and what it writes stays there until somebody asks for Host.
type Params struct {
	Layout *Layout
	// Updates is how many updates the parameters have seen: what a step records,
	// and what lag is counted in. Optimizer.Apply counts it, CopyFrom copies it,
	// and a Load or SetParameters assigns it.
	Updates uint64
	// Writes counts the changes of the parameters, by whomever: what was made of
	// them, such as packed weights, is good while it stays. It is neither saved nor
	// hashed.
	Writes uint64

	host []float32
	id   uint64 // no other set has it; 0: not made by NewParams, never cached

	onGPU atomic.Pointer[gpuCopy] // nil: there is none
}

// Set is a set of parameters by the name that a host knows it by.
type Set struct {
	Name     string // "q_net", "q_net_target", "policy"
	Params   *Params
	Writable bool // a host may write it
}

var sets atomic.Uint64 // made so far

// NewParams returns parameters of zeros in host memory.
func NewParams(l *Layout) *Params {
	return &Params{Layout: l, host: make([]float32, l.Size), id: sets.Add(1)}
}

// Host returns the Layout.Size floats in host memory, always the same ones. Where a GPU has
// changed them, they are copied from there; from a GPU that is lost they cannot be, and are
// what they were when somebody asked before. Whoever changes them in place calls Wrote. As a
// read of the set, it is for when nobody writes it.
func (p *Params) Host() []float32 {
	if c := p.onGPU.Load(); c != nil {
		c.download(p)
	}
	return p.host
}

// Wrote says that what Host returned was changed in place.
func (p *Params) Wrote() { p.Writes++ }

// Read copies the parameters to a slice of Layout.Size floats.
func (p *Params) Read(to []float32) error {
	if len(to) != p.Layout.Size {
		return fmt.Errorf("parameters: %d numbers, must be %d", len(to), p.Layout.Size)
	}
	copy(to, p.Host())
	return nil
}

// Write overwrites the parameters from a slice of Layout.Size floats. Updates stays.
func (p *Params) Write(from []float32) error {
	if len(from) != p.Layout.Size {
		return fmt.Errorf("parameters: %d numbers, must be %d", len(from), p.Layout.Size)
	}
	copy(p.Host(), from)
	p.Wrote()
	return nil
}

// CopyFrom makes p equal to src, Updates included, without allocating; where a GPU has both,
// in its memory. Both must have equal layouts; it panics where they have not the same size.
func (p *Params) CopyFrom(src *Params) {
	if len(p.host) != len(src.host) {
		panic("nn: CopyFrom between different layouts")
	}
	if c := src.onGPU.Load(); c == nil || !c.copyTo(p) {
		copy(p.Host(), src.Host())
		p.Wrote()
	}
	p.Updates = src.Updates
}

// Clone returns a copy in host memory, Updates included.
func (p *Params) Clone() *Params {
	c := NewParams(p.Layout)
	copy(c.host, p.Host())
	c.Updates = p.Updates
	return c
}

// view returns a piece of the array in host memory.
func (p *Params) view(part Param) []float32 {
	return p.Host()[part.Offset : part.Offset+part.Size : part.Offset+part.Size]
}

// Tensors returns the pieces as tensors, in layout order. Their data are views of Host.
func (p *Params) Tensors() []Tensor {
	ts := p.Layout.tensors()
	for i, part := range p.Layout.Params {
		ts[i].Data = p.view(part)
	}
	return ts
}
