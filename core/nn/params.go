package nn

import (
	"fmt"
	"sync/atomic"
)

// Params is a set of network parameters: one flat array with named pieces. NewParams makes it; a
// Params is not copied as a value.
//
// The array is in host memory. A device with its own memory has a copy there (DeviceCopy) and
// may have changed it; Host downloads it first.
type Params struct {
	Layout *Layout
	// Updates is the number of updates of the parameters: a step records it, and lag is counted
	// in it. Optimizer.Apply counts it, CopyFrom copies it, and a load assigns it.
	Updates uint64
	// Writes counts the changes of the parameters. It is neither saved nor hashed.
	Writes uint64

	host []float32
	id   uint64 // unique

	device atomic.Pointer[DeviceCopy] // nil: there is none
}

// Set is a set of parameters under the name that the host uses.
type Set struct {
	Name     string // "q_net", "q_net_target", "policy"
	Params   *Params
	Writable bool // the host may write it
}

var sets atomic.Uint64 // made so far

// NewParams returns parameters of zeros in host memory.
func NewParams(l *Layout) *Params {
	return &Params{Layout: l, host: make([]float32, l.Size), id: sets.Add(1)}
}

// Host returns the Layout.Size floats in host memory, always the same ones. If a device has newer
// ones, Host downloads them; after the loss of the device they are those of the latest download.
// A caller that changes them in place calls Wrote. Host reads the set: no writer may run.
func (p *Params) Host() []float32 {
	if c := p.device.Load(); c != nil {
		(*c).Download(p)
	}
	return p.host
}

// Wrote counts a change in place of what Host returned.
func (p *Params) Wrote() { p.Writes++ }

// Version identifies the contents of a set: parameters of equal versions have the same bits. No
// set has the zero Version.
type Version struct{ set, writes uint64 }

// Version returns the version of the contents.
func (p *Params) Version() Version { return Version{p.id, p.Writes} }

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

// CopyFrom makes p equal to src, Updates included, without allocating. If a device has a copy of
// both, the device copies. Both must have equal layouts; CopyFrom panics if the sizes differ.
func (p *Params) CopyFrom(src *Params) {
	if len(p.host) != len(src.host) {
		panic("nn: CopyFrom between different layouts")
	}
	if c := src.device.Load(); c == nil || !(*c).CopyTo(p) {
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

// Piece returns one named piece of the array in host memory.
func (p *Params) Piece(part Param) []float32 {
	return p.Host()[part.Offset : part.Offset+part.Size : part.Offset+part.Size]
}

// LogStd returns the parameter log_std in host memory; nil for a network without a head "mu". It
// reads the set as Host does.
func (p *Params) LogStd() []float32 {
	if last := p.Layout.Params[len(p.Layout.Params)-1]; last.Name == logStdName {
		return p.Piece(last)
	}
	return nil
}

// Tensors returns the pieces as tensors, in layout order. Their data are views of Host.
func (p *Params) Tensors() []Tensor {
	ts := p.Layout.tensors()
	for i, part := range p.Layout.Params {
		ts[i].Data = p.Piece(part)
	}
	return ts
}

// DeviceCopy is the copy of a set in the memory of a device. The device that made it implements it;
// the methods below are for that device alone.
type DeviceCopy interface {
	// Download brings p's host memory up to date with the copy.
	Download(p *Params)
	// CopyTo copies this copy to the device's copy of another set, and reports whether it did. It does
	// not if the device has no copy of that set, or if host memory is newer.
	CopyTo(p *Params) bool
}

// DeviceCopy returns the copy that SetDeviceCopy has set; nil: there is none.
func (p *Params) DeviceCopy() DeviceCopy {
	if c := p.device.Load(); c != nil {
		return *c
	}
	return nil
}

// SetDeviceCopy replaces the copy; nil: there is none any more.
func (p *Params) SetDeviceCopy(c DeviceCopy) {
	if c == nil {
		p.device.Store(nil)
	} else {
		p.device.Store(&c)
	}
}

// Raw returns the array in host memory as it is, without a download.
func (p *Params) Raw() []float32 { return p.host }
