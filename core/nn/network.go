package nn

import "fmt"

// network is a Network on the CPU.
type network struct {
	graph   *graph
	machine *machine
	heads   [][]float32 // [capacity, Out] each
	out     [][]float32 // of the latest call
}

func (d *cpu) Network(s Spec, rows int) (_ Network, err error) {
	building.Lock()
	defer building.Unlock()
	n := &network{graph: newGraph(rows, d.team)}
	if err := n.graph.build(s); err != nil {
		return nil, err
	}
	if n.machine, err = newMachine(n.graph.ExprGraph); err != nil {
		return nil, err
	}
	for _, h := range n.graph.heads {
		n.heads = append(n.heads, h.Op().(*layerOp).y.Float32s())
	}
	n.out = make([][]float32, len(n.heads))
	return n, nil
}

func (n *network) Forward(p *Params, obs []byte, rows int) (Outputs, error) {
	if err := n.graph.check(p, obs, rows); err != nil {
		return Outputs{}, err
	}
	n.graph.rows = rows
	n.graph.bind(p, obs)
	defer n.graph.release()
	if err := n.machine.RunAll(); err != nil {
		return Outputs{}, err
	}
	for h, values := range n.heads {
		n.out[h] = values[:rows*n.graph.spec.Heads[h].Out]
	}
	return Outputs{Rows: rows, Values: n.out}, nil
}

// check checks a call of Forward.
func (g *graph) check(p *Params, obs []byte, rows int) error {
	if rows < 1 || rows > g.capacity {
		return fmt.Errorf("rows: %d, must be 1 to %d", rows, g.capacity)
	}
	if err := g.spec.checkObs("obs", obs, rows); err != nil {
		return err
	}
	if err := g.layout.checkParams("parameters", p); err != nil {
		return err
	}
	g.layout = p.Layout // an equal one, which the next call's check knows again at once
	return nil
}
