package nn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
)

// Network computes Q-values. It holds buffers and a graph but no parameters:
// those come with each call. One goroutine at a time; many Networks may read the
// same Params at once while nobody writes them.
type Network struct {
	spec    Spec
	layout  *Layout
	graph   *graph
	net     *network
	machine *machine
	q       []float32 // [capacity, actions]
}

// NewNetwork returns a network for up to maxBatch rows (1 to MaxRows) a call.
// Memory grows with maxBatch: for the Nature CNN by 87 KB a row. The work is
// shared by the threads of team, which stays the caller's; nil: the calling
// goroutine alone.
func NewNetwork(s Spec, maxBatch int, team *kernel.Team) (*Network, error) {
	if maxBatch < 1 || maxBatch > MaxRows {
		return nil, fmt.Errorf("max_batch: %d, must be 1 to %d", maxBatch, MaxRows)
	}
	layout, err := s.Layout()
	if err != nil {
		return nil, err
	}
	building.Lock()
	defer building.Unlock()
	n := &Network{spec: s, layout: layout, graph: newGraph(maxBatch, team)}
	if n.net, err = n.graph.network("", s); err != nil {
		return nil, err
	}
	if n.machine, err = newMachine(n.graph.ExprGraph); err != nil {
		return nil, err
	}
	n.q = n.net.q.Op().(*layerOp).y.Float32s()
	return n, nil
}

// Forward returns the Q-values [rows, actions] of rows observations, 1 to
// maxBatch. obs holds rows*Obs.Bytes() bytes, and stays the caller's; float32
// observations must be aligned to 4 bytes. p may be another set, of an equal
// layout, in each call. The result is valid until the next call. A row's values
// depend on its observation and p alone, bit for bit. Forward does not allocate.
func (n *Network) Forward(p *Params, obs []byte, rows int) (q []float32, err error) {
	if rows < 1 || rows > n.graph.capacity {
		return nil, fmt.Errorf("rows: %d, must be 1 to %d", rows, n.graph.capacity)
	}
	if err := n.spec.checkObs("obs", obs, rows); err != nil {
		return nil, err
	}
	if err := n.layout.checkParams("parameters", p); err != nil {
		return nil, err
	}
	n.graph.rows = rows
	n.net.bind(p, obs)
	defer n.net.release()
	if err := n.machine.RunAll(); err != nil {
		return nil, err
	}
	return n.q[:rows*n.spec.Actions], nil
}
