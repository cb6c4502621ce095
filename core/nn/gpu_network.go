package nn

import "github.com/paceline-rl/paceline/core/cuda"

// gpuNetwork is a Network on a GPU. A call is one launch: the observations go there, the
// layers are computed, the heads' outputs come back.
type gpuNetwork struct {
	card    *card
	graph   *graph
	machine *machine
	lanes   lanes
	in      piece
	heads   []piece
	back    *block
	on      *recorder
	known   programs[actingKey]
	out     [][]float32 // of the latest call
}

type actingKey struct {
	params uint64
	rows   int
}

func (d *gpu) Network(s Spec, rows int) (Network, error) {
	n := &gpuNetwork{card: d.card, out: make([][]float32, len(s.Heads))}
	var err error
	if n.graph, n.machine, n.on, err = d.card.build(s, rows); err != nil {
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
	n.on.at[n.graph.obs] = n.in.at()
	for i, h := range n.graph.heads {
		n.on.at[h.Op().(*layerOp).y] = n.heads[i].at()
	}
	if n.lanes.main, err = d.card.stream(cuda.High); err != nil { // nothing runs beside
		return nil, err
	}
	n.known = newPrograms[actingKey](d.card, n.lanes.main)
	return n, nil
}

// build makes the graph of a network, and what records it.
func (c *card) build(s Spec, rows int) (*graph, *machine, *recorder, error) {
	building.Lock()
	defer building.Unlock()
	g := newGraph(rows, nil)
	if err := g.build(s); err != nil {
		return nil, nil, nil, err
	}
	on, err := newRecorder(c, &s)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := sorted(g.ExprGraph)
	return g, m, on, err
}

// put says where the parameters of the graph lie.
func (r *recorder) put(g *graph, params uint64) {
	for i, part := range g.layout.Params {
		r.at[g.views[i]] = params + uint64(4*part.Offset)
	}
}

func (n *gpuNetwork) Forward(p *Params, obs []byte, rows int) (Outputs, error) {
	if err := n.graph.check(p, obs, rows); err != nil {
		return Outputs{}, err
	}
	at, err := n.card.address(p)
	if err != nil {
		return Outputs{}, err
	}
	copy(n.in.host(), obs)
	err = n.known.run(actingKey{at, rows}, 1, func() error { return n.record(at, rows) }, func() error { return n.enqueue(rows) })
	if err != nil {
		return Outputs{}, err
	}
	if err := n.lanes.main.Synchronize(); err != nil {
		return Outputs{}, err
	}
	for i, h := range n.heads {
		n.out[i] = view[float32](h)[:rows*n.graph.spec.Heads[i].Out]
	}
	return Outputs{Rows: rows, Values: n.out}, nil
}

func (n *gpuNetwork) record(params uint64, rows int) error {
	n.graph.rows, n.on.list = rows, nil
	n.on.put(n.graph, params)
	return n.on.walk(n.machine)
}

func (n *gpuNetwork) enqueue(rows int) error {
	s := n.lanes.main
	if err := s.Upload(n.in.at(), n.in.host()[:rows*n.graph.spec.Obs.Bytes()]); err != nil {
		return err
	}
	if err := n.lanes.play(n.on.list); err != nil {
		return err
	}
	return n.back.download(s)
}
