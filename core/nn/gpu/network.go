package gpu

import (
	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// network is an nn.Network on a GPU. A call is one launch of a graph: it uploads the observations,
// computes the layers and downloads the outputs of the heads.
type network struct {
	gpu      *gpu
	graph    *graph.Graph
	lanes    lanes
	in       piece
	heads    []piece
	output   *block
	recorder *recorder
	programs programs[actingKey]
	out      [][]float32 // of the latest call
}

type actingKey struct {
	params uint64
	rows   int
}

func (d *device) Network(s nn.Spec, rows int) (nn.Network, error) {
	n := &network{gpu: d.gpu, out: make([][]float32, len(s.Heads))}
	var err error
	if n.graph, n.recorder, err = d.gpu.build(s, rows); err != nil {
		return nil, err
	}
	var input block
	n.in = input.add(rows * s.Obs.Bytes())
	if err := input.allocate(d.gpu); err != nil {
		return nil, err
	}
	n.output = &block{}
	for _, h := range s.Heads {
		n.heads = append(n.heads, n.output.add(4*rows*h.Out))
	}
	if err := n.output.allocate(d.gpu); err != nil {
		return nil, err
	}
	n.recorder.at[n.graph.Obs] = n.in.at()
	for i, y := range n.graph.Heads {
		n.recorder.at[y] = n.heads[i].at()
	}
	if n.lanes.main, err = d.gpu.stream(cuda.High); err != nil { // a forward pass has no side stream
		return nil, err
	}
	n.programs = newPrograms[actingKey](d.gpu, n.lanes.main)
	return n, nil
}

// build makes the graph of a network and its recorder.
func (c *gpu) build(s nn.Spec, rows int) (*graph.Graph, *recorder, error) {
	g, err := graph.New(s, rows)
	if err != nil {
		return nil, nil, err
	}
	on, err := newRecorder(c, &s)
	return g, on, err
}

// put sets the addresses of the graph's parameters.
func (r *recorder) put(g *graph.Graph, params uint64) {
	for i, part := range g.Layout.Params {
		r.at[g.Params[i]] = params + uint64(4*part.Offset)
	}
}

func (n *network) Forward(p *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	if err := n.graph.CheckForward(p, obs, rows); err != nil {
		return nn.Outputs{}, err
	}
	at, err := n.gpu.address(p)
	if err != nil {
		return nn.Outputs{}, err
	}
	copy(n.in.host(), obs)
	err = n.programs.run(actingKey{at, rows}, 1, func() error { return n.record(at, rows) }, func() error { return n.enqueue(rows) })
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

func (n *network) record(params uint64, rows int) error {
	n.recorder.list = nil
	n.recorder.put(n.graph, params)
	return n.recorder.walk(n.graph.Order, n.graph, rows)
}

func (n *network) enqueue(rows int) error {
	s := n.lanes.main
	if err := s.Upload(n.in.at(), n.in.host()[:rows*n.graph.Spec.Obs.Bytes()]); err != nil {
		return err
	}
	if err := n.lanes.play(n.recorder.list); err != nil {
		return err
	}
	return n.output.download(s)
}
