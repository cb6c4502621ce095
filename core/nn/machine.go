package nn

import (
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/fault"
	G "gorgonia.org/gorgonia"
)

// machine runs a Gorgonia graph node by node on the goroutine that asks.
//
// Gorgonia's own tape machine runs ops on a goroutine of its own, where a panic
// ends the process, gives its buffers back between runs and spends tens of
// microseconds and allocations on a handful of ops. Here a run is a loop over
// the sorted ops: values of leaves are read from their nodes each time (so G.Let
// and repointed tensors count), an op's result is kept for the ops after it, and
// nothing else happens. It is right for any op whose Do is pure or owns its
// output; statements (G.Read, G.Set) have no Do and fail. Gorgonia's additions of
// gradients are done by an op that does not allocate.
type machine struct {
	steps  []step
	nodes  []*G.Node
	values []G.Value // of nodes[i]; a leaf's is read at the start of a run
	leaves []int
}

// step is one op of the sorted graph.
type step struct {
	op     G.Op
	in     []int     // its inputs, by place in nodes
	out    int       // its own place
	inputs []G.Value // what Do is called with
}

// newMachine sorts the graph, which must not change after, and allocates what its ops own.
func newMachine(g *G.ExprGraph) (*machine, error) {
	m, err := sorted(g)
	if err != nil {
		return nil, err
	}
	for _, s := range m.steps {
		if o, ok := s.op.(interface{ allocate() }); ok {
			o.allocate()
		}
	}
	return m, nil
}

// sorted returns the machine of a graph that another device runs: no op has memory.
func sorted(g *G.ExprGraph) (*machine, error) {
	sorted, err := G.Sort(g) // users before what they use
	if err != nil {
		return nil, err
	}
	m := &machine{values: make([]G.Value, len(sorted))}
	place := map[int64]int{}
	for i := len(sorted) - 1; i >= 0; i-- {
		n, at := sorted[i], len(m.nodes)
		place[n.ID()] = at
		m.nodes = append(m.nodes, n)
		children := g.From(n.ID())
		if children.Len() == 0 { // an input or a constant
			m.leaves = append(m.leaves, at)
			continue
		}
		s := step{op: n.Op(), out: at}
		for children.Next() {
			s.in = append(s.in, place[children.Node().ID()])
		}
		if len(s.in) == 2 {
			if sum := newSum(n, m.nodes[s.in[0]], m.nodes[s.in[1]]); sum != nil {
				s.op = sum
			}
		}
		s.inputs = make([]G.Value, len(s.in))
		m.steps = append(m.steps, s)
	}
	return m, nil
}

// part returns the machine that computes some nodes and what they need, where m does.
func (m *machine) part(nodes []*G.Node) *machine {
	needed := make([]bool, len(m.nodes))
	for _, n := range nodes {
		needed[m.index(n)] = true
	}
	p := *m
	p.steps = nil
	for _, s := range slices.Backward(m.steps) {
		if needed[s.out] {
			p.steps = append(p.steps, s)
			for _, j := range s.in {
				needed[j] = true
			}
		}
	}
	slices.Reverse(p.steps)
	return &p
}

// RunAll computes every node. A failed or panicking op is an error, and leaves
// the machine fit for the next run.
func (m *machine) RunAll() (err error) {
	var running G.Op
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("nn: %v: %w", running, fault.Caught(r))
		}
	}()
	for _, i := range m.leaves {
		m.values[i] = m.nodes[i].Value()
	}
	for i := range m.steps {
		s := &m.steps[i]
		running = s.op
		for k, j := range s.in {
			s.inputs[k] = m.values[j]
		}
		if m.values[s.out], err = s.op.Do(s.inputs...); err != nil {
			return err
		}
	}
	return nil
}

// index returns where the value of n is among the machine's values after a run.
func (m *machine) index(n *G.Node) int { return slices.Index(m.nodes, n) }
