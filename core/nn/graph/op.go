package graph

import (
	"fmt"
	"unsafe"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
	"hash"
	"hash/fnv"
)

// op is the part of a Gorgonia op that all ops share: its name, inputs and output. The output is
// float32.
type op struct {
	name  string // unique in its graph: Gorgonia merges ops of equal hashes
	types []hm.Type
	shape tensor.Shape
}

// newOp describes an op by its inputs and the shape of its output; nil: a scalar.
func newOp(name string, shape tensor.Shape, inputs ...*G.Node) op {
	o := op{name: name, shape: shape}
	for _, n := range inputs {
		o.types = append(o.types, n.Type())
	}
	if len(shape) == 0 {
		o.types = append(o.types, tensor.Float32)
	} else {
		o.types = append(o.types, G.TensorType{Dims: len(shape), Of: tensor.Float32})
	}
	return o
}

func (o *op) Arity() int                                     { return len(o.types) - 1 }
func (o *op) Type() hm.Type                                  { return hm.NewFnType(o.types...) }
func (o *op) InferShape(...G.DimSizer) (tensor.Shape, error) { return o.shape, nil }
func (o *op) ReturnsPtr() bool                               { return true }
func (o *op) CallsExtern() bool                              { return true }
func (o *op) OverwritesInput() int                           { return -1 }
func (o *op) WriteHash(h hash.Hash)                          { h.Write([]byte(o.name)) }
func (o *op) String() string                                 { return o.name }
func (o *op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// Do is for Gorgonia's own machines, which this package does not use.
func (o *op) Do(...G.Value) (G.Value, error) {
	return nil, fmt.Errorf("nn: %s: an op that a device computes", o.name)
}

// output returns a tensor of the op's shape without memory.
func (o *op) output() *tensor.Dense {
	t := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(o.shape...))
	t.Raw = nil
	return t
}

// BytesOf returns the memory of x.
func BytesOf[T float32 | int32](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// Scalar returns the value of a scalar.
func Scalar(v G.Value) float64 {
	switch x := v.(type) {
	case *G.F32:
		return float64(*x)
	case *G.F64:
		return float64(*x)
	}
	return float64(v.Data().(float32))
}
