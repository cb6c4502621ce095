package cpu

import (
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	"gorgonia.org/tensor"
)

// network is an nn.Network.
type network struct {
	graph   *graph.Graph
	machine *machine
	heads   [][]float32 // [most rows, Out] each
	points  [][]float32 // [most rows, Width] each
	out     [][]float32 // of the latest call
	taus    *taus       // nil: no head has taus
}

func (d *device) Network(s nn.Spec, rows int) (nn.Network, error) {
	n, err := d.network(s, rows)
	if err == nil && n.taus != nil {
		return tauNetwork{n}, nil
	}
	return n, err
}

func (d *device) network(s nn.Spec, rows int) (*network, error) {
	g, err := graph.New(s, rows)
	if err != nil {
		return nil, err
	}
	m, err := newMachine(g, d.team)
	if err != nil {
		return nil, err
	}
	return &network{graph: g, machine: m, heads: memoryOf(g.Heads), points: memoryOf(g.Points), out: make([][]float32, len(g.Heads)), taus: newTaus(g)}, nil
}

// memoryOf returns the memory of tensors.
func memoryOf(tensors []*tensor.Dense) (all [][]float32) {
	for _, y := range tensors {
		all = append(all, y.Float32s())
	}
	return all
}

func (n *network) Forward(p *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	if n.taus != nil {
		n.taus.use(n.taus.middle)
	}
	return n.forward(p, obs, rows)
}

// forward is Forward at the taus in use.
func (n *network) forward(p *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	if err := n.graph.CheckForward(p, obs, rows); err != nil {
		return nn.Outputs{}, err
	}
	n.machine.rows = rows
	n.machine.bind(n.graph, p, obs)
	defer release(n.graph)
	if err := n.machine.RunAll(); err != nil {
		return nn.Outputs{}, err
	}
	for h, values := range n.heads {
		n.out[h] = values[:rows*n.graph.Spec.Heads[h].Out]
	}
	return nn.Outputs{Rows: rows, Values: n.out}, nil
}

// bind points the graph's leaves at the caller's parameters and observations.
func (s *state) bind(g *graph.Graph, p *nn.Params, obs []byte) {
	s.version = p.Version()
	host := p.Host()
	for i, part := range p.Layout.Params {
		g.Params[i].Raw = graph.BytesOf(host[part.Offset : part.Offset+part.Size])
	}
	g.Obs.Raw = obs
}

// release clears the leaves that bind has set.
func release(g *graph.Graph) {
	for _, t := range g.Params {
		t.Raw = nil
	}
	g.Obs.Raw = nil
	if g.Taus != nil {
		g.Taus.Raw = nil
	}
}
