package nn

import (
	"fmt"
	"hash"
	"hash/fnv"
	"sync"
	"unsafe"

	"github.com/chewxy/hm"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// building serialises the construction of graphs: Gorgonia's constant nodes are
// shared by all graphs of the process. Running them shares nothing.
var building sync.Mutex

// graph is a network in a Gorgonia graph, and what the ops of that graph share.
type graph struct {
	*G.ExprGraph
	capacity int          // rows it is built for
	rows     int          // rows a run computes, 1 to capacity
	team     *kernel.Team // shares the ops' work; nil: the calling goroutine alone
	scratch  []float32    // for the kernel call of the op that runs
	source   source       // of the parameters of a run
	learns   bool         // the parameters change from run to run

	spec   Spec
	layout *Layout
	params []*G.Node       // in layout order
	views  []*tensor.Dense // their values
	obs    *tensor.Dense
	heads  []*G.Node // [capacity, Out] each, in the order of Spec.Heads
	hidden []hidden  // of the layers below them, in layout order
}

// hidden is the output of a layer that is no head.
type hidden struct {
	l *layer
	y *tensor.Dense
}

// source says which parameters a run has: the same source, the same bits.
type source struct{ id, writes uint64 }

func newGraph(capacity int, team *kernel.Team) *graph {
	return &graph{ExprGraph: G.NewGraph(), capacity: capacity, rows: capacity, team: team}
}

// packs reports whether a dense layer's weights are kept in the kernels' form: those
// of bf16 are half the size, and rounded once for many runs.
func (g *graph) packs(l *layer) bool { return l.packs() && !g.learns }

// needScratch makes scratch at least n floats long. Pages that no thread writes
// take no memory.
func (g *graph) needScratch(n int) {
	if n > len(g.scratch) {
		g.scratch = make([]float32, n)
	}
}

// leaf adds an input node and the tensor that is its value. The tensor has no
// memory until a run points it at the caller's.
func (g *graph) leaf(name string, dt tensor.Dtype, shape ...int) (*G.Node, *tensor.Dense) {
	t := tensor.New(tensor.Of(dt), tensor.WithShape(shape...))
	n := G.NewTensor(g.ExprGraph, dt, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(t))
	t.Raw = nil
	return n, t
}

// build adds the network s.
func (g *graph) build(s Spec) (err error) {
	if err := checkRows(g.capacity); err != nil {
		return err
	}
	g.spec = s
	if g.layout, err = s.Layout(); err != nil {
		return err
	}
	for _, p := range g.layout.Params {
		n, t := g.leaf(p.Name, tensor.Float32, p.Shape...)
		g.params, g.views = append(g.params, n), append(g.views, t)
	}
	dt := tensor.Float32
	if s.Obs.DType == env.Uint8 {
		dt = tensor.Uint8
	}
	obs, t := g.leaf("obs", dt, append([]int{g.capacity}, s.Obs.Shape...)...)
	g.obs = t
	var converted *G.Node   // obs as floats, for dense layers; convolutions read bytes themselves
	layers, _ := s.layers() // Layout has accepted them
	outputs := make([]*G.Node, len(layers))
	for i := range layers {
		l, x := &layers[i], obs
		switch {
		case l.from >= 0:
			x = outputs[l.from]
		case l.conv == nil && dt == tensor.Uint8:
			if converted == nil {
				if converted, err = g.convert("convert", obs, s.obsScale()); err != nil {
					return err
				}
			}
			x = converted
		}
		add := g.layer
		if l.norm != nil {
			add = g.norm
		}
		if outputs[i], err = add(l, x, g.params[2*i], g.params[2*i+1]); err != nil {
			return err
		}
		switch op := outputs[i].Op().(type) {
		case *normOp:
			g.hidden = append(g.hidden, hidden{l, op.y})
		case *layerOp:
			if l.head {
				g.heads = append(g.heads, outputs[i])
			} else {
				g.hidden = append(g.hidden, hidden{l, op.y})
			}
		}
	}
	return nil
}

// bind points the network's leaves at the caller's parameters and observations.
func (g *graph) bind(p *Params, obs []byte) {
	g.source = source{p.id, p.Writes}
	host := p.Host()
	for i, part := range p.Layout.Params {
		g.views[i].Raw = bytesOf(host[part.Offset : part.Offset+part.Size])
	}
	g.obs.Raw = obs
}

// release lets go of what bind pointed at.
func (g *graph) release() {
	for _, t := range g.views {
		t.Raw = nil
	}
	g.obs.Raw = nil
}

// bytesOf returns the memory of x.
func bytesOf[T float32 | int32](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// checkObs checks rows observations of one call.
func (s *Spec) checkObs(name string, obs []byte, rows int) error {
	if want := rows * s.Obs.Bytes(); len(obs) != want {
		return fmt.Errorf("%s: %d bytes, must be %d for %d rows of %v %v", name, len(obs), want, rows, s.Obs.DType, s.Obs.Shape)
	}
	if s.Obs.DType == env.Float32 && uintptr(unsafe.Pointer(&obs[0]))%4 != 0 {
		return fmt.Errorf("%s: address %p, must be a multiple of 4", name, &obs[0])
	}
	return nil
}

// base is the part of a Gorgonia op that says where it stands in a graph. Its
// output is float32.
type base struct {
	name  string // unique in its graph: Gorgonia merges ops of equal hashes
	types []hm.Type
	shape tensor.Shape
}

// newBase describes an op from its inputs and the shape of its output; no shape
// makes it a scalar.
func newBase(name string, shape tensor.Shape, inputs ...*G.Node) base {
	b := base{name: name, shape: shape}
	for _, n := range inputs {
		b.types = append(b.types, n.Type())
	}
	if len(shape) == 0 {
		b.types = append(b.types, tensor.Float32)
	} else {
		b.types = append(b.types, G.TensorType{Dims: len(shape), Of: tensor.Float32})
	}
	return b
}

func (b *base) Arity() int                                     { return len(b.types) - 1 }
func (b *base) Type() hm.Type                                  { return hm.NewFnType(b.types...) }
func (b *base) InferShape(...G.DimSizer) (tensor.Shape, error) { return b.shape, nil }
func (b *base) ReturnsPtr() bool                               { return true }
func (b *base) CallsExtern() bool                              { return true }
func (b *base) OverwritesInput() int                           { return -1 }
func (b *base) WriteHash(h hash.Hash)                          { h.Write([]byte(b.name)) }
func (b *base) String() string                                 { return b.name }
func (b *base) Hashcode() uint32 {
	h := fnv.New32a()
	b.WriteHash(h)
	return h.Sum32()
}

// output is a tensor of the op's shape without memory. An op that owns it allocates it; the
// gradient of a parameter is written where the owner of the flat gradient points it.
func (b *base) output() *tensor.Dense {
	t := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(b.shape...))
	t.Raw = nil
	return t
}

// allocate gives a tensor memory of its own.
func allocate(t *tensor.Dense) { t.Raw = bytesOf(make([]float32, t.Shape().TotalSize())) }

// floats returns the elements of an op's input or output.
func floats(v G.Value) []float32 { return v.(*tensor.Dense).Float32s() }
