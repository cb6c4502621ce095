package gpu

import (
	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// gpuNetwork is a Network on a GPU. A call is one launch: the observations go there, the
// layers are computed, the heads' outputs come back.
type gpuNetwork struct {
	card  *card
	graph *graph.Graph
	lanes lanes
	in    piece
	heads []piece
	back  *block
	on    *recorder
	known programs[actingKey]
	out   [][]float32 // of the latest call
}

type actingKey struct {
	params uint64
	rows   int
}

func (d *gpu) Network(s nn.Spec, rows int) (nn.Network, error) {
	n := &gpuNetwork{card: d.card, out: make([][]float32, len(s.Heads))}
	var err error
	if n.graph, n.on, err = d.card.build(s, rows); err != nil {
		return nil, err
	}
	var there block
	n.in = there.add(rows * s.Obs.Bytes())
	if err := there.allocate(d.card); err != nil {
		return nil, err
	}
	n.back = &block{}
	for _, h := range s.Heads {
		n.heads = append(n.heads, n.back.add(4*rows*h.Out))
	}
	if err := n.back.allocate(d.card); err != nil {
		return nil, err
	}
	n.on.at[n.graph.Obs] = n.in.at()
	for i, y := range n.graph.Heads {
		n.on.at[y] = n.heads[i].at()
	}
	if n.lanes.main, err = d.card.stream(cuda.High); err != nil { // nothing runs beside
		return nil, err
	}
	n.known = newPrograms[actingKey](d.card, n.lanes.main)
	return n, nil
}

// build makes the graph of a network, and what records it.
func (c *card) build(s nn.Spec, rows int) (*graph.Graph, *recorder, error) {
	g, err := graph.New(s, rows)
	if err != nil {
		return nil, nil, err
	}
	on, err := newRecorder(c, &s)
	return g, on, err
}

// put says where the parameters of the graph lie.
func (r *recorder) put(g *graph.Graph, params uint64) {
	for i, part := range g.Layout.Params {
		r.at[g.Params[i]] = params + uint64(4*part.Offset)
	}
}

func (n *gpuNetwork) Forward(p *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	if err := n.graph.CheckForward(p, obs, rows); err != nil {
		return nn.Outputs{}, err
	}
	at, err := n.card.address(p)
	if err != nil {
		return nn.Outputs{}, err
	}
	copy(n.in.host(), obs)
	err = n.known.run(actingKey{at, rows}, 1, func() error { return n.record(at, rows) }, func() error { return n.enqueue(rows) })
	if err != nil {
		return nn.Outputs{}, err
	}
	if err := n.lanes.main.Synchronize(); err != nil {
		return nn.Outputs{}, err
	}
	for i, h := range n.heads {
		n.out[i] = view[float32](h)[:rows*n.graph.Spec.Heads[i].Out]
	}
	return nn.Outputs{Rows: rows, Values: n.out}, nil
}

func (n *gpuNetwork) record(params uint64, rows int) error {
	n.on.list = nil
	n.on.put(n.graph, params)
	return n.on.walk(n.graph.Order, n.graph, rows)
}

func (n *gpuNetwork) enqueue(rows int) error {
	s := n.lanes.main
	if err := s.Upload(n.in.at(), n.in.host()[:rows*n.graph.Spec.Obs.Bytes()]); err != nil {
		return err
	}
	if err := n.lanes.play(n.on.list); err != nil {
		return err
	}
	return n.back.download(s)
}
