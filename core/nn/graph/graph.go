package graph

import (
	"sync"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// building serialises the construction of graphs, because all graphs of the process share
// Gorgonia's constant nodes. Running graphs share nothing.
var building sync.Mutex

// Graph is a network for a number of rows.
type Graph struct {
	Spec   nn.Spec
	Layout *nn.Layout
	Rows   int
	Learns bool // the graph has a loss, and the parameters change from run to run
	Layers []nn.Layer
	Params []*tensor.Dense // in layout order
	Obs    *tensor.Dense
	Taus   *tensor.Dense   // [Rows, taus]; nil: no head has taus
	Heads  []*tensor.Dense // the outputs: [Rows, Out] each, in the order of Spec.Heads
	Points []*tensor.Dense // what a loss sees: [Rows, Width] each; that of Heads for a head without a distribution
	Hidden []Hidden        // the layers below the heads, in layout order
	Order  *Order

	taus    *G.Node
	exprs   *G.ExprGraph
	params  []*G.Node
	heads   []*G.Node // of Points
	outputs []*G.Node // of Heads
}

// Hidden is a layer below the heads, with its output.
type Hidden struct {
	Layer *nn.Layer
	Y     *tensor.Dense
}

// New returns the graph of a network.
func New(s nn.Spec, rows int) (*Graph, error) {
	building.Lock()
	defer building.Unlock()
	g, err := build(s, rows)
	if err == nil {
		err = g.means()
	}
	if err != nil {
		return nil, err
	}
	g.Order, err = Sorted(g.exprs)
	return g, err
}

func build(s nn.Spec, rows int) (g *Graph, err error) {
	if err := nn.CheckRows(rows); err != nil {
		return nil, err
	}
	g = &Graph{Spec: s, Rows: rows, exprs: G.NewGraph()}
	if g.Layout, err = s.Layout(); err != nil {
		return nil, err
	}
	for _, p := range g.Layout.Params {
		n, t := g.leaf(p.Name, tensor.Float32, p.Shape...)
		g.params, g.Params = append(g.params, n), append(g.Params, t)
	}
	dt := tensor.Float32
	if s.Obs.DType == env.Uint8 {
		dt = tensor.Uint8
	}
	obs, t := g.leaf("obs", dt, append([]int{rows}, s.Obs.Shape...)...)
	g.Obs = t
	g.Layers, _ = s.Layers() // Layout has accepted them
	outputs := make([]*G.Node, len(g.Layers))
	from := &sources{Graph: g, obs: obs, layers: outputs, products: map[int]*G.Node{}, rescaled: map[*nn.Layer]*G.Node{}}
	var value *G.Node // of a dueling head
	for i := range g.Layers {
		l := &g.Layers[i]
		x, err := from.of(l)
		if err != nil {
			return nil, err
		}
		var y *tensor.Dense
		if outputs[i], y, err = g.add(l, x, g.params[2*i], g.params[2*i+1]); err != nil {
			return nil, err
		}
		if !l.Head {
			g.Hidden = append(g.Hidden, Hidden{l, y})
			continue
		}
		out := outputs[i]
		if h := &s.Heads[len(g.heads)]; h.Dueling {
			if value == nil { // the first stream
				value = out
				continue
			}
			if out, y, err = g.duel(h, value, out); err != nil {
				return nil, err
			}
			value = nil
		}
		g.heads, g.Points = append(g.heads, out), append(g.Points, y)
	}
	return g, nil
}

func (g *Graph) add(l *nn.Layer, x, w, b *G.Node) (*G.Node, *tensor.Dense, error) {
	if l.Norm != nil {
		return g.norm(l, x, w, b)
	}
	return g.layer(l, x, w, b)
}

// leaf adds an input and its tensor, which has no memory until a run points it at the caller's.
func (g *Graph) leaf(name string, dt tensor.Dtype, shape ...int) (*G.Node, *tensor.Dense) {
	t := tensor.New(tensor.Of(dt), tensor.WithShape(shape...))
	n := G.NewTensor(g.exprs, dt, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(t))
	t.Raw = nil
	return n, t
}
